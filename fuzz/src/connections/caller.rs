//! What a caller does, whatever the version, and what it may expect.

use arbitrary::Arbitrary;
use trilane_wire::{Encoding, FieldList, Refused, Request, StreamId, Unfinished, Upload};

use crate::checker::Checker;
use crate::input::{Rarely, Which};
use crate::requests::Kind;

/// A connection, as its callers see it.
pub(crate) trait Subject {
    fn version(&self) -> Encoding;
    fn send(&mut self, request: &Request, slot: u32) -> Result<StreamId, Refused>;
    fn write(&mut self, stream: StreamId, bytes: &[u8]) -> usize;
    fn finish(&mut self, stream: StreamId, trailers: &FieldList) -> Result<(), Unfinished>;
    fn upload(&self, stream: StreamId) -> Upload;
    fn pause(&mut self, stream: StreamId);
    fn resume(&mut self, stream: StreamId);
    /// False where the version has no way to.
    fn cancel(&mut self, stream: StreamId) -> bool;
    fn close(&mut self);
    fn capacity(&self) -> usize;
    fn outstanding(&self) -> usize;
    fn is_closing(&self) -> bool;
    /// Bytes that have been written and have not gone.
    fn waiting(&self) -> usize;
}

/// What a caller does.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub(crate) enum Call {
    Send(Kind),
    Write(Which, u16),
    Finish(Which, Trailers),
    Pause(Which),
    Resume(Which),
    Cancel(Which),
    Close(Rarely),
}

/// What follows the content of a request.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trailers {
    None,
    Some,
    /// What only the head of a request may have.
    Forbidden,
}

/// With so much waiting, in bytes, the caller sends nothing more, as the engine and the client do.
const BACKLOG: usize = 128 * 1024;
/// What one call may add to what waits, in bytes: a head, content of 64 KiB and the frame that reaches
/// them; over HTTP/1.1 content of 256 KiB.
fn growth(version: Encoding) -> usize {
    let content = if version == Encoding::H1 { 256 } else { 64 };
    (20 + content) * 1024
}

/// The caller of one connection.
pub(crate) struct Caller<const FIELDS: bool> {
    pub(crate) events: Checker<FIELDS>,
    /// All that were sent, in order.
    pub(crate) streams: Vec<StreamId>,
    contents: Vec<Content>,
    closing: bool,
    over: bool,
}

/// The content of one request.
struct Content {
    /// Bytes that were announced and have not been written.
    left: Option<u64>,
    upload: Upload,
}

impl<const FIELDS: bool> Caller<FIELDS> {
    pub(crate) fn new() -> Self {
        Self {
            events: Checker::default(),
            streams: Vec::new(),
            contents: Vec::new(),
            closing: false,
            over: false,
        }
    }

    /// Does what `call` says, and holds the connection to what it answers.
    pub(crate) fn call(&mut self, call: Call, subject: &mut impl Subject) {
        let before = subject.waiting();
        if before > BACKLOG {
            return;
        }
        match call {
            Call::Send(kind) => self.send(kind, subject),
            Call::Write(which, length) => self.write(which, length, subject),
            Call::Finish(which, trailers) => self.finish(which, trailers, subject),
            Call::Pause(which) => self.each(which, |stream| subject.pause(stream)),
            Call::Resume(which) => self.each(which, |stream| subject.resume(stream)),
            Call::Cancel(which) => {
                if let Some(stream) = which.of(&self.streams)
                    && subject.cancel(stream)
                {
                    self.events.cancelled(stream);
                }
            }
            Call::Close(rarely) => {
                if rarely.now() {
                    subject.close();
                }
            }
        }
        let (after, most) = (subject.waiting(), growth(subject.version()));
        assert!(after <= before + most, "a call wrote {before} to {after}");
    }

    fn each(&self, which: Which, mut act: impl FnMut(StreamId)) {
        if let Some(stream) = which.of(&self.streams) {
            act(stream);
        }
    }

    fn send(&mut self, kind: Kind, subject: &mut impl Subject) {
        let (capacity, waiting) = (subject.capacity(), subject.waiting());
        let request = kind.request(subject.version());
        let slot = self.streams.len() as u32 * 7;
        match subject.send(request, slot) {
            Ok(id) => {
                assert!(capacity > 0, "a request beyond the capacity");
                assert_eq!(id.slot, slot);
                self.events.sent(id);
                self.streams.push(id);
                self.contents.push(Content {
                    left: kind.announced(),
                    upload: subject.upload(id),
                });
            }
            Err(refused) => {
                assert_eq!(subject.waiting(), waiting, "a refused request left a trace");
                match refused {
                    Refused::Draining => assert!(subject.is_closing()),
                    Refused::TooLarge { size, limit } => assert!(size > limit),
                    // QUIC may grant no stream although the connection has capacity.
                    Refused::Full => {
                        assert!(capacity == 0 || subject.version() == Encoding::H3);
                    }
                    Refused::Exhausted => panic!("stream ids cannot have run out"),
                    Refused::NoConnectProtocol => panic!("no request asked for another protocol"),
                }
            }
        }
    }

    fn write(&mut self, which: Which, length: u16, subject: &mut impl Subject) {
        let Some((stream, content)) = self.content(which) else {
            return;
        };
        let open = subject.upload(stream) == Upload::Open;
        let bytes = vec![b'c'; length.into()];
        let taken = subject.write(stream, &bytes);
        assert!(taken <= bytes.len());
        assert!(open || taken == 0, "content was taken that nobody wants");
        if let Some(left) = &mut content.left {
            *left = left
                .checked_sub(taken as u64)
                .expect("no more than was announced");
        }
    }

    fn finish(&mut self, which: Which, trailers: Trailers, subject: &mut impl Subject) {
        let Some((stream, content)) = self.content(which) else {
            return;
        };
        let mut fields = FieldList::new();
        match trailers {
            Trailers::None => (),
            Trailers::Some => fields.push(b"X-Sum", b"1"),
            Trailers::Forbidden => fields.push(b"Content-Length", b"1"),
        }
        let (open, waiting) = (subject.upload(stream) == Upload::Open, subject.waiting());
        let finished = subject.finish(stream, &fields);
        if !open {
            assert_eq!(finished, Ok(()));
            assert_eq!(subject.waiting(), waiting, "an end that nobody waits for");
            return;
        }
        match finished {
            Ok(()) => {
                assert!(trailers != Trailers::Forbidden && content.left.unwrap_or(0) == 0);
                assert_ne!(subject.upload(stream), Upload::Open);
            }
            Err(unfinished) => {
                match unfinished {
                    Unfinished::Short { missing } => assert_eq!(content.left, Some(missing)),
                    Unfinished::Trailer => assert_eq!(trailers, Trailers::Forbidden),
                    Unfinished::TooLarge => assert_eq!(trailers, Trailers::Some),
                }
                assert_eq!(subject.upload(stream), Upload::Open, "it stays open");
            }
        }
    }

    fn content(&mut self, which: Which) -> Option<(StreamId, &mut Content)> {
        let stream = which.of(&self.streams)?;
        let at = self.streams.iter().position(|&other| other == stream)?;
        Some((stream, &mut self.contents[at]))
    }

    /// What holds after every operation.
    pub(crate) fn check(&mut self, subject: &impl Subject) {
        let outstanding = self.events.outstanding();
        assert_eq!(subject.outstanding(), outstanding);
        let closing = subject.is_closing();
        assert!(closing || !self.closing, "a connection that was closing");
        self.closing = closing;
        if closing {
            assert_eq!(subject.capacity(), 0);
        }
        if self.over {
            assert!(closing && outstanding == 0, "a connection that was over");
        }
        for (&stream, content) in self.streams.iter().zip(&mut self.contents) {
            let upload = subject.upload(stream);
            assert!(
                content.upload == Upload::Open || upload != Upload::Open,
                "content that had ended may be written again"
            );
            content.upload = upload;
        }
    }

    /// The connection has said that it is over.
    pub(crate) fn over(&mut self) {
        self.events.over();
        self.over = true;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over
    }
}
