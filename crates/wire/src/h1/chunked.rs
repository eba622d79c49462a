//! The chunked transfer coding (RFC 9112 §7.1), read as it arrives.

use super::Fault;

/// A body in chunks, up to its last chunk. The trailers behind it are a section of lines.
#[derive(Debug, Default)]
pub(super) struct Chunked {
    state: State,
    /// The size of the chunk: as far as it has been read, then what is left of its data.
    left: u64,
    /// Bytes of the size line so far.
    line: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before the first digit of a size.
    #[default]
    Size,
    Digits,
    /// Blanks behind the size, which some servers pad.
    Blank,
    Extension,
    LineFeed,
    Data,
    DataReturn,
    DataLineFeed,
}

/// What the bytes were that [`Chunked::step`] took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Sizes and line ends.
    Framing,
    /// Content.
    Data,
    /// The end of the last chunk: trailers follow.
    Last,
}

impl Chunked {
    /// Takes bytes of one sort from the front of `input`, which is not empty, and says how many. A
    /// size line has at most `limit` bytes.
    pub(super) fn step(&mut self, input: &[u8], limit: usize) -> Result<(usize, Piece), Fault> {
        if self.state == State::Data {
            let taken = usize::try_from(self.left)
                .unwrap_or(usize::MAX)
                .min(input.len());
            self.left -= taken as u64;
            if self.left == 0 {
                self.state = State::DataReturn;
            }
            return Ok((taken, Piece::Data));
        }
        for (at, &byte) in input.iter().enumerate() {
            self.framing(byte)?;
            self.line += 1;
            if self.line > limit {
                return Err(Fault::limit("a chunk-size line is longer than the limit"));
            }
            if self.state == State::Data {
                self.line = 0;
                let piece = if self.left == 0 {
                    Piece::Last
                } else {
                    Piece::Framing
                };
                return Ok((at + 1, piece));
            }
        }
        Ok((input.len(), Piece::Framing))
    }

    fn framing(&mut self, byte: u8) -> Result<(), Fault> {
        self.state = match (self.state, byte) {
            (State::Size | State::Digits, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                // Hexadecimal: the arm's pattern leaves no other digit.
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                let Some(size) = self.left.checked_mul(16) else {
                    return Err(Fault::protocol("a chunk size exceeds 64 bits"));
                };
                self.left = size | u64::from(digit);
                State::Digits
            }
            (State::Digits | State::Blank, b' ' | b'\t') => State::Blank,
            (State::Digits | State::Blank, b';') => State::Extension,
            (State::Digits | State::Blank | State::Extension, b'\r') => State::LineFeed,
            (State::Extension, b'\t' | b' '..=b'~' | 0x80..) => State::Extension,
            (State::LineFeed, b'\n') => State::Data,
            (State::DataReturn, b'\r') => State::DataLineFeed,
            (State::DataLineFeed, b'\n') => {
                self.line = 0;
                State::Size
            }
            (State::DataReturn | State::DataLineFeed, _) => {
                return Err(Fault::protocol("a chunk is longer than its size"));
            }
            _ => return Err(Fault::protocol("a chunk-size line is malformed")),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The content of `input`, fed `step` bytes at a time, and how many bytes came behind the last
    /// chunk.
    fn decode(input: &[u8], step: usize) -> Result<(Vec<u8>, usize), Fault> {
        let (mut chunked, mut content, mut at) = (Chunked::default(), Vec::new(), 0);
        while at < input.len() {
            let (taken, piece) = chunked.step(&input[at..input.len().min(at + step)], 32)?;
            match piece {
                Piece::Framing => {}
                Piece::Data => content.extend_from_slice(&input[at..at + taken]),
                Piece::Last => return Ok((content, input.len() - at - taken)),
            }
            at += taken;
        }
        panic!("no last chunk")
    }

    #[test]
    fn chunks_are_joined_whatever_their_split() {
        let input = b"5\r\nhello\r\n0006 \t;a=\"b\"\r\n world\r\nA\r\n0123456789\r\n00\r\n\r\n";
        for step in 1..=input.len() {
            assert_eq!(
                decode(input, step),
                Ok((b"hello world0123456789".to_vec(), 2))
            );
        }
    }

    #[test]
    fn malformed_chunks_are_refused() {
        for (input, reason) in [
            (&b"\r\n"[..], "a chunk-size line is malformed"),
            (b"5\nhello", "a chunk-size line is malformed"),
            (b"5\rx", "a chunk-size line is malformed"),
            (b"-1\r\n", "a chunk-size line is malformed"),
            (b" 5\r\n", "a chunk-size line is malformed"),
            (b"5 5\r\n", "a chunk-size line is malformed"),
            (b"5;a\nb\r\n", "a chunk-size line is malformed"),
            (b"5;\0\r\n", "a chunk-size line is malformed"),
            (b"2\r\nabc\r\n", "a chunk is longer than its size"),
            (b"2\r\nab\n", "a chunk is longer than its size"),
            (b"2\r\nab\r0", "a chunk is longer than its size"),
            (b"10000000000000000\r\n", "a chunk size exceeds 64 bits"),
        ] {
            let fault = decode(input, input.len()).unwrap_err();
            assert_eq!(fault, Fault::protocol(reason), "{}", input.escape_ascii());
            assert_eq!(decode(input, 1).unwrap_err(), fault);
        }
    }

    #[test]
    fn the_largest_size_fits() {
        let mut chunked = Chunked::default();
        chunked.step(b"FFFFFFFFFFFFFFFF\r\n", 32).unwrap();
        assert_eq!(chunked.left, u64::MAX);
    }

    #[test]
    fn a_size_line_is_limited() {
        for line in [[&b"5;"[..], &[b'a'; 40]].concat(), vec![b'0'; 40]] {
            let fault = decode(&line, line.len()).unwrap_err();
            assert_eq!(
                fault,
                Fault::limit("a chunk-size line is longer than the limit")
            );
            assert_eq!(decode(&line, 1).unwrap_err(), fault);
        }
    }
}
