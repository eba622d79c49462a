//! Against the server of the `h2` crate, over an in-memory pipe.

use std::collections::HashMap;
use std::future::poll_fn;

use bytes::Bytes;
use h2::server;
use http::{HeaderMap, Request as Incoming, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use trilane_wire::h2::{Config, Connection};
use trilane_wire::{ErrorKind, Refused, Request};

use super::common::*;
use super::uploads::{list, put};

/// Serves one connection, each request by its path.
async fn serve(io: DuplexStream, builder: server::Builder, goaway_after: Option<usize>) {
    let mut connection = builder.handshake::<_, Bytes>(io).await.unwrap();
    let mut seen = 0;
    while let Some(incoming) = connection.accept().await {
        let Ok((request, respond)) = incoming else {
            return;
        };
        tokio::spawn(answer(request, respond));
        seen += 1;
        if goaway_after == Some(seen) {
            connection.graceful_shutdown();
        }
    }
}

async fn answer(request: Incoming<h2::RecvStream>, mut respond: server::SendResponse<Bytes>) {
    let path = request.uri().path().to_owned();
    let fields = request.headers().clone();
    let mut body = request.into_body();
    if path == "/refuse" {
        respond.send_reset(h2::Reason::REFUSED_STREAM);
        return;
    }
    if path == "/early" {
        let mut send = respond.send_response(Response::new(()), false).unwrap();
        send.send_data(Bytes::from_static(b"enough"), true).unwrap();
        return;
    }
    let mut received = Vec::new();
    while let Some(chunk) = body.data().await {
        let Ok(chunk) = chunk else { return };
        body.flow_control().release_capacity(chunk.len()).unwrap();
        received.extend_from_slice(&chunk);
    }
    if path == "/sum" {
        let trailers = body.trailers().await.unwrap().unwrap();
        received = trailers["x-sum"].as_bytes().to_vec();
    }
    if let Some(size) = path.strip_prefix("/bytes/") {
        received = content(size.parse().unwrap());
    }
    if path == "/informed" {
        let early = Response::builder()
            .status(103)
            .header("link", "</x>")
            .body(())
            .unwrap();
        respond.send_informational(early).unwrap();
    }
    let mut response = Response::new(());
    if path == "/fields" {
        *response.headers_mut() = fields;
        for value in response.headers_mut().values_mut() {
            // Some are never indexed on the way back.
            value.set_sensitive(value.len() % 3 == 0);
        }
    }
    let mut send = respond.send_response(response, false).unwrap();
    if path == "/broken" {
        send.send_data(Bytes::from_static(b"half"), false).unwrap();
        send.send_reset(h2::Reason::INTERNAL_ERROR);
        return;
    }
    let trailers = path == "/trailers";
    send.send_data(received.into(), !trailers).unwrap();
    if trailers {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        send.send_trailers(trailers).unwrap();
    }
    // Kept until the peer has it all: dropping the handle early would reset the stream.
    let _ = poll_fn(|context| send.poll_reset(context)).await;
}

fn content(size: usize) -> Vec<u8> {
    (0..size)
        .map(|index| (index * 7 + index / 251) as u8)
        .collect()
}

/// Sends all of `requests`, as many at a time as the connection takes, and gives each one's events.
async fn exchange(
    config: Config,
    builder: &server::Builder,
    goaway_after: Option<usize>,
    requests: &[Request],
) -> (HashMap<u64, Vec<Event>>, Connection) {
    let (mut io, far) = tokio::io::duplex(50_000);
    let server = tokio::spawn(serve(far, builder.clone(), goaway_after));
    let mut client = Client::silent(config);
    let mut rest = requests.iter();
    let mut next = rest.next();
    let mut buffer = vec![0; 30_000];
    loop {
        while let Some(request) = next
            && client.connection.peer_settings().received
            && client.connection.capacity() > 0
        {
            client.send(request);
            next = rest.next();
        }
        if client.connection.has_output() {
            client.connection.produce(&mut client.out);
        }
        if next.is_none() && client.connection.outstanding() == 0 {
            break;
        }
        if client.connection.is_closing() {
            let refused = client
                .connection
                .send(&request("GET", b""), 0, &mut client.out);
            assert_eq!(refused, Err(Refused::Draining));
            if client.connection.outstanding() == 0 {
                break;
            }
        }
        // Both at once: neither end may wait for the other to read first.
        let (mut reader, mut writer) = tokio::io::split(&mut io);
        let out = std::mem::take(&mut client.out);
        let read = if client.connection.has_output() {
            writer.write_all(&out).await.unwrap();
            continue;
        } else {
            tokio::join!(writer.write_all(&out), reader.read(&mut buffer))
                .1
                .unwrap()
        };
        assert_ne!(read, 0, "the server has gone");
        client.receive(&buffer[..read]);
    }
    server.abort();
    let mut by_stream: HashMap<u64, Vec<Event>> = HashMap::new();
    for event in client.events() {
        let (Event::Informational(stream, ..)
        | Event::Head { stream, .. }
        | Event::Data(stream, _)
        | Event::End(stream, _)
        | Event::Fail(stream, _)) = event;
        by_stream.entry(stream).or_default().push(event);
    }
    (by_stream, client.connection)
}

fn body_of(events: &[Event]) -> &[u8] {
    events
        .iter()
        .find_map(|event| {
            if let Event::Data(_, body) = event {
                Some(&body[..])
            } else {
                None
            }
        })
        .unwrap_or_default()
}

#[tokio::test]
async fn many_requests_over_few_streams() {
    let mut builder = server::Builder::new();
    builder.max_concurrent_streams(7);
    let requests: Vec<_> = (0..200)
        .map(|n| request_with("GET", &format!("/bytes/{n}"), &[], b""))
        .collect();
    let (events, connection) = exchange(CONFIG, &builder, None, &requests).await;
    assert_eq!(connection.peer_settings().max_concurrent_streams, Some(7));
    for (index, stream) in (1..400).step_by(2).enumerate() {
        let events = &events[&stream];
        assert_eq!(body_of(events), content(index));
        assert_eq!(events.last(), Some(&Event::End(stream, None)));
    }
}

#[tokio::test]
async fn bodies_both_ways_larger_than_every_window() {
    let mut builder = server::Builder::new();
    builder
        .initial_window_size(30_000)
        .initial_connection_window_size(80_000);
    let config = Config {
        stream_window: 20_000,
        connection_window: 65_535,
        ..CONFIG
    };
    let sizes = [
        1, 16_384, 29_999, 30_000, 30_001, 400_000, 1_000_000, 77_777,
    ];
    let requests: Vec<_> = sizes
        .iter()
        .map(|&size| request_with("POST", "/echo", &[], &content(size)))
        .collect();
    let (events, _) = exchange(config, &builder, None, &requests).await;
    for (&size, stream) in sizes.iter().zip((1..).step_by(2)) {
        assert_eq!(body_of(&events[&stream]), content(size), "{size}");
        assert_eq!(events[&stream].last(), Some(&Event::End(stream, None)));
    }
}

#[tokio::test]
async fn informational_responses_trailers_and_resets() {
    let paths = ["/informed", "/trailers", "/refuse", "/broken"];
    let requests: Vec<_> = paths
        .iter()
        .map(|path| request_with("POST", path, &[], b"hi"))
        .collect();
    let (events, _) = exchange(CONFIG, &server::Builder::new(), None, &requests).await;
    let link = vec![("link".into(), "</x>".into())];
    assert_eq!(events[&1][0], Event::Informational(1, 103, link));
    assert_eq!(events[&1].len(), 4);
    let trailers = vec![("grpc-status".into(), "0".into())];
    assert_eq!(events[&3].last(), Some(&Event::End(3, Some(trailers))));
    assert!(fail(5, ErrorKind::Reset, true, Some(REFUSED_STREAM))(
        &events[&5][0]
    ));
    assert!(fail(7, ErrorKind::Reset, false, Some(2))(
        events[&7].last().unwrap()
    ));
}

#[tokio::test]
async fn an_answer_before_the_end_of_the_upload_is_complete() {
    let requests = [request_with("POST", "/early", &[], &content(10_000_000))];
    let (events, connection) = exchange(CONFIG, &server::Builder::new(), None, &requests).await;
    assert_eq!(body_of(&events[&1]), b"enough");
    assert_eq!(events[&1].last(), Some(&Event::End(1, None)));
    assert!(!connection.has_output());
}

#[tokio::test]
async fn a_server_that_goes_away_finishes_what_it_took() {
    let requests: Vec<_> = (0..50)
        .map(|_| request_with("GET", "/bytes/1000", &[], b""))
        .collect();
    let mut builder = server::Builder::new();
    builder.max_concurrent_streams(5);
    let (events, connection) = exchange(CONFIG, &builder, Some(20), &requests).await;
    assert!(connection.is_closing());
    let ended = events
        .values()
        .filter(|events| matches!(events.last(), Some(Event::End(..))));
    let ended = ended.count();
    assert!(ended >= 20, "{ended}");
    let unprocessed = events.iter().filter(|(stream, events)| {
        fail(**stream as u32, ErrorKind::Goaway, true, Some(NO_ERROR))(&events[0])
    });
    assert_eq!(ended + unprocessed.count(), events.len());
}

/// Sections with names and values that come again, and new ones, small and large.
fn random_fields(seed: usize) -> FieldVec {
    let mut state = seed as u64 + 1;
    let mut below = |limit: u64| {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) % limit
    };
    let names = [
        "accept",
        "user-agent",
        "x-request-id",
        "x-a",
        "authorization",
        "range",
        "cookie",
    ];
    let mut fields = FieldVec::new();
    for _ in 0..below(10) {
        let name = names[below(names.len() as u64) as usize].to_owned();
        let value = match below(4) {
            0 => "x".repeat(below(2000) as usize + 1),
            1 => format!("{:x}", below(1 << 30)),
            2 => "~\\{}|^".repeat(below(20) as usize + 1),
            _ => format!("value-{}", below(5)),
        };
        fields.push((name, value));
    }
    fields
}

#[tokio::test]
async fn its_hpack_and_ours_agree_in_both_directions() {
    for (ours, theirs) in [
        (0, 4096),
        (4096, 0),
        (100, 70),
        (1000, 1000),
        (4096, 4096),
        (65_536, 65_536),
    ] {
        let mut builder = server::Builder::new();
        builder.header_table_size(theirs).max_concurrent_streams(10);
        let config = Config {
            header_table: ours,
            header_list: 100_000,
            ..CONFIG
        };
        let sections: Vec<_> = (0..300).map(random_fields).collect();
        let requests: Vec<_> = sections
            .iter()
            .map(|fields| {
                let fields: Vec<_> = fields.iter().map(|(n, v)| (&n[..], &v[..])).collect();
                request_with("GET", "/fields", &fields, b"")
            })
            .collect();
        let (events, _) = exchange(config, &builder, None, &requests).await;
        for (sent, stream) in sections.into_iter().zip((1..).step_by(2)) {
            let Event::Head { fields, .. } = &events[&stream][0] else {
                panic!("{:?}", events[&stream]);
            };
            // Its map keeps the order of the values of a name only.
            let mut expected: Vec<_> = sent.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            let mut seen: Vec<_> = fields
                .iter()
                .map(|(n, v)| (n.as_str(), v.as_str()))
                .collect();
            expected.sort_by_key(|(name, _)| *name);
            seen.sort_by_key(|(name, _)| *name);
            assert_eq!(seen, expected, "tables of {ours} and {theirs}");
        }
    }
}

#[tokio::test]
async fn streamed_content_and_its_trailers_arrive() {
    let mut builder = server::Builder::new();
    builder
        .initial_window_size(30_000)
        .initial_connection_window_size(80_000);
    let (mut io, far) = tokio::io::duplex(50_000);
    let server = tokio::spawn(serve(far, builder, None));
    let mut client = Client::silent(CONFIG);
    let sent = content(500_000);
    let trailers = list(&[("X-Sum", "42")]);
    let mut uploads: Vec<_> = [("/echo", Some(500_000)), ("/sum", None), ("/echo", None)]
        .into_iter()
        .map(|(path, length)| (client.send(&put(path, length)), &sent[..]))
        .collect();
    let mut buffer = vec![0; 30_000];
    while client.connection.outstanding() > 0 {
        for (stream, rest) in &mut uploads {
            loop {
                let taken = client.write(*stream, &rest[..rest.len().min(7000)]);
                *rest = &rest[taken..];
                if taken == 0 {
                    break;
                }
            }
            if rest.is_empty() {
                client.finish(*stream, &trailers).unwrap();
            }
        }
        let (mut reader, mut writer) = tokio::io::split(&mut io);
        let out = std::mem::take(&mut client.out);
        let (written, read) = tokio::join!(writer.write_all(&out), reader.read(&mut buffer));
        written.unwrap();
        client.receive(&buffer[..read.unwrap()]);
    }
    server.abort();
    let events = client.events();
    for (stream, _) in uploads {
        let stream = u64::from(stream);
        let body = events.iter().find_map(|event| match event {
            Event::Data(number, body) if *number == stream => Some(&body[..]),
            _ => None,
        });
        let expected = if stream == 3 { b"42" } else { &sent[..] };
        assert!(body == Some(expected), "stream {stream}");
        assert!(events.contains(&Event::End(stream, None)));
    }
}
