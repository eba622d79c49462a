//! A server over HTTP/1.1 without TLS whose latencies are known: what load generators say of it can be
//! checked.
//!
//! It has a thread for each connection, which sleeps by the kernel's high-resolution timer: the timers of
//! event loops are of a millisecond. What its own work and the waking take (tens of microseconds) comes on
//! top.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use rand::RngExt as _;

const MS: Duration = Duration::from_millis(1);
/// Every ten seconds nothing is answered for the last one.
const PERIOD: Duration = Duration::from_secs(10);
const STALL: Duration = Duration::from_secs(1);
/// The largest head of a request, in bytes.
const LARGEST_HEAD: usize = 16 * 1024;

/// Serves `/hello` (at once), `/constant` (5 ms), `/bimodal` (2 ms, one in ten at random 20 ms),
/// `/exponential` (5 ms on average) and `/stall` (1 ms, and nothing for one second of every ten).
#[derive(Parser)]
#[command(name = "trilane-known", version)]
struct Job {
    /// Where it listens, on 127.0.0.1.
    #[arg(long)]
    port: u16,
}

fn main() -> ExitCode {
    let job = Job::parse();
    match serve(job.port) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("trilane-known: port {}: {error}", job.port);
            ExitCode::FAILURE
        }
    }
}

fn serve(port: u16) -> io::Result<std::convert::Infallible> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let begun = Instant::now();
    loop {
        let (stream, _) = listener.accept()?;
        thread::Builder::new().spawn(move || {
            // The client went away, or sent what is no request: the next one is no worse for it.
            let _ = converse(stream, begun);
        })?;
    }
}

/// Answers the requests of one connection until it ends.
fn converse(mut stream: TcpStream, begun: Instant) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // The default slack of 50 µs would be added to every sleep.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let mut buffer = vec![0; LARGEST_HEAD];
    let mut filled = 0;
    loop {
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(&buffer[..filled]).map_err(io::Error::other)? {
            httparse::Status::Complete(length) => {
                let came = Instant::now();
                let path = request.path.unwrap_or_default();
                let path = path.split('?').next().unwrap_or_default();
                let is_known = match due(path, came, begun) {
                    Some(due) => {
                        thread::sleep(due.saturating_duration_since(Instant::now()));
                        true
                    }
                    None => false,
                };
                stream.write_all(if is_known {
                    b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world"
                } else {
                    b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot found"
                })?;
                buffer.copy_within(length..filled, 0);
                filled -= length;
            }
            httparse::Status::Partial if filled == buffer.len() => {
                return Err(io::Error::other("the head of a request is too large"));
            }
            httparse::Status::Partial => match stream.read(&mut buffer[filled..])? {
                0 => return Ok(()),
                count => filled += count,
            },
        }
    }
}

/// When a request for `path` that came at `came` is answered; none where there is no such path.
fn due(path: &str, came: Instant, begun: Instant) -> Option<Instant> {
    let mut random = rand::rng();
    let takes = match path {
        "/" | "/hello" => Duration::ZERO,
        "/constant" => 5 * MS,
        "/bimodal" if random.random_range(0..10) == 0 => 20 * MS,
        "/bimodal" => 2 * MS,
        // By inversion of its distribution function.
        "/exponential" => (5 * MS).mul_f64(-(1.0 - random.random::<f64>()).ln()),
        "/stall" => MS,
        _ => return None,
    };
    let due = came + takes;
    let within =
        Duration::from_nanos((due.duration_since(begun).as_nanos() % PERIOD.as_nanos()) as u64);
    let stalls = path == "/stall" && within >= PERIOD - STALL;
    Some(if stalls { due + (PERIOD - within) } else { due })
}
