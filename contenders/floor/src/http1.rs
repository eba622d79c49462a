//! The floor under HTTP/1.1 load: what a client costs that parses nothing.
//!
//! A ring of keep-alive connections on one edge-triggered epoll, each registered once. The size of a
//! response is learned from a first exchange; from then on a response is "that many bytes", and the
//! next request leaves in the turn that read the last of them: two system calls per request and no
//! work on the bytes. A load engine that parses, measures and accounts can only be compared with
//! this, not beat it by much.
//!
//! ```text
//! trilane-floor HOST PORT PATH CONNECTIONS SECONDS [NAME: VALUE]...
//! ```
//!
//! Prints one JSON object: `requests` (count), `seconds` (wall), `cpu_us_per_request` (user and
//! system CPU of the only thread, microseconds), `response_bytes` (head and body of one response).

use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// What to send where, for how long.
struct Job {
    address: (String, u16),
    request: Vec<u8>,
    connections: usize,
    length: Duration,
}

/// One keep-alive connection and the bytes of its response that are still to come.
struct Connection {
    socket: TcpStream,
    missing: usize,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(job) = Job::parse(&arguments) else {
        eprintln!("usage: trilane-floor HOST PORT PATH CONNECTIONS SECONDS [NAME: VALUE]...");
        return ExitCode::from(2);
    };
    match job.run() {
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
    fn parse(arguments: &[String]) -> Option<Self> {
        let [host, port, path, connections, seconds, fields @ ..] = arguments else {
            return None;
        };
        let port = port.parse().ok()?;
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        Some(Self {
            address: (host.clone(), port),
            request: format!("GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n{fields}\r\n")
                .into_bytes(),
            connections: connections.parse().ok().filter(|&count| count > 0)?,
            length: Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?,
        })
    }

    fn run(&self) -> Result<String, Box<dyn Error>> {
        let response = self.learn()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::with_capacity(self.connections);
        for index in 0..self.connections {
            let mut socket = self.connect()?;
            socket.set_nonblocking(true)?;
            let interest = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(
                &epoll,
                &socket,
                epoll::EventData::new_u64(index as u64),
                interest,
            )?;
            socket.write_all(&self.request)?;
            connections.push(Connection {
                socket,
                missing: response,
            });
        }

        let cpu_before = thread_cpu();
        let start = Instant::now();
        let mut requests = 0u64;
        let mut buffer = vec![0; 64 * 1024];
        let mut events = Vec::with_capacity(256);
        // A peer that falls silent must not keep the loop from seeing the end of the time.
        let patience = Timespec {
            tv_sec: 0,
            tv_nsec: 100_000_000,
        };
        while start.elapsed() < self.length {
            events.clear();
            epoll::wait(
                &epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&patience),
            )?;
            for event in &events {
                let connection = &mut connections[event.data.u64() as usize];
                requests += connection.turn(&mut buffer, response, &self.request)?;
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let cpu = thread_cpu().saturating_sub(cpu_before);
        if requests == 0 {
            return Err("no response within the time".into());
        }
        let cpu_us = cpu.as_secs_f64() * 1e6 / requests as f64;
        Ok(format!(
            "{{\"requests\": {requests}, \"seconds\": {seconds:.6}, \
             \"cpu_us_per_request\": {cpu_us:.3}, \"response_bytes\": {response}}}"
        ))
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let (host, port) = &self.address;
        let socket = TcpStream::connect((host.as_str(), *port))?;
        socket.set_nodelay(true)?;
        Ok(socket)
    }

    /// One exchange on a connection of its own: the bytes of a whole response, head included.
    fn learn(&self) -> Result<usize, Box<dyn Error>> {
        let mut socket = self.connect()?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        socket.write_all(&self.request)?;
        let mut head = Vec::new();
        let mut buffer = [0; 4096];
        let end = loop {
            if let Some(at) = head.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            match socket.read(&mut buffer)? {
                0 => return Err("the server closed before the end of the head".into()),
                count => head.extend_from_slice(&buffer[..count]),
            }
        };
        let text = String::from_utf8_lossy(&head[..end]);
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().ok())?
        });
        let length = length.ok_or("the response has no content-length: its size is not fixed")?;
        Ok(end + length)
    }
}

impl Connection {
    /// Reads what is there, and asks again once the response is whole. Returns the responses ended.
    fn turn(
        &mut self,
        buffer: &mut [u8],
        response: usize,
        request: &[u8],
    ) -> Result<u64, Box<dyn Error>> {
        loop {
            let count = match self.socket.read(buffer) {
                Ok(0) => {
                    return Err(
                        "the server closed a connection: raise its requests per connection".into(),
                    );
                }
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
                Err(error) => return Err(error.into()),
            };
            self.missing = self
                .missing
                .checked_sub(count)
                .ok_or("a response was longer than the first one")?;
            if self.missing == 0 {
                self.missing = response;
                self.socket.write_all(request)?;
                return Ok(1);
            }
            // A short read has emptied the socket; the next edge will tell of more.
            if count < buffer.len() {
                return Ok(0);
            }
        }
    }
}

fn thread_cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}
