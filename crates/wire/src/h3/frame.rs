//! Variable-length integers (RFC 9000 §16) and frame headers (RFC 9114 §7.1).

pub(super) const DATA: u64 = 0x00;
pub(super) const HEADERS: u64 = 0x01;
pub(super) const CANCEL_PUSH: u64 = 0x03;
pub(super) const SETTINGS: u64 = 0x04;
pub(super) const PUSH_PROMISE: u64 = 0x05;
pub(super) const GOAWAY: u64 = 0x07;
pub(super) const MAX_PUSH_ID: u64 = 0x0d;

/// The `n`th identifier that is reserved so that unknown ones stay usable (RFC 9114 §7.2.4.1, §7.2.8).
pub(super) const fn reserved(n: u64) -> u64 {
    0x1f * n + 0x21
}

/// Whether a frame type belonged to HTTP/2 and must not appear (RFC 9114 §7.2.8).
pub(super) fn is_http2_only(kind: u64) -> bool {
    matches!(kind, 0x02 | 0x06 | 0x08 | 0x09)
}

/// Appends `value`, which is below 2^62: ids and lengths of ours.
pub(super) fn put_varint(value: u64, out: &mut Vec<u8>) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// The integer at the front of `bytes` and its length, `None` where it is cut short.
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let &first = bytes.first()?;
    if first < 0x40 {
        return Some((u64::from(first), 1));
    }
    let length = 1usize << (first >> 6);
    let tail = bytes.get(1..length)?;
    let start = u64::from(first & 0x3f);
    Some((
        tail.iter()
            .fold(start, |value, &byte| value << 8 | u64::from(byte)),
        length,
    ))
}

/// An integer whose bytes arrive in pieces.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VarintReader {
    bytes: [u8; 8],
    len: u8,
}

impl VarintReader {
    /// Takes bytes off the front until the integer is complete.
    pub(super) fn read(&mut self, bytes: &mut &[u8]) -> Option<u64> {
        while let Some((&byte, rest)) = bytes.split_first() {
            *bytes = rest;
            self.bytes[usize::from(self.len)] = byte;
            self.len += 1;
            if let Some((value, _)) = varint(&self.bytes[..usize::from(self.len)]) {
                self.len = 0;
                return Some(value);
            }
        }
        None
    }
}

/// Type and length of a frame, whose bytes arrive in pieces.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeaderReader {
    /// Two integers of 8 bytes at most; complete before it could overflow.
    bytes: [u8; 16],
    len: u8,
}

impl HeaderReader {
    /// Takes bytes off the front until type and length are complete.
    pub(super) fn read(&mut self, bytes: &mut &[u8]) -> Option<(u64, u64)> {
        if self.len == 0
            && let Some((kind, length, used)) = header(bytes)
        {
            *bytes = &bytes[used..];
            return Some((kind, length));
        }
        while let Some((&byte, rest)) = bytes.split_first() {
            *bytes = rest;
            self.bytes[usize::from(self.len)] = byte;
            self.len += 1;
            if let Some((kind, length, _)) = header(&self.bytes[..usize::from(self.len)]) {
                self.len = 0;
                return Some((kind, length));
            }
        }
        None
    }

    /// Whether no frame header is cut.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

fn header(bytes: &[u8]) -> Option<(u64, u64, usize)> {
    let (kind, first) = varint(bytes)?;
    let (length, second) = varint(&bytes[first..])?;
    Some((kind, length, first + second))
}

/// Cuts up to `left` bytes off the front of `bytes`.
pub(super) fn take<'a>(bytes: &mut &'a [u8], left: u64) -> &'a [u8] {
    let length = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
    let (piece, rest) = bytes.split_at(length);
    *bytes = rest;
    piece
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_written_as_short_as_they_go_and_read_back() {
        for (value, length) in [
            (0, 1),
            (63, 1),
            (64, 2),
            (16383, 2),
            (16384, 4),
            (0x3fff_ffff, 4),
            (0x4000_0000, 8),
            ((1 << 62) - 1, 8),
        ] {
            let mut out = Vec::new();
            put_varint(value, &mut out);
            assert_eq!(out.len(), length);
            assert_eq!(varint(&out), Some((value, length)));
            assert_eq!(varint(&out[..length - 1]), None);
        }
    }

    #[test]
    fn the_examples_of_rfc_9000_a_1_are_read() {
        let long = [0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c];
        assert_eq!(varint(&long), Some((151_288_809_941_952_652, 8)));
        assert_eq!(varint(&[0x9d, 0x7f, 0x3e, 0x7d]), Some((494_878_333, 4)));
        assert_eq!(varint(&[0x7b, 0xbd]), Some((15_293, 2)));
        assert_eq!(varint(&[0x40, 0x25]), Some((37, 2)));
    }

    #[test]
    fn a_header_split_anywhere_is_the_same_header() {
        let mut whole = Vec::new();
        put_varint(reserved(1 << 40), &mut whole);
        put_varint(70_000, &mut whole);
        whole.push(0xaa);
        for cut in 0..whole.len() {
            let mut reader = HeaderReader::default();
            let (mut first, mut second) = whole.split_at(cut);
            let header = reader.read(&mut first).or_else(|| reader.read(&mut second));
            assert_eq!(header, Some((reserved(1 << 40), 70_000)), "cut at {cut}");
            assert!(reader.is_empty());
        }
    }
}
