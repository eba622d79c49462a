//! HTTP/3 sessions against quinn + h3 over real sockets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Client, Count, Record, Seen, Server, ServerOptions, request, server};
use bytes::Bytes;
use quinn::VarInt;
use trilane_transport::quic::{ErrorKind, Options};
use trilane_wire::{ErrorKind as StreamErrorKind, Refused, Unprocessed};

fn connected(options: ServerOptions) -> (Server, Client) {
    let server = server(options);
    let mut client = Client::connect(
        &server.client(&Options::default()),
        server.address,
        "localhost",
    );
    client.connected();
    (server, client)
}

/// What came of one request.
fn fetch(client: &mut Client, method: &str, path: &str, body: &[u8]) -> Seen {
    client
        .session
        .send(&request(method, path, body), 0)
        .unwrap();
    let mut record = Record::default();
    client.until(&mut record, |_, record| record.done() == 1);
    record.0.remove(&0).unwrap()
}

#[test]
fn a_page_is_fetched() {
    let server = server(ServerOptions::default());
    let mut client = Client::connect(
        &server.client(&Options::default()),
        server.address,
        "localhost",
    );
    client.connected();
    assert!(client.session.capacity() > 0);
    client
        .session
        .send(&request("GET", "/bytes/11", b""), 7)
        .unwrap();
    let mut record = Record::default();
    client.until(&mut record, |_, record| record.done() == 1);
    let seen = &record.0[&7];
    assert_eq!(
        (seen.status, &seen.body[..], seen.error),
        (200, &b"xxxxxxxxxxx"[..], None)
    );
    assert!(seen.fields.contains(&("x-path".into(), "/bytes/11".into())));
    assert_eq!(client.session.outstanding(), 0);

    let tls = client.session.quic().tls().unwrap();
    assert_eq!(
        (tls.version.as_str(), &tls.alpn[..]),
        ("TLSv1.3", &b"h3"[..])
    );
    assert!(tls.cipher.starts_with("TLS13_") && !tls.group.is_empty() && !tls.resumed);
    let parameters = client.session.quic().peer_parameters().unwrap();
    assert_eq!(parameters.initial_max_streams_bidi, 100);
    let stats = client.session.quic().stats();
    assert!(stats.received_bytes > 1200 && stats.rtt > Duration::ZERO);
    let settings = client.session.h3().unwrap().peer_settings();
    assert!(settings.received);
}

#[test]
fn many_requests_share_a_connection() {
    let server = server(ServerOptions::default());
    let mut client = Client::connect(
        &server.client(&Options::default()),
        server.address,
        "localhost",
    );
    client.connected();
    let get = request("GET", "/bytes/100", b"");
    let mut count = Count::default();
    let mut sent = 0;
    while count.ended < 3000 {
        while sent < 3000 && client.session.capacity() > 0 {
            if client.session.send(&get, sent).is_err() {
                break;
            }
            sent += 1;
        }
        client.turn(&mut count);
        assert_eq!((count.failed, client.session.error()), (0, None));
    }
    assert_eq!((count.heads, count.bytes), (3000, 300_000));
}

#[test]
fn a_body_and_trailers_come_back() {
    let server = server(ServerOptions::default());
    let mut client = Client::connect(
        &server.client(&Options::default()),
        server.address,
        "localhost",
    );
    client.connected();
    let mut record = Record::default();
    client
        .session
        .send(&request("POST", "/echo", b"small"), 1)
        .unwrap();
    client
        .session
        .send(&request("POST", "/trailers", &[b'y'; 5000]), 2)
        .unwrap();
    client.until(&mut record, |_, record| record.done() == 2);
    assert_eq!(record.0[&1].body, b"small");
    assert_eq!(record.0[&2].body, [b'y'; 5000]);
    assert_eq!(record.0[&1].trailers, None);
    assert_eq!(
        record.0[&2].trailers,
        Some(vec![("checksum".into(), "1234".into())])
    );
}

#[test]
fn bodies_larger_than_every_window_go_both_ways() {
    let mut transport = quinn::TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(30_000))
        .receive_window(VarInt::from_u32(50_000))
        .send_window(40_000);
    let server = server(ServerOptions {
        transport,
        ..ServerOptions::default()
    });
    let options = Options {
        stream_window: 30_000,
        connection_window: 50_000,
        send_window: 20_000,
        ..Options::default()
    };
    let mut client = Client::connect(&server.client(&options), server.address, "localhost");
    client.connected();
    let body: Vec<u8> = (0..1_000_000).map(|n| (n * 7 + n / 256) as u8).collect();
    let mut record = Record::default();
    for slot in 0..3 {
        client
            .session
            .send(&request("POST", "/echo", &body), slot)
            .unwrap();
    }
    client.until(&mut record, |_, record| record.done() == 3);
    for seen in record.0.values() {
        assert!(
            seen.ended && seen.body == body,
            "{} bytes, {:?}",
            seen.body.len(),
            seen.error
        );
    }
}

#[test]
fn informational_heads_arrive_before_the_final_one() {
    let (_server, mut client) = connected(ServerOptions::default());
    let seen = fetch(&mut client, "GET", "/hints", b"");
    assert_eq!(
        (seen.informational, seen.status, seen.ended),
        (vec![100, 103], 200, true)
    );
}

#[test]
fn a_reset_stream_fails_its_request_only() {
    let (_server, mut client) = connected(ServerOptions::default());
    let error = fetch(&mut client, "GET", "/reset", b"").error.unwrap();
    assert_eq!(
        (error.kind, error.unprocessed),
        (StreamErrorKind::Reset, Unprocessed::Unknown)
    );
    let error = fetch(&mut client, "GET", "/rejected", b"").error.unwrap();
    assert_eq!(
        (error.kind, error.unprocessed),
        (StreamErrorKind::Reset, Unprocessed::Proved)
    );
    assert!(fetch(&mut client, "GET", "/bytes/1", b"").ended);
}

#[test]
fn a_server_may_have_enough_of_our_content() {
    let (_server, mut client) = connected(ServerOptions::default());
    let seen = fetch(&mut client, "POST", "/enough", &vec![1; 5_000_000]);
    assert_eq!((seen.status, seen.ended, seen.error), (200, true, None));
    assert!(fetch(&mut client, "GET", "/bytes/1", b"").ended);
    assert_eq!(client.session.outstanding(), 0);
}

#[test]
fn a_cancelled_request_frees_its_stream() {
    let mut transport = quinn::TransportConfig::default();
    transport.max_concurrent_bidi_streams(VarInt::from_u32(2));
    let (_server, mut client) = connected(ServerOptions {
        transport,
        ..ServerOptions::default()
    });
    // Cancelled while under way: each would hold its stream for ever.
    for _ in 0..20 {
        let mut record = Record::default();
        client.until(&mut record, |session, _| session.capacity() > 0);
        match client
            .session
            .send(&request("POST", "/echo", &[0; 5000]), 1)
        {
            Ok(stream) => client.session.cancel(stream),
            Err(error) => assert_eq!(error, Refused::Full),
        }
        assert!(record.0.is_empty());
    }
    let mut record = Record::default();
    client.until(&mut record, |session, _| session.capacity() > 0);
    while client
        .session
        .send(&request("GET", "/bytes/1", b""), 0)
        .is_err()
    {
        client.turn(&mut record);
    }
    client.until(&mut record, |_, record| record.done() == 1);
    assert!(record.0[&0].ended);
}

#[test]
fn a_small_grant_of_streams_holds_requests_back() {
    let mut transport = quinn::TransportConfig::default();
    transport.max_concurrent_bidi_streams(VarInt::from_u32(3));
    let (_server, mut client) = connected(ServerOptions {
        transport,
        ..ServerOptions::default()
    });
    let get = request("GET", "/bytes/10", b"");
    for slot in 0..3 {
        client.session.send(&get, slot).unwrap();
    }
    assert_eq!(client.session.send(&get, 3), Err(Refused::Full));
    assert_eq!(client.session.capacity(), 0);
    let (mut count, mut sent) = (Count::default(), 3);
    while count.ended < 50 {
        while client.session.capacity() > 0 && sent < 50 {
            sent += u32::from(client.session.send(&get, sent).is_ok());
        }
        client.turn(&mut count);
    }
    assert_eq!(client.session.outstanding(), 0);
}

#[test]
fn goaway_drains_the_connection() {
    // Takes two requests, says goodbye, answers them, and rejects the rest.
    let server = Server::with_connections(ServerOptions::default(), |connection| async move {
        let connection = h3_quinn::Connection::new(connection);
        let mut h3 = h3::server::Connection::<_, Bytes>::new(connection)
            .await
            .unwrap();
        let mut taken = Vec::new();
        for _ in 0..2 {
            taken.push(
                h3.accept()
                    .await
                    .unwrap()
                    .unwrap()
                    .resolve_request()
                    .await
                    .unwrap(),
            );
        }
        // One above the last: it names the first request that is not processed.
        h3.shutdown(1).await.unwrap();
        for (request, stream) in taken {
            tokio::spawn(crate::support::answer(request, stream));
        }
        while let Ok(Some(_)) = h3.accept().await {}
    });
    let mut client = Client::connect(
        &server.client(&Options::default()),
        server.address,
        "localhost",
    );
    client.connected();
    let mut record = Record::default();
    for slot in 0..6 {
        client
            .session
            .send(&request("GET", "/bytes/5", b""), slot)
            .unwrap();
    }
    client.until(&mut record, |_, record| record.done() == 6);
    let ended: Vec<_> = record.0.values().map(|seen| seen.ended).collect();
    assert_eq!(ended, [true, true, false, false, false, false]);
    assert!(
        record
            .0
            .values()
            .skip(2)
            .all(|seen| seen.error.unwrap().unprocessed == Unprocessed::Proved)
    );
    client.until(&mut record, |session, _| session.is_closing());
    assert_eq!(client.session.capacity(), 0);
    assert!(client.session.send(&request("GET", "/", b""), 9).is_err());
}

#[test]
fn a_server_that_breaks_http_3_is_told_why() {
    let reason = Arc::new(Mutex::new(None));
    let told = Arc::clone(&reason);
    let server = Server::with_connections(ServerOptions::default(), move |connection| {
        let told = Arc::clone(&told);
        async move {
            let mut control = connection.open_uni().await.unwrap();
            // A control stream without SETTINGS.
            control.write_all(&[0x00, 0x07, 0x01, 0x00]).await.unwrap();
            *told.lock().unwrap() = Some(connection.closed().await);
        }
    });
    let mut client = Client::connect(
        &server.client(&Options::default()),
        server.address,
        "localhost",
    );
    client.connected();
    client.session.send(&request("GET", "/", b""), 0).unwrap();
    let mut record = Record::default();
    client.until(&mut record, |session, _| session.error().is_some());
    let error = client.session.error().unwrap();
    assert_eq!((error.kind, error.code), (ErrorKind::Protocol, Some(0x10a)));
    assert_eq!(record.0[&0].error.unwrap().code, Some(0x10a));
    while reason.lock().unwrap().is_none() {
        client.turn(&mut record);
    }
    let told = reason.lock().unwrap().take().unwrap();
    match told {
        quinn::ConnectionError::ApplicationClosed(close) => {
            assert_eq!(close.error_code, VarInt::from_u32(0x10a));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_closed_session_says_so_to_the_server() {
    let (server, mut client) = connected(ServerOptions::default());
    client
        .session
        .send(&request("GET", "/bytes/1", b""), 0)
        .unwrap();
    client.session.close(std::time::Instant::now());
    assert!(client.session.is_closing() && client.session.error().is_none());
    assert_eq!(
        client.session.send(&request("GET", "/", b""), 1),
        Err(Refused::Draining)
    );
    let mut record = Record::default();
    while server.endpoint.open_connections() > 0 {
        client.turn(&mut record);
    }
    assert!(record.0.is_empty());
}
