//! The Huffman code of RFC 7541 Appendix B, shared by HPACK and QPACK.
//!
//! The code is canonical: codes of one length follow the order of their symbols, and shorter codes
//! come before longer ones. So the lengths say everything, and the tables are made from them at
//! compile time.

use std::fmt;

/// The input is not a valid encoding (RFC 7541 §5.2): it holds EOS, or its padding is longer than
/// 7 bits or not all ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidHuffman;

impl fmt::Display for InvalidHuffman {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid Huffman code")
    }
}

impl std::error::Error for InvalidHuffman {}

/// The number of bytes that [`encode`] appends.
pub fn encoded_len(bytes: &[u8]) -> usize {
    let bits: usize = bytes
        .iter()
        .map(|&byte| usize::from(LENGTHS[usize::from(byte)]))
        .sum();
    bits.div_ceil(8)
}

/// Appends the encoding of `bytes`, padded with ones, to `out`.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    // The low `bits` bits of `pending` wait for a full word.
    let mut pending = 0u64;
    let mut bits = 0u32;
    for &byte in bytes {
        let (code, length) = BYTES[usize::from(byte)];
        let length = u32::from(length);
        pending = (pending << length) | u64::from(code);
        bits += length;
        if bits >= 32 {
            bits -= 32;
            out.extend_from_slice(&((pending >> bits) as u32).to_be_bytes());
        }
    }
    let padding = bits.wrapping_neg() % 8;
    let last = (pending << padding) | ((1 << padding) - 1);
    // Four at most.
    let count = ((bits + padding) / 8) as usize;
    let last = ((last << (32 - 8 * count)) as u32).to_be_bytes();
    out.extend_from_slice(&last[..count]);
}

/// Appends what `input` encodes to `out`: at most 8 bytes for each 5 of `input`.
pub fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<(), InvalidHuffman> {
    // The high `bits` bits of `window` have been read and not decoded.
    let mut window = 0u64;
    let mut bits = 0u32;
    let mut rest = input;
    loop {
        if bits < LONGEST as u32 {
            if let Some((word, after)) = rest.split_first_chunk::<4>() {
                window |= u64::from(u32::from_be_bytes(*word)) << (32 - bits);
                bits += 32;
                rest = after;
            } else {
                for &byte in rest {
                    window |= u64::from(byte) << (56 - bits);
                    bits += 8;
                }
                rest = &[];
            }
        }
        // Ones below the end make the last lookup see padding as the beginning of EOS.
        let ones = u64::MAX.checked_shr(bits).unwrap_or(0);
        let code = ((window | ones) >> 32) as u32;
        let (symbol, length) = lookup(code);
        if length > bits {
            return if bits < 8 && window | ones == u64::MAX {
                Ok(())
            } else {
                Err(InvalidHuffman)
            };
        }
        // Only EOS is no byte.
        let Ok(byte) = u8::try_from(symbol) else {
            return Err(InvalidHuffman);
        };
        out.push(byte);
        window <<= length;
        bits -= length;
    }
}

/// The symbol whose code stands at the top of `code`, and the length of that code.
#[inline]
fn lookup(code: u32) -> (u16, u32) {
    let entry = SHORT[(code >> (32 - SHORT_BITS)) as usize];
    if entry != 0 {
        return (entry & 0xff, u32::from(entry >> 8));
    }
    let mut length = SHORT_BITS as usize + 1;
    while u64::from(code) >= LONG[length].end {
        length += 1;
    }
    let position = LONG[length].position + (code >> (32 - length)) - LONG[length].first;
    (SORTED[position as usize], length as u32)
}

/// Length of the code of each byte, and of EOS at the end.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5,
    6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23,
    23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20,
    22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22,
    22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26,
    27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25,
    25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const EOS: usize = 256;
const LONGEST: usize = 30;
const SHORT_BITS: u32 = 10;

/// The symbols in the order of their codes.
const SORTED: [u16; 257] = {
    let mut sorted = [0; 257];
    let mut position = 0;
    let mut length = 1;
    while length <= LONGEST {
        let mut symbol = 0;
        while symbol <= EOS {
            if LENGTHS[symbol] as usize == length {
                sorted[position] = symbol as u16;
                position += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    sorted
};

const CODES: [u32; 257] = {
    let mut codes = [0; 257];
    let mut code = 0u32;
    let mut length = LENGTHS[SORTED[0] as usize];
    let mut position = 0;
    while position <= EOS {
        let symbol = SORTED[position] as usize;
        code <<= LENGTHS[symbol] - length;
        length = LENGTHS[symbol];
        codes[symbol] = code;
        code += 1;
        position += 1;
    }
    codes
};

/// Code and length of each byte.
static BYTES: [(u32, u8); 256] = {
    let mut bytes = [(0, 0); 256];
    let mut byte = 0;
    while byte < 256 {
        bytes[byte] = (CODES[byte], LENGTHS[byte]);
        byte += 1;
    }
    bytes
};

/// Length and symbol by the first [`SHORT_BITS`] bits; 0 where the code is longer.
static SHORT: [u16; 1 << SHORT_BITS] = {
    let mut short = [0; 1 << SHORT_BITS];
    let mut symbol = 0;
    while symbol < EOS {
        let length = LENGTHS[symbol] as u32;
        if length <= SHORT_BITS {
            let first = (CODES[symbol] << (SHORT_BITS - length)) as usize;
            let mut index = first;
            while index < first + (1 << (SHORT_BITS - length)) {
                short[index] = ((length as u16) << 8) | symbol as u16;
                index += 1;
            }
        }
        symbol += 1;
    }
    short
};

/// The codes of one length.
#[derive(Clone, Copy)]
struct Codes {
    first: u32,
    /// Where the symbol of the first code stands in [`SORTED`].
    position: u32,
    /// One more than the last code, both with the 32 bits that would follow; no shorter code and no
    /// code of this length is at or above it.
    end: u64,
}

static LONG: [Codes; LONGEST + 1] = {
    let mut long = [Codes {
        first: 0,
        position: 0,
        end: 0,
    }; LONGEST + 1];
    let mut position = 0;
    while position <= EOS {
        let symbol = SORTED[position] as usize;
        let length = LENGTHS[symbol] as usize;
        if position == 0 || LENGTHS[SORTED[position - 1] as usize] as usize != length {
            long[length].first = CODES[symbol];
            long[length].position = position as u32;
        }
        long[length].end = (CODES[symbol] as u64 + 1) << (32 - length);
        position += 1;
    }
    long
};

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(bytes, &mut out);
        assert_eq!(out.len(), encoded_len(bytes));
        out
    }

    fn decoded(bytes: &[u8]) -> Result<Vec<u8>, InvalidHuffman> {
        let mut out = Vec::new();
        decode(bytes, &mut out).map(|()| out)
    }

    #[test]
    fn the_examples_of_rfc_7541_appendix_c() {
        let examples: [(&[u8], &[u8]); 3] = [
            (
                b"www.example.com",
                b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff",
            ),
            (b"no-cache", b"\xa8\xeb\x10\x64\x9c\xbf"),
            (b"307", b"\x64\x0e\xff"),
        ];
        for (plain, code) in examples {
            assert_eq!(encoded(plain), code);
            assert_eq!(decoded(code).as_deref(), Ok(plain));
        }
    }

    #[test]
    fn every_pair_of_bytes_comes_back() {
        for pair in 0..=u16::MAX {
            let plain = pair.to_be_bytes();
            assert_eq!(decoded(&encoded(&plain)).as_deref(), Ok(&plain[..]));
        }
        let all: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
        assert_eq!(decoded(&encoded(&all)), Ok(all));
    }

    #[test]
    fn padding_is_at_most_seven_ones() {
        assert_eq!(decoded(b""), Ok(vec![]));
        // '0' is 00000: three bits of padding.
        assert_eq!(decoded(&[0b0000_0111]), Ok(vec![b'0']));
        assert_eq!(decoded(&[0b0000_0110]), Err(InvalidHuffman));
        assert_eq!(decoded(&[0b0000_0111, 0xff]), Err(InvalidHuffman));
        assert_eq!(decoded(&[0xff]), Err(InvalidHuffman));
    }

    #[test]
    fn eos_is_refused() {
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), Err(InvalidHuffman));
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xfc]), Err(InvalidHuffman));
        assert_eq!(
            decoded(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            Err(InvalidHuffman)
        );
    }
}
