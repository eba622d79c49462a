//! Calls without a connection: what is written when, and how each kind of end is counted.

use std::path::PathBuf;
use std::time::Duration;

use trilane_grpc::{Schema, frame};
use trilane_wire::{
    ErrorKind, Events, FieldList, Fields, Head, StreamError, StreamId, Unprocessed,
};

use super::upload::Writer;
use super::{Call, CallMode, CallSink};
use crate::exchanges::Exchanges;
use crate::failure::FailureKind;
use crate::options::Options;
use crate::plan::{Plan, PlanError};
use crate::record::{Early, Recorder};
use crate::tally::{Pending, Tally};

const MILLISECOND: u64 = 1_000_000;

fn call(name: &str, json: &str) -> Call {
    let proto = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let file = proto.join("trilane/library/v1/library.proto");
    let schema = Schema::from_proto(&[file], &[proto]).unwrap();
    let method = schema
        .method(&format!("trilane.library.v1.Library/{name}"))
        .unwrap();
    Call {
        messages: method.requests(json).unwrap(),
        method,
        schema: "--proto".into(),
        count: None,
        mode: CallMode::Wire,
        deadline: None,
        gzip: false,
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
    let call = Call {
        deadline: Some(Duration::from_millis(50)),
        gzip: true,
        ..call("GetBook", r#"{"name": "shelves/1/books/1"}"#)
    };
    let plan = plan(call, |options| options.fields = vec!["x-a: b".into()]).unwrap();
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
    let many = Call {
        count: Some(3),
        ..unary()
    };
    assert!(refusal(many, |_| ()).contains("leave --messages out"));
    let none = Call {
        count: Some(0),
        ..call("ImportBooks", "{}")
    };
    assert!(refusal(none, |_| ()).contains("--messages 1"));
    let field = |text: &str| refusal(unary(), |options| options.fields = vec![text.into()]);
    assert!(field("TE: trailers").contains("leave it out"));
    assert!(field("grpc-timeout: 1S").contains("--deadline"));
    assert!(field("a-bin: not base 64!").contains("a-bin"));
    let immediate = Call {
        deadline: Some(Duration::ZERO),
        ..unary()
    };
    assert!(refusal(immediate, |_| ()).contains("--deadline 1s"));
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
        panic!("the call is alive");
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
        exchanges.calls.open(plan.call.as_ref().unwrap(), ID, 1);
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
            plan: self.plan.call.as_ref().unwrap(),
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
        let plan = self.plan.call.as_ref().unwrap();
        let recorder = &mut self.tally.recorder;
        self.exchanges
            .calls
            .advance(plan, writer, recorder, self.now);
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
    let call = Call {
        count: Some(3),
        ..call("LookUpBooks", r#"{"name": "a"} {"name": "b"}"#)
    };
    let plan = plan(call, |_| ()).unwrap();
    let mut flight = Flight::new(&plan);
    let mut peer = Slow {
        room: 5,
        taken: Vec::new(),
        ended: false,
    };
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
    assert_eq!(recorder.calls().message.count(), 3);
    assert_eq!(recorder.early.count, 0);
}

#[test]
fn a_call_that_ends_before_its_content_has_left_is_counted() {
    let call = Call {
        count: Some(3),
        ..call("LookUpBooks", r#"{"name": "a"} {"name": "b"}"#)
    };
    let plan = plan(call, |_| ()).unwrap();
    let mut flight = Flight::new(&plan);
    let mut peer = Slow {
        room: 7,
        taken: Vec::new(),
        ended: false,
    };
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
    let call = Call {
        mode: CallMode::Codec,
        ..call("GetBook", r#"{"name": "a"}"#)
    };
    let plan = plan(call, |_| ()).unwrap();
    assert!(plan.prepared[0].body().is_empty());
    let mut flight = Flight::new(&plan);
    let mut peer = Slow {
        room: 1000,
        taken: Vec::new(),
        ended: false,
    };
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

/// How a unary call ends.
fn unary(script: impl FnOnce(&mut Flight<'_>)) -> (FailureKind, String) {
    let plan = plan(call("GetBook", "{}"), |_| ()).unwrap();
    let mut flight = Flight::new(&plan);
    script(&mut flight);
    flight.failure()
}

#[test]
fn a_call_that_failed_is_counted_by_what_was_wrong() {
    let grpc = ("content-type", "application/grpc");
    type Case<'a> = (FailureKind, &'a str, &'a dyn Fn(&mut Flight<'_>));
    let cases: [Case<'_>; 12] = [
        (
            FailureKind::Status,
            "grpc-status 13 INTERNAL: all is lost",
            &|flight| {
                flight.head(
                    200,
                    &[
                        grpc,
                        ("grpc-status", "13"),
                        ("grpc-message", "all%20is lost"),
                    ],
                );
                flight.end(None);
            },
        ),
        (FailureKind::Status, "grpc-status 5 NOT_FOUND", &|flight| {
            flight.ok_head();
            flight.end(Some(&[("grpc-status", "5")]));
        }),
        (
            FailureKind::Status,
            "HTTP status 503, which is UNAVAILABLE",
            &|flight| {
                flight.head(503, &[("content-type", "text/html")]);
                flight.end(None);
            },
        ),
        (
            FailureKind::Protocol,
            "\"text/html\", not application/grpc",
            &|flight| {
                flight.head(200, &[("content-type", "text/html")]);
                flight.end(None);
            },
        ),
        (FailureKind::Protocol, "no grpc-status", &|flight| {
            flight.ok_head();
            flight.message(b"");
            flight.end(None);
        }),
        (FailureKind::Protocol, "grpc-status is \"x\"", &|flight| {
            flight.ok_head();
            flight.message(b"");
            flight.end(Some(&[("grpc-status", "x")]));
        }),
        (FailureKind::Body, "within a message", &|flight| {
            flight.ok_head();
            flight.sink().data(ID, &[0, 0, 0, 0, 9, 1]);
            flight.end(Some(&[("grpc-status", "0")]));
        }),
        (
            FailureKind::Body,
            "0 messages came with status OK",
            &|flight| {
                flight.ok_head();
                flight.end(Some(&[("grpc-status", "0")]));
            },
        ),
        (
            FailureKind::Status,
            "grpc-status 99, which counts as UNKNOWN",
            &|flight| {
                flight.ok_head();
                flight.end(Some(&[("grpc-status", "99")]));
            },
        ),
        (FailureKind::Protocol, "as \"0\" and as \"13\"", &|flight| {
            flight.ok_head();
            flight.message(b"");
            flight.end(Some(&[("grpc-status", "0"), ("grpc-status", "13")]));
        }),
        (FailureKind::Protocol, "no grpc-encoding", &|flight| {
            flight.ok_head();
            flight.sink().data(ID, &[1, 0, 0, 0, 0]);
            flight.end(Some(&[("grpc-status", "0")]));
        }),
        (FailureKind::Protocol, "7", &|flight| {
            flight.ok_head();
            flight.sink().data(ID, &[7, 0, 0, 0, 0]);
            flight.end(Some(&[("grpc-status", "0")]));
        }),
    ];
    for (kind, text, script) in cases {
        let (found, told) = unary(script);
        assert_eq!(found, kind, "{told}");
        assert!(told.contains(text), "{told:?} has no {text:?}");
    }
}

#[test]
fn a_reset_after_the_deadline_is_the_deadline() {
    let call = Call {
        deadline: Some(Duration::from_millis(50)),
        ..call("GetBook", "{}")
    };
    let plan = plan(call, |_| ()).unwrap();
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
