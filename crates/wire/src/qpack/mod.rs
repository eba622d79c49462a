//! QPACK (RFC 9204) with the static table only.
//!
//! Our encoder never inserts and our decoder grants a table of capacity 0, so a field section
//! depends on nothing but itself: no stream ever waits for another, and one that has been encoded
//! can be sent any number of times.

mod decode;
mod instructions;
mod integer;
mod table;

pub use decode::{DecodeError, decode};
pub(crate) use decode::{LineError, Lines};
pub use instructions::{DecoderStream, EncoderStream, InstructionError};

use crate::request::Indexing;
use crate::{hpack, huffman};
use table::Match;

/// Appends an encoded field section, prefix included, to `out`.
///
/// A field that is [`Indexing::Never`] becomes a literal with the N bit, so that no intermediary
/// puts it into a table either (RFC 9204 §7.1.3).
pub fn encode<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8], Indexing)>, out: &mut Vec<u8>) {
    // RFC 9204 §4.5.1: Required Insert Count 0, Base 0.
    out.extend_from_slice(&[0, 0]);
    encode_lines(fields, out);
}

/// Appends field lines of a section whose prefix stands in `out`, or comes before them.
pub(crate) fn encode_lines<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8], Indexing)>,
    out: &mut Vec<u8>,
) {
    for (name, value, indexing) in fields {
        match table::find(name, value) {
            // §4.5.2: indexed field line, T = 1 (static).
            Match::Field(index) if indexing != Indexing::Never => {
                integer::encode(index as u64, 6, 0xc0, out);
            }
            _ => {
                begin_line(name, indexing, out);
                // §4.1.2: as in HPACK.
                hpack::string(value, out);
            }
        }
    }
}

/// Appends what comes before the value (a [`hpack::string`]) of a literal field line.
pub(crate) fn begin_line(name: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
    let never = u8::from(indexing == Indexing::Never);
    match table::find(name, b"") {
        // §4.5.4: literal field line with name reference, T = 1.
        Match::Field(index) | Match::Name(index) => {
            integer::encode(index as u64, 4, 0x50 | never << 5, out);
        }
        // §4.5.6: literal field line with literal name.
        Match::None => encode_name(name, 0x20 | never << 4, out),
    }
}

/// A name as a string literal (RFC 9204 §4.1.2) whose length has 3 bits, Huffman where it is shorter.
fn encode_name(name: &[u8], flags: u8, out: &mut Vec<u8>) {
    let coded = huffman::encoded_len(name);
    if coded < name.len() {
        integer::encode(coded as u64, 3, flags | 1 << 3, out);
        huffman::encode(name, out);
    } else {
        integer::encode(name.len() as u64, 3, flags, out);
        out.extend_from_slice(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(fields: &[(&[u8], &[u8], Indexing)]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(fields.iter().copied(), &mut out);
        out
    }

    #[test]
    fn a_field_of_the_table_is_one_index() {
        let fields: [(&[u8], &[u8], _); 2] = [
            (b":method", b"GET", Indexing::Incremental),
            (b":status", b"100", Indexing::Without),
        ];
        assert_eq!(section(&fields), [0, 0, 0xc0 | 17, 0xff, 0]);
    }

    #[test]
    fn a_literal_with_name_reference_is_as_in_rfc_9204_b_1() {
        // RFC 9204 Appendix B.1, but for the Huffman code, which its example does without.
        let fields: [(&[u8], &[u8], _); 1] = [(b":path", b"\x01", Indexing::Incremental)];
        assert_eq!(section(&fields), [0, 0, 0x51, 1, 1]);
    }

    #[test]
    fn secrets_carry_the_n_bit_and_are_never_an_index() {
        let fields: [(&[u8], &[u8], _); 3] = [
            (b"cookie", b"", Indexing::Never),
            (b"authorization", b"\x01", Indexing::Never),
            (b"\x01", b"", Indexing::Never),
        ];
        assert_eq!(
            section(&fields),
            [0, 0, 0x75, 0, 0x7f, 69, 1, 1, 0x31, 1, 0]
        );
    }
}
