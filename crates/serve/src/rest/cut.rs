//! How content is cut into messages: lines, JSON one after the other, or binary with lengths before it.

use bytes::{Buf, BytesMut};
use tonic::Status;
use trilane_transcode::Format;

use super::{answer::Refusal, upload::too_large};

/// How content is cut into messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cut {
    /// One message of JSON in each line that is not blank.
    Lines,
    /// JSON after JSON, with white space between or without.
    Values,
    /// Binary Protocol Buffers, each behind its length as a varint, as `protodelim` and its like write it.
    Delimited,
}

impl Cut {
    pub(super) fn of(content_type: &str) -> Option<Self> {
        let kind = content_type.split(';').next()?.trim();
        if kind.eq_ignore_ascii_case("application/x-ndjson") {
            return Some(Self::Lines);
        }
        Format::of_media_type(kind).map(|format| match format {
            Format::Json => Self::Values,
            Format::Protobuf => Self::Delimited,
        })
    }
}

/// Cuts content while it comes.
pub(super) struct Cutter {
    cut: Cut,
    /// Most bytes of a message.
    most: usize,
    /// How much of what is there has been looked at, and has no end of a message.
    searched: usize,
    value: Value,
}

/// Where in a value of JSON the cutter is.
#[derive(Default)]
struct Value {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// A number or a word: its end is what cannot be a part of it.
    is_bare: bool,
}

impl Cutter {
    pub(super) fn new(cut: Cut, most: usize) -> Self {
        Self {
            cut,
            most,
            searched: 0,
            value: Value::default(),
        }
    }

    pub(super) fn format(&self) -> Format {
        match self.cut {
            Cut::Lines | Cut::Values => Format::Json,
            Cut::Delimited => Format::Protobuf,
        }
    }

    /// What is counted.
    pub(super) fn unit(&self) -> &'static str {
        match self.cut {
            Cut::Lines => "line",
            Cut::Values | Cut::Delimited => "message",
        }
    }

    /// Whether this is no message.
    pub(super) fn is_blank(&self, content: &[u8]) -> bool {
        self.cut != Cut::Delimited && content.trim_ascii().is_empty()
    }

    /// The next message; `None` where more has to come, or all have been taken.
    pub(super) fn next(
        &mut self,
        buffer: &mut BytesMut,
        has_ended: bool,
    ) -> Result<Option<BytesMut>, Refusal> {
        let end = match self.cut {
            Cut::Delimited => return self.delimited(buffer, has_ended),
            Cut::Lines => {
                let rest = buffer[self.searched..].iter();
                let end = rest.clone().position(|byte| *byte == b'\n');
                end.map(|end| self.searched + end + 1)
            }
            Cut::Values => {
                if self.searched == 0 {
                    let blank = buffer.len() - buffer.trim_ascii_start().len();
                    buffer.advance(blank);
                }
                (self.searched..buffer.len()).find_map(|at| self.value.end(buffer[at], at))
            }
        };
        match end {
            Some(end) => {
                self.searched = 0;
                self.value = Value::default();
                self.within_limit(end)?;
                Ok(Some(buffer.split_to(end)))
            }
            None => {
                self.within_limit(buffer.len())?;
                self.searched = buffer.len();
                // The last may do without its end; where it is none, whoever reads it says so.
                let is_last = has_ended && !buffer.is_empty();
                Ok(is_last.then(|| {
                    self.searched = 0;
                    buffer.split()
                }))
            }
        }
    }

    fn within_limit(&self, length: usize) -> Result<(), Refusal> {
        match length > self.most {
            true => Err(too_large("it", self.most)),
            false => Ok(()),
        }
    }

    fn delimited(
        &self,
        buffer: &mut BytesMut,
        has_ended: bool,
    ) -> Result<Option<BytesMut>, Refusal> {
        let wrong = |text: &str| Err(Refusal::of(Status::invalid_argument(text)));
        let cut_short = || match has_ended && !buffer.is_empty() {
            true => wrong("the content ends within it"),
            false => Ok(None),
        };
        let mut rest = &buffer[..];
        let mut length = 0_u64;
        for at in 0.. {
            let Some((&byte, behind)) = rest.split_first() else {
                return cut_short();
            };
            // Ten bytes, of which the last has one bit.
            if at > 9 || at == 9 && byte > 1 {
                return wrong("its length is no varint");
            }
            rest = behind;
            length |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                break;
            }
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.within_limit(length)?;
        if rest.len() < length {
            return cut_short();
        }
        let prefix = buffer.len() - rest.len();
        buffer.advance(prefix);
        Ok(Some(buffer.split_to(length)))
    }
}

impl Value {
    /// Looks at the byte in this place; the end of the value, if this shows it.
    fn end(&mut self, byte: u8, at: usize) -> Option<usize> {
        if self.in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => {
                    self.in_string = false;
                    return (self.depth == 0).then_some(at + 1);
                }
                _ => {}
            }
            return None;
        }
        let begins = matches!(byte, b'{' | b'[' | b'"') || byte.is_ascii_whitespace();
        if self.is_bare && begins {
            return Some(at);
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                return (self.depth == 0).then_some(at + 1);
            }
            _ => self.is_bare = self.depth == 0,
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 40;

    /// The messages of content that comes in pieces of so many bytes, or why there are no more.
    fn cut(cut: Cut, content: &[u8], size: usize) -> Result<Vec<Vec<u8>>, String> {
        let mut cutter = Cutter::new(cut, MOST);
        let mut buffer = BytesMut::new();
        let mut all = Vec::new();
        let pieces = content.chunks(size).map(|piece| (piece, false));
        for (piece, has_ended) in pieces.chain([(&[][..], true)]) {
            buffer.extend_from_slice(piece);
            loop {
                match cutter.next(&mut buffer, has_ended) {
                    Ok(Some(message)) if cutter.is_blank(&message) => {}
                    Ok(Some(message)) => all.push(message.to_vec()),
                    Ok(None) => break,
                    Err(refusal) => return Err(refusal.status().message().to_owned()),
                }
            }
        }
        Ok(all)
    }

    #[test]
    fn content_is_cut_wherever_its_pieces_end() {
        for size in [1, 2, 3, 100] {
            for (kind, content, expected) in [
                (
                    Cut::Lines,
                    &b"{}\n\n [1]\r\n2"[..],
                    &["{}\n", " [1]\r\n", "2"][..],
                ),
                (Cut::Values, b"", &[]),
                (Cut::Values, b" \n", &[]),
                (
                    Cut::Values,
                    br#"{"a":"}"}{"b":["\"{"]}"#,
                    &[r#"{"a":"}"}"#, r#"{"b":["\"{"]}"#],
                ),
                (
                    Cut::Values,
                    b"{}\n{} [1]\"a b\"",
                    &["{}", "{}", "[1]", "\"a b\""],
                ),
                (
                    Cut::Values,
                    b"1 true{}-2\"x\"",
                    &["1", "true", "{}", "-2", "\"x\""],
                ),
                // What is none is for the reader to refuse.
                (Cut::Values, b"}{", &["}", "{"]),
                (Cut::Delimited, b"\x02ab\x00\x01c", &["ab", "", "c"]),
            ] {
                let expected: Vec<Vec<u8>> = expected
                    .iter()
                    .map(|text| text.as_bytes().to_vec())
                    .collect();
                assert_eq!(cut(kind, content, size), Ok(expected), "{kind:?} {size}");
            }
        }
    }

    #[test]
    fn no_message_is_longer_than_the_limit() {
        let long = [b"[".repeat(MOST + 1), b"]".repeat(MOST + 1)].concat();
        for (kind, content) in [
            (Cut::Lines, &long[..]),
            (Cut::Values, &long),
            (Cut::Delimited, &[MOST as u8 + 1]),
            (Cut::Delimited, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ] {
            for size in [1, 1000] {
                let told = cut(kind, content, size).unwrap_err();
                assert!(told.contains("40 bytes"), "{kind:?}: {told}");
            }
        }
    }

    #[test]
    fn lengths_are_whole() {
        for (content, word) in [
            (&b"\x02a"[..], "ends within"),
            (b"\x80", "ends within"),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "no varint"),
            (b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", "no varint"),
        ] {
            let told = cut(Cut::Delimited, content, 1).unwrap_err();
            assert!(told.contains(word), "{content:?}: {told}");
        }
    }

    #[test]
    fn the_content_type_says_how() {
        for (kind, expected) in [
            ("application/x-ndjson", Some(Cut::Lines)),
            ("Application/JSON; charset=utf-8", Some(Cut::Values)),
            ("application/protobuf", Some(Cut::Delimited)),
            ("text/csv", None),
        ] {
            assert_eq!(Cut::of(kind), expected, "{kind}");
        }
    }
}
