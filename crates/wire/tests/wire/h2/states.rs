//! Frames where they may not be (RFC 9113 §5.1, §6), and farewells.

use trilane_wire::{ErrorKind, Refused};

use super::common::*;

const ALL: u8 = END_HEADERS | END_STREAM;

#[test]
fn frames_on_streams_that_are_not_open_end_the_connection() {
    for stream in [0, 2, 3, 4, 0x7fff_ffff] {
        for bytes in [
            frame(DATA, 0, stream, b"x"),
            frame(HEADERS, ALL, stream, OK),
            rst_stream(stream, CANCEL),
            window_update(stream.max(2), 1),
        ] {
            let mut client = Client::new();
            client.get();
            client.dies(&bytes, PROTOCOL_ERROR);
        }
    }
}

#[test]
fn frames_on_a_stream_that_has_ended() {
    let ended = || {
        let mut client = Client::new();
        let stream = client.get();
        client.get();
        client.receive(&frame(HEADERS, ALL, stream, OK));
        client.events();
        (client, stream)
    };
    for bytes in [frame(DATA, 0, 1, b"x"), frame(HEADERS, ALL, 1, OK)] {
        let (mut client, _) = ended();
        client.dies(&bytes, STREAM_CLOSED);
    }
    // These may have crossed the end.
    let (mut client, stream) = ended();
    client.receive(&[window_update(stream, 1), rst_stream(stream, NO_ERROR)].concat());
    client.receive(&frame(PRIORITY, 0, stream, &[0; 5]));
    assert_eq!(client.events(), []);
}

#[test]
fn a_stream_that_we_reset_may_go_on_until_its_end() {
    let mut client = Client::new();
    let (stream, _) = (client.get(), client.get());
    let bytes = frame(HEADERS, END_HEADERS, stream, &[0x82]);
    client.resets(&bytes, stream, PROTOCOL_ERROR, ErrorKind::Protocol);
    client.receive(&frame(DATA, 0, stream, b"x"));
    client.receive(&frame(DATA, END_STREAM, stream, b"x"));
    assert_eq!(client.events(), []);
    client.dies(&frame(DATA, 0, stream, b"x"), STREAM_CLOSED);
}

#[test]
fn data_before_the_head_fails_its_stream() {
    let mut client = Client::new();
    let stream = client.get();
    let bytes = frame(DATA, END_STREAM, stream, b"x");
    client.resets(&bytes, stream, PROTOCOL_ERROR, ErrorKind::Protocol);
}

#[test]
fn a_reset_fails_its_stream_and_a_refusal_may_be_retried() {
    let mut client = Client::new();
    let (first, second, third) = (client.get(), client.get(), client.get());
    client.receive(&rst_stream(first, CANCEL));
    client.receive(&rst_stream(second, REFUSED_STREAM));
    client.receive(&frame(HEADERS, END_HEADERS, third, OK));
    client.receive(&rst_stream(third, 0xdead));
    let events = client.events();
    assert!(fail(first, ErrorKind::Reset, false, Some(CANCEL))(
        &events[0]
    ));
    assert!(fail(second, ErrorKind::Reset, true, Some(REFUSED_STREAM))(
        &events[1]
    ));
    assert!(fail(third, ErrorKind::Reset, false, Some(0xdead))(
        &events[3]
    ));
    assert_eq!(client.connection.outstanding(), 0);
    for payload in [&[0; 3][..], &[0; 5]] {
        let mut client = Client::new();
        let stream = client.get();
        client.dies(&frame(RST_STREAM, 0, stream, payload), FRAME_SIZE_ERROR);
    }
}

#[test]
fn goaway_fails_what_was_not_processed_and_drains_the_rest() {
    let mut client = Client::with(CONFIG, &[(4, 10)]);
    let upload = request("POST", &[b'x'; 100]);
    let streams = [
        client.send(&upload),
        client.send(&upload),
        client.send(&upload),
    ];
    client.receive(&goaway(0x7fff_ffff, NO_ERROR));
    assert_eq!(client.events(), []);
    assert!(client.connection.is_closing());
    assert_eq!(client.connection.capacity(), 0);
    let get = request("GET", b"");
    assert_eq!(
        client.connection.send(&get, 0, &mut client.out),
        Err(Refused::Draining)
    );

    client.receive(&window_update(streams[2], 50));
    client.receive(&goaway(streams[0], NO_ERROR));
    let events = client.events();
    assert!(fail(streams[1], ErrorKind::Goaway, true, Some(NO_ERROR))(
        &events[0]
    ));
    assert!(fail(streams[2], ErrorKind::Goaway, true, Some(NO_ERROR))(
        &events[1]
    ));
    assert!(!client.connection.has_output());
    // The first goes on, its upload too.
    client.receive(&window_update(streams[0], 90));
    assert!(client.connection.has_output());
    client.out.clear();
    client.connection.produce(&mut client.out);
    assert_eq!(client.written()[0].payload.len(), 90);
    client.receive(&frame(HEADERS, ALL, streams[0], OK));
    assert_eq!(client.events().last(), Some(&Event::End(1, None)));
    assert_eq!(client.connection.outstanding(), 0);
}

#[test]
fn goaway_never_takes_a_stream_back() {
    let mut client = Client::new();
    client.get();
    client.receive(&goaway(1, 2));
    client.receive(&goaway(1, 2));
    client.dies(&goaway(3, 2), PROTOCOL_ERROR);
    Client::new().dies(&frame(GOAWAY, 0, 0, &[0; 7]), FRAME_SIZE_ERROR);
    let mut client = Client::new();
    let stream = client.get();
    client.dies(&frame(GOAWAY, 0, stream, &[0; 8]), PROTOCOL_ERROR);
}

#[test]
fn pings_are_answered_and_stray_answers_ignored() {
    let mut client = Client::new();
    client.receive(&frame(PING, 0, 0, b"abcdefgh"));
    client.receive(&frame(PING, ACK, 0, b"abcdefgh"));
    client.receive(&frame(SETTINGS, ACK, 0, b""));
    assert_eq!(client.written(), frames(&frame(PING, ACK, 0, b"abcdefgh")));
    client.dies(&frame(PING, 0, 0, &[0; 7]), FRAME_SIZE_ERROR);
    let mut client = Client::new();
    let stream = client.get();
    client.dies(&frame(PING, 0, stream, &[0; 8]), PROTOCOL_ERROR);
}

#[test]
fn push_is_refused() {
    let mut client = Client::new();
    let stream = client.get();
    let promise = [&[0, 0, 0, 2][..], &[0x82]].concat();
    client.dies(
        &frame(PUSH_PROMISE, END_HEADERS, stream, &promise),
        PROTOCOL_ERROR,
    );
}

#[test]
fn priority_and_unknown_frames_are_ignored() {
    let mut client = Client::new();
    let stream = client.get();
    client.out.clear();
    client.receive(&frame(PRIORITY, 0, stream, &[0; 5]));
    client.receive(&frame(PRIORITY, 0, 99, &[0; 5]));
    client.receive(&frame(0xbe, 0xff, stream, b"grease"));
    client.receive(&frame(0x10, 0, 0, b""));
    assert_eq!((client.written(), client.events()), (vec![], vec![]));
    let short = frame(PRIORITY, 0, stream, &[0; 4]);
    client.resets(&short, stream, FRAME_SIZE_ERROR, ErrorKind::Protocol);
    client.dies(&frame(PRIORITY, 0, 0, &[0; 5]), PROTOCOL_ERROR);
    // A stream that is closed, or idle, cannot be reset.
    for stream in [1, 99] {
        let mut client = Client::new();
        client.get();
        client.receive(&frame(HEADERS, ALL, 1, OK));
        client.dies(&frame(PRIORITY, 0, stream, &[0; 4]), FRAME_SIZE_ERROR);
    }
}

#[test]
fn a_frame_larger_than_we_accept_ends_the_connection() {
    let (mut largest, mut larger) = (Client::new(), Client::new());
    largest.receive(&frame(0xbe, 0, 0, &[0; 16_384]));
    // Its header says enough.
    larger.dies(&frame(0xbe, 0, 0, &[0; 16_385])[..9], FRAME_SIZE_ERROR);
}

#[test]
fn a_reserved_bit_is_ignored() {
    let mut client = Client::new();
    let stream = client.get();
    client.receive(&frame(HEADERS, END_HEADERS, stream | 1 << 31, OK));
    client.receive(&frame(DATA, END_STREAM, stream | 1 << 31, b"x"));
    assert_eq!(client.events().last(), Some(&Event::End(1, None)));
}
