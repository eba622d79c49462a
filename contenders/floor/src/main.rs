//! The floor under a load engine: what a client costs that does nothing with its responses.
//!
//! Over HTTP/1.1 that is two system calls for each response, over HTTP/3 the system calls of a batch of
//! datagrams and their cryptography. A load engine that parses, measures and accounts can only be
//! compared with this, not beat it by much.

mod http1;
mod http3;

use std::error::Error;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;
use rustix::event::epoll;
use rustix::time::Timespec;
use serde_json::{Value, json};

/// Prints one JSON object of the time in which it measured: `requests` (count), `seconds` (wall),
/// `user_s` and `system_s` (CPU of the only thread), `cpu_us_per_request` (both, in microseconds),
/// `voluntary` and `involuntary` (context switches).
#[derive(Parser)]
#[command(name = "trilane-floor", version)]
struct Job {
    /// Speak HTTP/3, not HTTP/1.1 without TLS.
    #[arg(long, requires = "cacert")]
    http3: bool,
    /// Certificates of authorities, in PEM, by which the server's is verified.
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Requests under way on each connection of HTTP/3.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    streams: u64,
    /// The server's host.
    host: String,
    /// The server's port.
    port: u16,
    /// What is asked for.
    path: String,
    /// Connections, all on one thread.
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    connections: u64,
    /// How long requests are sent.
    #[arg(value_name = "SECONDS", value_parser = seconds)]
    length: Duration,
    /// Fields that every request has.
    #[arg(value_name = "NAME: VALUE", value_parser = field)]
    fields: Vec<(String, String)>,
}

fn main() -> ExitCode {
    let job = Job::parse();
    let report = if job.http3 {
        http3::run(&job)
    } else {
        http1::run(&job)
    };
    match report {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("trilane-floor: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Job {
    fn server(&self) -> Result<SocketAddr, Box<dyn Error>> {
        let mut addresses = (self.host.as_str(), self.port).to_socket_addrs()?;
        Ok(addresses.next().ok_or("the host has no address")?)
    }

    /// Calls `turn`, which waits at most [`PATIENCE`] and says how many responses have ended, for the
    /// job's time.
    fn measure(
        &self,
        mut turn: impl FnMut() -> Result<u64, Box<dyn Error>>,
    ) -> Result<Value, Box<dyn Error>> {
        let before = getrusage(UsageWho::RUSAGE_THREAD)?;
        let start = Instant::now();
        let mut requests = 0;
        while start.elapsed() < self.length {
            requests += turn()?;
        }
        let seconds = start.elapsed().as_secs_f64();
        let after = getrusage(UsageWho::RUSAGE_THREAD)?;
        if requests == 0 {
            return Err("no response within the time".into());
        }
        let spent = |time: fn(&Usage) -> TimeVal| {
            let spent = time(&after) - time(&before);
            spent.tv_sec() as f64 + spent.tv_usec() as f64 / 1e6
        };
        let (user_s, system_s) = (spent(Usage::user_time), spent(Usage::system_time));
        let switches = |kind: fn(&Usage) -> i64| kind(&after) - kind(&before);
        Ok(json!({
            "requests": requests,
            "seconds": seconds,
            "user_s": user_s,
            "system_s": system_s,
            "cpu_us_per_request": (user_s + system_s) * 1e6 / requests as f64,
            "voluntary": switches(Usage::voluntary_context_switches),
            "involuntary": switches(Usage::involuntary_context_switches),
        }))
    }
}

/// Edge-triggered epoll over sockets, each registered once, under its place.
struct Watched {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Watched {
    fn new() -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(256),
        })
    }

    fn add(&self, socket: impl AsFd, place: u64) -> Result<(), Box<dyn Error>> {
        let interest = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(
            &self.epoll,
            socket,
            epoll::EventData::new_u64(place),
            interest,
        )?;
        Ok(())
    }

    /// Waits for something to read, and says where there is.
    fn wait(&mut self) -> Result<impl Iterator<Item = usize>, Box<dyn Error>> {
        self.events.clear();
        let room = rustix::buffer::spare_capacity(&mut self.events);
        epoll::wait(&self.epoll, room, Some(&PATIENCE))?;
        Ok(self.events.iter().map(|event| event.data.u64() as usize))
    }
}

/// A peer that falls silent must not keep a loop from seeing the end of the time.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| "not a number of seconds")?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("not NAME: VALUE")?;
    Ok((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
}
