//! What a scripted server does in a WebSocket session (RFC 6455), whatever carries it.

use super::script::Seen;

/// What a server says in sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversation {
    /// Echoes come in frames of so many bytes, a ping between each two.
    pub(crate) fragment: usize,
    /// After how many messages it closes by itself, and with which code.
    pub(crate) closes: Option<(usize, u16)>,
    /// Whether it ends its direction of the stream with its Close frame; over HTTP/2.
    pub(crate) ends: bool,
    /// After how many messages it reads nothing more.
    pub(crate) reads: usize,
}

impl Conversation {
    /// A server that echoes each message in one frame.
    pub(crate) fn echo() -> Self {
        Self {
            fragment: usize::MAX,
            closes: None,
            ends: false,
            reads: usize::MAX,
        }
    }
}

/// One session.
#[derive(Debug, Default)]
pub(super) struct Session {
    bytes: Vec<u8>,
    messages: usize,
    said_farewell: bool,
    is_over: bool,
}

/// A frame of a server: the first byte, the length and the payload (RFC 6455 §5.2).
fn frame(first: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.push(first);
    match payload.len() {
        short @ ..126 => out.push(short as u8),
        medium @ ..0x1_0000 => {
            out.push(126);
            out.extend_from_slice(&(medium as u16).to_be_bytes());
        }
        long => {
            out.push(127);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(payload);
}

impl Session {
    /// Whether nothing more is read.
    pub(super) fn is_deaf(&self, conversation: &Conversation) -> bool {
        self.messages >= conversation.reads
    }

    /// Takes what the client has written, and gives what the server says: bytes, and whether they are the
    /// last.
    pub(super) fn hear(
        &mut self,
        conversation: &Conversation,
        bytes: &[u8],
        seen: &mut Seen,
    ) -> (Vec<u8>, bool) {
        self.bytes.extend_from_slice(bytes);
        let mut said = Vec::new();
        while !self.is_over
            && !self.is_deaf(conversation)
            && let Some((first, payload)) = self.next_frame(seen)
        {
            match first {
                0x81 | 0x82 => self.echo(conversation, first, &payload, &mut said),
                0x88 => {
                    let code = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
                    seen.farewells.push(code);
                    if !self.said_farewell {
                        frame(0x88, &payload, &mut said);
                    }
                    (self.said_farewell, self.is_over) = (true, true);
                }
                0x8a => seen.pongs += 1,
                other => panic!("a client that begins a frame with {other:#x}"),
            }
        }
        if self.is_deaf(conversation) {
            seen.unread += std::mem::take(&mut self.bytes).len();
        }
        (said, self.said_farewell && conversation.ends)
    }

    fn echo(&mut self, conversation: &Conversation, first: u8, payload: &[u8], said: &mut Vec<u8>) {
        self.messages += 1;
        if self.said_farewell {
            return;
        }
        let mut pieces = payload.chunks(conversation.fragment.max(1)).peekable();
        let mut opcode = first & 0x0f;
        while let Some(piece) = pieces.next() {
            let is_last = pieces.peek().is_none();
            frame(opcode | u8::from(is_last) << 7, piece, said);
            if !is_last {
                frame(0x89, b"there?", said);
            }
            opcode = 0;
        }
        if let Some((_, code)) = conversation
            .closes
            .filter(|(count, _)| self.messages == *count)
        {
            frame(0x88, &code.to_be_bytes(), said);
            self.said_farewell = true;
        }
    }

    /// The next frame of the client: its first byte, and its payload without the mask.
    fn next_frame(&mut self, seen: &mut Seen) -> Option<(u8, Vec<u8>)> {
        let &[first, second] = self.bytes.first_chunk()?;
        assert!(second & 0x80 != 0, "a frame of a client is masked");
        let (length, begin) = match second & 0x7f {
            127 => {
                let bytes = self.bytes.get(2..10)?.first_chunk()?;
                (u64::from_be_bytes(*bytes) as usize, 10)
            }
            126 => {
                let bytes = self.bytes.get(2..4)?.first_chunk()?;
                (usize::from(u16::from_be_bytes(*bytes)), 4)
            }
            short => (usize::from(short), 2),
        };
        let mask: [u8; 4] = *self.bytes.get(begin..begin + 4)?.first_chunk()?;
        let begin = begin + 4;
        let payload = self.bytes.get(begin..begin + length)?;
        let payload = payload
            .iter()
            .zip(mask.iter().cycle())
            .map(|(byte, key)| byte ^ key)
            .collect();
        self.bytes.drain(..begin + length);
        seen.masks.insert(mask);
        Some((first, payload))
    }
}
