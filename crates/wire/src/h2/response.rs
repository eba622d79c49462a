//! Heads, trailers and ends of responses (RFC 9113 §8.1).

use super::Connection;
use super::flood::gain;
use super::frame::{self, code, error};
use super::section::Section;
use super::streams::Sending;
use crate::{ConnectionError, ErrorKind, Events, Fields, Head, StreamError, Unprocessed};

/// Informational responses before the final one.
const INFORMATIONAL: u8 = 32;

impl Connection {
    /// A header block is complete. It is decoded whatever becomes of its stream, so that the table
    /// stays in step.
    pub(super) fn section<E: Events>(
        &mut self,
        number: u32,
        end_stream: bool,
        block: &[u8],
        events: &mut E,
        out: &mut Vec<u8>,
    ) -> Result<(), ConnectionError> {
        let section = self.decode::<E>(block)?;
        let Some(stream) = self.streams.get_mut(number) else {
            return self.late(number, end_stream);
        };
        if section.list_size > self.config.header_list as usize {
            let reason = "a field section is larger than our limit";
            let (code, kind) = (code::ENHANCE_YOUR_CALM, ErrorKind::Limit);
            self.reset(number, end_stream, code, kind, reason, events, out);
            return Ok(());
        }
        let fault = match section {
            Section {
                fault: Some(fault), ..
            } => Some(fault),
            Section {
                status: Some(_), ..
            } if stream.got_head => Some("a pseudo-field stands in trailers"),
            Section { status: None, .. } if !stream.got_head => {
                Some("the head of a response has no :status")
            }
            Section {
                status: Some(101), ..
            } => Some("status 101, which HTTP/2 does not have"),
            Section {
                status: Some(100..=199),
                ..
            } if end_stream => Some("an informational response ends the stream"),
            // RFC 9113 §8.5.
            Section { status: None, .. } if stream.is_connect => Some("fields inside of a tunnel"),
            Section { status: None, .. } if !end_stream => Some("trailers do not end the stream"),
            _ => None,
        };
        if let Some(reason) = fault {
            self.malformed(number, end_stream, ErrorKind::Protocol, reason, events, out);
            return Ok(());
        }
        let Some(status) = section.status else {
            self.end(number, true, events, out);
            return Ok(());
        };
        let head = Head {
            status,
            content_length: section.content_length,
            encoded_bytes: block.len(),
            decoded_bytes: section.decoded_bytes,
            reason: &[],
            http_1_0: false,
            fields: if E::FIELDS {
                self.fields.as_fields()
            } else {
                Fields::empty()
            },
        };
        if status < 200 {
            stream.informational += 1;
            if stream.informational > INFORMATIONAL {
                let reason = "a flood of informational responses";
                return Err(error(code::ENHANCE_YOUR_CALM, reason));
            }
            events.informational(stream.id(), head);
            return Ok(());
        }
        stream.got_head = true;
        stream.is_connect &= status < 300;
        // RFC 9110 §6.4.1: these have no content, whatever their length says.
        let empty = stream.is_head || matches!(status, 204 | 304);
        stream.remaining = if stream.is_connect {
            // RFC 9110 §9.3.6: nor has a tunnel a length.
            None
        } else if empty {
            Some(0)
        } else {
            section.content_length
        };
        events.head(stream.id(), head);
        if end_stream {
            self.end(number, false, events, out);
        }
        Ok(())
    }

    #[inline]
    fn decode<E: Events>(&mut self, block: &[u8]) -> Result<Section, ConnectionError> {
        let generation = self.decoder.generation();
        if !E::FIELDS
            && let Some(section) = self.memo.recall(block, generation)
        {
            return Ok(section);
        }
        self.fields.clear();
        let fields = E::FIELDS.then_some(&mut self.fields);
        let limit = self.config.header_list as usize;
        let section = Section::decode(block, &mut self.decoder, limit, fields)
            .map_err(|reason| error(code::COMPRESSION_ERROR, reason.reason()))?;
        // Trailers are left out: they would push out the head that comes before them every time.
        if !E::FIELDS && section.status.is_some() && self.decoder.generation() == generation {
            self.memo.keep(block, generation, section);
        }
        Ok(section)
    }

    /// The peer has ended the stream.
    #[inline]
    pub(super) fn end<E: Events>(
        &mut self,
        number: u32,
        trailers: bool,
        events: &mut E,
        out: &mut Vec<u8>,
    ) {
        let Some(stream) = self.streams.get_mut(number) else {
            return;
        };
        if stream.remaining.is_some_and(|rest| rest > 0) {
            let reason = "less content than the head of the response announced";
            self.malformed(number, true, ErrorKind::Body, reason, events, out);
            return;
        }
        let id = stream.id();
        if stream.sending != Sending::Done {
            if let Some(body) = &stream.body {
                events.unsent(id, (body.bytes.len() - body.sent) as u64);
            }
            self.stop_sending(number, out);
            self.drop_stream(number);
        } else {
            self.streams.remove(number);
        }
        self.flood.earn(gain::RESPONSE);
        let fields = if E::FIELDS {
            self.fields.as_fields()
        } else {
            Fields::empty()
        };
        events.end(id, trailers.then_some(fields));
    }

    /// A stream error PROTOCOL_ERROR (RFC 9113 §8.1.1).
    #[cold]
    pub(super) fn malformed<E: Events>(
        &mut self,
        number: u32,
        end_stream: bool,
        kind: ErrorKind,
        reason: &'static str,
        events: &mut E,
        out: &mut Vec<u8>,
    ) {
        self.reset(
            number,
            end_stream,
            code::PROTOCOL_ERROR,
            kind,
            reason,
            events,
            out,
        );
    }

    /// A stream error (RFC 9113 §5.4.2). `end_stream`: the peer has ended the stream.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "what is reported and where to")]
    pub(super) fn reset<E: Events>(
        &mut self,
        number: u32,
        end_stream: bool,
        code: u32,
        kind: ErrorKind,
        reason: &'static str,
        events: &mut E,
        out: &mut Vec<u8>,
    ) {
        let Some(id) = self.streams.get_mut(number).map(|stream| stream.id()) else {
            return;
        };
        self.drop_stream(number);
        if !end_stream {
            self.resets.add(number);
        }
        frame::write_rst_stream(number, code, out);
        let error = StreamError {
            kind,
            unprocessed: Unprocessed::Unknown,
            code: Some(u64::from(code)),
            reason,
        };
        events.fail(id, error);
    }
}
