//! Header blocks and what makes a response malformed (RFC 9113 §4.3, §8).

use trilane_wire::ErrorKind;
use trilane_wire::h2::Config;

use super::common::*;

const ALL: u8 = END_HEADERS | END_STREAM;

/// Literal fields without indexing.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        for text in [name, value] {
            assert!(text.len() < 127);
            out.push(text.len() as u8);
            out.extend(text.bytes());
        }
    }
    out
}

#[test]
fn a_block_goes_on_in_continuation_and_nowhere_else() {
    let mut client = Client::new();
    let (first, second) = (client.get(), client.get());
    let whole = block(&[(":status", "204"), ("a", "b")]);
    let (a, rest) = whole.split_at(3);
    let (b, c) = rest.split_at(9);
    let mut bytes = frame(HEADERS, END_STREAM, first, a);
    bytes.extend(frame(CONTINUATION, 0, first, b));
    bytes.extend(frame(CONTINUATION, END_HEADERS, first, c));
    client.receive(&bytes);
    let fields = vec![("a".into(), "b".into())];
    let head = Event::Head {
        stream: 1,
        status: 204,
        content_length: None,
        fields,
    };
    assert_eq!(client.events(), [head, Event::End(1, None)]);

    client.receive(&frame(HEADERS, END_STREAM, second, a));
    for intruder in [
        frame(CONTINUATION, END_HEADERS, first, b),
        frame(PING, 0, 0, &[0; 8]),
        frame(DATA, 0, second, b"x"),
        frame(HEADERS, ALL, second, OK),
        frame(0xbe, 0, 0, b""),
    ] {
        let mut client = Client::new();
        client.get();
        client.get();
        client.receive(&frame(HEADERS, END_STREAM, second, a));
        client.dies(&intruder, PROTOCOL_ERROR);
    }
    let mut client = Client::new();
    let stream = client.get();
    client.dies(
        &frame(CONTINUATION, END_HEADERS, stream, OK),
        PROTOCOL_ERROR,
    );
}

/// The case 6.10.1 of h2specd, HPACK as Go's encoder has it: a large field that is indexed, and then
/// taken from the table.
#[test]
fn what_follows_a_response_in_several_continuations_is_answered() {
    let value = vec![b'x'; 4000];
    let mut large = b"\x40\x08x-dummy0\x7f\xa1\x1e".to_vec();
    large.extend(&value);
    let mut bytes = frame(HEADERS, END_STREAM, 1, OK);
    bytes.extend(frame(CONTINUATION, 0, 1, &large));
    bytes.extend(frame(CONTINUATION, END_HEADERS, 1, b"\xbe"));
    bytes.extend(frame(PING, 0, 0, &[0; 8]));
    let field = ("x-dummy0".to_owned(), String::from_utf8(value).unwrap());
    for cut in 0..bytes.len() {
        let mut client = Client::new();
        assert_eq!(client.get(), 1);
        client.written();
        client.receive(&bytes[..cut]);
        client.receive(&bytes[cut..]);
        let head = Event::Head {
            stream: 1,
            status: 200,
            content_length: None,
            fields: vec![field.clone(), field.clone()],
        };
        assert_eq!(client.events(), [head, Event::End(1, None)]);
        let [answer] = &client.written()[..] else {
            panic!("something else than one frame was written");
        };
        assert_eq!((answer.kind, answer.flags), (PING, ACK));
    }
}

#[test]
fn a_block_has_an_end() {
    // By bytes.
    let mut client = Client::new();
    let stream = client.get();
    client.receive(&frame(HEADERS, END_STREAM, stream, OK));
    let piece = frame(CONTINUATION, 0, stream, &[0x88; 16_384]);
    client.receive(&piece);
    client.dies(&piece, ENHANCE_YOUR_CALM);
    // By frames.
    let mut client = Client::new();
    let stream = client.get();
    client.receive(&frame(HEADERS, END_STREAM, stream, OK));
    let flood = frame(CONTINUATION, 0, stream, &[0x88]).repeat(10_000);
    client.dies(&flood, ENHANCE_YOUR_CALM);
}

#[test]
fn padding_and_priority_are_left_out() {
    let mut client = Client::new();
    let stream = client.get();
    let payload = [&[3][..], &[0x80, 0, 0, 0, 9], OK, &[0; 3]].concat();
    client.receive(&frame(HEADERS, ALL | PADDED | 0x20, stream, &payload));
    assert_eq!(client.events().len(), 2);
}

#[test]
fn padding_longer_than_its_headers_ends_the_connection() {
    for (flags, payload, code) in [
        (PADDED, &[2, 0x88][..], PROTOCOL_ERROR),
        (PADDED, &[], FRAME_SIZE_ERROR),
        (0x20, &[0, 0, 0, 0], FRAME_SIZE_ERROR),
    ] {
        let mut client = Client::new();
        let stream = client.get();
        client.dies(&frame(HEADERS, ALL | flags, stream, payload), code);
    }
}

#[test]
fn a_section_above_the_limit_fails_its_stream_and_keeps_the_table_in_step() {
    let config = Config {
        header_list: 200,
        ..CONFIG
    };
    let mut client = Client::with(config, &[]);
    let (first, second) = (client.get(), client.get());
    let mut large = vec![0x88];
    for name in b"abcdef" {
        large.extend([0x40, 1, *name, 1, b'v']);
    }
    let bytes = frame(HEADERS, ALL, first, &large);
    client.resets(&bytes, first, ENHANCE_YOUR_CALM, ErrorKind::Limit);
    // :status, "f" and "a" of the table, 42 + 34 + 34: below the limit.
    client.receive(&frame(HEADERS, ALL, second, &[0x88, 0xbe, 0xc3]));
    let fields = vec![("f".into(), "v".into()), ("a".into(), "v".into())];
    let head = Event::Head {
        stream: 3,
        status: 200,
        content_length: None,
        fields,
    };
    assert_eq!(client.events()[0], head);
}

#[test]
fn the_limit_counts_what_indexes_stand_for() {
    let mut client = Client::with(
        Config {
            header_list: 1000,
            ..CONFIG
        },
        &[],
    );
    let first = client.get();
    // One field of 300 bytes, then its index many times.
    let mut bomb = vec![0x88, 0x40, 1, b'a', 0x7f, 0xad, 0x01];
    bomb.extend([b'v'; 300]);
    bomb.extend([0xbe; 1500]);
    let bytes = frame(HEADERS, ALL, first, &bomb);
    client.resets(&bytes, first, ENHANCE_YOUR_CALM, ErrorKind::Limit);
}

#[test]
fn malformed_heads_fail_their_stream() {
    let status = (":status", "200");
    for fields in [
        &[][..],
        &[("a", "b")],
        &[status, status],
        &[("a", "b"), status],
        &[status, (":path", "/")],
        &[status, (":unknown", "")],
        &[(":status", "20")],
        &[(":status", "+20")],
        &[(":status", "101")],
        &[status, ("Server", "x")],
        &[status, ("", "x")],
        &[status, ("a b", "x")],
        &[status, ("a", "x\r\ny: z")],
        &[status, ("a", "x\0")],
        &[status, ("a", " x")],
        &[status, ("connection", "close")],
        &[status, ("proxy-connection", "close")],
        &[status, ("keep-alive", "5")],
        &[status, ("transfer-encoding", "chunked")],
        &[status, ("upgrade", "h2c")],
        &[status, ("content-length", "x")],
        &[status, ("content-length", "1"), ("content-length", "2")],
    ] {
        for flags in [ALL, END_HEADERS] {
            let mut client = Client::new();
            client.get();
            let stream = client.get();
            let bytes = frame(HEADERS, flags, stream, &block(fields));
            client.resets(&bytes, stream, PROTOCOL_ERROR, ErrorKind::Protocol);
        }
    }
}

#[test]
fn informational_heads_come_before_the_final_one() {
    let mut client = Client::new();
    let stream = client.get();
    let early = frame(
        HEADERS,
        END_HEADERS,
        stream,
        &block(&[(":status", "103"), ("a", "b")]),
    );
    client.receive(&early.repeat(2));
    client.receive(&frame(HEADERS, ALL, stream, OK));
    let events = client.events();
    let fields = vec![("a".into(), "b".into())];
    assert_eq!(
        events[..2],
        [(); 2].map(|()| Event::Informational(1, 103, fields.clone()))
    );
    assert_eq!(events.len(), 4);

    let mut client = Client::new();
    let stream = client.get();
    let bytes = frame(HEADERS, ALL, stream, &block(&[(":status", "100")]));
    client.resets(&bytes, stream, PROTOCOL_ERROR, ErrorKind::Protocol);
}

#[test]
fn trailers_end_the_stream_and_have_no_pseudo_fields() {
    let mut client = Client::new();
    let stream = client.get();
    client.receive(&frame(HEADERS, END_HEADERS, stream, OK));
    client.receive(&frame(DATA, 0, stream, b"x"));
    client.receive(&frame(
        HEADERS,
        ALL,
        stream,
        &block(&[("grpc-status", "0")]),
    ));
    let trailers = vec![("grpc-status".into(), "0".into())];
    assert_eq!(client.events().last(), Some(&Event::End(1, Some(trailers))));

    for (flags, fields) in [(END_HEADERS, ("a", "b")), (ALL, (":status", "200"))] {
        let mut client = Client::new();
        let stream = client.get();
        client.receive(&frame(HEADERS, END_HEADERS, stream, OK));
        let bytes = frame(HEADERS, flags, stream, &block(&[fields]));
        client.resets(&bytes, stream, PROTOCOL_ERROR, ErrorKind::Protocol);
    }
}

#[test]
fn content_and_its_length_agree() {
    let head = block(&[
        (":status", "200"),
        ("content-length", "5"),
        ("content-length", "5"),
    ]);
    let begin = |client: &mut Client, flags| {
        let stream = client.get();
        client.receive(&frame(HEADERS, flags, stream, &head));
        stream
    };
    let mut client = Client::new();
    let stream = begin(&mut client, END_HEADERS);
    client.receive(&frame(DATA, 0, stream, b"he"));
    client.receive(&frame(DATA, END_STREAM, stream, b"llo"));
    assert_eq!(client.events().last(), Some(&Event::End(1, None)));

    // Too little, by DATA and by trailers; too much.
    for last in [
        frame(DATA, END_STREAM, 3, b"hell"),
        frame(HEADERS, ALL, 3, &block(&[("a", "b")])),
        frame(DATA, 0, 3, b"hello!"),
        frame(DATA, END_STREAM, 3, b"hello!"),
    ] {
        let mut client = Client::new();
        client.get();
        let stream = begin(&mut client, END_HEADERS);
        client.resets(&last, stream, PROTOCOL_ERROR, ErrorKind::Body);
    }
    let mut client = Client::new();
    client.get();
    let bytes = frame(HEADERS, ALL, client.get(), &head);
    client.resets(&bytes, 3, PROTOCOL_ERROR, ErrorKind::Body);
}

#[test]
fn some_responses_have_no_content() {
    for (method, status) in [("HEAD", "200"), ("GET", "304"), ("GET", "204")] {
        let fields = block(&[(":status", status), ("content-length", "5")]);
        let mut client = Client::new();
        let stream = client.send(&request(method, b""));
        client.receive(&frame(HEADERS, ALL, stream, &fields));
        let events = client.events();
        assert!(matches!(
            events[0],
            Event::Head {
                content_length: Some(5),
                ..
            }
        ));
        assert_eq!(events[1], Event::End(1, None));

        let mut client = Client::new();
        let stream = client.send(&request(method, b""));
        client.receive(&frame(HEADERS, END_HEADERS, stream, &fields));
        let bytes = frame(DATA, END_STREAM, stream, b"hello");
        client.resets(&bytes, stream, PROTOCOL_ERROR, ErrorKind::Body);
    }
}

#[test]
fn blocks_that_cannot_be_decoded_end_the_connection() {
    for broken in [
        &[0xbe][..],
        &[0x80],
        &[0x88, 0x3f, 0xe1, 0x1f],
        &[0x3f, 0xe2, 0x1f],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x88, 0x40, 0x81, 0xff],
        &[0x88, 0x40, 0x84, 0xff, 0xff, 0xff, 0xff],
        &[0x88, 0x40, 5, b'a'],
    ] {
        let mut client = Client::new();
        client.get();
        let stream = client.get();
        client.dies(&frame(HEADERS, ALL, stream, broken), COMPRESSION_ERROR);
        // Also on a stream that is gone.
        let mut client = Client::new();
        let stream = client.get();
        let id = trilane_wire::StreamId {
            number: stream.into(),
            slot: 0,
        };
        client.connection.cancel(id, &mut client.out);
        client.dies(&frame(HEADERS, ALL, stream, broken), COMPRESSION_ERROR);
    }
}

#[test]
fn a_head_says_how_large_it_was() {
    let mut client = Client::new();
    let mut counter = Counter::default();
    let long = block(&[(":status", "200"), ("content-length", "0")]);
    // A block, the same again (which is not decoded), one that fills the table, and the first with
    // the table changed: each says the same as a decoder would.
    let indexed = [0x88, 0x5c, 1, b'0'];
    for block in [
        &long[..],
        &long,
        &indexed,
        &[0x88, 0xbe],
        &[0x88, 0xbe],
        &long,
    ] {
        let stream = client.get();
        let bytes = frame(HEADERS, ALL, stream, block);
        client
            .connection
            .receive(&bytes, &mut counter, &mut client.out)
            .unwrap();
    }
    let heads: Vec<_> = counter
        .heads
        .iter()
        .map(|head| (head.2, head.3, head.4))
        .collect();
    // 7 + 3, 14 + 1.
    let sizes = [long.len(), long.len(), 4, 2, 2, long.len()];
    assert_eq!(heads, sizes.map(|size| (Some(0), size, 25)));
    assert_eq!(counter.ended, 6);
}
