//! Prefixed integers (RFC 9204 §4.1.1, RFC 7541 §5.1).

/// RFC 9204 §4.1.1: 62 bits must be supported, and no more has a meaning in QUIC.
const MAX: u64 = (1 << 62) - 1;

/// Appends `value` with a prefix of `prefix` bits below `flags`.
pub(super) fn encode(mut value: u64, prefix: u8, flags: u8, out: &mut Vec<u8>) {
    let full = (1u64 << prefix) - 1;
    if value < full {
        out.push(flags | value as u8);
        return;
    }
    out.push(flags | full as u8);
    value -= full;
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes an integer with a prefix of `prefix` bits off the front; `None` where it is cut short or
/// exceeds 62 bits.
pub(super) fn decode(bytes: &mut &[u8], prefix: u8) -> Option<u64> {
    let (&first, mut rest) = bytes.split_first()?;
    let full = (1u8 << prefix) - 1;
    let mut value = u64::from(first & full);
    if first & full == full {
        let mut more = Continuation::default();
        loop {
            let (&byte, tail) = rest.split_first()?;
            rest = tail;
            if !more.push(byte)? {
                break;
            }
        }
        value = value
            .checked_add(more.value)
            .filter(|&value| value <= MAX)?;
    }
    *bytes = rest;
    Some(value)
}

/// The bytes after a full prefix, one at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Continuation {
    value: u64,
    shift: u32,
}

impl Continuation {
    /// Takes a byte and says whether another follows; `None` above 62 bits. Zero bytes that only
    /// pad are limited by the same count of bytes.
    pub(super) fn push(&mut self, byte: u8) -> Option<bool> {
        let bits = u64::from(byte & 0x7f);
        if self.shift >= 63 || bits << self.shift >> self.shift != bits {
            return None;
        }
        self.value |= bits << self.shift;
        self.shift += 7;
        (self.value <= MAX).then_some(byte & 0x80 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_survive_at_every_edge() {
        for prefix in 1..=7 {
            let full = (1u64 << prefix) - 1;
            for value in [
                0,
                1,
                full - 1,
                full,
                full + 1,
                full + 127,
                full + 128,
                1 << 40,
                MAX,
            ] {
                let mut out = Vec::new();
                encode(value, prefix, 0, &mut out);
                out.push(0x55);
                let mut rest = &out[..];
                assert_eq!(decode(&mut rest, prefix), Some(value));
                assert_eq!(rest, [0x55]);
                for cut in 0..out.len() - 1 {
                    assert_eq!(
                        decode(&mut &out[..cut], prefix),
                        None,
                        "{value} cut at {cut}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_examples_of_rfc_7541_c_1_hold() {
        assert_eq!(decode(&mut &[0b01010][..], 5), Some(10));
        assert_eq!(decode(&mut &[0x1f, 0x9a, 0x0a][..], 5), Some(1337));
    }

    #[test]
    fn what_exceeds_62_bits_is_refused() {
        let mut long = vec![0x1f];
        long.extend([0xff; 8]);
        long.push(0x7f);
        assert_eq!(decode(&mut &long[..], 5), None);
        let mut padded = vec![0x1f];
        padded.extend([0x80; 40]);
        padded.push(0);
        assert_eq!(decode(&mut &padded[..], 5), None);
    }
}
