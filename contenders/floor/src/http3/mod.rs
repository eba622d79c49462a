//! The floor under HTTP/3 load: what a client costs that has keys and nothing else.
//!
//! quinn-proto shakes hands, and is left then: from there on the loop opens each datagram, counts the
//! streams that end in it, and seals as many requests into the answer, with the acknowledgement that
//! the server waits for. It detects no loss, controls no congestion, keeps no streams and reads no HTTP.
//! What a datagram costs are its system calls, with the offloads that the engine uses too, and AEAD.

mod handshake;
mod packets;

use std::error::Error;
use std::time::{Duration, Instant};

use quinn_proto::VarInt;
use quinn_proto::coding::Codec;
use serde_json::Value;
use trilane_connection::Taken;
use trilane_socket::Moved;
use trilane_socket::udp::{Inbox, Received, Socket};
use trilane_transport::quic::Transmit;

use self::packets::{Packets, SEGMENT};
use crate::{Job, Watched};

/// Without loss detection, a lost datagram ends the loop: how long nothing came by then.
const SILENCE: Duration = Duration::from_secs(5);

/// Bytes of a batch of datagrams that the kernel takes at once.
const BATCH: usize = 40 * SEGMENT;

/// What is established with a server: a socket, keys, and credit for streams.
struct Connection {
    socket: Socket,
    packets: Packets,
    /// Requests that the server has allowed.
    allowed: u64,
    /// Requests sent.
    sent: u64,
    /// Responses that have ended.
    ended: u64,
    heard: Instant,
}

/// The loop's measurement.
pub(crate) fn run(job: &Job) -> Result<Value, Box<dyn Error>> {
    let request = request(job)?;
    let mut watched = Watched::new()?;
    let (mut connections, mut out) = (Vec::new(), Vec::new());
    let setup = handshake::Setup::new(job)?;
    for index in 0..job.connections {
        let mut connection = setup.connect()?;
        watched.add(&connection.socket, index)?;
        connection.answer(job.streams, &request, &mut out)?;
        connections.push(connection);
    }
    let mut inbox = Inbox::default();
    let report = job.measure(|| {
        let mut ended = 0;
        for place in watched.wait()? {
            let connection = &mut connections[place];
            let before = connection.ended;
            connection.receive(&mut inbox)?;
            connection.answer(job.streams, &request, &mut out)?;
            ended += connection.ended - before;
        }
        Ok(ended)
    })?;
    for connection in &mut connections {
        connection.close(&mut out)?;
        if connection.heard.elapsed() > SILENCE {
            return Err("a datagram was lost: the loop sends nothing again".into());
        }
    }
    Ok(report)
}

/// A HEADERS frame: the whole request, with names of QPACK's static table (RFC 9204, Appendix A).
fn request(job: &Job) -> Result<Vec<u8>, Box<dyn Error>> {
    // Required Insert Count 0 and Base 0; `:method: GET` and `:scheme: https`, which the table has.
    let mut section = vec![0, 0, 0xc0 | 17, 0xc0 | 23];
    let authority = format!("{}:{}", job.host, job.port);
    for (index, value) in [(0, authority.as_str()), (1, job.path.as_str())] {
        section.push(0x50 | index);
        literal(&mut section, 0, 7, value)?;
    }
    for (name, value) in &job.fields {
        literal(&mut section, 0x20, 3, name)?;
        literal(&mut section, 0, 7, value)?;
    }
    let mut frame = vec![1];
    VarInt::from_u64(section.len() as u64)?.encode(&mut frame);
    frame.extend(section);
    if frame.len() > SEGMENT / 2 {
        return Err("the request is too large for a datagram beside others".into());
    }
    Ok(frame)
}

/// A string with its length in a prefix of so many bits (RFC 7541 §5.1), behind the bits of `first`.
fn literal(out: &mut Vec<u8>, first: u8, bits: u8, text: &str) -> Result<(), Box<dyn Error>> {
    let (length, most) = (text.len(), (1 << bits) - 1);
    if length < most {
        out.push(first | length as u8);
    } else if length - most < 128 {
        out.extend([first | most as u8, (length - most) as u8]);
    } else {
        return Err(format!("{text:?} is longer than the loop encodes").into());
    }
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

impl Connection {
    /// Opens what is there, and counts what has ended in it.
    fn receive(&mut self, inbox: &mut Inbox) -> Result<(), Box<dyn Error>> {
        let mut moved = Moved::default();
        loop {
            let more = match self.socket.receive(inbox, &mut moved) {
                Received::Datagrams { more } => more,
                Received::Nothing => return Ok(()),
                Received::Unreachable => return Err("nobody listens there".into()),
                Received::Failed(error) => return Err(error.into()),
            };
            self.heard = Instant::now();
            for mut batch in inbox.take() {
                while !batch.bytes.is_empty() {
                    let length = batch.segment_size.min(batch.bytes.len());
                    let told = self.packets.open(batch.bytes.split_to(length))?;
                    self.ended += told.ended;
                    self.allowed = self.allowed.max(told.allowed);
                }
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Sends as many requests as may be under way, and what is to be acknowledged.
    fn answer(
        &mut self,
        streams: u64,
        request: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Box<dyn Error>> {
        let until = self.allowed.min(self.ended + streams);
        out.clear();
        while self.packets.owes_acknowledgement() || self.sent < until {
            let packet = self.packets.begin(out);
            while self.sent < until && self.packets.request(out, packet, self.sent * 4, request) {
                self.sent += 1;
            }
            self.packets.seal(out, packet, self.sent < until);
        }
        self.send(out)
    }

    /// Tells the server that nothing more comes.
    fn close(&mut self, out: &mut Vec<u8>) -> Result<(), Box<dyn Error>> {
        out.clear();
        let packet = self.packets.begin(out);
        // CONNECTION_CLOSE with H3_NO_ERROR and no reason (RFC 9000 §19.19).
        out.extend([0x1d, 0x41, 0x00, 0]);
        self.packets.seal(out, packet, false);
        self.send(out)
    }

    fn send(&self, datagrams: &[u8]) -> Result<(), Box<dyn Error>> {
        for batch in datagrams.chunks(BATCH) {
            let shape = Transmit {
                len: batch.len(),
                segment_size: SEGMENT,
                ecn: 0,
            };
            match self.socket.send(batch, shape) {
                Taken::Sent => (),
                Taken::Full => return Err("the socket takes no more: use fewer streams".into()),
                Taken::Unreachable => return Err("nobody listens there".into()),
            }
        }
        Ok(())
    }
}
