//! One request and its response: `HEADERS(1xx)* HEADERS DATA* HEADERS?` (RFC 9114 §4.1).

use super::frame::{self, HeaderReader};
use super::section::{self, Fault, Sections};
use super::sending::Sending;
use super::{QuicStreams, code};
use crate::{ErrorKind, Events, FieldList, StreamId};

/// Informational responses before the final one: as many as any honest server sends, many times over.
const MAX_INFORMATIONAL: u8 = 32;

/// What may arrive on a stream without getting on with the response: payload of unknown frames, and
/// [`FRAME_COST`] for each frame that says nothing. Any piece of content sets the count back.
const MAX_IDLE: u64 = 64 * 1024;
const FRAME_COST: u64 = 16;

/// A place in the table that holds nothing: no stream has this id.
const FREE: u64 = u64::MAX;

/// How far the response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Before the final head.
    Head,
    /// After the final head.
    Body,
    /// After the trailer section.
    Trailers,
    /// The response has been reported; our body is still on its way.
    Ended,
}

/// What the next bytes of the stream are, with the number of bytes that are left of it.
#[derive(Clone, Copy, Debug)]
enum Frame {
    Header,
    Section(u64),
    Data(u64),
    Unknown(u64),
}

/// What the datagrams of a connection have carried. Which content is in which of them, QUIC does not
/// tell.
#[derive(Debug, Default)]
pub(super) struct Carried {
    /// [`QuicStreams::transmitted`].
    pub(super) transmitted: u64,
    /// Content of exchanges that have ended, in bytes.
    content: u64,
}

#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) number: u64,
    pub(super) slot: u32,
    phase: Phase,
    head_method: bool,
    /// Whether a response of success opens a tunnel (RFC 9220 §3); after the head, whether it has.
    pub(super) is_connect: bool,
    informational: u8,
    frame: Frame,
    header: HeaderReader,
    /// The beginning of a section that arrives in pieces.
    section: Vec<u8>,
    /// Content that may still follow; `None` without a `content-length`.
    body_left: Option<u64>,
    idle: u64,
    trailers: Option<Box<FieldList>>,
    /// Our body, while flow control holds it up or the caller writes it.
    pub(super) sending: Option<Box<Sending>>,
    /// Whether the peer asked us to send no more.
    pub(super) stopped: bool,
    /// Content that QUIC has taken, in bytes.
    taken: u64,
    /// Content that the peer did not want any more, in bytes.
    unwanted: u64,
    /// [`QuicStreams::transmitted`] as the exchange began.
    pub(super) transmitted_before: u64,
}

impl Exchange {
    /// An empty place.
    pub(super) fn free() -> Self {
        Self {
            number: FREE,
            slot: 0,
            phase: Phase::Head,
            head_method: false,
            is_connect: false,
            informational: 0,
            frame: Frame::Header,
            header: HeaderReader::default(),
            section: Vec::new(),
            body_left: None,
            idle: 0,
            trailers: None,
            sending: None,
            stopped: false,
            taken: 0,
            unwanted: 0,
            transmitted_before: 0,
        }
    }

    /// Takes the place for a request that is being sent.
    pub(super) fn begin(&mut self, number: u64, slot: u32, head_method: bool) {
        let mut section = std::mem::take(&mut self.section);
        section.clear();
        *self = Self {
            number,
            slot,
            head_method,
            section,
            ..Self::free()
        };
    }

    /// Gives the place back.
    pub(super) fn release(&mut self) {
        self.number = FREE;
        self.trailers = None;
        self.sending = None;
        // A place keeps its buffer for the next section, not for the largest ever.
        if self.section.capacity() > 4096 {
            self.section = Vec::new();
        }
    }

    pub(super) fn is_live(&self) -> bool {
        self.number != FREE
    }

    /// Whether the response has been reported in full.
    pub(super) fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Whether the final head has been reported.
    pub(super) fn got_head(&self) -> bool {
        self.phase != Phase::Head
    }

    pub(super) fn id(&self) -> StreamId {
        StreamId {
            number: self.number,
            slot: self.slot,
        }
    }

    /// The request has been written, with a body of `content` bytes, but for `rest`. Says how much of
    /// the body QUIC has taken.
    pub(super) fn give(&mut self, content: u64, rest: Option<Sending>) -> u64 {
        self.taken = content - rest.as_ref().map_or(0, Sending::unsent);
        self.sending = rest.map(Box::new);
        self.taken
    }

    /// Goes on with our body, and says whether that was the end of it. Adds the content that QUIC has
    /// taken to `total`.
    pub(super) fn advance(&mut self, quic: &mut impl QuicStreams, total: &mut u64) -> bool {
        let Some(sending) = &mut self.sending else {
            return false;
        };
        let before = sending.unsent();
        let done = sending.advance(self.number, quic);
        let taken = before - sending.unsent();
        self.taken += taken;
        *total += taken;
        if done {
            self.sending = None;
        }
        done
    }

    /// Writes content of the caller's, and says how much was taken over. Adds what QUIC has taken to
    /// `total`.
    pub(super) fn write(
        &mut self,
        bytes: &[u8],
        quic: &mut impl QuicStreams,
        total: &mut u64,
    ) -> usize {
        let Some(sending) = &mut self.sending else {
            return 0;
        };
        let before = sending.unsent();
        let given = sending.write(self.number, bytes, quic);
        let taken = before + given as u64 - sending.unsent();
        self.taken += taken;
        *total += taken;
        given
    }

    /// The peer wants no more of our content.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
        if let Some(sending) = self.sending.take() {
            self.unwanted = sending.unsent();
        }
    }

    /// Content that has not left: what QUIC has not taken, and what it has taken and cannot have put
    /// into datagrams.
    fn unsent(&self, carried: &mut Carried) -> u64 {
        let rest = self
            .sending
            .as_ref()
            .map_or(self.unwanted, |sending| sending.unsent());
        let mut sent = self.taken;
        let since = carried.transmitted - self.transmitted_before;
        if rest > 0 || sent > since {
            let others = carried.content;
            sent = sent
                .min(since)
                .min(carried.transmitted.saturating_sub(others));
        }
        carried.content += sent;
        rest + self.taken - sent
    }

    /// Takes all of `bytes`, and says whether the response is complete.
    pub(super) fn receive<E: Events>(
        &mut self,
        mut bytes: &[u8],
        fin: bool,
        carried: &mut Carried,
        sections: &mut Sections,
        events: &mut E,
    ) -> Result<bool, Fault> {
        while !bytes.is_empty() {
            match self.frame {
                Frame::Header => {
                    if let Some((kind, length)) = self.header.read(&mut bytes) {
                        self.begin_frame(kind, length, sections, events)?;
                    }
                }
                Frame::Section(left) => {
                    let piece = frame::take(&mut bytes, left);
                    let left = left - piece.len() as u64;
                    self.frame = if left == 0 {
                        Frame::Header
                    } else {
                        Frame::Section(left)
                    };
                    if left == 0 && self.section.is_empty() {
                        self.take_section(piece, sections, events)?;
                        continue;
                    }
                    self.section.extend_from_slice(piece);
                    if left == 0 {
                        let mut section = std::mem::take(&mut self.section);
                        let result = self.take_section(&section, sections, events);
                        section.clear();
                        self.section = section;
                        result?;
                    }
                }
                Frame::Data(left) => {
                    let piece = frame::take(&mut bytes, left);
                    let left = left - piece.len() as u64;
                    self.frame = if left == 0 {
                        Frame::Header
                    } else {
                        Frame::Data(left)
                    };
                    self.idle = 0;
                    events.data(self.id(), piece);
                }
                Frame::Unknown(left) => {
                    let piece = frame::take(&mut bytes, left);
                    let left = left - piece.len() as u64;
                    self.frame = if left == 0 {
                        Frame::Header
                    } else {
                        Frame::Unknown(left)
                    };
                    self.spend(piece.len() as u64)?;
                }
            }
        }
        if !fin {
            return Ok(false);
        }
        self.finish()?;
        self.end(carried, events);
        Ok(true)
    }

    /// Whether the peer, resetting its direction now, withholds nothing: the whole length that it
    /// announced has arrived.
    pub(super) fn is_complete_but_for_fin(&self) -> bool {
        self.phase == Phase::Body
            && self.body_left == Some(0)
            && matches!(self.frame, Frame::Header)
            && self.header.is_empty()
    }

    /// Reports the end of the response.
    pub(super) fn end<E: Events>(&mut self, carried: &mut Carried, events: &mut E) {
        if let unsent @ 1.. = self.unsent(carried) {
            events.unsent(self.id(), unsent);
        }
        let trailers = self.trailers.as_ref().map(|list| list.as_fields());
        events.end(self.id(), trailers);
        self.phase = Phase::Ended;
    }

    fn begin_frame<E: Events>(
        &mut self,
        kind: u64,
        length: u64,
        sections: &mut Sections,
        events: &mut E,
    ) -> Result<(), Fault> {
        let unexpected = |reason| Err(Fault::connection(code::FRAME_UNEXPECTED, reason));
        match kind {
            frame::DATA if self.phase != Phase::Body => {
                return unexpected("a DATA frame before the response head or after the trailers");
            }
            frame::DATA if length == 0 => self.spend(FRAME_COST)?,
            frame::DATA => {
                if let Some(left) = &mut self.body_left {
                    *left = left.checked_sub(length).ok_or_else(|| {
                        Fault::stream(
                            ErrorKind::Body,
                            code::MESSAGE_ERROR,
                            "more content than the response may have",
                        )
                    })?;
                }
                self.frame = Frame::Data(length);
            }
            frame::HEADERS if self.phase == Phase::Trailers => {
                return unexpected("a HEADERS frame after the trailers");
            }
            // RFC 9114 §4.4: in a tunnel there are DATA frames alone.
            frame::HEADERS if self.is_connect && self.phase == Phase::Body => {
                return unexpected("a HEADERS frame inside of a tunnel");
            }
            frame::HEADERS if length > sections.limit() => return Err(section::too_large()),
            frame::HEADERS if length == 0 => self.take_section(&[], sections, events)?,
            frame::HEADERS => self.frame = Frame::Section(length),
            // RFC 9114 §7.2.5: a push id above the MAX_PUSH_ID that was never sent.
            frame::PUSH_PROMISE => {
                return Err(Fault::connection(
                    code::ID_ERROR,
                    "a push that was not permitted",
                ));
            }
            frame::CANCEL_PUSH | frame::SETTINGS | frame::GOAWAY | frame::MAX_PUSH_ID => {
                return unexpected("a frame of the control stream on a request stream");
            }
            kind if frame::is_http2_only(kind) => {
                return unexpected("a frame type of HTTP/2");
            }
            _ => {
                self.spend(FRAME_COST)?;
                if length > 0 {
                    self.frame = Frame::Unknown(length);
                }
            }
        }
        Ok(())
    }

    fn take_section<E: Events>(
        &mut self,
        section: &[u8],
        sections: &mut Sections,
        events: &mut E,
    ) -> Result<(), Fault> {
        if self.phase == Phase::Body {
            self.phase = Phase::Trailers;
            self.trailers = Some(Box::new(sections.trailers(section, E::FIELDS)?));
            return Ok(());
        }
        let head = sections.head(section, E::FIELDS)?;
        if head.status == 101 {
            // RFC 9114 §4.5: there is nothing to upgrade to.
            return Err(Fault::malformed(
                "a 101 response, which HTTP/3 does not have",
            ));
        }
        if head.status < 200 {
            self.informational += 1;
            if self.informational > MAX_INFORMATIONAL {
                return Err(Fault::stream(
                    ErrorKind::Limit,
                    code::EXCESSIVE_LOAD,
                    "too many informational responses",
                ));
            }
            events.informational(self.id(), head);
            return Ok(());
        }
        // RFC 9110 §6.4.1: no content, whatever content-length says.
        let without_content = self.head_method || matches!(head.status, 204 | 304);
        self.is_connect &= head.status < 300;
        self.body_left = if self.is_connect {
            // RFC 9110 §9.3.6: a tunnel has no length.
            None
        } else if without_content {
            Some(0)
        } else {
            head.content_length
        };
        self.phase = Phase::Body;
        events.head(self.id(), head);
        Ok(())
    }

    /// The stream has ended: is that the end of a response?
    fn finish(&self) -> Result<(), Fault> {
        if !matches!(self.frame, Frame::Header) || !self.header.is_empty() {
            return Err(Fault::connection(
                code::FRAME_ERROR,
                "a stream that ends within a frame",
            ));
        }
        if self.phase == Phase::Head {
            return Err(Fault::malformed("a stream that ends without a response"));
        }
        if self.body_left.is_some_and(|left| left > 0) {
            return Err(Fault::stream(
                ErrorKind::Body,
                code::MESSAGE_ERROR,
                "less content than content-length announced",
            ));
        }
        Ok(())
    }

    fn spend(&mut self, cost: u64) -> Result<(), Fault> {
        self.idle += cost;
        if self.idle > MAX_IDLE {
            return Err(Fault::connection(
                code::EXCESSIVE_LOAD,
                "too many frames that do not get on with a response",
            ));
        }
        Ok(())
    }
}
