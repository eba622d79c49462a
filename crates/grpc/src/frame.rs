//! The length-prefixed message: a flag that says whether it is compressed, four bytes of length, the
//! message.

use std::fmt;

/// Bytes before each message.
pub const PREFIX: usize = 5;

/// The most that a message of protobuf can have, in bytes: a longer length is no length.
pub const MOST: u32 = i32::MAX as u32;

/// Why bytes are not length-prefixed messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The flag is neither 0 nor 1.
    Flag(u8),
    /// The message is longer than it may be.
    Length {
        /// As announced, in bytes.
        length: u32,
        /// The most, in bytes.
        limit: u32,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Flag(flag) => write!(
                f,
                "a message begins with {flag:#04x}, where 0 or 1 tells whether it is compressed"
            ),
            FrameError::Length { length, limit } => {
                write!(
                    f,
                    "a message of {length} bytes is over the limit of {limit}"
                )
            }
        }
    }
}

impl std::error::Error for FrameError {}

/// Appends `message` with its prefix.
///
/// # Panics
///
/// If the message has 4 GiB or more, which no length can say.
pub fn write(message: &[u8], compressed: bool, out: &mut Vec<u8>) {
    let length = u32::try_from(message.len()).expect("a message shorter than 4 GiB");
    out.reserve(PREFIX + message.len());
    out.push(compressed.into());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(message);
}

/// Finds where messages end, and keeps none of them: twelve bytes of state for each call.
///
/// After an error it must not be used again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reader {
    /// Bytes of the open message that are to come.
    left: u32,
    /// The part of the length that has come.
    length: u32,
    /// Bytes of the prefix that have come, where it is not complete.
    prefix: u8,
    /// Whether any message was marked as compressed.
    compressed: bool,
}

impl Reader {
    /// Takes the next bytes of the content, and calls `each` at the end of every message.
    #[inline]
    pub fn count(&mut self, bytes: &[u8], each: impl FnMut()) -> Result<(), FrameError> {
        self.count_up_to(MOST as usize, bytes, each)
    }

    /// The same of messages that have at most `limit` bytes each.
    #[inline]
    pub fn count_up_to(
        &mut self,
        limit: usize,
        bytes: &[u8],
        mut each: impl FnMut(),
    ) -> Result<(), FrameError> {
        let limit = u32::try_from(limit).unwrap_or(MOST).min(MOST);
        // A whole message by itself, as a short response is.
        if self.is_at_boundary()
            && let Some((&[flag @ (0 | 1), a, b, c, d], rest)) = bytes.split_first_chunk::<PREFIX>()
            && let length = u32::from_be_bytes([a, b, c, d])
            && length <= limit
            && rest.len() == length as usize
        {
            self.compressed |= flag == 1;
            each();
            return Ok(());
        }
        self.walk(limit, bytes, each)
    }

    fn walk(
        &mut self,
        limit: u32,
        mut bytes: &[u8],
        mut each: impl FnMut(),
    ) -> Result<(), FrameError> {
        loop {
            if self.left > 0 {
                let passed = bytes.len().min(self.left as usize);
                self.left -= passed as u32;
                bytes = &bytes[passed..];
                if self.left > 0 {
                    return Ok(());
                }
                each();
            }
            if self.prefix == 0
                && let Some((&[flag, a, b, c, d], rest)) = bytes.split_first_chunk::<PREFIX>()
            {
                check_flag(flag)?;
                let length = u32::from_be_bytes([a, b, c, d]);
                check_length(length, limit)?;
                self.compressed |= flag == 1;
                self.left = length;
                bytes = rest;
                if length == 0 {
                    each();
                }
                continue;
            }
            let Some((&byte, rest)) = bytes.split_first() else {
                return Ok(());
            };
            bytes = rest;
            if self.prefix == 0 {
                check_flag(byte)?;
                self.compressed |= byte == 1;
                self.length = 0;
            } else {
                self.length = self.length << 8 | u32::from(byte);
            }
            self.prefix += 1;
            if usize::from(self.prefix) == PREFIX {
                check_length(self.length, limit)?;
                self.prefix = 0;
                self.left = self.length;
                if self.left == 0 {
                    each();
                }
            }
        }
    }

    /// Whether no message is cut here.
    #[inline]
    pub fn is_at_boundary(&self) -> bool {
        self.left == 0 && self.prefix == 0
    }

    /// Whether any message so far was marked as compressed.
    #[inline]
    pub fn saw_compressed(&self) -> bool {
        self.compressed
    }
}

/// Collects messages, each up to a limit.
///
/// After an error it must not be used again.
#[derive(Clone, Debug)]
pub struct Collector {
    /// The open message with its prefix, as far as it has come.
    open: Vec<u8>,
    limit: u32,
    /// Flags that a message may have beside that of compression.
    flags: u8,
}

impl Collector {
    /// `limit`: most bytes of a message.
    pub fn new(limit: usize) -> Self {
        Self::with_flags(limit, 0)
    }

    /// The same, where messages may have `flags` beside that of compression: gRPC-Web has one for trailers,
    /// Connect one for the end of a stream.
    pub fn with_flags(limit: usize, flags: u8) -> Self {
        Self {
            flags,
            open: Vec::new(),
            limit: u32::try_from(limit).unwrap_or(MOST).min(MOST),
        }
    }

    /// Takes the next bytes of the content, and gives each complete message and whether it is
    /// compressed.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(bool, &[u8]),
    ) -> Result<(), FrameError> {
        self.feed_flagged(bytes, |flags, message| each(flags & 1 != 0, message))
    }

    /// Takes the next bytes of the content, and gives each complete message and its flags.
    pub fn feed_flagged(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(u8, &[u8]),
    ) -> Result<(), FrameError> {
        if !self.open.is_empty() {
            bytes = self.fill(bytes, PREFIX);
            let Some(end) = self.end(&self.open)? else {
                return Ok(());
            };
            bytes = self.fill(bytes, end);
            if self.open.len() < end {
                return Ok(());
            }
            each(self.open[0], &self.open[PREFIX..]);
            self.open.clear();
        }
        loop {
            match self.end(bytes)? {
                Some(end) if end <= bytes.len() => {
                    each(bytes[0], &bytes[PREFIX..end]);
                    bytes = &bytes[end..];
                }
                _ => {
                    self.open.extend_from_slice(bytes);
                    return Ok(());
                }
            }
        }
    }

    /// Moves bytes to the open message, until it has `size`.
    fn fill<'a>(&mut self, bytes: &'a [u8], size: usize) -> &'a [u8] {
        let missing = size.saturating_sub(self.open.len()).min(bytes.len());
        let (now, later) = bytes.split_at(missing);
        self.open.extend_from_slice(now);
        later
    }

    /// Where the message that begins here ends; `None` where its prefix is cut.
    fn end(&self, bytes: &[u8]) -> Result<Option<usize>, FrameError> {
        if let Some(&flag) = bytes.first()
            && flag & !(1 | self.flags) != 0
        {
            return Err(FrameError::Flag(flag));
        }
        let Some(&[_, a, b, c, d]) = bytes.first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([a, b, c, d]);
        check_length(length, self.limit)?;
        Ok(Some(PREFIX + length as usize))
    }

    /// Whether no message is cut here.
    pub fn is_at_boundary(&self) -> bool {
        self.open.is_empty()
    }
}

fn check_flag(flag: u8) -> Result<(), FrameError> {
    if flag > 1 {
        return Err(FrameError::Flag(flag));
    }
    Ok(())
}

fn check_length(length: u32, limit: u32) -> Result<(), FrameError> {
    if length > limit {
        return Err(FrameError::Length { length, limit });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames(messages: &[(bool, Vec<u8>)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (compressed, message) in messages {
            write(message, *compressed, &mut out);
        }
        out
    }

    /// What `Reader` and `Collector` make of pieces: they must agree.
    fn read(pieces: &[&[u8]]) -> (Vec<(bool, Vec<u8>)>, bool) {
        let (mut reader, mut collector) = (Reader::default(), Collector::new(1 << 20));
        let (mut count, mut messages) = (0, Vec::new());
        for piece in pieces {
            reader.count(piece, || count += 1).unwrap();
            collector
                .feed(piece, |compressed, message| {
                    messages.push((compressed, message.to_vec()));
                })
                .unwrap();
            assert_eq!(count, messages.len());
            assert_eq!(reader.is_at_boundary(), collector.is_at_boundary());
        }
        (messages, reader.is_at_boundary())
    }

    #[test]
    fn the_state_of_a_reader_is_small() {
        assert_eq!(size_of::<Reader>(), 12);
    }

    #[test]
    fn a_message_has_flag_and_length() {
        assert_eq!(
            frames(&[(false, b"ab".to_vec()), (true, Vec::new())]),
            b"\0\0\0\0\x02ab\x01\0\0\0\0"
        );
    }

    #[test]
    fn messages_are_found_wherever_they_are_split() {
        let messages = [
            (false, b"first".to_vec()),
            (true, Vec::new()),
            (false, vec![7; 300]),
            (true, b"last".to_vec()),
        ];
        let bytes = frames(&messages);
        for first in 0..=bytes.len() {
            let (head, rest) = bytes.split_at(first);
            assert_eq!(read(&[head, rest]), (messages.to_vec(), true), "{first}");
        }
        let small = frames(&messages[..2]);
        for first in 0..=small.len() {
            for second in first..=small.len() {
                let pieces = [&small[..first], &small[first..second], &small[second..]];
                assert_eq!(read(&pieces), (messages[..2].to_vec(), true));
            }
        }
        let bytewise: Vec<_> = bytes.chunks(1).collect();
        assert_eq!(read(&bytewise), (messages.to_vec(), true));
    }

    #[test]
    fn a_cut_message_is_not_at_a_boundary() {
        let bytes = frames(&[(false, b"whole".to_vec()), (false, b"cut".to_vec())]);
        for end in 11..bytes.len() {
            let (messages, boundary) = read(&[&bytes[..end]]);
            assert_eq!((messages.len(), boundary), (1, false), "{end}");
        }
    }

    #[test]
    fn other_bytes_are_an_error() {
        let mut reader = Reader::default();
        let html = b"<html>";
        assert_eq!(reader.count(html, || ()), Err(FrameError::Flag(b'<')));
        assert_eq!(
            Collector::new(9).feed(html, |_, _| ()),
            Err(FrameError::Flag(b'<'))
        );
        // The flag of the second message, whose length has not come.
        let two = b"\0\0\0\0\x01x\x02";
        assert_eq!(
            Reader::default().count(two, || ()),
            Err(FrameError::Flag(2))
        );
        assert_eq!(
            Collector::new(9).feed(two, |_, _| ()),
            Err(FrameError::Flag(2))
        );
    }

    #[test]
    fn lengths_are_limited() {
        let long = b"\0\x80\0\0\0";
        let over = FrameError::Length {
            length: 0x8000_0000,
            limit: MOST,
        };
        assert_eq!(Reader::default().count(long, || ()), Err(over));
        let over = FrameError::Length {
            length: 5,
            limit: 4,
        };
        for five in [&b"\0\0\0\0\x05five!"[..], b"\0\0\0\0\x05"] {
            let mut reader = Reader::default();
            assert_eq!(reader.count_up_to(4, five, || ()), Err(over));
            let mut reader = Reader::default();
            let told = five
                .iter()
                .try_for_each(|byte| reader.count_up_to(4, std::slice::from_ref(byte), || ()));
            assert_eq!(told, Err(over));
            assert_eq!(Reader::default().count_up_to(5, five, || ()), Ok(()));
        }
        let mut collector = Collector::new(4);
        collector.feed(b"\0\0\0\0\x04four", |_, _| ()).unwrap();
        let error = collector.feed(b"\0\0\0\0\x05", |_, _| ()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a message of 5 bytes is over the limit of 4"
        );
    }

    proptest! {
        #[test]
        fn any_messages_in_any_pieces(
            messages in prop::collection::vec(
                (any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)), 0..8),
            sizes in prop::collection::vec(1_usize..20, 1..40),
        ) {
            let bytes = frames(&messages);
            let mut pieces = Vec::new();
            let mut rest = bytes.as_slice();
            for size in sizes.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, more) = rest.split_at(rest.len().min(*size));
                pieces.push(piece);
                rest = more;
            }
            prop_assert_eq!(read(&pieces), (messages, true));
        }

        #[test]
        fn any_bytes_are_read_alike(
            bytes in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(2), any::<u8>()], 0..60),
            at in 0_usize..60,
        ) {
            let at = at.min(bytes.len());
            let (mut whole, mut split) = (0, 0);
            let mut reader = Reader::default();
            let first = reader.count(&bytes, || whole += 1);
            let mut reader = Reader::default();
            let second = reader
                .count(&bytes[..at], || split += 1)
                .and_then(|()| reader.count(&bytes[at..], || split += 1));
            prop_assert_eq!((first, whole), (second, split));
        }
    }
}
