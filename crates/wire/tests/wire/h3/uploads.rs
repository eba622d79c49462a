//! Content that is written while the response may already arrive (RFC 9114 §4.1).

use super::common::{Event, Mock, Peer, data, frame, headers, request, section, settings};
use trilane_wire::h3::code::*;
use trilane_wire::{
    Content, Encoding, ErrorKind, FieldList, OneOff, Request, StreamId, Unfinished, Upload,
};

const OK: &[(&str, &str)] = &[(":status", "200")];

fn put(path: &str, content: Content) -> Request {
    Request::one_off(
        Encoding::H3,
        &OneOff {
            method: "PUT",
            scheme: "https",
            authority: "a.example",
            path,
            fields: &[],
            content,
        },
    )
    .unwrap()
}

fn streamed(length: Option<u64>) -> Content {
    Content::Streamed { length, raw: false }
}

fn list(fields: &[(&str, &str)]) -> FieldList {
    let mut list = FieldList::new();
    for (name, value) in fields {
        list.push(name.as_bytes(), value.as_bytes());
    }
    list
}

/// A peer to which the head of a streamed request has been sent.
struct Client {
    peer: Peer,
    stream: StreamId,
    head: Vec<u8>,
}

impl Client {
    fn with(window: usize, length: Option<u64>) -> Self {
        let mut peer = Peer::with(Mock {
            window,
            ..Mock::default()
        });
        let request = put("/", streamed(length));
        let stream = peer.h3.send(&request, 5, &mut peer.quic).unwrap();
        Self {
            peer,
            stream,
            head: frame(1, request.qpack_section()),
        }
    }

    fn new(length: Option<u64>) -> Self {
        Self::with(usize::MAX, length)
    }

    fn write(&mut self, bytes: &[u8]) -> usize {
        self.peer.h3.write(self.stream, bytes, &mut self.peer.quic)
    }

    fn finish(&mut self, trailers: &FieldList) -> Result<(), Unfinished> {
        self.peer
            .h3
            .finish(self.stream, trailers, &mut self.peer.quic)
    }

    fn upload(&self) -> Upload {
        self.peer.h3.upload(self.stream)
    }

    /// QUIC grants more, and says so.
    fn grant(&mut self, window: usize) {
        self.peer.quic.windows.insert(self.stream.number, window);
        self.peer
            .h3
            .writable(self.stream.number, &mut self.peer.quic);
    }

    /// What is on the stream behind the head.
    fn written(&self) -> &[u8] {
        let all = &self.peer.quic.written[&self.stream.number];
        all.strip_prefix(&self.head[..]).unwrap()
    }

    fn finished(&self) -> bool {
        self.peer.quic.finished.contains(&self.stream.number)
    }
}

#[test]
fn what_is_written_becomes_data_and_finish_ends_the_stream() {
    let mut client = Client::new(None);
    assert_eq!((client.upload(), client.finished()), (Upload::Open, false));
    assert_eq!(client.write(b"hello"), 5);
    assert_eq!(client.write(b""), 0);
    assert_eq!(client.write(&[b'x'; 100_000]), 65_536);
    client.finish(&FieldList::new()).unwrap();
    assert_eq!(
        client.written(),
        [data(b"hello"), data(&[b'x'; 65_536])].concat()
    );
    assert_eq!((client.upload(), client.finished()), (Upload::Ended, true));
    assert_eq!(client.write(b"more"), 0);
    client.finish(&FieldList::new()).unwrap();
    let stream = client.stream.number;
    client.peer.receive(stream, &headers(OK), true).unwrap();
    assert_eq!(client.peer.record.0.last(), Some(&Event::End(5, None)));
    assert_eq!(client.upload(), Upload::Stopped);
}

#[test]
fn content_goes_as_flow_control_allows() {
    for window in [1, 2, 3, 50, 1000, 70_000] {
        let mut client = Client::with(window, None);
        let content: Vec<u8> = (0..150_000).map(|n| (n % 251) as u8).collect();
        let (mut rest, mut frames) = (&content[..], Vec::new());
        while !client.finished() {
            let taken = client.write(rest);
            if taken > 0 {
                frames.extend(data(&rest[..taken]));
                rest = &rest[taken..];
                continue;
            }
            if rest.is_empty() {
                client.finish(&list(&[("X-Sum", "42")])).unwrap();
                assert_eq!(client.upload(), Upload::Ended);
            }
            client.grant(window.max(100));
        }
        frames.extend(headers(&[("x-sum", "42")]));
        assert!(client.written() == frames, "windows of {window}");
    }
}

#[test]
fn a_frame_that_nothing_has_room_for_does_not_begin() {
    let mut client = Client::new(None);
    client.grant(0);
    assert_eq!(client.write(b"hello"), 0);
    client.grant(3);
    assert_eq!(
        client.write(b"hello"),
        5,
        "what has begun is held to its end"
    );
    assert_eq!(client.written(), b"\x00\x05h");
    assert_eq!(client.write(b"more"), 0, "and no more than that");
    client.finish(&FieldList::new()).unwrap();
    assert!(!client.finished());
    client.grant(100);
    assert_eq!(client.written(), data(b"hello"));
    assert!(client.finished());
}

#[test]
fn an_announced_length_is_kept() {
    let mut client = Client::new(Some(8));
    assert_eq!(client.write(b"hello"), 5);
    let missing = Unfinished::Short { missing: 3 };
    assert_eq!(client.finish(&FieldList::new()), Err(missing));
    assert_eq!((client.upload(), client.finished()), (Upload::Open, false));
    assert_eq!(client.write(b"again"), 3);
    assert_eq!(client.write(b"in"), 0);
    client.finish(&FieldList::new()).unwrap();
    assert!(client.finished());
}

#[test]
fn trailers_are_checked() {
    let mut client = Client::new(None);
    client
        .peer
        .receive(3, &settings(&[(6, 500)]), false)
        .unwrap();
    for bad in [("x", "a\r\nb"), ("Content-Length", "1"), (":path", "/")] {
        assert_eq!(client.finish(&list(&[bad])), Err(Unfinished::Trailer));
    }
    let long = "y".repeat(500);
    let long = client.finish(&list(&[("x", &long)]));
    assert_eq!(long, Err(Unfinished::TooLarge));
    assert_eq!(
        (client.upload(), client.written()),
        (Upload::Open, &b""[..])
    );
    let before = client.peer.h3.sent_field_bytes();
    client.finish(&list(&[("a", "b")])).unwrap();
    let section = section(&[("a", "b")]);
    assert_eq!(client.written(), frame(1, &section));
    assert!(client.peer.h3.sent_field_bytes() > before);
}

#[test]
fn stop_sending_stops_the_upload_and_not_the_response() {
    let mut client = Client::new(None);
    let stream = client.stream.number;
    client.write(b"half");
    client.peer.stopped(stream, NO_ERROR).unwrap();
    assert_eq!(client.peer.quic.resets, [(stream, NO_ERROR)]);
    assert_eq!(
        (client.upload(), client.write(b"more")),
        (Upload::Stopped, 0)
    );
    client.finish(&FieldList::new()).unwrap();
    assert!(!client.finished());
    client.peer.receive(stream, &headers(OK), true).unwrap();
    assert_eq!(client.peer.record.0.last(), Some(&Event::End(5, None)));
    assert_eq!(client.peer.h3.outstanding(), 0);
}

#[test]
fn an_early_answer_lets_the_content_go_on() {
    let mut client = Client::new(None);
    let stream = client.stream.number;
    client.write(b"half");
    client.peer.receive(stream, &headers(OK), true).unwrap();
    assert_eq!(client.peer.h3.outstanding(), 0);
    assert_eq!((client.upload(), client.write(b"!")), (Upload::Open, 1));
    client.finish(&FieldList::new()).unwrap();
    assert!(client.finished());
    assert_eq!(client.upload(), Upload::Stopped);

    // Or it is given up.
    let mut client = Client::new(None);
    client.peer.receive(stream, &headers(OK), true).unwrap();
    client.peer.h3.cancel(client.stream, &mut client.peer.quic);
    assert_eq!(client.peer.quic.resets, [(stream, REQUEST_CANCELLED)]);
    assert_eq!(
        (client.upload(), client.peer.h3.outstanding()),
        (Upload::Stopped, 0)
    );
}

#[test]
fn whatever_ends_the_stream_stops_the_upload() {
    type End = fn(&mut Peer, u64);
    let ends: [End; 3] = [
        |peer, stream| peer.reset(stream, REQUEST_REJECTED).unwrap(),
        |peer, _| peer.h3.eof(&mut peer.record),
        |peer, _| {
            peer.receive(3, b"\x00\x07\x01\x00", false).unwrap_err();
        },
    ];
    for end in ends {
        let mut client = Client::new(Some(9));
        end(&mut client.peer, client.stream.number);
        assert!(matches!(client.peer.record.0[..], [Event::Fail(..)]));
        assert_eq!((client.upload(), client.write(b"x")), (Upload::Stopped, 0));
        client.finish(&FieldList::new()).unwrap();
        assert!(!client.finished());
    }
}

#[test]
fn requests_that_are_sent_once_leave_nothing_behind() {
    let mut peer = Peer::ready();
    for (path, content) in [
        ("/a", Content::Whole([].into())),
        ("/b", Content::Whole((*b"small").into())),
        ("/c", streamed(None)),
        ("/d", Content::Whole(vec![1; 5000].into())),
        ("/d", Content::Whole([].into())),
    ] {
        let request = put(path, content);
        let stream = peer.h3.send(&request, 0, &mut peer.quic).unwrap();
        let head = frame(1, request.qpack_section());
        let body = match request.body() {
            body if body.is_empty() => Vec::new(),
            body => data(body),
        };
        let expected = [head, body].concat();
        assert!(peer.quic.written[&stream.number] == expected, "{path}");
        let ended = peer.quic.finished.contains(&stream.number);
        assert_eq!(ended, path != "/c");
        assert_eq!(peer.h3.upload(stream) == Upload::Open, path == "/c");
    }
}

#[test]
fn what_arrived_of_a_body_is_reported_before_its_failure() {
    let mut peer = Peer::ready();
    let (stream, _) = (
        peer.get(1),
        peer.h3.send(&request("GET", b""), 2, &mut peer.quic),
    );
    let answer = [headers(OK), data(b"hello world")].concat();
    peer.receive(stream, &answer[..answer.len() - 6], false)
        .unwrap();
    peer.h3.eof(&mut peer.record);
    let [
        Event::Head(..),
        Event::Data(1, data),
        Event::Fail(1, inside),
        Event::Fail(2, before),
    ] = &peer.record.0[..]
    else {
        panic!("{:?}", peer.record.0);
    };
    assert_eq!(data, b"hello");
    assert_eq!(
        (inside.kind, before.kind),
        (ErrorKind::Body, ErrorKind::Closed)
    );
}
