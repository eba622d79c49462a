//! `wire::h2`.

use arbitrary::{Arbitrary, Unstructured};
use trilane_wire::h2::{Config, Connection};
use trilane_wire::{
    ConnectionError, Encoding, FieldList, Refused, Request, StreamId, Unfinished, Upload,
};

use super::caller::{Call, Caller, Subject};
use super::h2_frames::{Frame, Increment, Setting};
use super::h2_peer::Peer;
use crate::checker::Streams;
use crate::input::{Cut, Rarely, operations};

#[derive(Arbitrary, Debug)]
enum Operation<'a> {
    Call(Call),
    /// Frames of the peer arrive.
    Receive(Vec<Frame<'a>>, Cut),
    Produce,
    /// The transport takes so many bytes.
    Sent(u16),
    End(Rarely),
}

/// A connection with what it has written.
struct Wire {
    connection: Connection,
    out: Vec<u8>,
    /// How many bytes the transport has taken.
    gone: usize,
    /// The contents of the requests, where their lengths are known.
    lengths: Vec<(StreamId, u64)>,
}

impl Subject for Wire {
    fn version(&self) -> Encoding {
        Encoding::H2
    }
    fn send(&mut self, request: &Request, slot: u32) -> Result<StreamId, Refused> {
        let stream = self.connection.send(request, slot, &mut self.out)?;
        self.lengths
            .extend(known_length(request).map(|length| (stream, length)));
        Ok(stream)
    }
    fn write(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        self.connection.write(stream, bytes, &mut self.out)
    }
    fn finish(&mut self, stream: StreamId, trailers: &FieldList) -> Result<(), Unfinished> {
        self.connection.finish(stream, trailers, &mut self.out)
    }
    fn upload(&self, stream: StreamId) -> Upload {
        self.connection.upload(stream)
    }
    fn pause(&mut self, stream: StreamId) {
        self.connection.pause(stream);
    }
    fn resume(&mut self, stream: StreamId) {
        self.connection.resume(stream, &mut self.out);
    }
    fn cancel(&mut self, stream: StreamId) -> bool {
        self.connection.cancel(stream, &mut self.out);
        true
    }
    fn close(&mut self) {
        self.connection.close(&mut self.out);
    }
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
        self.out.len()
    }
}

/// The length of the content, where the request says it.
pub(crate) fn known_length(request: &Request) -> Option<u64> {
    match request.body().len() as u64 {
        0 => request.streamed_length(),
        length => Some(length),
    }
}

/// What must not depend on fields or cuts: the events, the error, and how much was written.
type Played = (Streams, Option<ConnectionError>, usize);

fn play<const FIELDS: bool>(config: Config, operations: &[Operation<'_>], cut: bool) -> Played {
    let mut out = Vec::new();
    let mut wire = Wire {
        connection: Connection::new(config, &mut out),
        out,
        gone: 0,
        lengths: Vec::new(),
    };
    let mut caller = Caller::<FIELDS>::new();
    let mut peer = Peer::new();
    peer.read(&wire.out);
    let mut lost = None;
    for operation in operations {
        let before = wire.out.len();
        match operation {
            Operation::Call(call) => caller.call(*call, &mut wire),
            Operation::Receive(frames, sizes) => {
                let mut bytes = Vec::new();
                for frame in frames {
                    peer.write(frame, &caller.streams, &mut bytes);
                }
                peer.grant(&bytes);
                let sizes = if cut { *sizes } else { Cut::NONE };
                let received = sizes.pieces(&bytes).try_for_each(|piece| {
                    let Wire {
                        connection, out, ..
                    } = &mut wire;
                    connection.receive(piece, &mut caller.events, out)
                });
                // A frame is answered by less than twice its length; the first may have begun before.
                assert!(wire.out.len() <= before + 2 * bytes.len() + 64);
                if let Err(error) = received {
                    // Once it is over, it says the same ever after.
                    assert!(lost.is_none_or(|lost| lost == error));
                    lost = Some(error);
                    caller.over();
                }
            }
            Operation::Produce => {
                if wire.connection.has_output() {
                    wire.connection.produce(&mut wire.out);
                    assert!(wire.out.len() > before, "there was something to write");
                    assert!(wire.out.len() <= before + 84 * 1024);
                }
            }
            Operation::Sent(count) => {
                let taken = wire.out.len().min(usize::from(*count) * 4);
                wire.out.drain(..taken);
                wire.gone += taken;
            }
            Operation::End(rarely) => {
                if rarely.now() {
                    wire.connection.eof(&mut caller.events);
                    caller.over();
                }
            }
        }
        peer.read(wire.out.get(before..).unwrap_or_default());
        assert!(!peer.is_within_a_frame(), "frames are written whole");
        caller.check(&wire);
        if !wire.is_closing() {
            let granted = peer.granted().min(config.max_streams as usize);
            // Stream ids have not run out, but may be fewer than what is granted.
            let free = granted.saturating_sub(wire.outstanding());
            assert_eq!(wire.capacity().min(1 << 20), free.min(1 << 20));
        }
    }
    wire.connection.eof(&mut caller.events);
    caller.over();
    caller.check(&wire);
    for &(stream, length) in &wire.lengths {
        let content = peer.content(stream);
        assert!(content.is_none_or(|content| content == length));
    }
    (
        caller.events.into_streams(),
        lost,
        wire.gone + wire.out.len(),
    )
}

/// The configuration that the first byte chooses.
pub(crate) fn config(choice: u8) -> Config {
    let small = Config {
        stream_window: 100,
        header_table: 64,
        header_list: 200,
        max_streams: 3,
        ..Config::default()
    };
    match choice {
        0..64 => small,
        64..96 => Config {
            stream_window: u32::from(choice - 64),
            ..small
        },
        96..128 => Config {
            max_streams: u32::from(choice),
            ..small
        },
        _ => Config::default(),
    }
}

/// Runs one input.
pub(crate) fn target(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let Ok((choice, window)) = <(u8, u8)>::arbitrary(&mut input) else {
        return;
    };
    let config = config(choice);
    let mut operations = operations(&mut input);
    if choice % 8 != 0 {
        // Without SETTINGS, nothing else counts; and windows of different sizes are told apart.
        let settings = match window {
            0..128 => Vec::new(),
            _ => vec![Setting::Window(Increment::Small(window - 128))],
        };
        let greeting = Operation::Receive(vec![Frame::Settings(settings)], Cut::NONE);
        operations.insert(usize::from(choice % 3).min(operations.len()), greeting);
    }
    let whole = play::<true>(config, &operations, false);
    assert_eq!(play::<false>(config, &operations, false), whole);
    assert_eq!(play::<true>(config, &operations, true), whole);
    assert_eq!(play::<false>(config, &operations, true), whole);
}
