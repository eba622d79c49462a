//! `wire::h3`.

use std::collections::BTreeMap;

use arbitrary::{Arbitrary, Unstructured};
use trilane_wire::h3::{Config, Connection};
use trilane_wire::{
    ConnectionError, Encoding, FieldList, Refused, Request, StreamId, Unfinished, Upload,
};

use super::caller::{Call, Caller, Subject};
use super::h2::known_length;
use super::h3_peer::{Control, Frame, Quic, Sent, response};
use crate::checker;
use crate::input::{Bytes, Cut, Rarely, Which, operations};

#[derive(Arbitrary, Debug)]
enum Operation<'a> {
    Call(Call),
    /// A response that is right.
    Response {
        which: Which,
        length: u16,
        announced: bool,
        trailers: bool,
        cut: Cut,
    },
    Frames(Which, Vec<Frame<'a>>, Cut, bool),
    Control(Vec<Control<'a>>, Cut),
    /// Bytes on one of the peer's streams, mostly those of QPACK.
    Peer(u8, Bytes<'a>, Cut, bool),
    Reset(Which, u8),
    ResetPeer(u8),
    Stop(Which, u8),
    StopControl(Rarely),
    /// A bidirectional stream of the server's.
    Bidirectional(Rarely, u8),
    Window(u16),
    Writable(Which),
    GrantBi(u8),
    GrantUni(u8),
    End(Rarely),
}

/// A connection with its QUIC.
struct Wire {
    connection: Connection,
    quic: Quic,
    /// The contents of the requests, where their lengths are known.
    lengths: Vec<(StreamId, u64)>,
}

impl Subject for Wire {
    fn version(&self) -> Encoding {
        Encoding::H3
    }
    fn send(&mut self, request: &Request, slot: u32) -> Result<StreamId, Refused> {
        let (capacity, streams) = (self.capacity(), self.quic.bi);
        let sent = self.connection.send(request, slot, &mut self.quic);
        let full = sent == Err(Refused::Full);
        assert!(!full || capacity == 0 || streams == 0, "there was a stream");
        let stream = sent?;
        self.lengths
            .extend(known_length(request).map(|length| (stream, length)));
        Ok(stream)
    }
    fn write(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        self.connection.write(stream, bytes, &mut self.quic)
    }
    fn finish(&mut self, stream: StreamId, trailers: &FieldList) -> Result<(), Unfinished> {
        self.connection.finish(stream, trailers, &mut self.quic)
    }
    fn upload(&self, stream: StreamId) -> Upload {
        self.connection.upload(stream)
    }
    fn pause(&mut self, _stream: StreamId) {}
    fn resume(&mut self, _stream: StreamId) {}
    fn cancel(&mut self, stream: StreamId) -> bool {
        self.connection.cancel(stream, &mut self.quic);
        true
    }
    fn close(&mut self) {}
    fn capacity(&self) -> usize {
        self.connection.capacity()
    }
    fn outstanding(&self) -> usize {
        self.connection.outstanding()
    }
    fn is_closing(&self) -> bool {
        self.connection.is_closing()
    }
    fn waiting(&self) -> usize {
        0
    }
}

/// What must not depend on fields or cuts: the events, the error, and all that was written.
type Played = (
    checker::Streams,
    Option<ConnectionError>,
    BTreeMap<u64, Sent>,
);

/// A connection that is being played.
struct Play<const FIELDS: bool> {
    wire: Wire,
    caller: Caller<FIELDS>,
    lost: Option<ConnectionError>,
    cut: bool,
}

impl<const FIELDS: bool> Play<FIELDS> {
    /// QUIC hands over what is still open: `bytes` in pieces, the last with `fin`.
    fn receive(&mut self, stream: u64, bytes: &[u8], sizes: Cut, fin: bool) {
        let Quic { ended, .. } = &mut self.wire.quic;
        if ended.contains(&stream) || (fin && !ended.insert(stream)) {
            return;
        }
        let sizes = if self.cut { sizes } else { Cut::NONE };
        let mut pieces = sizes.pieces(bytes).peekable();
        if fin && pieces.peek().is_none() {
            self.deliver(stream, &[], true);
        }
        while let Some(piece) = pieces.next() {
            let last = pieces.peek().is_none();
            self.deliver(stream, piece, fin && last);
            if self.lost.is_some() {
                return;
            }
        }
    }

    fn deliver(&mut self, stream: u64, bytes: &[u8], fin: bool) {
        let Wire {
            connection, quic, ..
        } = &mut self.wire;
        let result = connection.receive(stream, bytes, fin, &mut self.caller.events, quic);
        self.judge(result);
    }

    fn judge(&mut self, result: Result<(), ConnectionError>) {
        if let Err(error) = result {
            assert!(!self.caller.is_over(), "an error is told once");
            self.lost = Some(error);
            self.caller.over();
        }
    }

    fn operate(&mut self, operation: &Operation<'_>) {
        match operation {
            Operation::Call(call) => self.caller.call(*call, &mut self.wire),
            Operation::Response {
                which,
                length,
                announced,
                trailers,
                cut,
            } => {
                let mut bytes = Vec::new();
                response(*length, *announced, *trailers, &mut bytes);
                if let Some(stream) = which.of(&self.caller.streams) {
                    self.receive(stream.number, &bytes, *cut, true);
                }
            }
            Operation::Frames(which, frames, cut, fin) => {
                let mut bytes = Vec::new();
                frames.iter().for_each(|frame| frame.write(&mut bytes));
                if let Some(stream) = which.of(&self.caller.streams) {
                    self.receive(stream.number, &bytes, *cut, *fin);
                }
            }
            Operation::Control(frames, cut) => {
                let mut bytes = Vec::new();
                frames.iter().for_each(|frame| frame.write(&mut bytes));
                self.receive(3, &bytes, *cut, false);
            }
            Operation::Peer(stream, bytes, cut, fin) => {
                self.receive(peer_stream(*stream), bytes.0, *cut, *fin);
            }
            Operation::Reset(which, code) => {
                if let Some(stream) = which.of(&self.caller.streams) {
                    self.reset(stream.number, *code);
                }
            }
            Operation::ResetPeer(stream) => self.reset(peer_stream(*stream), 0),
            Operation::Stop(which, code) => {
                if let Some(stream) = which.of(&self.caller.streams) {
                    self.stopped(stream.number, *code);
                }
            }
            Operation::StopControl(rarely) => {
                if rarely.now() && self.wire.quic.sent.contains_key(&2) {
                    self.stopped(2, 0);
                }
            }
            Operation::Bidirectional(rarely, number) => {
                if rarely.now() {
                    self.receive(u64::from(*number) * 4 + 1, b"x", Cut::NONE, false);
                }
            }
            Operation::Window(bytes) => {
                self.wire.quic.window += usize::from(*bytes);
                // QUIC says so of each stream that it had refused bytes of; that of others does no harm.
                let streams: Vec<_> = self.wire.quic.sent.keys().copied().collect();
                for stream in streams {
                    self.writable(stream);
                }
            }
            Operation::Writable(which) => {
                if let Some(stream) = which.of(&self.caller.streams) {
                    self.writable(stream.number);
                }
            }
            Operation::GrantBi(count) => self.wire.quic.bi += u64::from(*count),
            Operation::GrantUni(count) => {
                self.wire.quic.uni += u64::from(*count);
                self.wire.connection.grant_uni(&mut self.wire.quic);
            }
            Operation::End(rarely) => {
                if rarely.now() {
                    self.end();
                }
            }
        }
        self.caller.check(&self.wire);
    }

    fn reset(&mut self, stream: u64, code: u8) {
        if self.wire.quic.ended.insert(stream) {
            let code = code_of(code);
            let Wire {
                connection, quic, ..
            } = &mut self.wire;
            let result = connection.reset(stream, code, &mut self.caller.events, quic);
            self.judge(result);
        }
    }

    fn stopped(&mut self, stream: u64, code: u8) {
        if self.wire.quic.unwanted.insert(stream) {
            let code = code_of(code);
            let Wire {
                connection, quic, ..
            } = &mut self.wire;
            let result = connection.stopped(stream, code, &mut self.caller.events, quic);
            self.judge(result);
        }
    }

    fn writable(&mut self, stream: u64) {
        self.wire.connection.writable(stream, &mut self.wire.quic);
    }

    fn end(&mut self) {
        self.wire.connection.eof(&mut self.caller.events);
        self.caller.over();
    }
}

/// One of the peer's unidirectional streams; 3 is its control stream.
fn peer_stream(choice: u8) -> u64 {
    let place = [1, 2, 1, 2, 3, 4, 5, 0][usize::from(choice % 8)];
    place * 4 + 3
}

/// H3_NO_ERROR, H3_REQUEST_REJECTED and others.
fn code_of(choice: u8) -> u64 {
    match choice {
        0..80 => 0x100,
        80..160 => 0x10b,
        choice => u64::from(choice),
    }
}

fn play<const FIELDS: bool>(setup: u8, operations: &[Operation<'_>], cut: bool) -> Played {
    let max_streams = if setup & 1 == 0 { 100 } else { 2 };
    let config = Config {
        field_section: if setup & 2 == 0 { 256 << 10 } else { 200 },
        max_streams,
    };
    let mut quic = match setup & 12 {
        0 => Quic::new(1, 0, 0),
        _ => Quic::new(100, 3, 200_000),
    };
    let mut play = Play::<FIELDS> {
        wire: Wire {
            connection: Connection::new(config, &mut quic),
            quic,
            lengths: Vec::new(),
        },
        caller: Caller::new(),
        lost: None,
        cut,
    };
    if setup & 48 != 0 {
        // Control stream with SETTINGS, and those of QPACK.
        for (stream, bytes) in [(3, &[0, 4, 0][..]), (7, &[2]), (11, &[3])] {
            play.receive(stream, bytes, Cut::NONE, false);
        }
    }
    for operation in operations {
        play.operate(operation);
        if !play.wire.is_closing() {
            let free = max_streams as usize - play.wire.outstanding();
            assert_eq!(play.wire.capacity(), free);
        }
    }
    play.end();
    play.caller.check(&play.wire);
    for &(stream, length) in &play.wire.lengths {
        let content = play.wire.quic.content(stream.number);
        assert!(content.is_none_or(|content| content == length));
    }
    (
        play.caller.events.into_streams(),
        play.lost,
        play.wire.quic.sent,
    )
}

/// Runs one input.
pub(crate) fn target(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let Ok(setup) = u8::arbitrary(&mut input) else {
        return;
    };
    let operations = operations(&mut input);
    let whole = play::<true>(setup, &operations, false);
    assert!(play::<false>(setup, &operations, false) == whole);
    assert!(play::<true>(setup, &operations, true) == whole);
    assert!(play::<false>(setup, &operations, true) == whole);
}
