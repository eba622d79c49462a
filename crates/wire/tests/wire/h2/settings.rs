//! Preface, SETTINGS and the number of streams (RFC 9113 §3.4, §5.1.2, §6.5).

use trilane_wire::h2::{Config, PeerSettings};
use trilane_wire::{ErrorKind, Refused};

use super::common::*;

#[test]
fn the_preface_and_settings_come_first() {
    let mut client = Client::silent(CONFIG);
    let out = std::mem::take(&mut client.out);
    let rest = out
        .strip_prefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .unwrap();
    let expected = [
        settings(&[(1, 4096), (2, 0), (4, 100_000), (5, 16_384), (6, 16_384)]),
        window_update(0, 1_000_000 - 65_535),
    ];
    assert_eq!(frames(rest), frames(&expected.concat()));
}

#[test]
fn a_configuration_out_of_range_is_moved_to_its_edge() {
    let config = Config {
        stream_window: u32::MAX,
        connection_window: 1,
        max_frame: 1,
        ..Config::default()
    };
    let client = Client::silent(config);
    let sent = frames(&client.out[24..]);
    assert_eq!(sent.len(), 1, "no WINDOW_UPDATE");
    assert_eq!(sent[0].payload[14..18], 0x7fff_ffffu32.to_be_bytes());
    assert_eq!(sent[0].payload[20..24], 16_384u32.to_be_bytes());
}

#[test]
fn settings_are_applied_together_and_acknowledged_in_order() {
    let mut client = Client::silent(CONFIG);
    client.out.clear();
    assert!(!client.connection.peer_settings().received);
    let ping = frame(PING, 0, 0, b"12345678");
    let second = settings(&[(3, 6), (3, 7)]);
    // 0x0a0a is unknown.
    let first = settings(&[
        (1, 64),
        (2, 0),
        (3, 5),
        (4, 10),
        (5, 20_000),
        (6, 30),
        (8, 1),
        (0x0a0a, 1),
    ]);
    client.receive(&[first, ping, second].concat());
    let acks = [
        frame(SETTINGS, ACK, 0, b""),
        frame(PING, ACK, 0, b"12345678"),
    ];
    let expected = [acks[0].clone(), acks[1].clone(), acks[0].clone()].concat();
    assert_eq!(client.written(), frames(&expected));
    assert_eq!(
        client.connection.peer_settings(),
        PeerSettings {
            header_table_size: 64,
            max_concurrent_streams: Some(7),
            initial_window_size: 10,
            max_frame_size: 20_000,
            max_header_list_size: Some(30),
            connect_protocol: true,
            received: true,
        }
    );
}

#[test]
fn settings_out_of_range_end_the_connection() {
    for (id, value, code) in [
        (2, 1, PROTOCOL_ERROR),
        (2, 2, PROTOCOL_ERROR),
        (4, 1 << 31, FLOW_CONTROL_ERROR),
        (5, 16_383, PROTOCOL_ERROR),
        (5, 1 << 24, PROTOCOL_ERROR),
        (8, 2, PROTOCOL_ERROR),
    ] {
        let mut client = Client::new();
        client.get();
        client.dies(&settings(&[(3, 9), (id, value)]), code);
        // Nothing of a bad frame is applied.
        assert_eq!(
            client.connection.peer_settings().max_concurrent_streams,
            None
        );
    }
    for value in [16_384, (1 << 24) - 1] {
        Client::new().receive(&settings(&[(5, value), (4, (1 << 31) - 1)]));
    }
}

#[test]
fn settings_of_a_wrong_size_or_place_end_the_connection() {
    Client::new().dies(&frame(SETTINGS, 0, 0, &[0; 5]), FRAME_SIZE_ERROR);
    Client::new().dies(&frame(SETTINGS, ACK, 0, &[0; 6]), FRAME_SIZE_ERROR);
    let mut client = Client::new();
    let stream = client.get();
    client.dies(&frame(SETTINGS, 0, stream, b""), PROTOCOL_ERROR);
}

#[test]
fn the_first_frame_must_be_settings() {
    for first in [
        frame(PING, 0, 0, &[0; 8]),
        frame(SETTINGS, ACK, 0, b""),
        goaway(0, NO_ERROR),
    ] {
        Client::silent(CONFIG).dies(&first, PROTOCOL_ERROR);
    }
    let mut client = Client::silent(CONFIG);
    client.get();
    client.dies(b"HTTP/1.1 400 Bad Request\r\n\r\n", PROTOCOL_ERROR);
}

#[test]
fn a_smaller_initial_window_makes_windows_negative() {
    let mut client = Client::with(CONFIG, &[(4, 100)]);
    let stream = client.send(&request("POST", &[b'x'; 300]));
    let sent = client.written();
    assert_eq!(
        (sent[1].kind, sent[1].flags, sent[1].payload.len()),
        (DATA, 0, 100)
    );
    // 100 have been sent: the window is now -70.
    client.receive(&settings(&[(4, 30)]));
    client.receive(&window_update(stream, 70));
    assert!(!client.connection.has_output());
    client.receive(&window_update(stream, 1));
    assert!(client.connection.has_output());
    client.out.clear();
    client.connection.produce(&mut client.out);
    assert_eq!(client.written()[0].payload.len(), 1);
    assert!(!client.connection.has_output());
    // A larger one opens them again, without a WINDOW_UPDATE.
    client.receive(&settings(&[(4, 1000)]));
    client.out.clear();
    client.connection.produce(&mut client.out);
    let last = client.written();
    assert_eq!((last[0].flags, last[0].payload.len()), (END_STREAM, 199));
}

#[test]
fn a_stream_whose_window_went_negative_leaves_the_queue() {
    let mut client = Client::with(CONFIG, &[(4, 100_000)]);
    client.send(&request("POST", &[b'x'; 90_000]));
    assert!(
        !client.connection.has_output(),
        "the connection's window is used up"
    );
    client.receive(&window_update(0, 100_000));
    assert!(client.connection.has_output());
    client.receive(&settings(&[(4, 10)]));
    assert!(!client.connection.has_output());
    client.out.clear();
    client.connection.produce(&mut client.out);
    assert_eq!(client.written(), []);
}

#[test]
fn an_initial_window_that_overflows_a_stream_ends_the_connection() {
    let mut client = Client::new();
    let stream = client.send(&request("POST", &[b'x'; 10]));
    client.receive(&window_update(stream, 1000));
    client.dies(&settings(&[(4, (1 << 31) - 1)]), FLOW_CONTROL_ERROR);
}

#[test]
fn the_peer_says_how_many_streams_there_may_be() {
    let mut client = Client::with(CONFIG, &[(3, 2)]);
    assert_eq!(client.connection.capacity(), 2);
    let first = client.get();
    client.get();
    assert_eq!(client.connection.capacity(), 0);
    client.out.clear();
    let get = request("GET", b"");
    assert_eq!(
        client.connection.send(&get, 0, &mut client.out),
        Err(Refused::Full)
    );
    assert!(client.out.is_empty(), "a refused request leaves no trace");
    client.receive(&frame(HEADERS, END_HEADERS | END_STREAM, first, OK));
    assert_eq!(client.connection.capacity(), 1);
    client.get();
    // Fewer than are open.
    client.receive(&settings(&[(3, 1)]));
    assert_eq!(client.connection.capacity(), 0);
    client.receive(&frame(HEADERS, END_HEADERS | END_STREAM, 3, OK));
    assert_eq!(
        (
            client.connection.capacity(),
            client.connection.outstanding()
        ),
        (0, 1)
    );
    client.receive(&frame(HEADERS, END_HEADERS | END_STREAM, 5, OK));
    assert_eq!(client.connection.capacity(), 1);
    client.receive(&settings(&[(3, 0)]));
    assert_eq!(
        client.connection.send(&get, 0, &mut client.out),
        Err(Refused::Full)
    );
    assert!(!client.connection.is_closing());
    client.receive(&settings(&[(3, u32::MAX)]));
    assert_eq!(client.connection.capacity(), CONFIG.max_streams as usize);
}

#[test]
fn before_settings_a_hundred_streams_may_be_opened() {
    assert_eq!(Client::silent(CONFIG).connection.capacity(), 100);
    let client = Client::silent(Config {
        max_streams: 3,
        ..CONFIG
    });
    assert_eq!(client.connection.capacity(), 3);
    assert_eq!(Client::new().connection.capacity(), 1000);
}

#[test]
fn a_smaller_header_table_is_honoured_by_the_next_request() {
    let mut client = Client::new();
    client.get();
    client.get();
    client.receive(&settings(&[(1, 0)]));
    client.out.clear();
    client.get();
    client.get();
    let sent = client.written();
    assert_eq!(sent[0].payload[0], 0x20, "a table size update to 0");
    assert_eq!(sent[1].payload[0], 0x82, "and only one");
}

#[test]
fn a_header_table_smaller_than_the_default_must_be_signalled_once_acknowledged() {
    let mut client = Client::silent(Config {
        header_table: 0,
        ..CONFIG
    });
    client.receive(&settings(&[]));
    let (first, second) = (client.get(), client.get());
    // Not acknowledged: the peer may still use the default.
    client.receive(&frame(
        HEADERS,
        END_HEADERS,
        first,
        &[0x88, 0x40, 1, b'a', 1, b'b'],
    ));
    client.receive(&frame(SETTINGS, ACK, 0, b""));
    client.dies(&frame(HEADERS, END_HEADERS, second, OK), COMPRESSION_ERROR);
}

#[test]
fn a_connection_that_ends_fails_what_is_outstanding() {
    let mut client = Client::new();
    let (first, second) = (client.get(), client.get());
    client.receive(&frame(HEADERS, END_HEADERS, second, OK));
    client.events();
    client.connection.eof(&mut client.recorder);
    let events = client.events();
    assert!(fail(first, ErrorKind::Closed, false, None)(&events[0]));
    assert!(fail(second, ErrorKind::Body, false, None)(&events[1]));
    assert!(client.connection.is_closing());
    client.connection.eof(&mut client.recorder);
    assert_eq!(client.events(), []);
    assert_eq!(client.try_receive(b"").unwrap_err().kind, ErrorKind::Closed);
}
