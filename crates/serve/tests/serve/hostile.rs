//! Peers that are not nice: the server closes on them and goes on.

use crate::common::{Client, Target, VERSIONS, quic, run, start, start_with, tls};
use http::Request;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// RFC 9114 section 8.1.
const H3_EXCESSIVE_LOAD: u32 = 0x107;
const H3_CLOSED_CRITICAL_STREAM: u32 = 0x104;
/// RFC 9204 section 6.
const QPACK_ENCODER_STREAM_ERROR: u32 = 0x201;

async fn is_still_serving(target: &Target) {
    for version in VERSIONS {
        let mut client = Client::connect(target, version).await;
        assert_eq!(client.get("/hello").await.body, "hello world", "{version}");
    }
}

/// What comes back until the server closes.
async fn say(target: &Target, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(target.server.addresses().http)
        .await
        .unwrap();
    // It may close before it has read everything.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard).await;
    heard
}

/// The status that the first answer has, if there is one.
fn status(heard: &[u8]) -> Option<u16> {
    let text = String::from_utf8_lossy(heard);
    text.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}

#[test]
fn malformed_heads_are_answered_and_closed() {
    let target = start();
    run(async {
        for (expected, malformed) in [
            (Some(400), &b"\x00\x01\x02\x03\r\n\r\n"[..]),
            (Some(400), b"GET\r\n\r\n"),
            (Some(400), b"GET / HTTP/9.9\r\n\r\n"),
            (
                Some(400),
                b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            ),
            (
                Some(400),
                b"GET / HTTP/1.1\r\nhost: localhost\r\nbad name: x\r\n\r\n",
            ),
            (Some(400), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
            // HTTP/2, which has its own way to say so.
            (
                None,
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            ),
            (None, b""),
        ] {
            let heard = say(&target, malformed).await;
            let text = String::from_utf8_lossy(&heard);
            assert_eq!(status(&heard), expected, "{malformed:?}: {text}");
        }
        is_still_serving(&target).await;
    });
}

#[test]
fn a_caller_with_more_connections_than_it_may_have_is_closed_over_quic_too() {
    let target = start_with(|config| config.connections_per_caller = Some(2));
    run(async {
        let mut held = Vec::new();
        for _ in 0..2 {
            let mut client = Client::connect(&target, "h3").await;
            client.get("/hello").await;
            held.push(client);
        }
        let (_endpoint, connection) = quic(&target).await;
        let quinn::ConnectionError::ApplicationClosed(close) = connection.closed().await else {
            panic!("it is closed for another reason");
        };
        assert_eq!(close.error_code, H3_EXCESSIVE_LOAD.into());
        // Those over TCP are others.
        Client::connect(&target, "h2").await.get("/hello").await;
    });
}

#[test]
fn a_request_names_one_host() {
    let target = start();
    run(async {
        for (expected, version, hosts) in [
            (400, "1.1", ""),
            (400, "1.1", "host: localhost\r\nhost: b\r\n"),
            (400, "1.1", "host: localhost\r\nHost: a\r\n"),
            (400, "1.1", "host: a/b\r\n"),
            (400, "1.1", "host: user@a\r\n"),
            (421, "1.1", "host: a.example:8080\r\n"),
            (200, "1.1", "host: app.localhost:8080\r\n"),
            (200, "1.1", "host: [::1]\r\n"),
        ] {
            let request = format!("GET /hello HTTP/{version}\r\n{hosts}\r\n");
            let heard = say(&target, request.as_bytes()).await;
            let text = String::from_utf8_lossy(&heard);
            assert_eq!(status(&heard), Some(expected), "{request:?}: {text}");
            assert_eq!(
                text.contains("connection: close"),
                expected == 400,
                "{text}"
            );
        }
        let old = say(&target, b"GET /hello HTTP/1.0\r\n\r\n").await;
        assert!(old.starts_with(b"HTTP/1.0 200"), "Host is younger");
    });
}

#[test]
fn each_request_of_a_connection_names_a_host_of_its_own() {
    let target = start();
    run(async {
        let first = "GET /hello HTTP/1.1\r\nhost: localhost\r\n\r\n";
        for (expected, hosts) in [
            ("200", "host: localhost\r\n"),
            ("421", "host: a.example\r\n"),
            ("421", "host: localhost.example\r\n"),
            ("400", "host: localhost\r\nhost: a.example\r\n"),
            ("400", ""),
        ] {
            let requests = format!("{first}{first}GET /hello HTTP/1.1\r\n{hosts}\r\n");
            let heard = say(&target, requests.as_bytes()).await;
            let text = String::from_utf8_lossy(&heard);
            let statuses = text.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]);
            let statuses: Vec<_> = statuses.collect();
            assert_eq!(statuses, ["200", "200", expected], "{hosts:?}");
        }
        // A target with an authority counts beside the field.
        let absolute = "GET http://a.example/hello HTTP/1.1\r\nhost: localhost\r\n\r\n";
        let heard = say(&target, format!("{first}{absolute}").as_bytes()).await;
        assert!(String::from_utf8_lossy(&heard).contains("HTTP/1.1 421"));
    });
}

#[test]
fn a_refusal_is_not_lost_with_what_was_sent_behind_the_request() {
    let target = start();
    run(async {
        let behind = "x".repeat(1 << 20);
        for (expected, head) in [
            (400, "GET / HTTP/1.1\r\nbad name: x\r\n\r\n".to_owned()),
            (
                400,
                "POST / HTTP/1.1\r\ncontent-length: 1000000000\r\n\r\n".to_owned(),
            ),
            (
                431,
                format!(
                    "GET / HTTP/1.1\r\nhost: localhost\r\n{}\r\n",
                    "x: y\r\n".repeat(100)
                ),
            ),
            (
                431,
                format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {behind}\r\n\r\n"),
            ),
        ] {
            let mut stream = TcpStream::connect(target.server.addresses().http)
                .await
                .unwrap();
            // Neither ends its direction nor reads before all is sent.
            let request = [head.as_bytes(), behind.as_bytes()].concat();
            stream.write_all(&request).await.unwrap();
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).await.unwrap();
            let text = String::from_utf8_lossy(&heard);
            let head = &head[..head.len().min(60)];
            assert_eq!(status(&heard), Some(expected), "{head:?}: {text}");
        }
        is_still_serving(&target).await;
    });
}

#[test]
fn a_body_cut_short_is_answered_with_400() {
    let target = start();
    run(async {
        for start in [
            "POST /hello HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nabc",
            "POST /hello HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        ] {
            let heard = say(&target, start.as_bytes()).await;
            assert_eq!(status(&heard), Some(400), "{start}");
        }
        is_still_serving(&target).await;
    });
}

#[test]
fn endless_heads_are_cut_off() {
    let target = start();
    run(async {
        let line = "GET / HTTP/1.1\r\nhost: localhost\r\nx: ";
        let heard = say(
            &target,
            format!("{line}{}\r\n\r\n", "x".repeat(1 << 20)).as_bytes(),
        )
        .await;
        assert_eq!(status(&heard), Some(431));
        for version in ["h2c", "h2", "h3"] {
            let mut client = Client::connect(&target, version).await;
            let request = Request::get("/hello").header("x", "x".repeat(200 << 10));
            let refused = match client.try_send(request, "").await {
                Ok(answer) => answer.status == 431,
                Err(_) => true,
            };
            assert!(refused, "{version}");
        }
        is_still_serving(&target).await;
    });
}

#[test]
fn a_long_frame_is_refused_before_it_is_held() {
    let target = start();
    run(async {
        // HEADERS and an unknown type, announcing 64 KiB and a byte.
        for kind in [0x01, 0x21] {
            let (_endpoint, connection) = quic(&target).await;
            let (mut send, mut recv) = connection.open_bi().await.unwrap();
            send.write_all(&[kind, 0x80, 0x01, 0x00, 0x01, b'x'])
                .await
                .unwrap();
            let stopped = send.stopped().await.unwrap();
            assert_eq!(stopped, Some(H3_EXCESSIVE_LOAD.into()), "{kind}");
            assert!(recv.read_to_end(1000).await.is_err(), "{kind}");
        }
        is_still_serving(&target).await;
    });
}

#[test]
fn broken_http3_closes_its_own_connection_only() {
    let target = start();
    run(async {
        for (name, bytes) in [
            ("SETTINGS on a request stream", &[0x04, 0x00][..]),
            (
                "a field section that refers to a dynamic table",
                &[0x01, 0x03, 0x05, 0x00, 0x80],
            ),
            ("a frame cut short", &[0x01, 0x10, 0x00]),
            ("DATA first", &[0x00, 0x01, b'x']),
            ("nothing", &[]),
        ] {
            let (_endpoint, connection) = quic(&target).await;
            let (mut send, mut recv) = connection.open_bi().await.unwrap();
            send.write_all(bytes).await.unwrap();
            send.finish().unwrap();
            assert!(recv.read_to_end(1000).await.is_err(), "{name}");
        }
        let (_endpoint, connection) = quic(&target).await;
        let mut control = connection.open_uni().await.unwrap();
        // A control stream that does not start with SETTINGS.
        control.write_all(&[0x00, 0x07, 0x01, 0x00]).await.unwrap();
        connection.closed().await;
        is_still_serving(&target).await;
    });
}

#[test]
fn a_qpack_encoder_has_no_table_to_insert_into() {
    // GET https://a/: HEADERS with references into the static table.
    const REQUEST: [u8; 10] = [0x01, 0x08, 0x00, 0x00, 0xd1, 0xd7, 0xc1, 0x50, 0x01, b'a'];
    let target = start();
    run(async {
        for (name, instructions, expected) in [
            (
                "a capacity",
                Some(&[0x3f, 0xe1, 0x1f][..]),
                QPACK_ENCODER_STREAM_ERROR,
            ),
            (
                "an insertion",
                Some(&[0xc1, 0x01, b'/']),
                QPACK_ENCODER_STREAM_ERROR,
            ),
            ("a duplicate", Some(&[0x00]), QPACK_ENCODER_STREAM_ERROR),
            ("the stream's end", None, H3_CLOSED_CRITICAL_STREAM),
        ] {
            for is_at_once in [true, false] {
                let (_endpoint, connection) = quic(&target).await;
                let mut encoder = connection.open_uni().await.unwrap();
                // Its type, and twice that the capacity is 0, which changes nothing.
                encoder.write_all(&[0x02, 0x20, 0x20]).await.unwrap();
                if !is_at_once {
                    let (mut send, mut recv) = connection.open_bi().await.unwrap();
                    send.write_all(&REQUEST).await.unwrap();
                    send.finish().unwrap();
                    assert!(!recv.read_to_end(1000).await.unwrap().is_empty());
                }
                match instructions {
                    Some(bytes) => encoder.write_all(bytes).await.unwrap(),
                    None => encoder.finish().unwrap(),
                }
                let quinn::ConnectionError::ApplicationClosed(close) = connection.closed().await
                else {
                    panic!("{name}: not closed by HTTP/3");
                };
                assert_eq!(close.error_code, expected.into(), "{name}");
            }
        }
        is_still_serving(&target).await;
    });
}

#[test]
fn a_content_length_that_lies_is_malformed_over_http3() {
    let target = start();
    run(async {
        for length in ["1", "100"] {
            let mut client = Client::connect(&target, "h3").await;
            let request = Request::post("/hello").header("content-length", length);
            assert!(
                client.try_send(request, "ten bytes.").await.is_err(),
                "{length}"
            );
        }
        is_still_serving(&target).await;
    });
}

#[test]
fn connections_dropped_in_the_middle_leave_nothing_behind() {
    let target = start();
    run(async {
        for version in VERSIONS {
            let mut client = Client::connect(&target, version).await;
            let request = client.try_send(Request::get("/drip?bytes=1m&duration=10m"), "");
            let timeout = std::time::Duration::from_millis(50);
            assert!(
                tokio::time::timeout(timeout, request).await.is_err(),
                "{version}"
            );
        }
        let https = target.server.addresses().https;
        drop(TcpStream::connect(https).await.unwrap());
        let mut stream = tls(&target, https, b"h2").await;
        stream
            .write_all(b"not a preface at all, sorry")
            .await
            .unwrap();
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard).await;
        is_still_serving(&target).await;
    });
}

#[test]
fn datagrams_that_are_not_quic_are_ignored() {
    let target = start();
    run(async {
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let https = target.server.addresses().https;
        for length in [0, 1, 5, 20, 1200, 9000] {
            for fill in [0x00, 0x40, 0xc0, 0xff] {
                socket.send_to(&vec![fill; length], https).await.unwrap();
            }
        }
        is_still_serving(&target).await;
    });
}
