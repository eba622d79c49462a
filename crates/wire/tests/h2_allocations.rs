//! The promise of the load path: a request and its response allocate nothing in steady state.

#![allow(unsafe_code, reason = "a global allocator is unsafe to implement")]
#![allow(clippy::unwrap_used, reason = "a test may end so")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write as _;
use std::sync::Arc;

use trilane_wire::h2::{Config, Connection};
use trilane_wire::{
    Encoding, Events, Fields, Head, Request, RequestParts, StreamError, StreamId, Varying,
};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Default)]
struct Counter<const FIELDS: bool> {
    ended: usize,
    dates: usize,
}

impl<const FIELDS: bool> Events for Counter<FIELDS> {
    const FIELDS: bool = FIELDS;

    fn head(&mut self, _: StreamId, head: Head<'_>) {
        assert_eq!(head.status, 200);
        self.dates += usize::from(head.fields.first(b"date").is_some());
    }

    fn data(&mut self, _: StreamId, _: &[u8]) {}

    fn end(&mut self, _: StreamId, _: Option<Fields<'_>>) {
        self.ended += 1;
    }

    fn fail(&mut self, _: StreamId, error: StreamError) {
        panic!("{error}");
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend([0, 0, payload.len() as u8, kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
}

fn run<const FIELDS: bool>(body: &[u8], varies: bool) {
    let names: &[&str] = if varies { &["x-number"] } else { &[] };
    let parts = RequestParts {
        method: "POST",
        scheme: "http",
        authority: "a.example",
        path: "/",
        fields: &[
            ("user-agent".into(), "trilane".into()),
            ("cookie".into(), "a=b".into()),
        ],
        body: Arc::from(body),
        repeated: true,
    };
    let request = Request::new(&parts).unwrap();
    let mut varying = Varying::new(&parts, true, names, true).unwrap();
    let (mut path, mut digits, mut content) = (Vec::new(), Vec::new(), Vec::new());
    let mut out = Vec::with_capacity(1 << 20);
    let mut bytes = Vec::with_capacity(1 << 20);
    let mut connection = Connection::new(Config::default(), &mut out);
    let mut counter = Counter::<FIELDS>::default();
    frame(4, 0, 0, &[], &mut bytes);
    connection.receive(&bytes, &mut counter, &mut out).unwrap();
    let mut next = 1;
    for round in 0..2000 {
        out.clear();
        bytes.clear();
        let before = ALLOCATIONS.with(Cell::get);
        for _ in 0..50 {
            let request = if varies {
                // As many lengths as a number of four digits has.
                [&mut path, &mut digits, &mut content]
                    .into_iter()
                    .for_each(Vec::clear);
                let number = next % 10_000;
                write!(path, "/{number}").unwrap();
                write!(digits, "{number}").unwrap();
                content.extend_from_slice(body);
                content.extend_from_slice(&digits);
                let pieces = [&*path, &*digits].into_iter();
                varying.write(Encoding::H2, pieces, &content)
            } else {
                &request
            };
            connection.send(request, 0, &mut out).unwrap();
        }
        let mut used = ALLOCATIONS.with(Cell::get) - before;
        frame(
            8,
            0,
            0,
            &(50 * (body.len() as u32 + 8)).to_be_bytes(),
            &mut bytes,
        );
        for index in 0..50u8 {
            // Now and then the server adds a date to its table.
            let date = [&[0x88, 0x61, 5][..], &[b'a' + round as u8 % 26; 5]].concat();
            let block = if index == 0 { &date[..] } else { &[0x88, 0xbe] };
            frame(1, 4, next, block, &mut bytes);
            frame(0, 1, next, b"hello world", &mut bytes);
            next += 2;
        }
        let before = ALLOCATIONS.with(Cell::get);
        // Cut anywhere, so that frames are kept and completed.
        for piece in bytes.chunks(1000 + round % 100) {
            connection.receive(piece, &mut counter, &mut out).unwrap();
        }
        used += ALLOCATIONS.with(Cell::get) - before;
        // By then everything has been seen, and the table has gone round many times.
        assert!(
            used == 0 || round < 1000,
            "{used} allocations in round {round}"
        );
    }
    assert_eq!(counter.ended, 100_000);
    assert_eq!(counter.dates, if FIELDS { 100_000 } else { 0 });
}

#[test]
fn load_path_without_fields() {
    run::<false>(b"", false);
}

#[test]
fn load_path_with_fields_and_a_body() {
    run::<true>(b"hello", false);
}

#[test]
fn load_path_of_requests_that_change() {
    run::<false>(b"hello", true);
}
