//! What a client wants to know beyond what the engine counts; tunnels.

use trilane_wire::h1::{Connection, Limits};
use trilane_wire::{
    Content, Encoding, End, ErrorKind, Events, Fields, Head, OneOff, Request, StreamError, StreamId,
};

use super::common::{Event, FieldVec, Recorder, owned, request};

/// Keeps a head as it was sent.
#[derive(Debug, Default)]
struct Faithful {
    reasons: Vec<Vec<u8>>,
    http_1_0: bool,
    fields: FieldVec,
    trailers: FieldVec,
}

impl Events for Faithful {
    const FIELDS: bool = true;
    const ORIGINAL_CASE: bool = true;

    fn informational(&mut self, _: StreamId, head: Head<'_>) {
        self.reasons.push(head.reason.into());
    }

    fn head(&mut self, _: StreamId, head: Head<'_>) {
        self.reasons.push(head.reason.into());
        self.http_1_0 = head.http_1_0;
        self.fields = owned(head.fields);
        let first = head.fields.iter().next();
        let found = first.and_then(|(name, _)| head.fields.first(&name.to_ascii_lowercase()));
        assert_eq!(found, first.map(|(_, value)| value), "found in any case");
    }

    fn data(&mut self, _: StreamId, _: &[u8]) {}

    fn end(&mut self, _: StreamId, trailers: Option<Fields<'_>>) {
        self.trailers = trailers.map(owned).unwrap_or_default();
    }

    fn fail(&mut self, _: StreamId, error: StreamError) {
        panic!("{error}");
    }
}

fn faithful(answer: &[u8]) -> Faithful {
    let mut last = None;
    for step in [1, 7, answer.len()] {
        let mut connection = Connection::new(Limits::default());
        let (mut events, mut out) = (Faithful::default(), Vec::new());
        connection
            .send(&request("GET", &[], b""), 0, &mut out)
            .unwrap();
        for piece in answer.chunks(step) {
            connection.receive(piece, &mut events, &mut out).unwrap();
        }
        connection.eof(End::Clean, &mut events);
        last = Some(events);
    }
    last.unwrap()
}

#[test]
fn names_are_given_as_they_were_sent() {
    let seen = faithful(
        b"HTTP/1.1 200 OK\r\nX-Odd-CASE: A\r\ntransfer-ENCODING: chunked\r\n\r\n0\r\nX-Sum: 4\r\n\r\n",
    );
    let expected = [("X-Odd-CASE", "A"), ("transfer-ENCODING", "chunked")];
    assert_eq!(seen.fields, expected.map(|(n, v)| (n.into(), v.into())));
    assert_eq!(seen.trailers, [("X-Sum".into(), "4".into())]);
}

#[test]
fn the_reason_is_given_as_it_was_sent() {
    for (line, reason) in [
        (&b"HTTP/1.1 200 OK\r\n"[..], &b"OK"[..]),
        (b"HTTP/1.1 404 Not  Found\r\n", b"Not  Found"),
        (b"HTTP/1.1 404 Not Found\n", b"Not Found"),
        (b"HTTP/1.1 200 caf\xe9\r\n", b"caf\xe9"),
        (b"HTTP/1.1 200 \r\n", b""),
        (b"HTTP/1.1 200\r\n", b""),
        (b"HTTP/1.1 200\n", b""),
    ] {
        let early = b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n";
        let seen = faithful(&[early, line, b"Content-Length: 0\r\n\r\n"].concat());
        assert_eq!(seen.reasons, [&b"Early Hints"[..], reason]);
        assert!(!seen.http_1_0);
    }
}

#[test]
fn http_1_0_is_told_and_needs_no_length() {
    let seen = faithful(b"HTTP/1.0 200 OK\r\n\r\nuntil the end");
    assert!(seen.http_1_0);
    assert_eq!(seen.reasons, [b"OK"]);
}

/// What came of a CONNECT, and the connection.
fn connect(answer: &[u8]) -> (Vec<Event>, Connection) {
    let request = Request::one_off(
        Encoding::H1,
        &OneOff {
            method: "CONNECT",
            scheme: "http",
            authority: "b.example:443",
            path: "b.example:443",
            fields: &[],
            content: Content::Whole([].into()),
        },
    )
    .unwrap();
    let mut connection = Connection::new(Limits::default());
    let (mut events, mut out) = (Recorder::<true>::default(), Vec::new());
    connection.send(&request, 0, &mut out).unwrap();
    assert_eq!((connection.capacity(), connection.outstanding()), (0, 1));
    connection.receive(answer, &mut events, &mut out).unwrap();
    (
        events.events.into_iter().map(|(_, event)| event).collect(),
        connection,
    )
}

#[test]
fn a_tunnel_has_no_content_and_is_not_http_any_more() {
    for answer in [
        &b"HTTP/1.1 200 Connection established\r\n\r\n"[..],
        b"HTTP/1.0 200 OK\r\n\r\n",
        b"HTTP/1.1 204 x\r\nContent-Length: 50\r\n\r\n",
        b"HTTP/1.1 299 x\r\nTransfer-Encoding: chunked\r\n\r\n",
    ] {
        let (events, mut connection) = connect(answer);
        assert!(
            matches!(
                events[..],
                [Event::Head { length: None, .. }, Event::End(None)]
            ),
            "{events:?}"
        );
        assert_eq!((connection.capacity(), connection.outstanding()), (0, 0));
        assert!(connection.is_closing());
        let mut events = Recorder::<true>::default();
        let error = connection
            .receive(b"x", &mut events, &mut Vec::new())
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol);
        assert_eq!(events.events, []);
    }
}

#[test]
fn a_proxy_that_opens_no_tunnel_may_be_asked_again() {
    let (events, connection) = connect(b"HTTP/1.1 407 x\r\nContent-Length: 2\r\n\r\nno");
    assert_eq!(events[1..], [Event::Data(b"no".into()), Event::End(None)]);
    assert_eq!((connection.capacity(), connection.outstanding()), (1, 0));
}

#[test]
fn what_arrived_of_a_body_is_reported_before_its_failure() {
    for (head, body, arrived) in [
        ("Content-Length: 9", "hello", "hello"),
        (
            "Transfer-Encoding: chunked",
            "5\r\nhello\r\n9\r\nwor",
            "hellowor",
        ),
        ("Transfer-Encoding: chunked", "5\r\nhello\r\n", "hello"),
        ("Transfer-Encoding: chunked", "5\r\nhello\r\n0", "hello"),
    ] {
        let mut connection = Connection::new(Limits::default());
        let (mut events, mut out) = (Recorder::<true>::default(), Vec::new());
        connection
            .send(&request("GET", &[], b""), 0, &mut out)
            .unwrap();
        let answer = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}");
        connection
            .receive(answer.as_bytes(), &mut events, &mut out)
            .unwrap();
        connection.eof(End::Clean, &mut events);
        let [_, (_, Event::Data(data)), (_, Event::Fail(error))] = &events.events[..] else {
            panic!("{events:?}");
        };
        assert_eq!(
            (&data[..], error.kind),
            (arrived.as_bytes(), ErrorKind::Body)
        );
    }
}

#[test]
fn a_folded_line_becomes_one() {
    let lines = "A: b \r\n  c\r\n\td\r\nB:\r\n e\r\n";
    let chunked = "Transfer-Encoding:\r\n chunked\r\n\r\n0";
    let seen = faithful(format!("HTTP/1.1 200 OK\r\n{lines}{chunked}\r\n{lines}\r\n").as_bytes());
    let expected = [("A", "b c d"), ("B", "e")].map(|(n, v)| (n.into(), v.into()));
    assert_eq!(seen.fields[..2], expected);
    assert_eq!(seen.trailers, expected);
}

#[test]
fn a_folded_connection_field_closes() {
    let head = b"HTTP/1.1 200 OK\r\nConnection: keep-alive,\r\n close\r\nContent-Length: 0\r\n\r\n";
    let mut connection = Connection::new(Limits::default());
    let (mut events, mut out) = (Faithful::default(), Vec::new());
    let request = request("GET", &[], b"");
    connection.send(&request, 0, &mut out).unwrap();
    connection.receive(head, &mut events, &mut out).unwrap();
    assert!(connection.is_closing());
}
