//! How often a request over HTTP/3 asks for memory, quinn-proto's own part included.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(
    unsafe_code,
    reason = "a global allocator is unsafe by nature; this one counts"
)]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use support::{Client, Count, ServerOptions, request, server};
use trilane_transport::quic::Options;

struct Counting;

thread_local! {
    /// Allocations of this thread: the server's are not ours.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator; the counter allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Not counted while a thread ends and its locals are gone.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promised.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_request_takes_four_allocations_at_most() {
    let server = server(ServerOptions::default());
    let mut client = Client::connect(
        &server.client(&Options::default()),
        server.address,
        "localhost",
    );
    client.connected();
    let get = request("GET", "/bytes/11", b"");
    let mut count = Count::default();
    let mut run = |requests: usize| {
        let begin = ALLOCATIONS.get();
        let (goal, mut sent) = (count.ended + requests, 0);
        while count.ended < goal {
            while sent < requests && client.session.capacity() > 0 {
                if client.session.send(&get, 0).is_err() {
                    break;
                }
                sent += 1;
            }
            client.turn(&mut count);
        }
        ALLOCATIONS.get() - begin
    };
    run(2000);
    let allocations = run(5000) as f64 / 5000.0;
    println!("{allocations:.2} allocations per request");
    assert!(
        allocations <= 4.0,
        "{allocations:.2} allocations per request"
    );
}
