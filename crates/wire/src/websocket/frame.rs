//! Frames of a client (RFC 6455 §5.2).

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// The next fragment of a message.
    Continuation,
    /// A message of text, or its first fragment.
    Text,
    /// A message of any bytes, or its first fragment.
    Binary,
    /// The end.
    Close,
    /// Asks whether the peer is there.
    Ping,
    /// Answers a ping.
    Pong,
}

impl Opcode {
    pub(super) fn of(bits: u8) -> Option<Self> {
        Some(match bits {
            0x0 => Self::Continuation,
            0x1 => Self::Text,
            0x2 => Self::Binary,
            0x8 => Self::Close,
            0x9 => Self::Ping,
            0xa => Self::Pong,
            _ => return None,
        })
    }

    fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0x0,
            Self::Text => 0x1,
            Self::Binary => 0x2,
            Self::Close => 0x8,
            Self::Ping => 0x9,
            Self::Pong => 0xa,
        }
    }

    /// Whether it may stand between the fragments of a message (RFC 6455 §5.5).
    pub(super) fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// Appends an unfragmented frame to `out`, its payload masked by `mask`, which nobody may be able to
/// foresee (RFC 6455 §5.3). A control frame has room for 125 bytes.
pub fn write(opcode: Opcode, payload: &[u8], mask: [u8; 4], out: &mut Vec<u8>) {
    debug_assert!(!opcode.is_control() || payload.len() <= 125);
    const MASKED: u8 = 0x80;
    out.push(0x80 | opcode.bits());
    match payload.len() {
        short @ ..126 => out.push(MASKED | short as u8),
        medium @ ..0x1_0000 => {
            out.push(MASKED | 126);
            out.extend_from_slice(&(medium as u16).to_be_bytes());
        }
        long => {
            out.push(MASKED | 127);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&mask);
    let start = out.len();
    out.extend_from_slice(payload);
    apply(mask, &mut out[start..]);
}

/// Appends a Close frame with a code (RFC 6455 §5.5.1).
pub fn write_close(code: u16, mask: [u8; 4], out: &mut Vec<u8>) {
    write(Opcode::Close, &code.to_be_bytes(), mask, out);
}

/// Masks a payload (RFC 6455 §5.3), eight bytes at a time.
fn apply(mask: [u8; 4], payload: &mut [u8]) {
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (chunks, rest) = payload.as_chunks_mut::<8>();
    for chunk in chunks {
        *chunk = (u64::from_ne_bytes(*chunk) ^ wide).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc() {
        // RFC 6455 §5.7: "Hello", masked.
        let mut out = Vec::new();
        write(Opcode::Text, b"Hello", [0x37, 0xfa, 0x21, 0x3d], &mut out);
        assert_eq!(
            out,
            [
                0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58
            ]
        );
    }

    #[test]
    fn masking_twice_changes_nothing() {
        for length in 0..40 {
            let payload: Vec<u8> = (0..length).collect();
            let mut masked = payload.clone();
            apply([1, 2, 3, 4], &mut masked);
            let one_by_one: Vec<_> = payload
                .iter()
                .zip([1, 2, 3, 4].iter().cycle())
                .map(|(byte, key)| byte ^ key)
                .collect();
            assert_eq!(masked, one_by_one);
            apply([1, 2, 3, 4], &mut masked);
            assert_eq!(masked, payload);
        }
    }
}
