//! The floor under HTTP/1.1 load: what a client costs that parses nothing.
//!
//! A ring of keep-alive connections on one edge-triggered epoll, each registered once. The size of a
//! response is learned from a first exchange; from then on a response is "that many bytes", and the
//! next request leaves in the turn that read the last of them: two system calls per request and no
//! work on the bytes. A load engine that parses, measures and accounts can only be compared with
//! this, not beat it by much.

use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::{Job, Watched};

/// One keep-alive connection and the bytes of its response that are still to come.
struct Connection {
    socket: TcpStream,
    missing: usize,
}

/// The loop's measurement.
pub(crate) fn run(job: &Job) -> Result<Value, Box<dyn Error>> {
    let fields: String = job
        .fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let (server, host, port, path) = (job.server()?, &job.host, job.port, &job.path);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n{fields}\r\n");
    let request = request.as_bytes();
    let response = learn(server, request)?;
    let mut watched = Watched::new()?;
    let mut connections = Vec::new();
    for index in 0..job.connections {
        let mut socket = connect(server)?;
        socket.set_nonblocking(true)?;
        watched.add(&socket, index)?;
        socket.write_all(request)?;
        connections.push(Connection {
            socket,
            missing: response,
        });
    }
    let mut buffer = vec![0; 64 * 1024];
    job.measure(|| {
        let mut ended = 0;
        for place in watched.wait()? {
            let connection = &mut connections[place];
            ended += connection.turn(&mut buffer, response, request)?;
        }
        Ok(ended)
    })
}

fn connect(server: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpStream::connect(server)?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// One exchange on a connection of its own: the bytes of a whole response, head included.
fn learn(server: SocketAddr, request: &[u8]) -> Result<usize, Box<dyn Error>> {
    let mut socket = connect(server)?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    socket.write_all(request)?;
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
