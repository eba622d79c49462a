//! DATA, padding and the windows that we grant (RFC 9113 §5.2, §6.1, §6.9).

use trilane_wire::ErrorKind;
use trilane_wire::h2::Config;

use super::common::*;

/// A client with a stream whose head has arrived.
fn open(config: Config) -> (Client, u32) {
    let mut client = Client::with(config, &[]);
    let stream = client.get();
    client.receive(&frame(HEADERS, END_HEADERS, stream, OK));
    client.events();
    client.out.clear();
    (client, stream)
}

#[test]
fn padding_is_left_out_of_the_content() {
    let (mut client, stream) = open(CONFIG);
    client.receive(&frame(DATA, PADDED, stream, b"\x03abc\0\0\0"));
    client.receive(&frame(DATA, PADDED, stream, b"\x00de"));
    client.receive(&frame(DATA, PADDED, stream, b"\x02\0\0"));
    client.receive(&frame(DATA, PADDED | END_STREAM, stream, b"\x00"));
    assert_eq!(
        client.events(),
        [Event::Data(1, b"abcde".into()), Event::End(1, None)]
    );
}

#[test]
fn padding_longer_than_its_data_ends_the_connection() {
    for (payload, code) in [
        (&b"\x01"[..], PROTOCOL_ERROR),
        (b"\x04abc", PROTOCOL_ERROR),
        (b"\xff", PROTOCOL_ERROR),
        (b"", FRAME_SIZE_ERROR),
    ] {
        let (mut client, stream) = open(CONFIG);
        client.dies(&frame(DATA, PADDED, stream, payload), code);
    }
}

#[test]
fn windows_are_opened_when_half_of_them_is_used() {
    let config = Config {
        stream_window: 1000,
        connection_window: 65_535,
        ..CONFIG
    };
    let (mut client, stream) = open(config);
    client.receive(&frame(DATA, 0, stream, &[b'x'; 499]));
    assert_eq!(client.written(), []);
    client.receive(&frame(DATA, 0, stream, b"x"));
    assert_eq!(client.written(), frames(&window_update(stream, 500)));
    // Padding counts, and its length.
    client.receive(&frame(
        DATA,
        PADDED,
        stream,
        &[&[255][..], &[0; 499]].concat(),
    ));
    assert_eq!(client.written(), frames(&window_update(stream, 500)));
    // The connection's window is one for all streams.
    let mut total = 1000;
    while client.out.is_empty() {
        let other = client.get();
        client.out.clear();
        client.receive(&frame(HEADERS, END_HEADERS, other, OK));
        client.receive(&frame(DATA, END_STREAM, other, &[b'x'; 900]));
        total += 900;
    }
    assert_eq!(total, 33_400);
    assert_eq!(client.written(), frames(&window_update(0, total)));
}

#[test]
fn a_stream_that_ends_needs_no_window() {
    let config = Config {
        stream_window: 1000,
        ..CONFIG
    };
    let (mut client, stream) = open(config);
    client.receive(&frame(DATA, END_STREAM, stream, &[b'x'; 1000]));
    assert_eq!(client.written(), []);
    // Nor one of which all that is to come fits.
    let stream = client.get();
    client.out.clear();
    let head = [&[0x88, 0x5c, 4][..], b"1000"].concat();
    client.receive(&frame(HEADERS, END_HEADERS, stream, &head));
    client.receive(&frame(DATA, 0, stream, &[b'x'; 900]));
    assert_eq!(client.written(), []);
    // Until padding takes the room.
    client.receive(&frame(
        DATA,
        PADDED,
        stream,
        &[&[50][..], &[0; 50]].concat(),
    ));
    assert_eq!(client.written(), frames(&window_update(stream, 951)));
}

#[test]
fn data_beyond_a_window_is_an_error() {
    let config = Config {
        stream_window: 1000,
        connection_window: 65_535,
        ..CONFIG
    };
    let (mut client, stream) = open(config);
    client.receive(&frame(DATA, 0, stream, &[b'x'; 400]));
    let bytes = frame(DATA, 0, stream, &[b'x'; 601]);
    client.resets(&bytes, stream, FLOW_CONTROL_ERROR, ErrorKind::Protocol);
    // For the connection, with streams that have a large window.
    let (mut client, stream) = open(Config {
        connection_window: 65_535,
        max_frame: 70_000,
        ..CONFIG
    });
    client.dies(&frame(DATA, 0, stream, &[b'x'; 65_536]), FLOW_CONTROL_ERROR);
    let (mut client, stream) = open(Config {
        connection_window: 65_535,
        max_frame: 70_000,
        ..CONFIG
    });
    client.receive(&frame(DATA, 0, stream, &[b'x'; 65_535]));
}

#[test]
fn data_of_a_stream_that_is_gone_counts_for_the_connection() {
    let config = Config {
        connection_window: 65_535,
        ..CONFIG
    };
    let (mut client, stream) = open(config);
    let id = trilane_wire::StreamId {
        number: stream.into(),
        slot: 0,
    };
    client.connection.cancel(id, &mut client.out);
    client.out.clear();
    client.receive(&frame(DATA, 0, stream, &[b'x'; 16_384]).repeat(2));
    assert_eq!(client.written(), frames(&window_update(0, 32_768)));
    assert_eq!(client.events(), []);
}

#[test]
fn window_updates_of_the_peer_have_their_limits() {
    let start = |body: &[u8]| {
        let mut client = Client::new();
        let stream = client.send(&request("POST", body));
        client.written();
        (client, stream)
    };
    let (mut client, _) = start(b"x");
    client.dies(&window_update(0, 0), PROTOCOL_ERROR);
    let (mut client, stream) = start(b"x");
    client.resets(
        &window_update(stream, 0),
        stream,
        PROTOCOL_ERROR,
        ErrorKind::Protocol,
    );
    let (mut client, _) = start(b"x");
    client.dies(&window_update(0, (1 << 31) - 1), FLOW_CONTROL_ERROR);
    let (mut client, stream) = start(b"x");
    let most = window_update(stream, (1 << 31) - 1);
    client.resets(&most, stream, FLOW_CONTROL_ERROR, ErrorKind::Protocol);
    let (mut client, stream) = start(b"");
    client.receive(&window_update(0, (1 << 31) - 1 - 65_535));
    client.receive(&window_update(stream, (1 << 31) - 1 - 65_535));
    for bad in [
        frame(WINDOW_UPDATE, 0, 0, &[0; 3]),
        frame(WINDOW_UPDATE, 0, stream, &[0; 5]),
    ] {
        let (mut client, _) = start(b"");
        client.dies(&bad, FRAME_SIZE_ERROR);
    }
}

#[test]
fn content_arrives_before_its_frame_is_complete() {
    let (mut client, stream) = open(CONFIG);
    let bytes = frame(
        DATA,
        END_STREAM | PADDED,
        stream,
        &[&[4][..], b"hello", &[0; 4]].concat(),
    );
    let mut seen = Vec::new();
    for byte in &bytes {
        client.receive(&[*byte]);
        if let Some(Event::Data(_, body)) = client.recorder.events.first() {
            seen.push(body.len());
        }
    }
    assert_eq!(seen, [1, 2, 3, 4, 5, 5, 5, 5, 5]);
    assert_eq!(client.events().last(), Some(&Event::End(1, None)));
}
