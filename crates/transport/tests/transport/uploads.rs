//! Content that is written bit by bit, and content that waits for its reader, against quinn + h3.

use std::time::Instant;

use crate::support::{Client, PATIENCE, Record, ServerOptions, request, server};
use quinn::VarInt;
use trilane_transport::quic::Options;
use trilane_wire::{
    Content, Encoding, ErrorKind, FieldList, OneOff, Request, StreamId, Unfinished, Upload,
};

fn put(path: &str, length: Option<u64>) -> Request {
    Request::one_off(
        Encoding::H3,
        &OneOff {
            method: "PUT",
            scheme: "https",
            authority: "localhost",
            path,
            fields: &[],
            content: Content::Streamed { length, raw: false },
        },
    )
    .unwrap()
}

fn small_windows() -> ServerOptions {
    let mut transport = quinn::TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(30_000))
        .receive_window(VarInt::from_u32(50_000));
    ServerOptions {
        transport,
        ..ServerOptions::default()
    }
}

#[test]
fn requests_may_be_sent_right_after_the_handshake() {
    let server = server(ServerOptions::default());
    let config = server.client(&Options::default());
    let mut client = Client::connect(&config, server.address, "localhost");
    assert_eq!(client.session.capacity(), 0);
    client.connected();
    assert!(client.session.capacity() > 0);
    client.session.send(&put("/echo", None), 0).unwrap();
}

#[test]
fn streamed_content_larger_than_every_window_arrives() {
    let server = server(small_windows());
    let config = server.client(&Options::default());
    let mut client = Client::connect(&config, server.address, "localhost");
    client.connected();
    let content: Vec<u8> = (0..500_000).map(|n| (n * 7 + n / 256) as u8).collect();
    let mut record = Record::default();
    let mut uploads: Vec<_> = [
        ("/echo", Some(500_000)),
        ("/trailers", None),
        ("/echo", None),
    ]
    .into_iter()
    .enumerate()
    .map(|(slot, (path, length))| {
        let stream = client
            .session
            .send(&put(path, length), slot as u32)
            .unwrap();
        (stream, &content[..])
    })
    .collect();
    let begin = Instant::now();
    while record.done() < 3 {
        assert!(begin.elapsed() < PATIENCE, "hangs");
        for (stream, rest) in &mut uploads {
            while !rest.is_empty() {
                match client
                    .session
                    .write(*stream, &rest[..rest.len().min(20_000)])
                {
                    0 => break,
                    taken => *rest = &rest[taken..],
                }
            }
            if rest.is_empty() {
                client.session.finish(*stream, &FieldList::new()).unwrap();
            } else {
                assert_eq!(client.session.upload(*stream), Upload::Open);
            }
        }
        client.turn(&mut record);
    }
    for seen in record.0.values() {
        assert!(seen.ended && seen.body == content, "{:?}", seen.error);
    }
    assert!(record.0[&1].trailers.is_some());
}

#[test]
fn a_server_that_has_enough_stops_the_upload() {
    let server = server(ServerOptions::default());
    let config = server.client(&Options::default());
    let mut client = Client::connect(&config, server.address, "localhost");
    client.connected();
    let mut record = Record::default();
    let stream = client.session.send(&put("/enough", Some(10)), 0).unwrap();
    assert_eq!(client.session.write(stream, b"half"), 4);
    client.until(&mut record, |session, record| {
        record.done() == 1 && session.upload(stream) == Upload::Stopped
    });
    assert!(record.0[&0].ended);
    assert_eq!(client.session.write(stream, b"more"), 0);
    assert_eq!(client.session.finish(stream, &FieldList::new()), Ok(()));
}

#[test]
fn less_than_announced_cannot_be_finished() {
    let server = server(ServerOptions::default());
    let config = server.client(&Options::default());
    let mut client = Client::connect(&config, server.address, "localhost");
    client.connected();
    let stream = client.session.send(&put("/echo", Some(10)), 0).unwrap();
    client.session.write(stream, b"half");
    assert_eq!(
        client.session.finish(stream, &FieldList::new()),
        Err(Unfinished::Short { missing: 6 })
    );
    client.session.cancel(stream);
    assert_eq!(client.session.upload(stream), Upload::Stopped);
    assert_eq!(client.session.outstanding(), 0);
}

/// A client that has asked for more than its stream window, and has read a little of it.
fn reading(window: u64, size: usize) -> (crate::support::Server, Client, Record, StreamId) {
    let server = server(ServerOptions::default());
    let options = Options {
        stream_window: window,
        ..Options::default()
    };
    let mut client = Client::connect(&server.client(&options), server.address, "localhost");
    client.connected();
    let mut record = Record::default();
    let path = format!("/bytes/{size}");
    let stream = client.session.send(&request("GET", &path, b""), 0).unwrap();
    client.until(&mut record, |_, record| {
        record.0.get(&0).is_some_and(|seen| !seen.body.is_empty())
    });
    client.session.pause(stream);
    (server, client, record, stream)
}

#[test]
fn a_paused_stream_is_not_read_until_it_is_resumed() {
    let (_server, mut client, mut record, stream) = reading(200_000, 2_000_000);
    let before = record.0[&0].body.len();
    assert!(before < 2_000_000);
    // Others go on; and in the meantime the window fills.
    for slot in 1..4 {
        let other = request("GET", "/bytes/300000", b"");
        client.session.send(&other, slot).unwrap();
    }
    client.until(&mut record, |_, record| record.done() == 3);
    assert_eq!(record.0[&0].body.len(), before, "nothing was reported");

    client.session.resume(Instant::now(), stream, &mut record);
    let read = record.0[&0].body.len() - before;
    assert!((1..=200_000).contains(&read), "{read} bytes at once");
    client.session.resume(Instant::now(), stream, &mut record);
    client.until(&mut record, |_, record| record.done() == 4);
    assert_eq!(record.0[&0].body.len(), 2_000_000);
    assert!(record.0[&0].ended);
}

#[test]
fn an_end_that_came_during_a_pause_is_reported_on_resume() {
    let (_server, mut client, mut record, stream) = reading(10_000_000, 300_000);
    let other = request("GET", "/bytes/1", b"");
    let begin = Instant::now();
    // Until all of it has arrived, of which only QUIC knows.
    while client.session.quic().stats().received_bytes < 300_000 {
        assert!(begin.elapsed() < PATIENCE, "hangs");
        client.turn(&mut record);
    }
    client.session.send(&other, 1).unwrap();
    client.until(&mut record, |_, record| record.done() == 1);
    assert!(!record.0[&0].ended);
    client.session.resume(Instant::now(), stream, &mut record);
    client.until(&mut record, |_, record| record.done() == 2);
    assert_eq!(record.0[&0].body.len(), 300_000);
}

#[test]
fn a_lost_connection_reports_what_a_paused_stream_had() {
    let (server, mut client, mut record, _stream) = reading(100_000, 2_000_000);
    let other = request("GET", "/bytes/300000", b"");
    client.session.send(&other, 1).unwrap();
    client.until(&mut record, |_, record| record.done() == 1);
    let before = record.0[&0].body.len();
    server.endpoint.close(VarInt::from_u32(0x100), b"bye");
    client.until(&mut record, |_, record| record.done() == 2);
    let seen = &record.0[&0];
    assert!(seen.body.len() > before);
    assert_eq!(seen.error.unwrap().kind, ErrorKind::Body);
}

#[test]
fn a_paused_request_may_be_cancelled() {
    let (_server, mut client, mut record, stream) = reading(100_000, 2_000_000);
    client.session.cancel(stream);
    let before = record.0[&0].body.len();
    client.session.resume(Instant::now(), stream, &mut record);
    client
        .session
        .send(&request("GET", "/bytes/5", b""), 1)
        .unwrap();
    client.until(&mut record, |_, record| record.done() == 1);
    assert_eq!(
        (record.0[&0].body.len(), record.0[&0].ended),
        (before, false)
    );
}
