//! `wire::h1`.

use arbitrary::{Arbitrary, Unstructured};
use trilane_wire::h1::{Connection, Limits};
use trilane_wire::{
    ConnectionError, Encoding, End, FieldList, Refused, Request, StreamId, Unfinished, Upload,
};

use super::caller::{Call, Caller, Subject};
use super::h1_peer::Part;
use crate::checker::Streams;
use crate::input::{Cut, Rarely, operations};

#[derive(Arbitrary, Debug)]
enum Operation<'a> {
    Call(Call),
    /// The peer's bytes arrive.
    Receive(Vec<Part<'a>>, Cut),
    Produce,
    /// The transport takes so many bytes.
    Sent(u16),
    End(Rarely, Ending),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Ending {
    Clean,
    Truncated,
    Reset,
}

/// A connection with what it has written.
struct Wire {
    connection: Connection,
    out: Vec<u8>,
    /// What the transport has taken.
    gone: Vec<u8>,
    /// Where each request begins in all that was written.
    begun: Vec<(usize, Request)>,
}

impl Subject for Wire {
    fn version(&self) -> Encoding {
        Encoding::H1
    }
    fn send(&mut self, request: &Request, slot: u32) -> Result<StreamId, Refused> {
        let at = self.gone.len() + self.out.len();
        let sent = self.connection.send(request, slot, &mut self.out)?;
        self.begun.push((at, request.clone()));
        Ok(sent)
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
    fn pause(&mut self, _stream: StreamId) {}
    fn resume(&mut self, _stream: StreamId) {}
    fn cancel(&mut self, _stream: StreamId) -> bool {
        false
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
        self.out.len()
    }
}

impl Wire {
    /// Every request was written from its first byte on, and to its end where another follows.
    fn check_written(&mut self) {
        self.gone.append(&mut self.out);
        let ends = self.begun.iter().skip(1).map(|&(at, _)| at);
        for ((at, request), end) in self.begun.iter().zip(ends.chain([self.gone.len()])) {
            let written = &self.gone[*at..end];
            let written = written.strip_prefix(request.h1_head()).expect("the head");
            if !request.body().is_empty() {
                assert!(request.body().starts_with(written));
                let last = end == self.gone.len();
                assert!(last || written.len() == request.body().len());
            }
        }
    }
}

/// What must not depend on fields or cuts: the events, the error, and all that was written.
type Played = (Streams, Option<ConnectionError>, Vec<u8>);

fn play<const FIELDS: bool>(limits: Limits, operations: &[Operation<'_>], cut: bool) -> Played {
    let mut wire = Wire {
        connection: Connection::new(limits),
        out: Vec::new(),
        gone: Vec::new(),
        begun: Vec::new(),
    };
    let mut caller = Caller::<FIELDS>::new();
    let mut lost = None;
    for operation in operations {
        match operation {
            Operation::Call(call) => caller.call(*call, &mut wire),
            Operation::Receive(parts, sizes) => {
                let mut bytes = Vec::new();
                parts.iter().for_each(|part| part.write(&mut bytes));
                let sizes = if cut { *sizes } else { Cut::NONE };
                let before = wire.out.len();
                let received = sizes.pieces(&bytes).try_for_each(|piece| {
                    let Wire {
                        connection, out, ..
                    } = &mut wire;
                    connection.receive(piece, &mut caller.events, out)
                });
                assert_eq!(wire.out.len(), before, "HTTP/1.1 answers nothing");
                assert!(!caller.is_over() || bytes.is_empty() || received.is_err());
                if let Err(error) = received {
                    lost = lost.or(Some(error));
                    caller.over();
                }
            }
            Operation::Produce => {
                if wire.connection.has_output() {
                    wire.connection.produce(&mut wire.out);
                }
                assert!(
                    wire.out.len() <= 256 * 1024,
                    "content waits to be asked for"
                );
            }
            Operation::Sent(count) => {
                let taken = wire.out.len().min(usize::from(*count) * 4);
                wire.gone.extend(wire.out.drain(..taken));
            }
            Operation::End(rarely, ending) => {
                if rarely.now() {
                    end(*ending, &mut wire, &mut caller);
                }
            }
        }
        caller.check(&wire);
        let free = usize::from(!wire.is_closing() && wire.outstanding() == 0);
        assert_eq!(wire.capacity(), free);
    }
    end(Ending::Clean, &mut wire, &mut caller);
    caller.check(&wire);
    wire.check_written();
    (caller.events.into_streams(), lost, wire.gone)
}

fn end<const FIELDS: bool>(ending: Ending, wire: &mut Wire, caller: &mut Caller<FIELDS>) {
    let end = match ending {
        Ending::Clean => End::Clean,
        Ending::Truncated => End::Truncated,
        Ending::Reset => End::Reset,
    };
    wire.connection.eof(end, &mut caller.events);
    caller.over();
}

/// Runs one input.
pub(crate) fn target(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let Ok(small) = bool::arbitrary(&mut input) else {
        return;
    };
    let limits = if small {
        Limits {
            head_bytes: 100,
            fields: 3,
            informational: 1,
        }
    } else {
        Limits::default()
    };
    let operations = operations(&mut input);
    let whole = play::<true>(limits, &operations, false);
    assert_eq!(play::<false>(limits, &operations, false), whole);
    assert_eq!(play::<true>(limits, &operations, true), whole);
    assert_eq!(play::<false>(limits, &operations, true), whole);
}
