//! Requests on a connection that has warmed up allocate nothing.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
#![allow(unsafe_code, reason = "a global allocator is unsafe by its signature")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use trilane_wire::h1::{Connection, Limits};
use trilane_wire::{Events, Fields, Head, Request, RequestParts, StreamError, StreamId};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; the counter has no destructor and
// needs no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is the one that the system asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts responses, with or without their fields.
#[derive(Default)]
struct Counter<const FIELDS: bool>(usize);

impl<const FIELDS: bool> Events for Counter<FIELDS> {
    const FIELDS: bool = FIELDS;
    fn head(&mut self, _stream: StreamId, _head: Head<'_>) {}
    fn data(&mut self, _stream: StreamId, _bytes: &[u8]) {}
    fn end(&mut self, _stream: StreamId, _trailers: Option<Fields<'_>>) {
        self.0 += 1;
    }
    fn fail(&mut self, _stream: StreamId, error: StreamError) {
        panic!("{error}");
    }
}

/// Allocations of 100 exchanges after 10, with answers of which every other head is different, cut
/// into pieces of `step` bytes.
fn allocations<const FIELDS: bool>(body: usize, step: usize) -> usize {
    let request = Request::new(&RequestParts {
        method: "POST",
        scheme: "http",
        authority: "a.example",
        path: "/",
        fields: &[],
        body: Arc::from(vec![0; body]),
        repeated: true,
    })
    .unwrap();
    let answers = [
        &b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 11\r\n\r\nhello world"[..],
        b"HTTP/1.1 404 no\r\nTransfer-Encoding: chunked\r\nSet-Cookie: a\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ];
    let mut connection = Connection::new(Limits::default());
    let mut events = Counter::<FIELDS>::default();
    let mut out = Vec::new();
    let mut exchange = |round: usize| {
        connection.send(&request, 0, &mut out).unwrap();
        while connection.has_output() {
            out.clear();
            connection.produce(&mut out);
        }
        out.clear();
        for piece in answers[round % 2].chunks(step) {
            connection.receive(piece, &mut events, &mut out).unwrap();
        }
    };
    (0..10).for_each(&mut exchange);
    let before = ALLOCATIONS.get();
    (0..100).for_each(&mut exchange);
    let allocated = ALLOCATIONS.get() - before;
    assert_eq!(events.0, 110);
    allocated
}

#[test]
fn a_warm_connection_does_not_allocate() {
    for body in [0, 100, 200_000] {
        for step in [1, 9, 1000] {
            assert_eq!(
                allocations::<false>(body, step),
                0,
                "body {body}, step {step}"
            );
            assert_eq!(
                allocations::<true>(body, step),
                0,
                "body {body}, step {step}, fields"
            );
        }
    }
}
