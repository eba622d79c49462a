//! The bytes of `/bytes` and `/drip`: known to both sides without being sent twice.

use std::sync::OnceLock;

use bytes::Bytes;

/// The pattern repeats after this many bytes: 1 MiB.
pub(super) const PERIOD: usize = 1 << 20;

/// Byte `i` of every such body. It does not compress, and a byte out of place shows.
const fn byte(i: usize) -> u8 {
    let i = (i % PERIOD) as u32;
    let mixed = i.wrapping_mul(0x9E37_79B1);
    let mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x85EB_CA6B);
    (mixed >> 24) as u8
}

/// One period, shared by all responses of the process.
pub(super) fn shared() -> &'static Bytes {
    static PATTERN: OnceLock<Bytes> = OnceLock::new();
    PATTERN.get_or_init(|| (0..PERIOD).map(byte).collect::<Vec<u8>>().into())
}

/// A piece of the endless pattern starting at `offset`: at most `length`, at least one byte if
/// `length` is not 0.
pub(super) fn piece(offset: u64, length: u64) -> Bytes {
    // Smaller than `PERIOD`, which fits every usize.
    let start = (offset % PERIOD as u64) as usize;
    let length = length.min((PERIOD - start) as u64) as usize;
    shared().slice(start..start + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_continue_each_other_over_the_period() {
        let mut offset = PERIOD as u64 - 3;
        let mut joined = Vec::new();
        while joined.len() < 10 {
            let piece = piece(offset, 10 - joined.len() as u64);
            offset += piece.len() as u64;
            joined.extend_from_slice(&piece);
        }
        let expected: Vec<u8> = (PERIOD - 3..PERIOD + 7).map(byte).collect();
        assert_eq!(joined, expected);
    }

    #[test]
    fn the_pattern_does_not_compress() {
        let packed = super::super::gzip::compress(&shared()[..64 << 10]);
        assert!(packed.len() > 60 << 10, "{} bytes", packed.len());
    }
}
