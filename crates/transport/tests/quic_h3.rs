//! HTTP/3 sessions against quinn + h3 over real sockets.

mod support;

use bytes::Bytes;
use support::{Client, Count, Record, Server, ServerOptions, request};
use trilane_transport::quic::Options;

/// Answers as the path says.
fn server(options: ServerOptions) -> Server {
    Server::with_requests(options, |request, mut stream| async move {
        let path = request.uri().path().to_owned();
        let response = http::Response::builder().header("x-path", &path);
        if let Some(size) = path.strip_prefix("/bytes/") {
            let size: usize = size.parse().unwrap();
            let head = response.header("content-length", size).body(()).unwrap();
            stream.send_response(head).await.unwrap();
            stream
                .send_data(Bytes::from(vec![b'x'; size]))
                .await
                .unwrap();
            stream.finish().await.unwrap();
            return;
        }
        let body = support::content(&mut stream).await;
        stream
            .send_response(response.body(()).unwrap())
            .await
            .unwrap();
        stream.send_data(Bytes::from(body)).await.unwrap();
        if path == "/trailers" {
            let mut trailers = http::HeaderMap::new();
            trailers.insert("checksum", "1234".parse().unwrap());
            stream.send_trailers(trailers).await.unwrap();
        } else {
            stream.finish().await.unwrap();
        }
    })
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
    assert!(stats.received_bytes > 1200 && stats.rtt > std::time::Duration::ZERO);
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
