//! Blocks of one connection: what was decoded is encoded again and must come back; so is Huffman.

use trilane_wire::hpack::{Decoder, Encoder};
use trilane_wire::request::Indexing;
use trilane_wire::{FieldList, huffman};

fn decode(decoder: &mut Decoder, block: &[u8]) -> Option<FieldList> {
    let mut fields = FieldList::new();
    decoder
        .decode(block, |name, value, _| fields.push(name, value))
        .ok()
        .map(|()| fields)
}

/// Runs one input.
pub(crate) fn target(data: &[u8]) {
    let mut text = Vec::new();
    if huffman::decode(data, &mut text).is_ok() {
        let mut code = Vec::new();
        huffman::encode(&text, &mut code);
        assert_eq!(code, data, "the code has one form");
        assert_eq!(huffman::encoded_len(&text), code.len());
    }

    let mut peer = Decoder::new(4096);
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
    for block in data.split(|&byte| byte == 0xff) {
        let Some(fields) = decode(&mut peer, block) else {
            return;
        };
        let ways = [Indexing::Incremental, Indexing::Without, Indexing::Never];
        let marked = fields
            .iter()
            .zip(ways.into_iter().cycle())
            .map(|((n, v), way)| (n, v, way));
        let mut again = Vec::new();
        encoder.encode(marked, &mut again);
        assert_eq!(decode(&mut decoder, &again), Some(fields));
    }
}
