//! A peer that makes work without progress is told to calm down (RFC 9113 §10.5).

use super::common::*;

/// Sends `bytes` again and again, and expects the end within `most` times but not within `least`.
#[track_caller]
fn ends(mut client: Client, bytes: &[u8], least: usize, most: usize) {
    for count in 0..=most {
        let result = client.try_receive(bytes);
        client.out.clear();
        let Err(error) = result else {
            continue;
        };
        assert_eq!(error.code, ENHANCE_YOUR_CALM, "{error}");
        assert!(count >= least, "after {count}");
        return;
    }
    panic!("endless");
}

fn open() -> Client {
    let mut client = Client::new();
    let stream = client.get();
    client.receive(&frame(HEADERS, END_HEADERS, stream, OK));
    client
}

#[test]
fn settings_and_their_acknowledgements() {
    ends(open(), &settings(&[]), 500, 2000);
    ends(open(), &settings(&[(4, 5)]), 500, 2000);
    ends(open(), &frame(SETTINGS, ACK, 0, b""), 500, 2000);
}

#[test]
fn pings() {
    ends(open(), &frame(PING, 0, 0, &[0; 8]), 1000, 10_000);
    ends(open(), &frame(PING, ACK, 0, &[0; 8]), 1000, 10_000);
}

#[test]
fn answers_that_are_not_read() {
    let mut client = open();
    let ping = frame(PING, 0, 0, &[0; 8]);
    let mut count = 0;
    while client.try_receive(&ping).is_ok() {
        count += 1;
        // Progress earns credit, but no room for more answers.
        client.receive(&frame(DATA, 0, 1, &[b'x'; 100]));
        assert!(client.out.len() < 80_000);
    }
    assert!((1000..5000).contains(&count), "{count}");
}

#[test]
fn resets_of_streams_that_have_ended() {
    let mut client = open();
    client.receive(&rst_stream(1, CANCEL));
    ends(client, &rst_stream(1, CANCEL), 500, 10_000);
}

#[test]
fn resets_of_new_streams_are_no_flood() {
    let mut client = Client::new();
    for _ in 0..20_000 {
        let stream = client.get();
        client.receive(&rst_stream(stream, REFUSED_STREAM));
        client.out.clear();
    }
    assert_eq!(client.connection.outstanding(), 0);
}

#[test]
fn empty_and_tiny_data() {
    ends(open(), &frame(DATA, 0, 1, b""), 500, 2000);
    ends(open(), &frame(DATA, PADDED, 1, b"\x00"), 500, 2000);
    ends(open(), &frame(DATA, 0, 1, b"x"), 10_000, 200_000);
    ends(
        open(),
        &frame(DATA, PADDED, 1, &[&[99][..], b"x", &[0; 99]].concat()),
        10_000,
        200_000,
    );
}

#[test]
fn small_data_is_no_flood() {
    let mut client = open();
    for _ in 0..200_000 {
        client.receive(&frame(DATA, 0, 1, b"data: x\n"));
        client.out.clear();
    }
}

#[test]
fn empty_continuation() {
    let mut client = Client::new();
    client.get();
    client.receive(&frame(HEADERS, 0, 1, OK));
    ends(client, &frame(CONTINUATION, 0, 1, b""), 10, 1000);
}

#[test]
fn window_updates() {
    ends(open(), &window_update(0, 1), 1000, 20_000);
    ends(open(), &window_update(1, 1), 1000, 20_000);
    let mut client = open();
    client.receive(&rst_stream(1, CANCEL));
    ends(client, &window_update(1, 1), 1000, 20_000);
}

#[test]
fn window_updates_of_an_upload_are_no_flood() {
    let mut client = Client::new();
    let stream = client.send(&request("POST", &vec![b'x'; 3_000_000]));
    let mut updates = 0;
    while client.connection.has_output() || updates == 0 {
        client.connection.produce(&mut client.out);
        let sent = client
            .written()
            .iter()
            .filter(|frame| frame.kind == DATA)
            .count();
        for _ in 0..sent.max(1) {
            client.receive(&[window_update(0, 100), window_update(stream, 100)].concat());
            updates += 2;
        }
    }
    assert!(updates > 40_000, "{updates}");
}

#[test]
fn informational_responses() {
    let mut client = Client::new();
    client.get();
    ends(
        client,
        &frame(HEADERS, END_HEADERS, 1, &[0x08, 3, b'1', b'0', b'3']),
        16,
        100,
    );
}

#[test]
fn frames_without_a_meaning() {
    ends(open(), &frame(PRIORITY, 0, 1, &[0; 5]), 1000, 10_000);
    ends(open(), &frame(0xbe, 0, 0, b""), 1000, 10_000);
    ends(open(), &goaway(1, NO_ERROR), 1000, 10_000);
}

#[test]
fn frames_on_a_stream_that_we_reset() {
    let mut client = open();
    let id = trilane_wire::StreamId { number: 1, slot: 0 };
    client.connection.cancel(id, &mut client.out);
    ends(client, &frame(DATA, 0, 1, b"more and more"), 1000, 10_000);
}
