//! What a server of HTTP/1.1 or HTTP/2 says over a byte stream.

use crate::{Case, Played, Sight, Step, Version};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// SETTINGS that acknowledge those of the client.
const SETTLED: &[u8] = b"\0\0\0\x04\x01\0\0\0\0";

/// What a server says.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    /// More bytes.
    Bytes(Vec<u8>),
    /// It has said its last byte.
    End,
    /// It resets the connection.
    Reset,
}

/// What is said on one connection.
#[derive(Debug)]
pub struct StreamPlay {
    case: &'static Case,
    received: Vec<u8>,
    begun: bool,
    over: bool,
}

impl StreamPlay {
    /// A server that waits for requests.
    pub fn new(case: &'static Case) -> Self {
        Self {
            case,
            received: Vec::new(),
            begun: false,
            over: false,
        }
    }

    /// Takes what the client has sent, and gives what is said to it.
    pub fn receive(&mut self, bytes: &[u8], played: &mut Played) -> Vec<Said> {
        self.received.extend_from_slice(bytes);
        let mut said = Vec::new();
        let next = match self.case.version {
            Version::H1 => Self::next_head,
            Version::H2 | Version::H3 => Self::next_frame,
        };
        while !self.over && next(self, played, &mut said) {}
        said
    }

    /// Answers a request of HTTP/1.1 without content. False where none has come.
    fn next_head(&mut self, played: &mut Played, said: &mut Vec<Said>) -> bool {
        let mut lines = self.received.windows(4);
        let Some(end) = lines.position(|four| four == b"\r\n\r\n") else {
            return false;
        };
        self.received.drain(..end + 4);
        self.begin(played, said);
        self.act(played.answer(self.case), said);
        true
    }

    /// Takes the preface, or a frame. False where none has come.
    fn next_frame(&mut self, played: &mut Played, said: &mut Vec<Said>) -> bool {
        if !self.begun {
            if !self.received.starts_with(PREFACE) {
                return false;
            }
            self.received.drain(..PREFACE.len());
            self.begin(played, said);
            return true;
        }
        let Some(&[a, b, c, kind, flags, ..]) = self.received.first_chunk::<9>() else {
            return false;
        };
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        if self.received.len() < 9 + length {
            return false;
        }
        let payload: Vec<u8> = self.received.drain(..9 + length).skip(9).collect();
        let code = payload
            .last_chunk()
            .map_or(0, |code| u32::from_be_bytes(*code));
        match (kind, flags & 1) {
            (1, _) => self.act(played.answer(self.case), said),
            (3, _) => self.see(Sight::Stop, code, played),
            (4, 0) => said.push(Said::Bytes(SETTLED.to_vec())),
            (4, _) => self.see(Sight::Settled, 0, played),
            (6, 1) => self.see(Sight::Pong, 0, played),
            (7, _) => {
                let code = payload[4..].first_chunk().copied().unwrap_or_default();
                self.see(Sight::Close, u32::from_be_bytes(code), played);
            }
            _ => (),
        }
        true
    }

    fn see(&self, sight: Sight, code: u32, played: &mut Played) {
        played.seen.insert((sight, code.into()));
    }

    fn begin(&mut self, played: &mut Played, said: &mut Vec<Said>) {
        if !self.begun {
            self.begun = true;
            self.act(played.begin(self.case), said);
        }
    }

    fn act(&mut self, steps: &[Step], said: &mut Vec<Said>) {
        for step in steps {
            said.push(match step {
                Step::Say(_, bytes, _) => Said::Bytes(bytes.0.clone()),
                Step::Reset(..) => Said::Reset,
                Step::Close(_) => Said::End,
                Step::Stop(..) => unreachable!("nothing stops a byte stream"),
            });
            self.over |= matches!(step, Step::Reset(..) | Step::Close(_));
        }
    }
}
