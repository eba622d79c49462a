//! What h3 would let pass: a limit on what it holds in memory, and instructions for QPACK.
//!
//! h3 keeps a frame other than DATA until it is complete, however long the peer says it is. This
//! walks over the same bytes, sees each frame's length before h3 does, and refuses. It sees the field
//! sections of requests as they came, too, of which h3 makes one request or another. Nor does h3
//! read what an encoder says, which must not insert into our dynamic table: it has no capacity.

use super::section::{Heads, Sections};
use crate::connection::MAX_HEAD;

/// RFC 9114 section 6.2.1.
const CONTROL_STREAM: u64 = 0x00;
/// RFC 9204 section 4.2.
const ENCODER_STREAM: u64 = 0x02;
/// RFC 9204 section 4.3.1: Set Dynamic Table Capacity, to 0. All others need a capacity (sections
/// 3.2.2 and 4.3).
const NO_CAPACITY: u8 = 0x20;
/// RFC 9114 section 7.2.1.
const DATA_FRAME: u64 = 0x00;
/// RFC 9114 section 7.2.2.
const HEADERS_FRAME: u64 = 0x01;

/// Follows the frames of one stream through pieces of any size.
pub(super) struct Guard {
    at: At,
    /// Bytes of a variable-length integer (RFC 9000 section 16) so far, and how many it has.
    number: u64,
    have: u8,
    need: u8,
    /// Of a request stream.
    sections: Option<Sections>,
    /// The part of a field section that has come. Nearly every one comes whole, and is not kept.
    section: Vec<u8>,
}

enum At {
    StreamType,
    FrameType,
    FrameLength {
        kind: u64,
    },
    Payload {
        left: u64,
    },
    /// A field section, of which so much is to come.
    Section {
        left: u64,
    },
    /// A QPACK encoder's instructions.
    Instructions,
    /// Neither: a stream that h3 does not read on.
    Other,
}

/// What must not be.
#[derive(Debug, PartialEq)]
pub(super) enum Refused {
    /// A frame longer than [`MAX_HEAD`].
    Frame,
    /// A field section that makes the request malformed (RFC 9114 section 4.1.2).
    Section,
    /// A QPACK encoder that uses a table it does not have.
    Instruction,
}

impl Guard {
    /// `heads` is one for all streams of the connection.
    pub(super) fn of_request(heads: Heads) -> Self {
        Self {
            sections: Some(Sections::new(heads)),
            ..Self::starting(At::FrameType)
        }
    }

    pub(super) fn of_unidirectional() -> Self {
        Self::starting(At::StreamType)
    }

    fn starting(at: At) -> Self {
        Self {
            at,
            number: 0,
            have: 0,
            need: 0,
            sections: None,
            section: Vec::new(),
        }
    }

    /// It is known to be the stream of a QPACK encoder.
    pub(super) fn is_of_encoder(&self) -> bool {
        matches!(self.at, At::Instructions)
    }

    /// Looks at the next bytes of the stream.
    pub(super) fn check(&mut self, mut bytes: &[u8]) -> Result<(), Refused> {
        while !bytes.is_empty() {
            match self.at {
                At::Other => return Ok(()),
                At::Instructions => {
                    return match bytes.iter().all(|&byte| byte == NO_CAPACITY) {
                        true => Ok(()),
                        false => Err(Refused::Instruction),
                    };
                }
                At::Payload { left } => {
                    let here = left.min(bytes.len() as u64);
                    // Not above the slice's length.
                    bytes = &bytes[here as usize..];
                    self.at = match left - here {
                        0 => At::FrameType,
                        left => At::Payload { left },
                    };
                }
                At::Section { left } => bytes = self.section(bytes, left)?,
                At::StreamType | At::FrameType | At::FrameLength { .. } => {
                    let Some(number) = self.number(&mut bytes) else {
                        return Ok(());
                    };
                    self.at = match self.at {
                        At::StreamType if number == CONTROL_STREAM => At::FrameType,
                        At::StreamType if number == ENCODER_STREAM => At::Instructions,
                        At::StreamType => At::Other,
                        At::FrameType => At::FrameLength { kind: number },
                        At::FrameLength { kind } => {
                            if kind != DATA_FRAME && number > u64::from(MAX_HEAD) {
                                return Err(Refused::Frame);
                            }
                            match number {
                                0 => At::FrameType,
                                left if kind == HEADERS_FRAME => At::Section { left },
                                left => At::Payload { left },
                            }
                        }
                        At::Payload { .. } | At::Section { .. } => At::Other,
                        At::Instructions | At::Other => At::Other,
                    };
                }
            }
        }
        Ok(())
    }

    /// Takes a field section, or a part of one that is no longer than [`MAX_HEAD`]. Returns what is behind it.
    fn section<'a>(&mut self, bytes: &'a [u8], left: u64) -> Result<&'a [u8], Refused> {
        let here = left.min(bytes.len() as u64);
        // Not above the slice's length.
        let (part, rest) = bytes.split_at(here as usize);
        if here < left {
            self.section.extend_from_slice(part);
            self.at = At::Section { left: left - here };
            return Ok(rest);
        }
        self.at = At::FrameType;
        let Some(sections) = &mut self.sections else {
            return Ok(rest);
        };
        let is_sound = match self.section.is_empty() {
            true => sections.is_sound(part),
            false => {
                self.section.extend_from_slice(part);
                sections.is_sound(&std::mem::take(&mut self.section))
            }
        };
        match is_sound {
            true => Ok(rest),
            false => Err(Refused::Section),
        }
    }

    /// Takes bytes until an integer is complete.
    fn number(&mut self, bytes: &mut &[u8]) -> Option<u64> {
        while let Some((&byte, rest)) = bytes.split_first() {
            *bytes = rest;
            match self.have {
                0 => {
                    self.need = 1 << (byte >> 6);
                    self.number = u64::from(byte & 0x3f);
                }
                _ => self.number = self.number << 8 | u64::from(byte),
            }
            self.have += 1;
            if self.have == self.need {
                self.have = 0;
                return Some(self.number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HEADERS of 3 bytes that cannot be decoded, DATA of 2^30, an unknown frame of 0 bytes.
    fn good() -> Vec<u8> {
        let mut bytes = vec![0x01, 0x03, 0, 0, 0];
        bytes.extend([0x40, 0x21, 0x00, 0x00, 0xc0, 0, 0, 0, 0x40, 0, 0, 0]);
        bytes
    }

    #[test]
    fn frames_pass_whole_and_byte_by_byte() {
        assert!(Guard::of_request(Heads::default()).check(&good()).is_ok());
        let mut guard = Guard::of_request(Heads::default());
        for byte in good() {
            assert!(guard.check(&[byte]).is_ok());
        }
        assert!(matches!(guard.at, At::Payload { left } if left == 1 << 30));
    }

    #[test]
    fn long_frames_other_than_data_are_refused_at_their_length() {
        for kind in [0x01, 0x04, 0x21] {
            let mut bytes = good()[..5].to_vec();
            bytes.extend([kind, 0x80, 0x01, 0x00, 0x01]);
            assert!(
                Guard::of_request(Heads::default()).check(&bytes).is_err(),
                "{kind}"
            );
            let mut guard = Guard::of_request(Heads::default());
            let refused = bytes.iter().position(|&byte| guard.check(&[byte]).is_err());
            assert_eq!(refused, Some(bytes.len() - 1), "{kind}");
        }
    }

    #[test]
    fn only_the_control_stream_is_made_of_frames() {
        let long = [0x04, 0xbf, 0xff, 0xff, 0xff];
        let with = |kind: u8| [&[kind][..], &long].concat();
        assert!(Guard::of_unidirectional().check(&with(0x00)).is_err());
        assert!(Guard::of_unidirectional().check(&with(0x03)).is_ok());
    }

    #[test]
    fn an_encoder_may_only_say_that_it_has_no_table() {
        let mut guard = Guard::of_unidirectional();
        assert!(!guard.is_of_encoder());
        assert_eq!(guard.check(&[0x02]), Ok(()));
        assert!(guard.is_of_encoder());
        assert_eq!(guard.check(&[0x20, 0x20]), Ok(()));
        // A capacity of 1, of more than 30; insertions by static, own and no name; a duplicate.
        for instruction in [0x21, 0x3f, 0xc0, 0x80, 0x40, 0x00] {
            let mut guard = Guard::of_unidirectional();
            let refused = guard.check(&[0x02, 0x20, instruction]);
            assert_eq!(refused, Err(Refused::Instruction), "{instruction:#x}");
        }
    }
}
