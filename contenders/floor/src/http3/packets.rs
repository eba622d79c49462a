//! Packets of one connection after its handshake (RFC 9000 §17.3, RFC 9001 §5).

use std::collections::VecDeque;
use std::error::Error;

use bytes::{Buf, BytesMut};
use quinn_proto::VarInt;
use quinn_proto::coding::Codec;

use super::handshake::{Direction, Keys};

/// Bytes of a datagram: what every path takes (RFC 9000 §14).
pub(super) const SEGMENT: usize = 1200;

/// What AEAD adds, in bytes.
const TAG: usize = 16;
/// A packet number as the loop sends it, in bytes.
const NUMBER: usize = 4;
/// The first number that the loop uses: quinn-proto has used fewer.
const FIRST_NUMBER: u64 = 1 << 16;
/// Ranges of received packets that an acknowledgement tells of. A server may skip a number now and
/// then, to see whether somebody acknowledges what was not sent (RFC 9000 §21.4).
const RANGES: usize = 4;

/// Keys, numbers, and what was received.
pub(super) struct Packets {
    keys: Keys,
    /// The server's connection id.
    destination: Vec<u8>,
    /// Bytes of our own.
    id_length: usize,
    /// The key phase (RFC 9001 §6).
    phase: bool,
    number: u64,
    /// First and last number of each range, in order.
    received: VecDeque<(u64, u64)>,
    /// Whether anything was received that asks for an acknowledgement, and has none.
    owing: bool,
}

/// A packet that is being written.
#[derive(Clone, Copy)]
pub(super) struct Packet {
    /// Where it begins.
    start: usize,
}

/// What a packet told.
#[derive(Default)]
pub(super) struct Told {
    /// Streams of requests that ended in it.
    pub(super) ended: u64,
    /// Requests that it allows in all; 0 where it says nothing.
    pub(super) allowed: u64,
}

impl Packets {
    pub(super) fn new(keys: Keys, destination: Vec<u8>, id_length: usize) -> Self {
        Self {
            keys,
            destination,
            id_length,
            phase: false,
            number: FIRST_NUMBER,
            received: VecDeque::new(),
            owing: false,
        }
    }

    pub(super) fn owes_acknowledgement(&self) -> bool {
        self.owing
    }

    /// Begins a packet behind `out`, with an acknowledgement where one is due.
    pub(super) fn begin(&mut self, out: &mut Vec<u8>) -> Packet {
        let packet = Packet { start: out.len() };
        out.push(0x40 | u8::from(self.phase) << 2 | (NUMBER - 1) as u8);
        out.extend_from_slice(&self.destination);
        out.extend((self.number as u32).to_be_bytes());
        if std::mem::take(&mut self.owing) {
            self.acknowledge(out);
        }
        packet
    }

    /// Writes a request and the end of its stream into the packet. False where it has no room.
    pub(super) fn request(
        &self,
        out: &mut Vec<u8>,
        packet: Packet,
        stream: u64,
        request: &[u8],
    ) -> bool {
        // Type, stream and length have 1, 8 and 2 bytes at most.
        if out.len() - packet.start + 11 + request.len() + TAG > SEGMENT {
            return false;
        }
        // STREAM with a length and the end, from the beginning (RFC 9000 §19.8).
        out.push(0x0b);
        encode(stream, out);
        encode(request.len() as u64, out);
        out.extend_from_slice(request);
        true
    }

    /// Ends the packet; filled up to a segment where others follow.
    pub(super) fn seal(&mut self, out: &mut Vec<u8>, packet: Packet, fill: bool) {
        let Packet { start } = packet;
        let at = 1 + self.destination.len();
        if fill {
            out.resize(start + SEGMENT - TAG, 0);
        }
        out.resize(out.len() + TAG, 0);
        let bytes = &mut out[start..];
        let Direction { packet, header } = &self.keys.local;
        packet.encrypt(self.number, bytes, at + NUMBER);
        header.encrypt(at, bytes);
        self.number += 1;
    }

    /// Opens a datagram.
    pub(super) fn open(&mut self, mut datagram: BytesMut) -> Result<Told, Box<dyn Error>> {
        let at = 1 + self.id_length;
        // A packet of the handshake that was sent again is of no use any more.
        if datagram[0] & 0x80 != 0 || datagram.len() < at + NUMBER + TAG {
            return Ok(Told::default());
        }
        self.keys.remote.header.decrypt(at, &mut datagram);
        let length = usize::from(datagram[0] & 3) + 1;
        let number = self.expand(&datagram[at..at + length]);
        if (datagram[0] & 4 != 0) != self.phase {
            self.keys.update()?;
            self.phase = !self.phase;
        }
        let header = datagram.split_to(at + length);
        let key = &self.keys.remote.packet;
        key.decrypt(number, &header, &mut datagram)
            .map_err(|_| format!("packet {number} cannot be opened"))?;
        self.note(number);
        self.read(&datagram)
    }

    /// The packet number of which these are the last bytes (RFC 9000, Appendix A.3).
    fn expand(&self, bytes: &[u8]) -> u64 {
        let told = bytes
            .iter()
            .fold(0, |told, &byte| told << 8 | u64::from(byte));
        let expected = self.received.back().map_or(0, |&(_, last)| last + 1);
        let window = 1 << (8 * bytes.len());
        let candidate = expected & !(window - 1) | told;
        if candidate + window / 2 <= expected {
            candidate + window
        } else if candidate > expected + window / 2 && candidate >= window {
            candidate - window
        } else {
            candidate
        }
    }

    fn note(&mut self, number: u64) {
        match self.received.back_mut() {
            Some((_, last)) if number == *last + 1 => *last = number,
            Some((_, last)) if number <= *last => (),
            _ => {
                self.received.push_back((number, number));
                if self.received.len() > RANGES {
                    self.received.pop_front();
                }
            }
        }
    }

    /// Writes an ACK frame (RFC 9000 §19.3).
    fn acknowledge(&self, out: &mut Vec<u8>) {
        let mut ranges = self.received.iter().rev();
        let Some(&(mut first, last)) = ranges.next() else {
            return;
        };
        out.push(2);
        encode(last, out);
        encode(0, out);
        encode(self.received.len() as u64 - 1, out);
        encode(last - first, out);
        for &(earlier, last) in ranges {
            encode(first - last - 2, out);
            encode(last - earlier, out);
            first = earlier;
        }
    }

    /// Walks over the frames of a packet (RFC 9000 §19).
    fn read(&mut self, mut frames: &[u8]) -> Result<Told, Box<dyn Error>> {
        let (mut told, all) = (Told::default(), &mut frames);
        while all.has_remaining() {
            let kind = decode(all)?;
            self.owing |= !matches!(kind, 0x00 | 0x02 | 0x03 | 0x1c | 0x1d);
            match kind {
                // PADDING, PING, HANDSHAKE_DONE, IMMEDIATE_ACK
                0x00 | 0x01 | 0x1e | 0x1f => (),
                // ACK_FREQUENCY (draft-ietf-quic-ack-frequency): everything is acknowledged at once.
                0xaf => numbers(all, 4)?,
                // ACK
                0x02 | 0x03 => {
                    numbers(all, 2)?;
                    let ranges = decode(all)?;
                    let ecn = if kind == 0x03 { 3 } else { 0 };
                    numbers(all, 1 + 2 * ranges + ecn)?;
                }
                0x04 => return Err("the server reset a stream".into()),
                // STOP_SENDING, MAX_STREAM_DATA, STREAM_DATA_BLOCKED
                0x05 | 0x11 | 0x15 => numbers(all, 2)?,
                // CRYPTO, NEW_TOKEN
                0x06 | 0x07 => {
                    numbers(all, u64::from(kind == 0x06))?;
                    let length = decode(all)?;
                    skip(all, length)?;
                }
                // STREAM
                0x08..=0x0f => {
                    let stream = decode(all)?;
                    numbers(all, u64::from(kind & 4 != 0))?;
                    let length = match kind & 2 {
                        0 => all.len() as u64,
                        _ => decode(all)?,
                    };
                    skip(all, length)?;
                    // One of ours: what is sent again is not told from what is new.
                    told.ended += u64::from(kind & 1 != 0 && stream & 3 == 0);
                }
                // MAX_STREAMS for requests
                0x12 => told.allowed = decode(all)?,
                // MAX_DATA, MAX_STREAMS, DATA_BLOCKED, STREAMS_BLOCKED, RETIRE_CONNECTION_ID
                0x10 | 0x13 | 0x14 | 0x16 | 0x17 | 0x19 => numbers(all, 1)?,
                // NEW_CONNECTION_ID
                0x18 => {
                    numbers(all, 2)?;
                    let length = all.first().copied().unwrap_or(0);
                    // The length itself, the id, and the token of a stateless reset.
                    skip(all, 1 + u64::from(length) + 16)?;
                }
                // PATH_CHALLENGE, PATH_RESPONSE
                0x1a | 0x1b => skip(all, 8)?,
                0x1c | 0x1d => return Err("the server closed a connection".into()),
                _ => return Err(format!("a frame of type {kind:#x} is not known").into()),
            }
        }
        Ok(told)
    }
}

fn encode(number: u64, out: &mut Vec<u8>) {
    // The loop sends no number of 62 bits.
    VarInt::from_u64(number).unwrap_or_default().encode(out);
}

fn decode(bytes: &mut &[u8]) -> Result<u64, Box<dyn Error>> {
    let number = VarInt::decode(bytes).map_err(|_| "a frame ends too early")?;
    Ok(number.into_inner())
}

/// Skips so many numbers.
fn numbers(bytes: &mut &[u8], count: u64) -> Result<(), Box<dyn Error>> {
    for _ in 0..count {
        decode(bytes)?;
    }
    Ok(())
}

fn skip(bytes: &mut &[u8], length: u64) -> Result<(), Box<dyn Error>> {
    let (_, rest) = usize::try_from(length)
        .ok()
        .and_then(|length| bytes.split_at_checked(length))
        .ok_or("a frame ends too early")?;
    *bytes = rest;
    Ok(())
}
