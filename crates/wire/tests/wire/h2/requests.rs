//! What we send: blocks, bodies and their windows, cancellation, farewell.

use trilane_wire::Refused;
use trilane_wire::hpack::Decoder;

use super::common::*;

fn decode(decoder: &mut Decoder, block: &[u8]) -> FieldVec {
    let mut fields = FieldVec::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.into()).unwrap();
    decoder
        .decode(block, |name, value, _| {
            fields.push((text(name), text(value)))
        })
        .unwrap();
    fields
}

#[test]
fn a_repeated_request_shrinks_to_its_indexes() {
    let mut client = Client::new();
    let request = request_with(
        "GET",
        "/x",
        &[("User-Agent", "trilane"), ("cookie", "a=b")],
        b"",
    );
    let mut decoder = Decoder::new(4096);
    let mut sizes = Vec::new();
    let mut total = 0;
    for _ in 0..4 {
        client.send(&request);
        let sent = client.written().pop().unwrap();
        assert_eq!((sent.kind, sent.flags), (HEADERS, END_HEADERS | END_STREAM));
        let expected = [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "a.example"),
            (":path", "/x"),
            ("user-agent", "trilane"),
            ("cookie", "a=b"),
        ];
        assert_eq!(
            decode(&mut decoder, &sent.payload),
            expected.map(|(n, v)| (n.to_owned(), v.to_owned()))
        );
        sizes.push(sent.payload.len());
        total += sent.payload.len() as u64;
    }
    assert_eq!(client.connection.sent_field_bytes(), total);
    // Five indexes and the cookie, which stays a literal.
    assert_eq!(sizes[1..], [sizes[1]; 3]);
    assert!(sizes[1] < 5 + 7 && sizes[0] > 20, "{sizes:?}");
}

#[test]
fn many_requests_share_one_table() {
    let mut client = Client::new();
    let requests: Vec<_> = (0..200)
        .map(|n| request_with("GET", &format!("/{n}"), &[("x", "y")], b""))
        .collect();
    let mut decoder = Decoder::new(4096);
    for round in 0..3 {
        for (index, request) in requests.iter().enumerate() {
            client.send(request);
            // A change of the table in the middle.
            if round == 1 && index == 100 {
                client.receive(&settings(&[(1, 500)]));
                client.receive(&settings(&[(1, 2000)]));
            }
            let sent = client
                .written()
                .into_iter()
                .find(|frame| frame.kind == HEADERS)
                .unwrap();
            let fields = decode(&mut decoder, &sent.payload);
            assert_eq!(fields[3], (":path".into(), format!("/{index}")));
            assert_eq!(fields.len(), 5);
        }
    }
}

#[test]
fn a_section_larger_than_the_peer_accepts_is_refused() {
    let mut client = Client::with(CONFIG, &[(6, 300)]);
    let large = request_with("GET", "/", &[("x", &"y".repeat(200))], b"");
    let refusal = |size: u64, limit| Err(Refused::TooLarge { size, limit });
    assert_eq!(
        client.connection.send(&large, 0, &mut client.out),
        refusal(large.section_size(), 300)
    );
    assert_eq!(client.written(), []);
    client.get();
    client.get();
    // Also where the block is known already.
    client.receive(&settings(&[(6, 10)]));
    let get = request("GET", b"");
    assert_eq!(
        client.connection.send(&get, 0, &mut client.out),
        refusal(get.section_size(), 10)
    );
}

#[test]
fn a_block_larger_than_a_frame_goes_on_in_continuation() {
    let mut client = Client::new();
    let value = "\\".repeat(50_000);
    client.send(&request_with("GET", "/", &[("x", &value)], b""));
    let sent = client.written();
    let kinds: Vec<_> = sent.iter().map(|frame| (frame.kind, frame.flags)).collect();
    let pieces = [(HEADERS, END_STREAM), (CONTINUATION, 0), (CONTINUATION, 0)];
    assert_eq!(
        kinds,
        [&pieces[..], &[(CONTINUATION, END_HEADERS)]].concat()
    );
    assert!(
        sent.iter()
            .all(|frame| frame.stream == 1 && frame.payload.len() <= 16_384)
    );
    let block: Vec<u8> = sent
        .iter()
        .flat_map(|frame| frame.payload.clone())
        .collect();
    assert_eq!(decode(&mut Decoder::new(4096), &block)[4].1, value);
}

#[test]
fn a_small_body_follows_its_head_at_once() {
    let mut client = Client::new();
    let stream = client.send(&request("POST", b"hello"));
    let sent = client.written();
    assert_eq!((sent[0].kind, sent[0].flags), (HEADERS, END_HEADERS));
    let data = frames(&frame(DATA, END_STREAM, stream, b"hello"));
    assert_eq!(sent[1..], data[..]);
    assert!(!client.connection.has_output());
}

#[test]
fn bodies_respect_the_windows_and_the_frame_size() {
    let mut client = Client::with(CONFIG, &[(4, 50_000)]);
    let body: Vec<u8> = (0..120_000).map(|n| n as u8).collect();
    let stream = client.send(&request("POST", &body));
    let mut seen = Vec::new();
    let mut take = |client: &mut Client| {
        let frames = client
            .written()
            .into_iter()
            .filter(|frame| frame.kind == DATA);
        let before = seen.len();
        for frame in frames {
            assert!(frame.payload.len() <= 16_384);
            seen.extend(frame.payload);
        }
        (seen.len() - before, seen == body)
    };
    assert_eq!(take(&mut client), (50_000, false));
    client.receive(&window_update(stream, 50_000));
    assert!(client.connection.has_output());
    client.connection.produce(&mut client.out);
    // The connection's 65,535 are used up now.
    assert_eq!(take(&mut client), (15_535, false));
    assert!(!client.connection.has_output());
    client.receive(&window_update(0, 1_000_000));
    client.connection.produce(&mut client.out);
    assert_eq!(take(&mut client), (34_465, false));
    assert!(!client.connection.has_output());
    client.receive(&window_update(stream, 1_000_000));
    client.connection.produce(&mut client.out);
    assert_eq!(take(&mut client), (20_000, true));
    assert!(!client.connection.has_output());
}

#[test]
fn out_grows_by_little_and_streams_take_turns() {
    let mut client = Client::with(CONFIG, &[(4, 1_000_000)]);
    client.receive(&window_update(0, 100_000_000));
    let upload = request("POST", &vec![b'x'; 200_000]);
    let streams = [
        client.send(&upload),
        client.send(&upload),
        client.send(&upload),
    ];
    assert!(client.out.len() < 100_000, "{}", client.out.len());
    client.out.clear();
    let mut sent = [0; 3];
    while client.connection.has_output() {
        client.connection.produce(&mut client.out);
        assert!(client.out.len() < 100_000, "{}", client.out.len());
        for frame in client.written() {
            let index = streams
                .iter()
                .position(|&stream| stream == frame.stream)
                .unwrap();
            sent[index] += frame.payload.len();
        }
        // The first had a start of 64 KiB.
        let spread = sent.iter().max().unwrap() - sent.iter().min().unwrap();
        assert!(
            spread <= 5 * 16_384 || sent.contains(&(200_000 - 5 * 16_384)),
            "{sent:?}"
        );
    }
    assert_eq!(sent[1..], [200_000; 2]);
}

#[test]
fn a_complete_response_stops_the_upload() {
    let mut client = Client::with(CONFIG, &[(4, 10)]);
    let stream = client.send(&request("POST", &[b'x'; 100]));
    client.receive(&window_update(stream, 20));
    assert!(client.connection.has_output());
    client.out.clear();
    client.receive(&frame(HEADERS, END_HEADERS | END_STREAM, stream, OK));
    assert_eq!(client.written(), frames(&rst_stream(stream, NO_ERROR)));
    assert!(!client.connection.has_output());
    assert_eq!(
        client.events().last(),
        Some(&Event::End(stream.into(), None))
    );
    // What the peer says about it now is late and harmless.
    client.receive(&[rst_stream(stream, NO_ERROR), window_update(stream, 1)].concat());
    assert_eq!(client.events(), []);
}

#[test]
fn a_cancelled_stream_reports_nothing_more() {
    let mut client = Client::new();
    let (kept, stream) = (client.get(), client.get());
    client.receive(&frame(HEADERS, END_HEADERS, stream, OK));
    client.events();
    let id = |number: u32| trilane_wire::StreamId {
        number: number.into(),
        slot: 0,
    };
    client.out.clear();
    client.connection.cancel(id(stream), &mut client.out);
    assert_eq!(client.written(), frames(&rst_stream(stream, CANCEL)));
    client.connection.cancel(id(stream), &mut client.out);
    client.connection.cancel(id(0), &mut client.out);
    client.connection.cancel(id(99), &mut client.out);
    assert_eq!(client.written(), []);
    assert_eq!(client.connection.outstanding(), 1);
    // The peer goes on until it knows; the table and the connection's window stay in step.
    client.receive(&frame(DATA, 0, stream, b"late"));
    client.receive(&frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        stream,
        &[0x40, 1, b'a', 1, b'b'],
    ));
    client.receive(&frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        kept,
        &[0x88, 0xbe],
    ));
    let fields = vec![("a".into(), "b".into())];
    let stream = kept.into();
    let head = Event::Head {
        stream,
        status: 200,
        content_length: None,
        fields,
    };
    assert_eq!(client.events(), [head, Event::End(stream, None)]);
}

#[test]
fn a_closed_connection_takes_no_requests_and_ends_the_others() {
    let mut client = Client::new();
    let stream = client.get();
    client.out.clear();
    client.connection.close(&mut client.out);
    client.connection.close(&mut client.out);
    assert_eq!(client.written(), frames(&goaway(0, NO_ERROR)));
    assert!(client.connection.is_closing());
    let get = request("GET", b"");
    assert_eq!(
        client.connection.send(&get, 0, &mut client.out),
        Err(Refused::Draining)
    );
    client.receive(&frame(HEADERS, END_HEADERS | END_STREAM, stream, OK));
    assert_eq!(
        client.events().last(),
        Some(&Event::End(stream.into(), None))
    );
    assert_eq!(client.connection.outstanding(), 0);
}
