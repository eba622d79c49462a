//! How often a request over HTTP/3 asks for memory, quinn-proto's own part included.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(
    unsafe_code,
    reason = "a global allocator is unsafe by nature; this one counts"
)]

mod lockstep;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use lockstep::Lockstep;
use trilane_transport::quic::Options;
use trilane_wire::{Events, Fields, Head, Request, RequestParts, StreamError, StreamId};

struct Counting;

thread_local! {
    /// Allocations of this thread while the session runs: the server's are not ours.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static WATCHED: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    // Not counted while a thread ends and its locals are gone.
    let _ = WATCHED.try_with(|watched| {
        if watched.get() {
            let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        }
    });
}

// SAFETY: every call is passed on to the system's allocator; the counter allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promised.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts, as the load engine does: no fields are kept.
#[derive(Default)]
struct Ended(usize);

impl Events for Ended {
    const FIELDS: bool = false;
    fn head(&mut self, _stream: StreamId, head: Head<'_>) {
        assert_eq!(head.status, 200);
    }
    fn data(&mut self, _stream: StreamId, bytes: &[u8]) {
        assert_eq!(bytes, b"hello world");
    }
    fn end(&mut self, _stream: StreamId, _trailers: Option<Fields<'_>>) {
        self.0 += 1;
    }
    fn fail(&mut self, _stream: StreamId, error: StreamError) {
        panic!("{error}");
    }
}

/// Allocations for each of `rounds` times `at_once` requests that are in flight together.
fn measured(pair: &mut Lockstep, get: &Request, rounds: usize, at_once: usize) -> f64 {
    let begin = ALLOCATIONS.get();
    let mut ended = Ended::default();
    for round in 1..=rounds {
        let mut sent = 0;
        while sent < at_once {
            WATCHED.set(true);
            let stream = pair.session.send(get, 0);
            WATCHED.set(false);
            match stream {
                Ok(_) => sent += 1,
                // The server grants more when others have ended.
                Err(_) => pair.step(&mut ended),
            }
        }
        pair.until(&mut ended, |_, ended| ended.0 == round * at_once);
    }
    (ALLOCATIONS.get() - begin) as f64 / ended.0 as f64
}

#[test]
fn a_request_takes_few_allocations() {
    let get = Request::new(&RequestParts {
        method: "GET",
        scheme: "https",
        authority: "localhost",
        path: "/bytes/11",
        fields: &[("user-agent".into(), "trilane".into())],
        body: Arc::default(),
        repeated: true,
    })
    .unwrap();
    let mut pair = Lockstep::new(&Options::default(), true, |on| WATCHED.set(on));
    for (at_once, most) in [(1, 3.05), (10, 3.45), (50, 3.45)] {
        measured(&mut pair, &get, 2000 / at_once, at_once);
        let allocations = measured(&mut pair, &get, 5000 / at_once, at_once);
        println!("{at_once} at once: {allocations:.3} allocations per request");
        assert!(
            allocations <= most,
            "{at_once} at once: {allocations:.3} allocations per request"
        );
    }
}
