//! The promise of the hot path: no allocation per request in steady state over HTTP/1.1 and HTTP/2,
//! with TLS and without, at most four over HTTP/3 (quinn-proto's own); for gRPC calls none over HTTP/2,
//! too.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use trilane_engine::{Call, Control, Message, Options, Plan, Version, run};
use trilane_grpc::Schema;

/// Counts the allocations of worker threads.
struct Counting;

/// Most allocations of a window and what carries it: its histogram, and a channel now and then.
const WINDOW: f64 = 4.0;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_WORKER: Cell<Option<bool>> = const { Cell::new(None) };
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    // Asking for the thread's name may allocate by itself.
    if ASKING
        .try_with(|asking| asking.replace(true))
        .unwrap_or(true)
    {
        return;
    }
    let worker = IS_WORKER.with(|known| {
        known.get().unwrap_or_else(|| {
            let named = std::thread::current()
                .name()
                .map(|name| name.starts_with("worker-"));
            // A thread has no name before it has begun.
            if named.is_some() {
                known.set(named);
            }
            named.unwrap_or(false)
        })
    });
    ASKING.with(|asking| asking.set(false));
    if worker {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call is handed to the system's allocator unchanged; counting allocates nothing that
// is counted again.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`; all memory is the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `realloc`; all memory is the system allocator's.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Server {
    child: Child,
    http: String,
    https: String,
    ca: (String, Vec<u8>),
    _state: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let state = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_trilane"))
            .args([
                "serve",
                "--port",
                "0",
                "--tls-port",
                "0",
                "-t",
                "1",
                "--format",
                "json",
            ])
            .args(["--exit-with-parent", "--state"])
            .arg(state.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
        let text = |name: &str| ready[name].as_str().unwrap().to_owned();
        let file = text("cacert");
        let contents = std::fs::read(&file).unwrap();
        Self {
            child,
            http: text("http"),
            https: text("https"),
            ca: (file, contents),
            _state: state,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What each request is.
#[derive(Clone, Copy, Debug)]
enum Work {
    Get,
    Grpc,
}

impl Work {
    fn path(self) -> &'static str {
        match self {
            Work::Get => "/hello",
            Work::Grpc => "",
        }
    }

    fn call(self) -> Option<Call> {
        match self {
            Work::Get => return None,
            Work::Grpc => (),
        }
        let proto = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../proto");
        let file = proto.join("trilane/library/v1/library.proto");
        let schema = Schema::from_proto(&[file], &[proto]).unwrap();
        let method = schema.method("trilane.library.v1.Library/GetBook").unwrap();
        Some(Call {
            messages: Message::all(&method, r#"{"name": "shelves/1/books/1"}"#).unwrap(),
            method,
            expected: Vec::new(),
        })
    }
}

/// What a run allocated, and what of that depends on how long it takes.
struct Counted {
    allocations: f64,
    datagrams: f64,
    /// Tenths of a second, each with a histogram of its own.
    windows: f64,
}

/// Runs `requests`, and counts what the workers allocated.
fn measure(server: &Server, work: Work, version: Version, tls: bool, requests: u64) -> Counted {
    let origin = if tls { &server.https } else { &server.http };
    let plan = Plan::new(&Options {
        urls: vec![format!("{origin}{}", work.path())],
        call: work.call(),
        version: Some(version),
        connections: 4,
        streams: if version == Version::H1 { 1 } else { 16 },
        requests: Some(requests),
        authorities: vec![server.ca.clone()],
        ..Options::default()
    })
    .unwrap();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let outcome = run(&plan, &Control::new()).unwrap();
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert_eq!(outcome.requests.ok, requests, "{:?}", outcome.requests);
    let datagrams = [
        outcome.bytes.datagrams_sent,
        outcome.bytes.datagrams_received,
    ];
    Counted {
        allocations: allocations as f64,
        datagrams: datagrams.into_iter().flatten().sum::<u64>() as f64,
        windows: outcome.windows.len() as f64,
    }
}

/// One test, so that no other run's workers are counted.
#[test]
fn the_hot_path_does_not_allocate() {
    let server = Server::start();
    // QUIC allocates for each request and each datagram, and how many requests share one depends on the
    // machine.
    let most = [
        (Work::Get, Version::H1, false, 0.0, 0.0),
        (Work::Get, Version::H2c, false, 0.0, 0.0),
        (Work::Grpc, Version::H2c, false, 0.0, 0.0),
        (Work::Get, Version::H1, true, 0.0, 0.0),
        (Work::Get, Version::H2, true, 0.0, 0.0),
        (Work::Get, Version::H3, true, 3.5, 1.0),
        // Twice as many frames, and two sections whose fields are kept.
        (Work::Grpc, Version::H3, true, 7.5, 1.0),
    ];
    for (work, version, tls, each, datagram) in most {
        // The difference between a long and a short run has no set-up in it.
        let short = measure(&server, work, version, tls, 1_000);
        let long = measure(&server, work, version, tls, 6_000);
        let requests = 5_000.0;
        let allocations = long.allocations - short.allocations;
        let datagrams = long.datagrams - short.datagrams;
        let windows = long.windows - short.windows;
        let what = format!(
            "{work:?} {version:?}, TLS {tls}: {allocations} allocations for {requests} requests in {datagrams} datagrams and {windows} windows"
        );
        println!("{what}");
        // A buffer grows now and then.
        let slack = 100.0;
        assert!(
            allocations <= each * requests + datagram * datagrams + WINDOW * windows + slack,
            "{what}"
        );
        assert!(
            short.allocations > 0.0,
            "{what}: the counter does not count"
        );
    }
}
