//! Integers with a prefix (RFC 7541 §5.1).

/// Appends `value` behind `pattern`, whose low `prefix` bits are zero.
pub(super) fn encode(value: usize, prefix: u32, pattern: u8, out: &mut Vec<u8>) {
    let full = (1usize << prefix) - 1;
    if value < full {
        out.push(pattern | value as u8);
        return;
    }
    out.push(pattern | full as u8);
    let mut rest = value - full;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Takes an integer from the front of `input`. `None` where it is cut off, takes more than five
/// bytes behind the prefix, or exceeds 32 bits: no length or index of ours is as large.
#[inline]
pub(super) fn decode(input: &mut &[u8], prefix: u32) -> Option<usize> {
    let (&first, mut rest) = input.split_first()?;
    let full = (1u8 << prefix).wrapping_sub(1);
    let mut value = u64::from(first & full);
    if first & full == full {
        let mut shift = 0;
        loop {
            let (&byte, after) = rest.split_first()?;
            rest = after;
            value += u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
            if shift > 28 {
                return None;
            }
        }
    }
    *input = rest;
    u32::try_from(value).ok().map(|value| value as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_rfc_7541_appendix_c_1() {
        for (value, prefix, code) in [(10, 5, &[0x0a][..]), (1337, 5, &[0x1f, 0x9a, 0x0a])] {
            let mut out = Vec::new();
            encode(value, prefix, 0, &mut out);
            assert_eq!(out, code);
            assert_eq!(decode(&mut &out[..], prefix), Some(value));
        }
    }

    #[test]
    fn every_prefix_brings_back_its_edges() {
        for prefix in 4..=7 {
            for value in [0, 14, 15, 16, 126, 127, 128, 254, 255, 256, 0xffff_ffff] {
                let mut out = Vec::new();
                encode(value, prefix, 0, &mut out);
                out.push(0x55);
                let mut input = &out[..];
                assert_eq!(decode(&mut input, prefix), Some(value));
                assert_eq!(input, [0x55]);
            }
        }
    }

    #[test]
    fn cut_off_endless_and_overflowing_integers_are_refused() {
        for bad in [
            &[][..],
            &[0x1f],
            &[0x1f, 0x80],
            &[0x1f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00],
            &[0x1f, 0xff, 0xff, 0xff, 0xff, 0x0f],
        ] {
            assert_eq!(decode(&mut &bad[..], 5), None, "{bad:x?}");
        }
    }
}
