//! Calls without a connection: what is written when, and how each kind of end is counted.

mod answers;
mod messages;
mod streams;

use std::path::PathBuf;
use std::time::Duration;

use trilane_grpc::status::Code;
use trilane_grpc::{Schema, frame};
use trilane_wire::{
    ErrorKind, Events, FieldList, Fields, Head, StreamError, StreamId, Unprocessed,
};

use super::upload::Writer;
use super::{Answers, Call, CallMode, CallSink, HalfClose, Message, end_ours};
use crate::exchanges::Exchanges;
use crate::failure::FailureKind;
use crate::options::Options;
use crate::plan::{Plan, PlanError};
use crate::record::{Early, Recorder};
use crate::tally::{Pending, Tally};

const MILLISECOND: u64 = 1_000_000;

/// A call of the library service with the messages in `json`.
pub(crate) fn call(name: &str, json: &str) -> Call {
    let proto = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let file = proto.join("trilane/library/v1/library.proto");
    let schema = Schema::from_proto(&[file], &[proto]).unwrap();
    let method = schema
        .method(&format!("trilane.library.v1.Library/{name}"))
        .unwrap();
    Call {
        messages: Message::all(&method, json).unwrap(),
        method,
        expected: Vec::new(),
    }
}

fn plan(call: Call, change: impl FnOnce(&mut Options)) -> Result<Plan, PlanError> {
    let mut options = Options {
        urls: vec!["http://a.example/prefix/".into()],
        connections: 1,
        requests: Some(10),
        call: Some(call),
        ..Options::default()
    };
    change(&mut options);
    Plan::new(&options)
}

fn refusal(call: Call, change: impl FnOnce(&mut Options)) -> String {
    plan(call, change).unwrap_err().to_string()
}

#[test]
fn a_call_is_a_request_with_the_fields_of_grpc() {
    let call = call("GetBook", r#"{"name": "shelves/1/books/1"}"#);
    let plan = plan(call, |options| {
        options.calls.deadline = Some(Duration::from_millis(50));
        options.calls.gzip = true;
        options.fields = vec!["x-a: b".into()];
    })
    .unwrap();
    let request = &plan.prepared[0];
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let fields: Vec<_> = request
        .fields()
        .map(|(name, value, _)| (text(name), text(value)))
        .collect();
    for (name, value) in [
        (":method", "POST"),
        (":path", "/prefix/trilane.library.v1.Library/GetBook"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("grpc-timeout", "50000000n"),
        ("grpc-encoding", "gzip"),
        ("x-a", "b"),
    ] {
        let wanted = (name.to_owned(), value.to_owned());
        assert!(fields.contains(&wanted), "{name} in {fields:?}");
    }
    assert_eq!(request.body()[0], 1, "the message is marked as compressed");
}

#[test]
fn what_cannot_be_called_is_told() {
    let unary = || call("GetBook", "{}");
    let two = call("GetBook", "{} {}");
    assert!(refusal(two, |_| ()).contains("takes one message"));
    let many = |options: &mut Options| options.calls.count = Some(3);
    assert!(refusal(unary(), many).contains("leave --messages out"));
    let none = |options: &mut Options| options.calls.count = Some(0);
    assert!(refusal(unary(), none).contains("leave --messages out"));
    let empty = plan(call("ImportBooks", "{}"), none).unwrap();
    let calls = empty.calls.as_ref().unwrap();
    assert_eq!(calls.first().content(), b"");
    // An empty message without a prefix, as Connect has it, has left with the head.
    let bare = plan(unary(), |options| {
        options.calls.protocol = super::Protocol::Connect;
    });
    assert_eq!(bare.unwrap().calls.unwrap().first().whole(0), Some(1));
    let field = |text: &str| refusal(unary(), |options| options.fields = vec![text.into()]);
    assert!(field("TE: trailers").contains("leave it out"));
    assert!(field("grpc-timeout: 1S").contains("--deadline"));
    assert!(field("a-bin: not base 64!").contains("a-bin"));
    let immediate = |options: &mut Options| options.calls.deadline = Some(Duration::ZERO);
    assert!(refusal(unary(), immediate).contains("--deadline 1s"));
    assert!(field("nonsense").contains("is not a header"));
    let query = refusal(unary(), |options| {
        options.urls = vec!["http://a.example/?a=b".into()];
    });
    assert!(query.contains("leave ?a=b out"), "{query}");
}

/// Takes a few bytes at a time.
struct Slow {
    room: usize,
    taken: Vec<u8>,
    ended: bool,
    given_up: bool,
}

impl Writer for Slow {
    fn write(&mut self, _stream: StreamId, bytes: &[u8]) -> usize {
        let length = bytes.len().min(self.room);
        self.room -= length;
        self.taken.extend_from_slice(&bytes[..length]);
        length
    }

    fn finish(&mut self, _stream: StreamId) {
        self.ended = true;
    }

    fn is_open(&self, _stream: StreamId) -> bool {
        !self.ended
    }

    fn give_up(&mut self, _stream: StreamId) {
        self.given_up = true;
    }

    fn gathered(&self) -> usize {
        0
    }
}

impl Slow {
    fn with_room(room: usize) -> Self {
        Self {
            room,
            taken: Vec::new(),
            ended: false,
            given_up: false,
        }
    }

    /// How many messages of eight bytes it has.
    fn messages(&self) -> usize {
        assert!(self.taken.len().is_multiple_of(8));
        self.taken.len() / 8
    }
}

const ID: StreamId = StreamId { number: 1, slot: 0 };

/// One call in flight on a connection.
struct Flight<'p> {
    plan: &'p Plan,
    exchanges: Exchanges,
    tally: Tally<'p>,
    now: u64,
}

impl<'p> Flight<'p> {
    fn new(plan: &'p Plan) -> Self {
        let mut exchanges = Exchanges::new(plan, 0);
        let pending = Pending {
            intended: 1,
            ..Pending::default()
        };
        exchanges.open(ID, pending, 0, 1, false);
        let call = plan.calls.as_ref().unwrap().first();
        exchanges.calls.open(call, ID, pending, 1);
        Self {
            plan,
            exchanges,
            tally: Tally::new(plan, Recorder::new(false)),
            now: MILLISECOND,
        }
    }

    fn sink(&mut self) -> CallSink<'_, 'p> {
        CallSink {
            now: self.now,
            plan: self.plan.calls.as_ref().unwrap(),
            exchanges: &mut self.exchanges,
            tally: &mut self.tally,
            cause: None,
        }
    }

    fn head(&mut self, status: u16, fields: &[(&str, &str)]) {
        let list = list(fields);
        self.sink().head(
            ID,
            Head {
                status,
                content_length: None,
                encoded_bytes: 1,
                decoded_bytes: 1,
                reason: b"",
                http_1_0: false,
                fields: list.as_fields(),
            },
        );
    }

    fn ok_head(&mut self) {
        self.head(200, &[("content-type", "application/grpc+proto")]);
    }

    fn message(&mut self, message: &[u8]) {
        let mut bytes = Vec::new();
        frame::write(message, false, &mut bytes);
        self.sink().data(ID, &bytes);
    }

    fn end(&mut self, trailers: Option<&[(&str, &str)]>) {
        let list = trailers.map(list);
        let trailers = list.as_ref().map_or(Fields::empty(), FieldList::as_fields);
        self.sink().end(ID, list.is_some().then_some(trailers));
    }

    fn advance(&mut self, writer: &mut Slow) {
        let plan = self.plan.calls.as_ref().unwrap();
        let (now, calls) = (self.now, &mut self.exchanges.calls);
        calls.expire(plan, writer, now);
        calls.advance(plan, writer, &mut self.tally.recorder, now);
        end_ours(plan, &mut self.exchanges, &mut self.tally, now);
    }

    /// The statuses that were counted.
    fn statuses(&mut self) -> Vec<(&'static str, u64)> {
        self.tally.recorder.calls().statuses().collect()
    }

    /// The one failure, and what it says.
    fn failure(&self) -> (FailureKind, String) {
        let recorder = &self.tally.recorder;
        assert_eq!((recorder.ok, recorder.failures.total()), (0, 1));
        let (kind, _, text) = recorder.failures.iter().next().unwrap();
        (kind, text.to_owned())
    }
}

fn list(fields: &[(&str, &str)]) -> FieldList {
    let mut list = FieldList::new();
    for (name, value) in fields {
        list.push(name.as_bytes(), value.as_bytes());
    }
    list
}

#[test]
fn each_message_waits_for_the_answer_to_the_one_before() {
    let call = call("LookUpBooks", r#"{"name": "a"} {"name": "b"}"#);
    let plan = plan(call, |options| options.calls.count = Some(3)).unwrap();
    let mut flight = Flight::new(&plan);
    let mut peer = Slow::with_room(5);
    flight.advance(&mut peer);
    assert_eq!(peer.taken, b"\0\0\0\0\x03", "no more than the peer takes");
    peer.room = 1000;
    flight.advance(&mut peer);
    assert_eq!(peer.taken, b"\0\0\0\0\x03\x0a\x01a");
    flight.advance(&mut peer);
    assert_eq!(peer.taken.len(), 8, "nothing before the answer");
    flight.ok_head();
    for (length, ended) in [(16, false), (24, true), (24, true)] {
        flight.now += MILLISECOND;
        flight.message(b"");
        flight.advance(&mut peer);
        assert_eq!((peer.taken.len(), peer.ended), (length, ended));
    }
    assert_eq!(
        &peer.taken[8..],
        b"\0\0\0\0\x03\x0a\x01b\0\0\0\0\x03\x0a\x01a"
    );
    flight.end(Some(&[("grpc-status", "0")]));
    let recorder = &mut flight.tally.recorder;
    assert_eq!(
        (
            recorder.ok,
            recorder.calls().sent,
            recorder.calls().received
        ),
        (1, 3, 3)
    );
    assert_eq!(recorder.calls().recent.count(), 3);
    assert_eq!(recorder.early.count, 0);
}

#[test]
fn a_call_that_ends_before_its_content_has_left_is_counted() {
    let call = call("LookUpBooks", r#"{"name": "a"} {"name": "b"}"#);
    let plan = plan(call, |options| options.calls.count = Some(3)).unwrap();
    let mut flight = Flight::new(&plan);
    let mut peer = Slow::with_room(7);
    flight.advance(&mut peer);
    flight.ok_head();
    // Of what the connection took, the socket has not taken all.
    flight.sink().unsent(ID, 4);
    flight.end(Some(&[("grpc-status", "0")]));
    let early = Early {
        count: 1,
        body_bytes: 24,
        body_sent: 3,
    };
    assert_eq!(flight.tally.recorder.early, early);
}

#[test]
fn messages_are_encoded_in_each_call_where_asked() {
    let call = call("GetBook", r#"{"name": "a"}"#);
    let plan = plan(call, |options| options.calls.mode = CallMode::Codec).unwrap();
    assert!(plan.prepared[0].body().is_empty());
    let mut flight = Flight::new(&plan);
    let mut peer = Slow::with_room(1000);
    flight.advance(&mut peer);
    assert_eq!(
        (peer.taken.as_slice(), peer.ended),
        (&b"\0\0\0\0\x03\x0a\x01a"[..], true)
    );
    flight.ok_head();
    // Field 1 of a book is a string: this one is cut.
    flight.message(b"\x0a\x05ab");
    flight.end(Some(&[("grpc-status", "0")]));
    let (kind, text) = flight.failure();
    assert_eq!(kind, FailureKind::Body);
    assert!(text.contains("trilane.library.v1.Book"), "{text}");
}

#[test]
fn a_reset_after_the_deadline_is_the_deadline() {
    let plan = plan(call("GetBook", "{}"), |options| {
        options.calls.deadline = Some(Duration::from_millis(50));
    })
    .unwrap();
    let reset = StreamError {
        kind: ErrorKind::Reset,
        unprocessed: Unprocessed::Unknown,
        code: Some(8),
        reason: "reset",
    };
    for (after, kind, censored) in [(20, FailureKind::Reset, 0), (51, FailureKind::Status, 1)] {
        let mut flight = Flight::new(&plan);
        flight.now = after * MILLISECOND;
        flight.sink().fail(ID, reset);
        assert_eq!(flight.failure().0, kind, "after {after} ms");
        assert_eq!(flight.tally.recorder.censored, censored);
    }
}

#[test]
fn a_call_counts_as_ok_by_the_status_that_is_expected() {
    let missing = |flight: &mut Flight<'_>| {
        flight.ok_head();
        flight.end(Some(&[("grpc-status", "5")]));
    };
    let expect = |options: &mut Options| options.calls.expected = vec![Code::NotFound];
    let plan = plan(call("GetBook", "{}"), expect).unwrap();
    let mut flight = Flight::new(&plan);
    missing(&mut flight);
    assert_eq!(
        (flight.tally.recorder.ok, flight.statuses()),
        (1, vec![("NOT_FOUND", 1)])
    );
    let lasted: Vec<_> = flight.tally.recorder.calls().lasted().collect();
    assert_eq!(
        (lasted.len(), lasted[0].0, lasted[0].1.count()),
        (1, "NOT_FOUND", 1)
    );

    let mut flight = Flight::new(&plan);
    flight.ok_head();
    flight.message(b"");
    flight.end(Some(&[("grpc-status", "0")]));
    let (kind, text) = flight.failure();
    assert_eq!(kind, FailureKind::Status);
    assert!(text.contains("NOT_FOUND was expected"), "{text}");
}

#[test]
fn each_end_of_a_call_has_a_status() {
    let reset = |kind, code| StreamError {
        kind,
        unprocessed: Unprocessed::Unknown,
        code,
        reason: "over",
    };
    type Script<'a> = &'a dyn Fn(&mut Flight<'_>);
    let cases: [(&str, Script<'_>); 5] = [
        ("UNAVAILABLE", &|flight| {
            flight.head(503, &[("content-type", "text/html")]);
            flight.end(None);
        }),
        ("CANCELLED", &|flight| {
            flight.sink().fail(ID, reset(ErrorKind::Reset, Some(8)));
        }),
        ("UNAVAILABLE", &|flight| {
            flight.sink().fail(ID, reset(ErrorKind::Closed, None));
        }),
        ("INTERNAL", &|flight| {
            flight.ok_head();
            flight.sink().data(ID, &[0, 0, 0, 0, 9, 1]);
            flight.end(Some(&[("grpc-status", "0")]));
        }),
        ("UNKNOWN", &|flight| {
            flight.head(200, &[("content-type", "text/html")]);
            flight.end(None);
        }),
    ];
    let plan = plan(call("GetBook", "{}"), |_| ()).unwrap();
    for (status, script) in cases {
        let mut flight = Flight::new(&plan);
        script(&mut flight);
        assert_eq!(flight.statuses(), [(status, 1)]);
        assert_eq!(flight.tally.recorder.failures.total(), 1);
    }
}

#[test]
fn a_message_that_is_too_large_ends_the_call() {
    for mode in [CallMode::Wire, CallMode::Codec] {
        let plan = plan(call("GetBook", "{}"), |options| {
            options.calls.max_message = 4;
            options.calls.mode = mode;
        })
        .unwrap();
        let mut flight = Flight::new(&plan);
        flight.ok_head();
        flight.sink().data(ID, &[0, 0, 0, 0, 5, 1]);
        let (kind, text) = flight.failure();
        assert_eq!(kind, FailureKind::Limit);
        assert!(
            text.contains("limit of 4") && text.contains("--max-message"),
            "{text}"
        );
        assert_eq!(flight.statuses(), [("RESOURCE_EXHAUSTED", 1)]);
        // What else comes is no call's.
        flight.sink().data(ID, &[1, 2, 3, 4]);
        flight.end(Some(&[("grpc-status", "0")]));
        assert_eq!(flight.tally.recorder.failures.total(), 1);
        let mut peer = Slow::with_room(0);
        flight.advance(&mut peer);
        assert!(peer.given_up);
    }
}

#[test]
fn messages_that_had_not_left_when_the_server_ended_the_call_are_not_counted_as_sent() {
    // Small ones go with the head of the call.
    let plan = plan(call("ImportBooks", r#"{"parent": "a"}"#), |options| {
        options.calls.count = Some(100);
    })
    .unwrap();
    let mut flight = Flight::new(&plan);
    flight.tally.recorder.calls().sent += 100;
    flight.ok_head();
    flight.message(b"");
    // Eight bytes each.
    flight.sink().unsent(ID, 721);
    flight.end(Some(&[("grpc-status", "0")]));
    assert_eq!(flight.tally.recorder.calls().sent, 9);
    assert_eq!(flight.tally.recorder.early.count, 1);
}
