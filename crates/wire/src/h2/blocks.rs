//! The encoded field sections of requests that are sent again and again.

use super::frame;
use crate::hpack::Encoder;
use crate::request::Indexing;
use crate::{FieldList, Request};

/// How many blocks are kept, and how long they may be in bytes.
const PLACES: usize = 64;
const LONGEST: usize = 512;

/// The encoder, and a block for each of the last requests. Once every field of a request that may be
/// indexed is in the table, its block is the same as long as the table is, and sending it is a copy.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    encoder: Encoder,
    /// By request id; allocated with the first block.
    kept: Vec<Kept>,
}

#[derive(Clone, Debug)]
struct Kept {
    request: u64,
    generation: u64,
    block: Vec<u8>,
}

impl Default for Kept {
    /// Nothing: no request has this id.
    fn default() -> Self {
        Self {
            request: u64::MAX,
            generation: 0,
            block: Vec::new(),
        }
    }
}

impl Blocks {
    pub(super) fn set_limit(&mut self, limit: u32) {
        self.encoder.set_limit(limit);
    }

    /// Appends the block of `request` to `out`. False, and nothing, where the section is larger than
    /// `list_limit`.
    #[inline]
    pub(super) fn write(&mut self, request: &Request, list_limit: u64, out: &mut Vec<u8>) -> bool {
        if request.section_size() > list_limit {
            return false;
        }
        if let Some(kept) = self.kept.get(request.id() as usize % PLACES)
            && kept.request == request.id()
            && kept.generation == self.encoder.generation()
        {
            out.extend_from_slice(&kept.block);
        } else {
            self.encode(request, out);
        }
        true
    }

    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) {
        let generation = self.encoder.generation();
        let start = out.len();
        self.encoder.encode(request.fields(), out);
        let block = &out[start..];
        let again = request.id() != 0 && self.encoder.generation() == generation;
        if again && block.len() <= LONGEST {
            if self.kept.is_empty() {
                self.kept.resize_with(PLACES, Kept::default);
            }
            let kept = &mut self.kept[request.id() as usize % PLACES];
            kept.request = request.id();
            kept.generation = generation;
            kept.block.clear();
            kept.block.extend_from_slice(block);
        }
    }

    /// Appends the block of `trailers`, names in lower case, to `out`. False, and nothing, where the
    /// section is larger than `list_limit`.
    pub(super) fn write_trailers(
        &mut self,
        trailers: &FieldList,
        list_limit: u64,
        out: &mut Vec<u8>,
    ) -> bool {
        if trailers.section_size() > list_limit {
            return false;
        }
        let fields = trailers.iter().map(|(n, v)| (n, v, Indexing::Without));
        self.encoder.encode(fields, out);
        true
    }
}

/// Writes HEADERS with the block that stands in `out` from `start` on, behind room for a header; and
/// CONTINUATION where the block is larger than a frame may be.
#[inline]
pub(super) fn frame_block(
    stream: u32,
    flags: u8,
    max_frame: usize,
    start: usize,
    out: &mut Vec<u8>,
) {
    let length = out.len() - start - frame::HEADER_LEN;
    let fits = length <= max_frame;
    let header = frame::Header {
        length: length.min(max_frame) as u32,
        kind: frame::kind::HEADERS,
        flags: if fits {
            flags | frame::flag::END_HEADERS
        } else {
            flags
        },
        stream,
    };
    out[start..start + frame::HEADER_LEN].copy_from_slice(&header.bytes());
    if !fits {
        continue_block(
            stream,
            max_frame,
            start + frame::HEADER_LEN + max_frame,
            out,
        );
    }
}

#[cold]
fn continue_block(stream: u32, max_frame: usize, start: usize, out: &mut Vec<u8>) {
    let rest = out.split_off(start);
    let mut pieces = rest.chunks(max_frame).peekable();
    while let Some(piece) = pieces.next() {
        let flags = if pieces.peek().is_some() {
            0
        } else {
            frame::flag::END_HEADERS
        };
        frame::write(frame::kind::CONTINUATION, flags, stream, piece, out);
    }
}
