//! A recorder of events and a connection that reads a script.

use std::sync::Arc;

use trilane_wire::h1::{Connection, Limits};
use trilane_wire::{
    ConnectionError, End, Events, Fields, Head, Request, RequestParts, StreamError, StreamId,
};

pub(crate) type FieldVec = Vec<(String, String)>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Informational {
        status: u16,
        bytes: usize,
        fields: FieldVec,
    },
    Head {
        status: u16,
        length: Option<u64>,
        bytes: usize,
        fields: FieldVec,
    },
    /// Everything between two other events.
    Data(Vec<u8>),
    End(Option<FieldVec>),
    Fail(StreamError),
}

/// Keeps what happened, together with the slot of the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorder<const FIELDS: bool> {
    pub(crate) events: Vec<(StreamId, Event)>,
}

impl<const FIELDS: bool> Recorder<FIELDS> {
    fn push(&mut self, stream: StreamId, event: Event) {
        self.events.push((stream, event));
    }
}

pub(crate) fn owned(fields: Fields<'_>) -> FieldVec {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    fields
        .iter()
        .map(|(name, value)| (text(name), text(value)))
        .collect()
}

impl<const FIELDS: bool> Events for Recorder<FIELDS> {
    const FIELDS: bool = FIELDS;

    fn informational(&mut self, stream: StreamId, head: Head<'_>) {
        let (status, bytes) = (head.status, head.encoded_bytes);
        self.push(
            stream,
            Event::Informational {
                status,
                bytes,
                fields: owned(head.fields),
            },
        );
    }

    fn head(&mut self, stream: StreamId, head: Head<'_>) {
        if FIELDS {
            // As HTTP/2 would have it: with `:status`.
            let fields = head.fields.iter();
            let bytes: usize = fields.map(|(name, value)| name.len() + value.len()).sum();
            assert_eq!(head.decoded_bytes, ":status".len() + 3 + bytes);
        }
        assert!(head.decoded_bytes < head.encoded_bytes);
        self.push(
            stream,
            Event::Head {
                status: head.status,
                length: head.content_length,
                bytes: head.encoded_bytes,
                fields: owned(head.fields),
            },
        );
    }

    fn data(&mut self, stream: StreamId, bytes: &[u8]) {
        assert!(!bytes.is_empty());
        match self.events.last_mut() {
            Some((last, Event::Data(data))) if *last == stream => data.extend_from_slice(bytes),
            _ => self.push(stream, Event::Data(bytes.to_vec())),
        }
    }

    fn end(&mut self, stream: StreamId, trailers: Option<Fields<'_>>) {
        self.push(stream, Event::End(trailers.map(owned)));
    }

    fn fail(&mut self, stream: StreamId, error: StreamError) {
        self.push(stream, Event::Fail(error));
    }
}

pub(crate) fn request(method: &str, fields: &[(&str, &str)], body: &[u8]) -> Request {
    let fields: Vec<_> = fields
        .iter()
        .map(|&(name, value)| (name.into(), value.into()))
        .collect();
    Request::new(&RequestParts {
        method,
        scheme: "http",
        authority: "a.example",
        path: "/",
        fields: &fields,
        body: Arc::from(body),
        repeated: true,
    })
    .unwrap()
}

/// What one connection reported, and how it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) events: Vec<(StreamId, Event)>,
    pub(crate) error: Option<ConnectionError>,
    pub(crate) closing: bool,
    pub(crate) outstanding: usize,
}

impl Outcome {
    /// The events alone.
    pub(crate) fn all(&self) -> Vec<Event> {
        self.events.iter().map(|(_, event)| event.clone()).collect()
    }

    pub(crate) fn status(&self) -> u16 {
        let head = self.events.iter().find_map(|(_, event)| match event {
            Event::Head { status, .. } => Some(*status),
            _ => None,
        });
        head.expect("a head arrived")
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        let data = self.events.iter().filter_map(|(_, event)| match event {
            Event::Data(data) => Some(&data[..]),
            _ => None,
        });
        data.collect::<Vec<_>>().concat()
    }

    /// Whether the last request ended well.
    pub(crate) fn ended(&self) -> bool {
        matches!(self.events.last(), Some((_, Event::End(_))))
    }

    pub(crate) fn failure(&self) -> Option<StreamError> {
        match self.events.last() {
            Some((_, Event::Fail(error))) => Some(*error),
            _ => None,
        }
    }
}

/// How answers arrive.
#[derive(Clone, Copy, Debug)]
enum Split {
    /// In two pieces, the first with so many bytes.
    At(usize),
    Bytes,
}

impl Split {
    fn pieces(self, bytes: &[u8]) -> Vec<&[u8]> {
        match self {
            Self::At(at) => <[_; 2]>::from(bytes.split_at(at.min(bytes.len()))).into(),
            Self::Bytes => bytes.chunks(1).collect(),
        }
    }
}

/// What a server sends, and when.
pub(crate) struct Script<'a> {
    pub(crate) method: &'a str,
    pub(crate) limits: Limits,
    /// One answer after another, each to a request of its own.
    pub(crate) answers: &'a [&'a [u8]],
    /// Whether the server then closes.
    pub(crate) eof: Option<End>,
}

impl<'a> Script<'a> {
    pub(crate) fn new(answers: &'a [&'a [u8]]) -> Self {
        Self {
            method: "GET",
            limits: Limits::default(),
            answers,
            eof: None,
        }
    }

    fn play<const FIELDS: bool>(&self, split: Split) -> Outcome {
        let request = request(self.method, &[], b"");
        let mut connection = Connection::new(self.limits);
        let mut recorder = Recorder::<FIELDS>::default();
        let mut out = Vec::new();
        let mut error = None;
        'answers: for (slot, answer) in self.answers.iter().enumerate() {
            if connection.send(&request, slot as u32, &mut out).is_err() {
                break;
            }
            for piece in split.pieces(answer) {
                if let Err(lost) = connection.receive(piece, &mut recorder, &mut out) {
                    error = Some(lost);
                    break 'answers;
                }
            }
        }
        if let Some(end) = self.eof
            && error.is_none()
        {
            connection.eof(end, &mut recorder);
        }
        assert_eq!(
            connection.capacity() > 0,
            connection.outstanding() == 0 && !connection.is_closing()
        );
        Outcome {
            events: recorder.events,
            error,
            closing: connection.is_closing(),
            outstanding: connection.outstanding(),
        }
    }
}

/// The outcome of one answer to a GET, checked to be the same at every split and with fields.
pub(crate) fn answer(bytes: &[u8]) -> Outcome {
    play(&Script::new(&[bytes]))
}

/// The outcome when the server closes behind its answer.
pub(crate) fn answer_then_close(bytes: &[u8]) -> Outcome {
    play(&Script {
        eof: Some(End::Clean),
        ..Script::new(&[bytes])
    })
}

pub(crate) fn answer_to(method: &str, bytes: &[u8]) -> Outcome {
    play(&Script {
        method,
        ..Script::new(&[bytes])
    })
}

/// Plays a script whole, byte by byte and cut in two at every place, with and without fields, and
/// expects no difference. Gives the outcome with fields.
pub(crate) fn play(script: &Script<'_>) -> Outcome {
    let full = script.play::<true>(Split::At(usize::MAX));
    let fast = without_fields(full.clone());
    let longest = script
        .answers
        .iter()
        .map(|answer| answer.len())
        .max()
        .unwrap_or(0);
    for split in (0..=longest).map(Split::At).chain([Split::Bytes]) {
        assert_eq!(script.play::<true>(split), full, "{split:?}");
        assert_eq!(script.play::<false>(split), fast, "{split:?}");
    }
    full
}

fn without_fields(mut outcome: Outcome) -> Outcome {
    for (_, event) in &mut outcome.events {
        match event {
            Event::Informational { fields, .. } | Event::Head { fields, .. } => fields.clear(),
            Event::End(trailers) => *trailers = None,
            Event::Data(_) | Event::Fail(_) => {}
        }
    }
    outcome
}
