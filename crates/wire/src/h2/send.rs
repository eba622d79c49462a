//! Requests and their bodies.

use std::sync::Arc;

use super::flood::gain;
use super::frame::{self, Header, MAX_31_BITS, flag, kind};
use super::streams::{Body, Sending, Stream};
use super::{Connection, blocks};
use crate::request::MethodKind;
use crate::{Output, Refused, Request, StreamId};

/// How far one call lets `out` grow with content, in bytes.
const OUT_GROWTH: usize = 64 * 1024;

/// The largest DATA frame, whatever the peer accepts: a smaller share makes the turns of the streams
/// fairer, and this is one TLS record.
pub(super) const LARGEST_DATA: usize = 16 * 1024;

impl Connection {
    /// Opens a stream with `request`. Of the body as much as the windows and a small `out` allow;
    /// the rest follows by [`Self::produce`], as windows open. Streamed content follows by
    /// [`Self::write`].
    pub fn send(
        &mut self,
        request: &Request,
        slot: u32,
        out: &mut impl Output,
    ) -> Result<StreamId, Refused> {
        if self.streams.len() >= self.stream_limit() as usize || self.is_closing() {
            return Err(self.refusal());
        }
        let is_connect = request.kind() == MethodKind::Upgrade;
        if is_connect && !self.peer.connect_protocol {
            // RFC 8441 §3: not before the peer has said that it may.
            return Err(if self.peer.received {
                Refused::NoConnectProtocol
            } else {
                Refused::Full
            });
        }
        let framing = out.framing();
        let start = framing.len();
        framing.extend_from_slice(&[0; frame::HEADER_LEN]);
        if !self.blocks.write(request, self.peer.list_limit(), framing) {
            framing.truncate(start);
            return Err(Refused::TooLarge {
                size: request.section_size(),
                limit: self.peer.list_limit(),
            });
        }
        self.sent_field_bytes += (framing.len() - start - frame::HEADER_LEN) as u64;
        let number = self.next_id;
        self.next_id += 2;
        let flags = if request.has_content() {
            0
        } else {
            flag::END_STREAM
        };
        let max_frame = self.peer.max_frame_size as usize;
        blocks::frame_block(number, flags, max_frame, start, framing);

        let mut stream = Stream::new(
            number,
            slot,
            self.peer.initial_window_size,
            request.is_head(),
        );
        stream.is_connect = is_connect;
        let id = stream.id();
        if !request.has_content() {
            self.streams.insert(stream);
        } else if let Some(streamed) = request.streamed_content() {
            stream.sending = Sending::Streamed;
            self.streams.insert(stream);
            self.uploads.begin(number, streamed.length);
        } else {
            stream.body = Some(Body {
                bytes: Arc::clone(request.body()),
                sent: 0,
            });
            stream.sending = Sending::Blocked;
            if stream.send_window > 0 {
                stream.sending = Sending::Queued;
                self.queue.push_back(number);
            }
            self.streams.insert(stream);
            self.write_bodies(OUT_GROWTH, out);
        }
        self.flood.earn(gain::REQUEST);
        Ok(id)
    }

    /// Writes more of the pending bodies, when `out` has been written to the transport.
    pub fn produce(&mut self, out: &mut impl Output) {
        self.write_bodies(out.waiting() + OUT_GROWTH, out);
    }

    /// Whether `produce` has something to write now.
    pub fn has_output(&self) -> bool {
        self.send_window > 0 && !self.queue.is_empty()
    }

    #[cold]
    fn refusal(&self) -> Refused {
        if self.failure.is_some() || self.closed || self.goaway.is_some() {
            Refused::Draining
        } else if self.next_id > MAX_31_BITS {
            Refused::Exhausted
        } else {
            Refused::Full
        }
    }

    /// Writes one frame of each stream in turn until `out` holds `limit` bytes.
    fn write_bodies(&mut self, limit: usize, out: &mut impl Output) {
        let largest = LARGEST_DATA.min(self.peer.max_frame_size as usize) as i64;
        while out.waiting() < limit
            && self.send_window > 0
            && let Some(number) = self.queue.pop_front()
        {
            let Some(stream) = self.streams.get_mut(number) else {
                continue;
            };
            stream.sending = Sending::Blocked;
            let id = stream.id();
            let Some(body) = &mut stream.body else {
                continue;
            };
            let rest = body.bytes.len() - body.sent;
            let window = largest.min(self.send_window).min(stream.send_window);
            let length = rest.min(usize::try_from(window).unwrap_or(0));
            let last = length == rest;
            let flags = if last { flag::END_STREAM } else { 0 };
            let header = Header {
                length: length as u32,
                kind: kind::DATA,
                flags,
                stream: number,
            };
            out.framing().extend_from_slice(&header.bytes());
            let part = body.sent..body.sent + length;
            out.body(id, &body.bytes, part);
            body.sent += length;
            self.send_window -= length as i64;
            stream.send_window -= length as i64;
            self.flood.earn(gain::DATA_SENT);
            if last {
                stream.body = None;
                stream.sending = Sending::Done;
            } else if stream.send_window > 0 {
                stream.sending = Sending::Queued;
                self.queue.push_back(number);
            }
        }
    }

    /// The window of a stream has grown: it waits for its turn, if it has something to send.
    pub(super) fn enqueue(&mut self, number: u32) {
        if let Some(stream) = self.streams.get_mut(number)
            && stream.sending == Sending::Blocked
            && stream.send_window > 0
        {
            stream.sending = Sending::Queued;
            self.queue.push_back(number);
        }
    }
}
