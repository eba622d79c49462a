//! Requests for another protocol on a stream (RFC 8441).

use std::future::poll_fn;

use bytes::Bytes;
use h2::ext::Protocol;
use h2::server;
use http::{Method, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use trilane_wire::h2::Config;
use trilane_wire::hpack::Decoder;
use trilane_wire::{ErrorKind, FieldList, Refused, Request, RequestParts, Upload};

use super::common::*;
use super::uploads::id;

/// SETTINGS_ENABLE_CONNECT_PROTOCOL.
const ENABLE: (u16, u32) = (8, 1);

fn websocket(repeated: bool) -> Request {
    let parts = RequestParts {
        method: "GET",
        scheme: "http",
        authority: "a.example",
        path: "/chat",
        fields: &[("Sec-WebSocket-Version".into(), "13".into())],
        body: [].into(),
        repeated,
    };
    Request::extended_connect(&parts, "websocket").unwrap()
}

/// A client that has a tunnel, whose head had `block` behind its status 200, and the stream.
fn tunnel(block: &[u8]) -> (Client, u32) {
    let mut client = Client::with(CONFIG, &[ENABLE]);
    let stream = client.send(&websocket(true));
    let head = [OK, block].concat();
    client.receive(&frame(HEADERS, END_HEADERS, stream, &head));
    let events = client.events();
    assert!(matches!(events[..], [Event::Head { status: 200, .. }]));
    client.out.clear();
    (client, stream)
}

#[test]
fn it_waits_for_settings_that_enable_it() {
    let mut client = Client::silent(Config {
        streams_before_settings: 0,
        ..CONFIG
    });
    let request = websocket(true);
    client.out.clear();
    assert_eq!(client.connection.capacity(), 0);
    let refused = client.connection.send(&request, 10, &mut client.out);
    assert_eq!(refused, Err(Refused::Full));
    client.receive(&settings(&[]));
    client.out.clear();
    assert_eq!(client.connection.capacity(), 1000);
    let refused = client.connection.send(&request, 10, &mut client.out);
    assert_eq!(refused, Err(Refused::NoConnectProtocol));
    assert_eq!(client.written(), []);
    // A server may enable it later, but not take it back.
    client.receive(&settings(&[ENABLE]));
    assert_eq!(client.send(&request), 1);
    client.dies(&settings(&[(8, 0)]), PROTOCOL_ERROR);
}

#[test]
fn without_waiting_for_settings_it_is_refused_before_them() {
    let mut client = Client::silent(CONFIG);
    let refused = client
        .connection
        .send(&websocket(true), 10, &mut client.out);
    assert_eq!(refused, Err(Refused::Full));
}

#[test]
fn its_head_is_that_of_rfc_8441() {
    for repeated in [true, false] {
        let mut client = Client::with(CONFIG, &[ENABLE]);
        let mut decoder = Decoder::new(4096);
        // The second and the third come from what the table and the connection keep.
        for round in 0..3 {
            let stream = client.send(&websocket(repeated));
            let [head] = &client.written()[..] else {
                panic!("one frame of HEADERS")
            };
            assert_eq!((head.kind, head.flags), (HEADERS, END_HEADERS), "{round}");
            let mut fields = Vec::new();
            let visit = |name: &[u8], value: &[u8], _| {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                fields.push((text(name), text(value)));
            };
            decoder.decode(&head.payload, visit).unwrap();
            let fields: Vec<_> = fields.iter().map(|(n, v)| (&**n, &**v)).collect();
            let expected = [
                (":method", "CONNECT"),
                (":scheme", "http"),
                (":authority", "a.example"),
                (":path", "/chat"),
                (":protocol", "websocket"),
                ("sec-websocket-version", "13"),
            ];
            assert_eq!(fields, expected, "{round}");
            assert_eq!(client.connection.upload(id(stream)), Upload::Open);
        }
    }
}

#[test]
fn what_goes_each_way_is_data_whatever_the_head_says_of_a_length() {
    // `content-length: 2`, which says nothing of a tunnel (RFC 9110 §9.3.6).
    let (mut client, stream) = tunnel(&[0x0f, 0x0d, 0x01, b'2']);
    client.receive(&frame(DATA, 0, stream, b"longer than two"));
    assert_eq!(
        client.events(),
        [Event::Data(stream.into(), b"longer than two".into())]
    );
    assert_eq!(client.write(stream, b"back"), 4);
    assert_eq!(client.written(), frames(&frame(DATA, 0, stream, b"back")));
    client.finish(stream, &FieldList::new()).unwrap();
    client.out.clear();
    client.receive(&frame(DATA, END_STREAM, stream, b""));
    assert_eq!(client.events(), [Event::End(stream.into(), None)]);
    assert_eq!(client.connection.outstanding(), 0);
    assert_eq!(client.written(), []);
}

#[test]
fn the_windows_hold_in_both_directions() {
    let mut client = Client::with(CONFIG, &[ENABLE, (4, 10)]);
    let stream = client.send(&websocket(true));
    client.receive(&frame(HEADERS, END_HEADERS, stream, OK));
    client.out.clear();
    assert_eq!(client.write(stream, b"hello world"), 10);
    assert_eq!(client.write(stream, b"d"), 0);
    client.receive(&window_update(stream, 1));
    assert_eq!(client.write(stream, b"d!"), 1);
    client.out.clear();
    // Half of the window of the stream is given back.
    for _ in 0..5 {
        client.receive(&frame(DATA, 0, stream, &[0; 10_000]));
    }
    assert_eq!(client.written(), frames(&window_update(stream, 50_000)));
}

#[test]
fn a_tunnel_has_no_trailers() {
    let (mut client, stream) = tunnel(b"");
    let trailers = frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        stream,
        &[0x0f, 0x0d, 0x01, b'2'],
    );
    client.recorder.events.clear();
    client.receive(&trailers);
    assert!(matches!(
        client.events()[..],
        [Event::Fail(_, error)] if error.kind == ErrorKind::Protocol
    ));
    assert_eq!(
        client.written(),
        frames(&rst_stream(stream, PROTOCOL_ERROR))
    );
}

#[test]
fn an_answer_that_does_not_accept_is_a_response_with_content() {
    let mut client = Client::with(CONFIG, &[ENABLE]);
    let stream = client.send(&websocket(true));
    client.out.clear();
    // `:status: 404` is entry 13 of the static table; the content is longer than announced.
    let head = [&[0x8d][..], &[0x0f, 0x0d, 0x01, b'2']].concat();
    client.receive(&frame(HEADERS, END_HEADERS, stream, &head));
    client.resets(
        &frame(DATA, 0, stream, b"abc"),
        stream,
        PROTOCOL_ERROR,
        ErrorKind::Body,
    );
}

/// Sends back what comes on a stream that was asked for as a WebSocket.
async fn echo(io: DuplexStream) {
    let mut builder = server::Builder::new();
    builder.enable_connect_protocol().initial_window_size(1000);
    let mut connection = builder.handshake::<_, Bytes>(io).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        assert_eq!(request.method(), Method::CONNECT);
        let protocol = request.extensions().get::<Protocol>().unwrap();
        assert_eq!(protocol.as_str(), "websocket");
        assert_eq!(request.uri().path(), "/chat");
        tokio::spawn(async move {
            let mut body = request.into_body();
            let mut send = respond.send_response(Response::new(()), false).unwrap();
            while let Some(Ok(chunk)) = body.data().await {
                body.flow_control().release_capacity(chunk.len()).unwrap();
                send.send_data(chunk, false).unwrap();
            }
            send.send_data(Bytes::new(), true).unwrap();
            let _ = poll_fn(|context| send.poll_reset(context)).await;
        });
    }
}

#[tokio::test]
async fn the_h2_crate_opens_tunnels() {
    let (mut io, far) = tokio::io::duplex(50_000);
    let server = tokio::spawn(echo(far));
    let mut client = Client::silent(Config {
        streams_before_settings: 0,
        ..CONFIG
    });
    let sent: Vec<u8> = (0..100_000u32).map(|at| (at * 7) as u8).collect();
    let streams = [1u32, 3];
    let (mut written, mut opened) = ([0; 2], 0);
    let mut buffer = vec![0; 30_000];
    while opened < 2 || client.connection.outstanding() > 0 {
        while opened < 2 && client.connection.capacity() > 0 {
            client.send(&websocket(true));
            opened += 1;
        }
        for (stream, written) in streams.into_iter().zip(&mut written) {
            while client.connection.upload(id(stream)) == Upload::Open {
                if *written == sent.len() {
                    client.finish(stream, &FieldList::new()).unwrap();
                    break;
                }
                match client.write(stream, &sent[*written..]) {
                    0 => break,
                    taken => *written += taken,
                }
            }
        }
        let (mut reader, mut writer) = tokio::io::split(&mut io);
        let out = std::mem::take(&mut client.out);
        let (_, read) = tokio::join!(writer.write_all(&out), reader.read(&mut buffer));
        let read = read.unwrap();
        assert_ne!(read, 0, "the server has gone");
        client.receive(&buffer[..read]);
    }
    server.abort();
    let events = client.events();
    for stream in streams.map(u64::from) {
        assert!(events.contains(&Event::Data(stream, sent.clone())));
        assert!(events.contains(&Event::End(stream, None)));
    }
}
