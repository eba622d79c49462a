//! How often a request asks for memory: over HTTP/3, quinn-proto's own part included, and over TLS.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(
    unsafe_code,
    reason = "a global allocator is unsafe by nature; this one counts"
)]

mod lockstep;
#[allow(
    dead_code,
    reason = "what is not needed here is shared with other tests"
)]
#[path = "transport/tls_common/mod.rs"]
mod tls_common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;
use std::sync::Arc;

use lockstep::Lockstep;
use rustls::version::TLS13;
use tls_common::{Authority, Pair, server_config};
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

#[test]
fn a_request_over_tls_takes_none() {
    let authority = Authority::new();
    let server = server_config(&authority.issue(&["localhost"]), &TLS13);
    let mut pair = Pair::new(&authority.options(), server);
    pair.handshake().unwrap();
    let body = vec![7; 40_000];
    // What is used over and over has its size after the first round.
    for round in 0..100 {
        let (begin, mut came) = (ALLOCATIONS.get(), 0);
        let mut out = std::mem::take(&mut pair.out);
        WATCHED.set(true);
        pair.client
            .send(b"GET / HTTP/1.1\r\n\r\n", &mut out)
            .unwrap();
        WATCHED.set(false);
        pair.server.read_tls(&mut &out[..]).unwrap();
        pair.server.process_new_packets().unwrap();
        pair.server.writer().write_all(&body).unwrap();
        let mut sealed = Vec::new();
        while pair.server.wants_write() {
            pair.server.write_tls(&mut sealed).unwrap();
        }
        out.clear();
        // In reads that end inside of records.
        let mut buffer = vec![0; 64 * 1024];
        for piece in sealed.chunks(10_000) {
            let half = buffer.len() / 2;
            buffer[half..half + piece.len()].copy_from_slice(piece);
            WATCHED.set(true);
            let start = pair.client.restore(&mut buffer, half);
            let bytes = &mut buffer[start..half + piece.len()];
            let taken = pair
                .client
                .receive(bytes, |plaintext| came += plaintext.len(), &mut out);
            WATCHED.set(false);
            taken.unwrap();
        }
        pair.out = out;
        assert_eq!(came, body.len());
        let allocations = ALLOCATIONS.get() - begin;
        assert!(
            round == 0 || allocations == 0,
            "{allocations} in round {round}"
        );
    }
}
