//! The encoded field sections of requests that are sent again and again.

use super::frame;
use crate::hpack::Encoder;
use crate::request::{Indexing, PATH, REPEATED};
use crate::{FieldList, Request};

/// How long the blocks that are kept may be, in bytes.
const LONGEST: usize = 2048;

/// The encoder, and blocks of the last requests. Once every field of a request that may be indexed is
/// in the table, its block is the same as long as the table is, and sending it is a copy. Requests
/// that differ in a path which is not indexed share one: the path is put into it.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    encoder: Encoder,
    /// By [`Request::template`]; allocated with the first block.
    kept: Vec<Kept>,
    /// How many requests were encoded, not copied.
    #[cfg(test)]
    encoded: usize,
}

#[derive(Clone, Debug)]
struct Kept {
    template: u64,
    generation: u64,
    /// Without [`Request::hpack_path`], which belongs at `path_at`.
    block: Vec<u8>,
    path_at: usize,
}

impl Default for Kept {
    /// Nothing: no request has this template.
    fn default() -> Self {
        Self {
            template: u64::MAX,
            generation: 0,
            block: Vec::new(),
            path_at: 0,
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
        let template = request.template();
        if let Some(kept) = self.kept.get(template as usize % REPEATED)
            && kept.template == template
            && kept.generation == self.encoder.generation()
        {
            let (before, after) = kept.block.split_at(kept.path_at);
            out.extend_from_slice(before);
            out.extend_from_slice(request.hpack_path());
            out.extend_from_slice(after);
        } else {
            self.encode(request, out);
        }
        true
    }

    fn encode(&mut self, request: &Request, out: &mut Vec<u8>) {
        #[cfg(test)]
        {
            self.encoded += 1;
        }
        let generation = self.encoder.generation();
        let start = out.len();
        let path = request.hpack_path();
        let mut fields = request.fields();
        let before = if path.is_empty() { usize::MAX } else { PATH };
        self.encoder.encode(fields.by_ref().take(before), out);
        let path_at = out.len();
        out.extend_from_slice(path);
        // Behind `:path`, which stands there already.
        self.encoder.encode(fields.skip(1), out);
        let again = request.id() != 0 && self.encoder.generation() == generation;
        if again && out.len() - start - path.len() <= LONGEST {
            if self.kept.is_empty() {
                self.kept.resize_with(REPEATED, Kept::default);
            }
            let template = request.template();
            let kept = &mut self.kept[template as usize % REPEATED];
            kept.template = template;
            kept.generation = generation;
            kept.path_at = path_at - start;
            kept.block.clear();
            kept.block.extend_from_slice(&out[start..path_at]);
            kept.block.extend_from_slice(&out[path_at + path.len()..]);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::RequestParts;
    use crate::hpack::Decoder;

    /// Requests for so many paths, as a load makes them.
    fn requests(count: usize) -> Vec<Request> {
        let fields = [
            ("user-agent".to_owned(), "trilane".to_owned()),
            ("cookie".to_owned(), "a=b".to_owned()),
        ];
        let request = |number| {
            Request::new(&RequestParts {
                method: "GET",
                scheme: "http",
                authority: "a.example",
                path: &format!("/{number}"),
                fields: &fields,
                body: Arc::default(),
                repeated: count <= REPEATED,
            })
            .unwrap()
        };
        let mut requests: Vec<_> = (0..count).map(request).collect();
        Request::share_fields(&mut requests);
        requests
    }

    #[test]
    fn however_many_paths_there_are_what_is_encoded_is_encoded_once() {
        for count in [1, REPEATED + 1, 64, 65, 1000] {
            let requests = requests(count);
            let mut blocks = Blocks::default();
            let mut decoder = Decoder::new(4096);
            let mut out = Vec::new();
            for round in 0..3 {
                for (number, request) in requests.iter().enumerate() {
                    out.clear();
                    assert!(blocks.write(request, u64::MAX, &mut out));
                    let mut path = Vec::new();
                    let visit = |name: &[u8], value: &[u8], _| {
                        if name == b":path" {
                            path = value.to_vec();
                        }
                    };
                    decoder.decode(&out, visit).unwrap();
                    assert_eq!(path, format!("/{number}").into_bytes(), "{count} {round}");
                }
            }
            // The first fills the table, and the second is kept.
            assert_eq!(blocks.encoded, 2, "{count}");
        }
    }

    #[test]
    fn a_change_of_the_table_encodes_what_is_shared_anew() {
        let requests = requests(1000);
        let mut blocks = Blocks::default();
        let mut out = Vec::new();
        for (number, request) in requests.iter().enumerate() {
            if number == 500 {
                blocks.set_limit(100);
            }
            assert!(blocks.write(request, u64::MAX, &mut out));
        }
        // Twice for each table, and once for the block that announces the second.
        assert_eq!(blocks.encoded, 4);
    }
}
