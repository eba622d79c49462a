//! Responses on request streams (RFC 9114 §4).

use super::common::{Event, Peer, code, data, frame, headers, section, varint};
use trilane_wire::h3::code::*;
use trilane_wire::{ErrorKind, Events, Fields, Head, StreamError, StreamId, Unprocessed};

const OK: &[(&str, &str)] = &[(":status", "200")];

/// The events of one response to `method`, which must not end the connection.
fn respond(method: &str, pieces: &[Vec<u8>]) -> (Peer, Vec<Event>) {
    let mut peer = Peer::ready();
    let stream = peer.send(method, b"", 1);
    peer.receive(stream, &pieces.concat(), true).unwrap();
    let events = std::mem::take(&mut peer.record.0);
    (peer, events)
}

/// A response that is malformed: the stream is reset and stopped, the connection goes on.
fn malformed(pieces: &[Vec<u8>], kind: ErrorKind) {
    let mut peer = Peer::ready();
    let (stream, other) = (peer.get(1), peer.get(2));
    peer.receive(stream, &pieces.concat(), true).unwrap();
    let error = peer.failure();
    let expected = StreamError {
        kind,
        unprocessed: Unprocessed::Unknown,
        code: Some(MESSAGE_ERROR),
        ..error
    };
    assert_eq!(error, expected, "{pieces:x?}");
    assert_eq!(peer.quic.resets, [(stream, MESSAGE_ERROR)]);
    assert_eq!(peer.quic.stops, [(stream, MESSAGE_ERROR)]);
    assert_eq!(peer.h3.outstanding(), 1);
    peer.record.0.clear();
    peer.receive(stream, &data(b"late"), false).unwrap();
    assert!(peer.record.0.is_empty());
    peer.receive(other, &headers(OK), true).unwrap();
    assert_eq!(peer.h3.outstanding(), 0);
}

/// A response that ends the connection, after the request has been failed.
fn fatal(pieces: &[Vec<u8>], fin: bool) -> u64 {
    let mut peer = Peer::ready();
    let (stream, _) = (peer.get(1), peer.get(2));
    let code = code(peer.receive(stream, &pieces.concat(), fin));
    let failed: Vec<_> = peer
        .record
        .0
        .iter()
        .filter(|event| matches!(event, Event::Fail(..)))
        .collect();
    assert_eq!(failed.len(), 2, "every outstanding request is reported");
    assert_eq!((peer.h3.outstanding(), peer.h3.is_closing()), (0, true));
    code
}

#[test]
fn a_response_has_informational_heads_a_head_content_and_trailers() {
    let (_, events) = respond(
        "GET",
        &[
            headers(&[(":status", "103"), ("link", "</a.css>")]),
            frame(0x21, b"whatever"),
            headers(&[(":status", "200"), ("content-length", "11"), ("x-a", "b")]),
            data(b"hello "),
            frame(0x40, b""),
            data(b"world"),
            headers(&[("checksum", "1")]),
            frame(0x5f, b"after all"),
        ],
    );
    let fields = vec![
        ("content-length".into(), "11".into()),
        ("x-a".into(), "b".into()),
    ];
    assert_eq!(
        events,
        [
            Event::Informational(1, 103),
            Event::Head(1, 200, Some(11), fields),
            Event::Data(1, b"hello world".to_vec()),
            Event::End(1, Some(vec![("checksum".into(), "1".into())])),
        ]
    );
}

#[test]
fn a_response_may_have_no_content() {
    let (peer, events) = respond("GET", &[headers(OK)]);
    assert_eq!(
        events,
        [Event::Head(1, 200, None, vec![]), Event::End(1, None)]
    );
    assert!(peer.quic.resets.is_empty() && peer.quic.stops.is_empty());
}

#[test]
fn responses_without_content_by_nature_have_none() {
    let long = &[(":status", "200"), ("content-length", "5")];
    let (_, events) = respond("HEAD", &[headers(long)]);
    assert_eq!(events.last(), Some(&Event::End(1, None)));
    let (_, events) = respond(
        "GET",
        &[headers(&[(":status", "304"), ("content-length", "5")])],
    );
    assert_eq!(events.last(), Some(&Event::End(1, None)));
    let (_, events) = respond("GET", &[headers(&[(":status", "204")]), data(b"")]);
    assert_eq!(events.last(), Some(&Event::End(1, None)));
    malformed(
        &[headers(&[(":status", "204")]), data(b"x")],
        ErrorKind::Body,
    );
}

#[test]
fn content_must_have_the_length_that_was_announced() {
    let head = headers(&[(":status", "200"), ("content-length", "3")]);
    malformed(&[head.clone(), data(b"12")], ErrorKind::Body);
    malformed(&[head.clone(), data(b"1234")], ErrorKind::Body);
    malformed(&[head.clone(), data(b"12"), data(b"34")], ErrorKind::Body);
    malformed(&[head], ErrorKind::Body);
}

#[test]
fn malformed_heads_are_stream_errors() {
    let cases: &[&[(&str, &str)]] = &[
        &[],
        &[("x", "y")],
        &[(":status", "200"), (":status", "200")],
        &[("x", "y"), (":status", "200")],
        &[(":status", "200"), (":path", "/")],
        &[(":status", "200"), (":other", "")],
        &[(":status", "20")],
        &[(":status", "099")],
        &[(":status", "2000")],
        &[(":status", "2e2")],
        &[(":status", "")],
        &[(":status", "101")],
        &[(":status", "200"), ("X-Upper", "1")],
        &[(":status", "200"), ("", "1")],
        &[(":status", "200"), ("a b", "1")],
        &[(":status", "200"), ("a", "1\r\nb: 2")],
        &[(":status", "200"), ("a", "\0")],
        &[(":status", "200"), ("connection", "close")],
        &[(":status", "200"), ("transfer-encoding", "chunked")],
        &[(":status", "200"), ("keep-alive", "1")],
        &[(":status", "200"), ("content-length", "x")],
        &[
            (":status", "200"),
            ("content-length", "1"),
            ("content-length", "2"),
        ],
        &[
            (":status", "200"),
            ("content-length", "99999999999999999999"),
        ],
    ];
    for fields in cases {
        malformed(&[headers(fields)], ErrorKind::Protocol);
    }
    let twice = &[
        (":status", "200"),
        ("content-length", "1"),
        ("content-length", "1"),
    ];
    let (_, events) = respond("GET", &[headers(twice), data(b"x")]);
    assert_eq!(events.last(), Some(&Event::End(1, None)));
}

#[test]
fn trailers_have_no_pseudo_fields() {
    malformed(
        &[headers(OK), headers(&[(":status", "200")])],
        ErrorKind::Protocol,
    );
    malformed(
        &[headers(OK), headers(&[("connection", "close")])],
        ErrorKind::Protocol,
    );
}

#[test]
fn a_stream_that_ends_without_a_final_head_is_malformed() {
    malformed(&[], ErrorKind::Protocol);
    malformed(&[headers(&[(":status", "100")])], ErrorKind::Protocol);
    malformed(&[frame(0x21, b"")], ErrorKind::Protocol);
}

#[test]
fn frames_out_of_order_end_the_connection() {
    assert_eq!(fatal(&[data(b"x")], false), FRAME_UNEXPECTED);
    assert_eq!(
        fatal(&[headers(&[(":status", "100")]), data(b"x")], false),
        FRAME_UNEXPECTED
    );
    let trailers = headers(&[("a", "b")]);
    assert_eq!(
        fatal(&[headers(OK), trailers.clone(), data(b"x")], false),
        FRAME_UNEXPECTED
    );
    assert_eq!(
        fatal(&[headers(OK), trailers.clone(), trailers], false),
        FRAME_UNEXPECTED
    );
}

#[test]
fn frames_that_may_not_be_on_a_request_stream_end_the_connection() {
    for kind in [0x02, 0x06, 0x08, 0x09, 0x03, 0x04, 0x07, 0x0d] {
        assert_eq!(
            fatal(&[frame(kind, &[0])], false),
            FRAME_UNEXPECTED,
            "{kind}"
        );
    }
    assert_eq!(fatal(&[frame(0x05, &[0, 0, 0])], false), ID_ERROR, "a push");
}

#[test]
fn a_frame_cut_by_the_end_of_the_stream_ends_the_connection() {
    let whole = [headers(OK), data(b"abc"), frame(0x21, b"def")].concat();
    let ends = [
        headers(OK).len(),
        headers(OK).len() + data(b"abc").len(),
        whole.len(),
    ];
    for cut in 1..whole.len() {
        if !ends.contains(&cut) {
            assert_eq!(
                fatal(&[whole[..cut].to_vec()], true),
                FRAME_ERROR,
                "cut at {cut}"
            );
        }
    }
}

#[test]
fn a_section_that_needs_the_dynamic_table_ends_the_connection() {
    for bad in [
        &[1, 0, 0xd9][..],
        &[0, 0, 0x80],
        &[0, 0, 0x10],
        &[0, 0, 0xff],
        &[0x00],
        &[],
    ] {
        assert_eq!(
            fatal(&[frame(1, bad)], false),
            QPACK_DECOMPRESSION_FAILED,
            "{bad:x?}"
        );
        let pieces = [headers(OK), frame(1, bad)];
        assert_eq!(
            fatal(&pieces, false),
            QPACK_DECOMPRESSION_FAILED,
            "{bad:x?} as trailers"
        );
    }
}

#[test]
fn sections_are_limited_before_and_after_decoding() {
    let limit = |bytes: &[u8]| {
        let mut peer = Peer::ready();
        let stream = peer.get(1);
        peer.receive(stream, bytes, false).unwrap();
        let error = peer.failure();
        assert_eq!(
            (error.kind, error.code),
            (ErrorKind::Limit, Some(EXCESSIVE_LOAD))
        );
        assert_eq!(peer.quic.stops, [(stream, EXCESSIVE_LOAD)]);
    };
    // The length alone is enough: nothing of it is kept.
    limit(&[varint(1), varint(4001)].concat());
    limit(&[varint(1), varint(1 << 61)].concat());
    // Fields of one byte each, `accept: */*`, that are 6 + 3 + 32 bytes.
    let mut small = section(OK);
    small.extend([0xc0 | 29; 4000 / 41]);
    limit(&frame(1, &small));
}

#[test]
fn informational_heads_are_limited() {
    let mut peer = Peer::ready();
    let stream = peer.get(1);
    for _ in 0..33 {
        peer.receive(stream, &headers(&[(":status", "100")]), false)
            .unwrap();
    }
    assert_eq!(peer.failure().kind, ErrorKind::Limit);
    assert_eq!(peer.record.0.len(), 33);
}

#[test]
fn frames_that_say_nothing_are_limited() {
    for (idle, count) in [
        (data(b""), 5000),
        (frame(0x21, b""), 5000),
        (frame(0x21, &[0; 999]), 80),
    ] {
        let mut peer = Peer::ready();
        let stream = peer.get(1);
        peer.receive(stream, &headers(OK), false).unwrap();
        let outcome = (0..count).try_for_each(|_| peer.receive(stream, &idle, false));
        assert_eq!(code(outcome), EXCESSIVE_LOAD);
        assert_eq!(peer.failure().kind, ErrorKind::Limit);

        // Between pieces of content they are nothing but odd.
        let mut peer = Peer::ready();
        let stream = peer.get(1);
        peer.receive(stream, &headers(OK), false).unwrap();
        for _ in 0..count {
            peer.receive(stream, &idle, false).unwrap();
            peer.receive(stream, &data(b"x"), false).unwrap();
        }
        peer.receive(stream, &[], true).unwrap();
        assert_eq!(peer.record.0.last(), Some(&Event::End(1, None)));
    }
}

#[test]
fn repeated_heads_are_told_the_same_without_being_decoded_again() {
    #[derive(Default)]
    struct Heads(Vec<(u16, Option<u64>, usize, usize)>);
    impl Events for Heads {
        const FIELDS: bool = false;
        fn head(&mut self, _: StreamId, head: Head<'_>) {
            assert_eq!(head.fields.iter().count(), 0);
            let Head {
                status,
                content_length,
                encoded_bytes,
                decoded_bytes,
                ..
            } = head;
            self.0
                .push((status, content_length, encoded_bytes, decoded_bytes));
        }
        fn data(&mut self, _: StreamId, _: &[u8]) {}
        fn end(&mut self, _: StreamId, trailers: Option<Fields<'_>>) {
            assert!(trailers.is_none_or(|fields| fields.iter().next().is_none()));
        }
        fn fail(&mut self, _: StreamId, error: StreamError) {
            panic!("{error}");
        }
    }
    let first = headers(&[(":status", "200"), ("content-length", "2"), ("date", "now")]);
    let second = headers(&[(":status", "404"), ("date", "now")]);
    let mut heads = Heads::default();
    let mut peer = Peer::ready();
    for head in [&first, &first, &second, &first, &second, &second] {
        let stream = peer.get(0);
        let bytes = [head.clone(), data(b"ab"), headers(&[("a", "b")])].concat();
        peer.h3
            .receive(stream, &bytes, true, &mut heads, &mut peer.quic)
            .unwrap();
    }
    let a = (200, Some(2), first.len() - 2, 10 + 15 + 7);
    let b = (404, None, second.len() - 2, 10 + 7);
    assert_eq!(heads.0, [a, a, b, a, b, b]);
}
