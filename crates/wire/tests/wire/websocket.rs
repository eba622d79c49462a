//! WebSocket frames against tungstenite, which plays the other end, at every split.

use std::io::{self, Cursor, Read, Write};

use proptest::prelude::*;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{CloseFrame, Frame};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocket};
use tokio_tungstenite::tungstenite::{Bytes, Message};
use trilane_wire::websocket::{
    Decoder, Kind, Limits, Messages, Opcode, Violation, code, write, write_close,
};

/// What a peer sent, read from memory; what it is answered goes nowhere.
struct Script(Cursor<Vec<u8>>);

impl Read for Script {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps what is written to it.
#[derive(Default)]
struct Kept(Vec<u8>);

impl Read for Kept {
    fn read(&mut self, _into: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Told {
    Message(Kind, Vec<u8>),
    Ping(Vec<u8>),
    Close(Option<u16>, String),
}

#[derive(Default)]
struct Record {
    told: Vec<Told>,
    message: Vec<u8>,
}

impl Messages for Record {
    fn piece(&mut self, _kind: Kind, bytes: &[u8]) {
        assert!(!bytes.is_empty());
        self.message.extend_from_slice(bytes);
    }

    fn end(&mut self, kind: Kind) {
        let message = std::mem::take(&mut self.message);
        self.told.push(Told::Message(kind, message));
    }

    fn ping(&mut self, payload: &[u8]) {
        self.told.push(Told::Ping(payload.to_vec()));
    }

    fn close(&mut self, code: Option<u16>, reason: &str) {
        self.told.push(Told::Close(code, reason.to_owned()));
    }
}

/// What the decoder tells of `bytes` that come in pieces of `size`, and how it went.
fn read(bytes: &[u8], size: usize) -> (Vec<Told>, Result<(), Violation>) {
    let mut decoder = Decoder::new(Limits {
        message_bytes: 1 << 20,
    });
    let mut record = Record::default();
    for piece in bytes.chunks(size) {
        if let Err(violation) = decoder.receive(piece, &mut record) {
            return (record.told, Err(violation));
        }
    }
    (record.told, Ok(()))
}

/// What tungstenite's client makes of the same bytes; true where it accepts them to their end.
fn tungstenite(bytes: &[u8]) -> (Vec<Told>, bool) {
    let script = Script(Cursor::new(bytes.to_vec()));
    let mut socket = WebSocket::from_raw_socket(script, Role::Client, None);
    let mut told = Vec::new();
    loop {
        match socket.read() {
            Ok(Message::Text(text)) => {
                told.push(Told::Message(Kind::Text, text.as_bytes().to_vec()));
            }
            Ok(Message::Binary(bytes)) => told.push(Told::Message(Kind::Binary, bytes.to_vec())),
            Ok(Message::Ping(payload)) => told.push(Told::Ping(payload.to_vec())),
            Ok(Message::Close(frame)) => {
                let (code, reason) = frame.map_or((None, String::new()), |frame| {
                    (Some(frame.code.into()), frame.reason.to_string())
                });
                told.push(Told::Close(code, reason));
                return (told, true);
            }
            Ok(Message::Pong(_) | Message::Frame(_)) => (),
            Err(error) => {
                let text = error.to_string();
                // The script is at its end, which is no fault of a frame.
                let is_end = text.contains("without closing handshake");
                return (told, is_end);
            }
        }
    }
}

/// Frames as tungstenite's server writes them: fragments with a ping in between.
fn served(messages: &[(Kind, Vec<u8>)], cut: usize) -> Vec<u8> {
    let mut socket = WebSocket::from_raw_socket(Kept::default(), Role::Server, None);
    for (kind, payload) in messages {
        let data = match kind {
            Kind::Text => Data::Text,
            Kind::Binary => Data::Binary,
        };
        let (head, tail) = payload.split_at(cut.min(payload.len()));
        let first = Frame::message(head.to_vec(), OpCode::Data(data), false);
        let last = Frame::message(tail.to_vec(), OpCode::Data(Data::Continue), true);
        socket.send(Message::Frame(first)).unwrap();
        socket
            .send(Message::Ping(Bytes::from_static(b"there?")))
            .unwrap();
        socket.send(Message::Frame(last)).unwrap();
    }
    let frame = CloseFrame {
        code: CloseCode::Normal,
        reason: "that was all".into(),
    };
    socket.send(Message::Close(Some(frame))).unwrap();
    socket.flush().unwrap();
    std::mem::take(&mut socket.get_mut().0)
}

#[test]
fn messages_of_tungstenite_are_read_wherever_they_are_cut() {
    let messages = [
        (Kind::Text, "grüße, 世界 🌍".as_bytes().to_vec()),
        (Kind::Binary, vec![0xff; 300]),
        (Kind::Text, Vec::new()),
    ];
    for cut in [0, 3, 4, 9, 17, 1000] {
        let bytes = served(&messages, cut);
        let mut expected = Vec::new();
        for (kind, payload) in &messages {
            expected.push(Told::Ping(b"there?".to_vec()));
            expected.push(Told::Message(*kind, payload.clone()));
        }
        expected.push(Told::Close(Some(code::NORMAL), "that was all".into()));
        for size in 1..=bytes.len() {
            assert_eq!(
                read(&bytes, size),
                (expected.clone(), Ok(())),
                "{cut} {size}"
            );
        }
    }
}

#[test]
fn long_messages_have_long_lengths() {
    for length in [125, 126, 65_535, 65_536, 70_000] {
        let messages = [(Kind::Binary, vec![7; length])];
        let (told, outcome) = read(&served(&messages, length), 4096);
        assert_eq!(outcome, Ok(()));
        assert_eq!(told[1], Told::Message(Kind::Binary, vec![7; length]));
    }
}

/// Frames that break a rule, the code that tells it, and whether tungstenite minds.
const BROKEN: [(&[u8], u16, &str); 16] = [
    (&[0xc1, 0x00], code::PROTOCOL_ERROR, "reserved bits"),
    (&[0x83, 0x00], code::PROTOCOL_ERROR, "reserved opcode"),
    (&[0x8b, 0x00], code::PROTOCOL_ERROR, "reserved opcode"),
    (&[0x81, 0x80, 1, 2, 3, 4], code::PROTOCOL_ERROR, "masked"),
    (&[0x80, 0x00], code::PROTOCOL_ERROR, "continues no message"),
    (
        &[0x01, 0x00, 0x81, 0x00],
        code::PROTOCOL_ERROR,
        "before the one before it",
    ),
    (&[0x09, 0x00], code::PROTOCOL_ERROR, "fragmented"),
    (
        &[0x89, 0x7e, 0x00, 0x7e],
        code::PROTOCOL_ERROR,
        "longer than 125",
    ),
    (
        &[0x82, 0x7e, 0x00, 0x05],
        code::PROTOCOL_ERROR,
        "more bytes than it needs",
    ),
    (
        &[0x82, 0x7f, 0, 0, 0, 0, 0, 0, 0xff, 0xff],
        code::PROTOCOL_ERROR,
        "more bytes",
    ),
    (
        &[0x82, 0x7f, 0x80, 0, 0, 0, 0, 0, 0, 0],
        code::PROTOCOL_ERROR,
        "highest bit",
    ),
    (
        &[0x82, 0x7f, 0, 0, 0, 0, 0, 0x10, 0, 1],
        code::TOO_BIG,
        "larger than our limit",
    ),
    (&[0x81, 0x02, 0xc3, 0x28], code::INVALID_DATA, "not UTF-8"),
    (&[0x81, 0x01, 0xc3], code::INVALID_DATA, "not UTF-8"),
    (&[0x88, 0x01, 0x03], code::PROTOCOL_ERROR, "half a code"),
    (
        &[0x88, 0x02, 0x03, 0xed],
        code::PROTOCOL_ERROR,
        "a code that is none",
    ),
];

#[test]
fn broken_rules_are_named_wherever_the_bytes_are_cut() {
    for (bytes, expected, reason) in BROKEN {
        for size in 1..=bytes.len() {
            let (_, outcome) = read(bytes, size);
            let violation = outcome.unwrap_err();
            assert_eq!(violation.code, expected, "{bytes:?}");
            assert!(violation.reason.contains(reason), "{violation}");
        }
    }
}

#[test]
fn nothing_is_looked_at_behind_a_close_frame() {
    let mut bytes = vec![0x88, 0x00];
    bytes.extend_from_slice(&[0xff; 50]);
    let closed = vec![Told::Close(None, String::new())];
    assert_eq!(read(&bytes, 3), (closed, Ok(())));
}

proptest! {
    #[test]
    fn tungstenite_reads_our_frames(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 0..5),
        mask in any::<[u8; 4]>(),
    ) {
        let mut bytes = Vec::new();
        for payload in &payloads {
            write(Opcode::Binary, payload, mask, &mut bytes);
        }
        write(Opcode::Pong, b"yes", mask, &mut bytes);
        write_close(code::NORMAL, mask, &mut bytes);
        let script = Script(Cursor::new(bytes));
        let mut socket = WebSocket::from_raw_socket(script, Role::Server, None);
        for payload in payloads {
            prop_assert_eq!(socket.read().unwrap(), Message::binary(payload));
        }
        prop_assert_eq!(socket.read().unwrap(), Message::Pong(Bytes::from_static(b"yes")));
        let Message::Close(Some(frame)) = socket.read().unwrap() else {
            panic!("it is closed");
        };
        prop_assert_eq!(frame.code, CloseCode::Normal);
    }

    /// Whatever comes, cuts change nothing, and what we accept means the same to tungstenite.
    #[test]
    fn any_frames_mean_what_they_mean_to_tungstenite(
        frames in prop::collection::vec(
            (prop::sample::select(vec![0x00u8, 0x01, 0x02, 0x80, 0x81, 0x82, 0x88, 0x89, 0x8a, 0x83, 0xc1]),
             prop::collection::vec(prop_oneof![Just(b'a'), Just(0xc3), Just(0xa4), any::<u8>()], 0..6)),
            0..6),
        size in 1usize..9,
    ) {
        let mut bytes = Vec::new();
        for (first, payload) in frames {
            bytes.push(first);
            bytes.push(payload.len() as u8);
            bytes.extend_from_slice(&payload);
        }
        let whole = read(&bytes, bytes.len().max(1));
        prop_assert_eq!(&whole, &read(&bytes, size));
        let (told, outcome) = whole;
        if outcome.is_ok() {
            let (theirs, accepted) = tungstenite(&bytes);
            prop_assert!(accepted);
            prop_assert_eq!(told, theirs);
        }
    }
}
