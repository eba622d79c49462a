//! Frames of a server, as a stream of bytes.

use super::frame::Opcode;
use super::{Kind, Violation, code};

/// Most bytes of a control frame's payload (RFC 6455 §5.5).
const CONTROL: usize = 125;

/// Bounds on what a server may make us read.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one message.
    pub message_bytes: u64,
}

impl Default for Limits {
    /// 64 MiB, as tungstenite grants.
    fn default() -> Self {
        Self {
            message_bytes: 64 << 20,
        }
    }
}

/// What frames are reported to.
pub trait Messages {
    /// A piece of a message, never empty.
    fn piece(&mut self, kind: Kind, bytes: &[u8]);
    /// The message is complete.
    fn end(&mut self, kind: Kind);
    /// A ping, which asks for a pong with the same payload of at most 125 bytes.
    fn ping(&mut self, payload: &[u8]);
    /// The server has nothing more to say: its code, where it gave one, and a reason. What follows is
    /// not looked at (RFC 6455 §5.5.1).
    fn close(&mut self, code: Option<u16>, reason: &str);
}

/// Reads the server's frames.
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    step: Step,
    /// The header that is being received, as far as it has come.
    header: [u8; 10],
    held: usize,
    /// The message of which fragments are still to come, or whose last frame is being received.
    message: Option<Kind>,
    /// Bytes of it so far.
    length: u64,
    /// Whether the data frame under way is the message's last.
    is_last: bool,
    text: Utf8,
    control: [u8; CONTROL],
    control_held: usize,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Header,
    /// The payload of a data frame, with so many bytes to come.
    Data(u64),
    /// The payload of a control frame.
    Control(Opcode, usize),
    /// Nothing: the server has closed.
    Closed,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Decoder {
    /// A decoder before the first frame.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            step: Step::Header,
            header: [0; 10],
            held: 0,
            message: None,
            length: 0,
            is_last: false,
            text: Utf8::default(),
            control: [0; CONTROL],
            control_held: 0,
        }
    }

    /// Takes all of `bytes`. After a violation the decoder takes nothing any more.
    pub fn receive(&mut self, bytes: &[u8], messages: &mut impl Messages) -> Result<(), Violation> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.take(rest, messages) {
                Ok(taken) => rest = &rest[taken..],
                Err(violation) => {
                    self.step = Step::Closed;
                    return Err(violation);
                }
            }
        }
        Ok(())
    }

    /// Whether the server's Close frame has come.
    pub fn is_closed(&self) -> bool {
        self.step == Step::Closed
    }

    /// Whether all that has come are whole messages.
    pub fn is_at_boundary(&self) -> bool {
        self.message.is_none() && matches!(self.step, Step::Closed | Step::Header) && self.held == 0
    }

    /// Takes a piece from the front of `input`, which is not empty, and says how long it was.
    fn take(&mut self, input: &[u8], messages: &mut impl Messages) -> Result<usize, Violation> {
        match self.step {
            Step::Header => self.header(input, messages),
            Step::Data(left) => {
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                self.data(&input[..taken], messages)?;
                self.step = Step::Data(left - taken as u64);
                if left == taken as u64 {
                    self.end_of_data(messages)?;
                }
                Ok(taken)
            }
            Step::Control(opcode, left) => {
                let taken = left.min(input.len());
                let end = self.control_held + taken;
                self.control[self.control_held..end].copy_from_slice(&input[..taken]);
                self.control_held = end;
                self.step = Step::Control(opcode, left - taken);
                if left == taken {
                    self.end_of_control(opcode, messages)?;
                }
                Ok(taken)
            }
            Step::Closed => Ok(input.len()),
        }
    }

    /// Takes what is missing of a frame's header.
    fn header(&mut self, input: &[u8], messages: &mut impl Messages) -> Result<usize, Violation> {
        let mut taken = 0;
        loop {
            let wanted = match self.held {
                0 | 1 => 2,
                _ => match self.header[1] & 0x7f {
                    127 => 10,
                    126 => 4,
                    _ => 2,
                },
            };
            let missing = wanted - self.held;
            if missing == 0 {
                break;
            }
            let count = missing.min(input.len() - taken);
            self.header[self.held..self.held + count].copy_from_slice(&input[taken..taken + count]);
            self.held += count;
            taken += count;
            if count < missing {
                return Ok(taken);
            }
        }
        self.held = 0;
        let length = match self.header[1] & 0x7f {
            127 => {
                let [_, _, length @ ..] = self.header;
                u64::from_be_bytes(length)
            }
            126 => u64::from(u16::from_be_bytes([self.header[2], self.header[3]])),
            short => u64::from(short),
        };
        self.begin(self.header[0], self.header[1], length, messages)?;
        Ok(taken)
    }

    /// A frame with this header begins (RFC 6455 §5.2).
    fn begin(
        &mut self,
        first: u8,
        second: u8,
        length: u64,
        messages: &mut impl Messages,
    ) -> Result<(), Violation> {
        if first & 0x70 != 0 {
            return Err(Violation::protocol(
                "a frame has reserved bits, and no extension was agreed on",
            ));
        }
        let Some(opcode) = Opcode::of(first & 0x0f) else {
            return Err(Violation::protocol("a frame has a reserved opcode"));
        };
        if second & 0x80 != 0 {
            return Err(Violation::protocol("a frame of the server is masked"));
        }
        let least = match second & 0x7f {
            127 => 1 << 16,
            126 => 126,
            _ => 0,
        };
        if length < least {
            return Err(Violation::protocol(
                "a length takes more bytes than it needs",
            ));
        }
        if length >> 63 != 0 {
            return Err(Violation::protocol("a length has its highest bit set"));
        }
        let is_final = first & 0x80 != 0;
        if opcode.is_control() {
            if !is_final {
                return Err(Violation::protocol("a control frame is fragmented"));
            }
            if length > CONTROL as u64 {
                return Err(Violation::protocol(
                    "a control frame is longer than 125 bytes",
                ));
            }
            self.control_held = 0;
            self.step = Step::Control(opcode, length as usize);
            if length == 0 {
                self.end_of_control(opcode, messages)?;
            }
            return Ok(());
        }
        match (opcode, self.message) {
            (Opcode::Continuation, None) => {
                return Err(Violation::protocol("a fragment continues no message"));
            }
            (Opcode::Continuation, Some(_)) => (),
            (_, Some(_)) => {
                return Err(Violation::protocol(
                    "a message begins before the one before it has ended",
                ));
            }
            (opcode, None) => {
                let is_text = opcode == Opcode::Text;
                self.message = Some(if is_text { Kind::Text } else { Kind::Binary });
                self.length = 0;
                self.text = Utf8::default();
            }
        }
        self.length = self.length.saturating_add(length);
        if self.length > self.limits.message_bytes {
            return Err(Violation {
                code: code::TOO_BIG,
                reason: "a message is larger than our limit",
            });
        }
        self.is_last = is_final;
        self.step = Step::Data(length);
        if length == 0 {
            self.end_of_data(messages)?;
        }
        Ok(())
    }

    fn data(&mut self, bytes: &[u8], messages: &mut impl Messages) -> Result<(), Violation> {
        let kind = self.message.unwrap_or(Kind::Binary);
        if kind == Kind::Text && !self.text.take(bytes) {
            return Err(NOT_UTF8);
        }
        messages.piece(kind, bytes);
        Ok(())
    }

    fn end_of_data(&mut self, messages: &mut impl Messages) -> Result<(), Violation> {
        self.step = Step::Header;
        if !self.is_last {
            return Ok(());
        }
        if let Some(kind) = self.message.take() {
            if kind == Kind::Text && !self.text.is_whole() {
                return Err(NOT_UTF8);
            }
            messages.end(kind);
        }
        Ok(())
    }

    fn end_of_control(
        &mut self,
        opcode: Opcode,
        messages: &mut impl Messages,
    ) -> Result<(), Violation> {
        self.step = Step::Header;
        let payload = &self.control[..self.control_held];
        match opcode {
            Opcode::Ping => messages.ping(payload),
            Opcode::Close => {
                let (code, reason) = close(payload)?;
                self.step = Step::Closed;
                messages.close(code, reason);
            }
            // A pong nobody waits for (RFC 6455 §5.5.3).
            _ => (),
        }
        Ok(())
    }
}

const NOT_UTF8: Violation = Violation {
    code: code::INVALID_DATA,
    reason: "a message of text is not UTF-8",
};

/// What a Close frame says (RFC 6455 §5.5.1, §7.4).
fn close(payload: &[u8]) -> Result<(Option<u16>, &str), Violation> {
    let (code, reason) = match payload {
        [] => return Ok((None, "")),
        [high, low, reason @ ..] => (u16::from_be_bytes([*high, *low]), reason),
        [_] => return Err(Violation::protocol("a Close frame has half a code")),
    };
    // 1004 to 1006 and 1015 are for programs to tell each other, not for the wire.
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(Violation::protocol("a Close frame has a code that is none"));
    }
    match str::from_utf8(reason) {
        Ok(reason) => Ok((Some(code), reason)),
        Err(_) => Err(Violation {
            code: code::INVALID_DATA,
            reason: "the reason of a Close frame is not UTF-8",
        }),
    }
}

/// Text that comes in pieces, which may cut a character.
#[derive(Debug, Default)]
struct Utf8 {
    /// The beginning of a character whose end is still to come.
    cut: [u8; 4],
    held: usize,
}

impl Utf8 {
    /// Whether `piece` goes on as UTF-8.
    fn take(&mut self, piece: &[u8]) -> bool {
        let mut piece = piece;
        while self.held > 0 {
            let Some((&byte, rest)) = piece.split_first() else {
                return true;
            };
            self.cut[self.held] = byte;
            match str::from_utf8(&self.cut[..=self.held]) {
                Ok(_) => self.held = 0,
                Err(error) if error.error_len().is_none() => self.held += 1,
                Err(_) => return false,
            }
            piece = rest;
        }
        match str::from_utf8(piece) {
            Ok(_) => true,
            Err(error) if error.error_len().is_none() => {
                let cut = &piece[error.valid_up_to()..];
                self.cut[..cut.len()].copy_from_slice(cut);
                self.held = cut.len();
                true
            }
            Err(_) => false,
        }
    }

    fn is_whole(&self) -> bool {
        self.held == 0
    }
}
