//! Content that is written while the response may already arrive.

use trilane_wire::h1::{Connection, Limits};
use trilane_wire::{
    Content, Encoding, End, FieldList, OneOff, Refused, Request, StreamId, Unfinished, Upload,
};

use super::common::{Event, Recorder, request};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

fn put(length: Option<u64>, raw: bool, fields: &[(&[u8], &[u8])]) -> Request {
    Request::one_off(
        Encoding::H1,
        &OneOff {
            method: "PUT",
            scheme: "http",
            authority: "a.example",
            path: "/",
            fields,
            content: Content::Streamed { length, raw },
        },
    )
    .unwrap()
}

fn list(fields: &[(&[u8], &[u8])]) -> FieldList {
    let mut list = FieldList::new();
    for (name, value) in fields {
        list.push(name, value);
    }
    list
}

/// A connection on which a request has been sent, with nothing in `out`.
struct Client {
    connection: Connection,
    events: Recorder<true>,
    out: Vec<u8>,
    stream: StreamId,
}

impl Client {
    fn send(request: &Request) -> Self {
        let mut connection = Connection::new(Limits::default());
        let mut out = Vec::new();
        let stream = connection.send(request, 3, &mut out).unwrap();
        assert_eq!(out, request.h1_head());
        out.clear();
        Self {
            connection,
            events: Recorder::default(),
            out,
            stream,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> usize {
        self.connection.write(self.stream, bytes, &mut self.out)
    }

    fn finish(&mut self, trailers: &FieldList) -> Result<(), Unfinished> {
        self.connection.finish(self.stream, trailers, &mut self.out)
    }

    fn upload(&self) -> Upload {
        self.connection.upload(self.stream)
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.connection
            .receive(bytes, &mut self.events, &mut self.out)
            .unwrap();
    }
}

#[test]
fn content_of_unknown_length_goes_in_chunks() {
    let mut client = Client::send(&put(None, false, &[]));
    assert_eq!(client.upload(), Upload::Open);
    assert!(!client.connection.has_output());
    assert_eq!(client.write(b"hello"), 5);
    assert_eq!(client.write(b""), 0, "an empty chunk would be the last");
    assert_eq!(client.write(&[b'x'; 26]), 26);
    client.finish(&FieldList::new()).unwrap();
    let body = [&b"5\r\nhello\r\n1a\r\n"[..], &[b'x'; 26], b"\r\n0\r\n\r\n"].concat();
    assert_eq!(client.out, body);
    assert_eq!(client.upload(), Upload::Ended);
    client.out.clear();
    assert_eq!(client.write(b"more"), 0);
    client.finish(&FieldList::new()).unwrap();
    assert_eq!(client.out, b"");

    client.receive(OK);
    assert_eq!(client.connection.capacity(), 1);
    assert_eq!(client.upload(), Upload::Stopped);
}

#[test]
fn trailers_follow_the_last_chunk() {
    let mut client = Client::send(&put(None, false, &[(b"Trailer", b"X-Sum")]));
    client.write(b"hi");
    client
        .finish(&list(&[(b"X-Sum", b"42"), (b"y", b"")]))
        .unwrap();
    assert_eq!(client.out, b"2\r\nhi\r\n0\r\nX-Sum: 42\r\ny: \r\n\r\n");
}

#[test]
fn a_trailer_cannot_split_the_request() {
    let mut client = Client::send(&put(None, false, &[]));
    for (name, value) in [
        (&b"X"[..], &b"a\r\nb: c"[..]),
        (b"X", b"\n"),
        (b"X\r\n\r\n", b""),
        (b"", b""),
        (b"Content-Length", b"5"),
        (b"Transfer-Encoding", b"chunked"),
        (b"HOST", b"b"),
    ] {
        assert_eq!(
            client.finish(&list(&[(name, value)])),
            Err(Unfinished::Trailer)
        );
        assert_eq!((client.upload(), &client.out[..]), (Upload::Open, &b""[..]));
    }
}

#[test]
fn one_write_takes_64_kib_at_most() {
    let mut client = Client::send(&put(None, false, &[]));
    assert_eq!(client.write(&[b'x'; 100_000]), 65_536);
    assert!(client.out.starts_with(b"10000\r\nx"));
    assert_eq!(client.out.len(), 7 + 65_536 + 2);
}

#[test]
fn an_announced_length_is_kept() {
    for fields in [&[][..], &[(&b"Content-Length"[..], &b"8"[..])]] {
        let length = fields.is_empty().then_some(8);
        let mut client = Client::send(&put(length, false, fields));
        assert_eq!(client.write(b"hello"), 5);
        let missing = Unfinished::Short { missing: 3 };
        assert_eq!(client.finish(&FieldList::new()), Err(missing));
        assert_eq!(client.upload(), Upload::Open);
        assert_eq!(
            client.write(b"again"),
            3,
            "what was not announced stays out"
        );
        assert_eq!(client.write(b"in"), 0);
        // A length leaves no place for trailers.
        client.finish(&list(&[(b"x-sum", b"42")])).unwrap();
        assert_eq!(client.out, b"helloaga");
        client.receive(OK);
        assert_eq!(client.connection.capacity(), 1);
    }
}

#[test]
fn raw_content_goes_as_it_is() {
    let mut client = Client::send(&put(None, true, &[(b"Transfer-Encoding", b"chunked")]));
    assert_eq!(client.write(b"2\r\nhi\r\n0\r\n\r\n"), 12);
    client.finish(&FieldList::new()).unwrap();
    assert_eq!(client.out, b"2\r\nhi\r\n0\r\n\r\n");
    client.receive(OK);
    assert_eq!(client.connection.capacity(), 1);
}

#[test]
fn raw_content_that_nothing_frames_ends_the_connection() {
    let mut client = Client::send(&put(None, true, &[]));
    client.receive(OK);
    assert_eq!(client.connection.capacity(), 1, "nothing was written");

    let mut client = Client::send(&put(None, true, &[]));
    assert_eq!(client.write(b"who knows"), 9);
    client.finish(&FieldList::new()).unwrap();
    client.receive(OK);
    assert!(client.connection.is_closing());
}

#[test]
fn a_response_that_ends_first_ends_the_connection() {
    for length in [None, Some(10)] {
        let request = put(length, false, &[]);
        let mut client = Client::send(&request);
        client.write(b"half");
        client.receive(b"HTTP/1.1 413 no\r\nContent-Length: 3\r\n\r\nbi");
        assert_eq!(client.upload(), Upload::Open, "the server may yet read on");
        client.receive(b"g");
        assert!(matches!(
            client.events.events.last(),
            Some((_, Event::End(None)))
        ));
        assert_eq!(client.upload(), Upload::Stopped);
        client.out.clear();
        assert_eq!(client.write(b"more"), 0);
        client.finish(&FieldList::new()).unwrap();
        assert_eq!(client.out, b"");
        assert_eq!(
            (client.connection.capacity(), client.connection.is_closing()),
            (0, true)
        );
        let refused = client.connection.send(&request, 0, &mut client.out);
        assert_eq!(refused, Err(Refused::Draining));
    }
}

#[test]
fn all_that_was_announced_is_enough() {
    for length in [0, 4] {
        let mut client = Client::send(&put(Some(length), false, &[]));
        client.write(b"half");
        client.receive(OK);
        assert_eq!(client.connection.capacity(), 1, "not even without a finish");
        assert_eq!(client.upload(), Upload::Stopped);
    }
}

#[test]
fn a_lost_connection_stops_the_content() {
    let mut client = Client::send(&put(None, false, &[]));
    client.write(b"hello");
    client.connection.eof(End::Clean, &mut client.events);
    assert!(matches!(client.events.events[..], [(_, Event::Fail(_))]));
    assert_eq!(client.upload(), Upload::Stopped);
    assert_eq!(client.write(b"more"), 0);
}

#[test]
fn only_streamed_content_of_the_own_stream_is_written() {
    let mut client = Client::send(&request("GET", &[], b""));
    assert_eq!(client.upload(), Upload::Ended);
    assert_eq!(client.write(b"x"), 0);
    let mut client = Client::send(&put(None, false, &[]));
    client.stream.number += 1;
    assert_eq!((client.upload(), client.write(b"x")), (Upload::Stopped, 0));
    client.finish(&FieldList::new()).unwrap();
    assert_eq!(client.out, b"");
    client.stream.number -= 1;
    assert_eq!(client.upload(), Upload::Open);
}
