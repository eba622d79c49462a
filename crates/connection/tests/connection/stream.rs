//! The phases of a connection: tunnel, TLS, HTTP, and its end.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rustls::ServerConnection;
use trilane_connection::{Over, Phase, Progress, Stream, StreamConfig, Tunnel, Version};
use trilane_wire::{Content, Encoding, End, ErrorKind, Refused};

use crate::common::{
    HELLO, Record, carry, connected, get, give, output, plain, plaintext, put, request, sealed,
    tls_server,
};

#[test]
fn without_tls_http_begins_with_the_connection() {
    let mut stream = connected(plain(Version::H1));
    assert_eq!((stream.phase(), stream.deadline()), (Phase::Open, None));
    assert_eq!(stream.version(), Some(Version::H1));
    stream.send(&get(Encoding::H1), 3).unwrap();
    assert!(output(&mut stream).starts_with(b"GET / HTTP/1.1\r\n"));
    let mut record = Record::default();
    give(&mut stream, HELLO, 1, &mut record).unwrap();
    assert_eq!((record.heads, record.body), (vec![200], b"hello".to_vec()));
    assert_eq!(stream.outstanding(), 0);
}

#[test]
fn a_phase_has_a_deadline_until_http_is_spoken() {
    let begun = Instant::now();
    let mut stream = Stream::new(Arc::new(sealed(&[Version::H1])), begun);
    let ten = Duration::from_secs(10);
    assert_eq!(stream.deadline(), Some(begun + ten));
    let later = begun + Duration::from_secs(4);
    stream.connected(later).unwrap();
    assert_eq!(
        (stream.phase(), stream.since(), stream.deadline()),
        (Phase::Handshaking, later, Some(later + ten))
    );
}

#[test]
fn settings_behind_the_finished_are_not_lost() {
    for size in [1, 7, 100, 100_000] {
        let mut stream = connected(sealed(&[Version::H2, Version::H1]));
        let mut server = tls_server(&["h2"]);
        // SETTINGS_MAX_CONCURRENT_STREAMS 7.
        let settings = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 7];
        server.writer().write_all(&settings).unwrap();
        let mut record = Record::default();
        carry(&mut stream, &mut server, size, &mut record).unwrap();
        assert_eq!(stream.version(), Some(Version::H2));
        assert!(stream.is_ready(), "in pieces of {size}");
        let peer = stream.h2().unwrap().peer_settings();
        assert_eq!(peer.max_concurrent_streams, Some(7));
        assert!(plaintext(&mut server).starts_with(b"PRI * HTTP/2.0\r\n"));
    }
}

/// A connection over TLS whose one request was answered with these bytes, which are still to come.
fn answered(answer: &[u8]) -> (Stream, ServerConnection, Record) {
    let mut stream = connected(sealed(&[Version::H1]));
    let mut server = tls_server(&["http/1.1"]);
    let mut record = Record::default();
    carry(&mut stream, &mut server, 1000, &mut record).unwrap();
    stream.send(&get(Encoding::H1), 0).unwrap();
    carry(&mut stream, &mut server, 1000, &mut record).unwrap();
    server.writer().write_all(answer).unwrap();
    (stream, server, record)
}

#[test]
fn close_notify_is_answered_and_a_clean_end() {
    let (mut stream, mut server, mut record) = answered(b"HTTP/1.1 200 OK\r\n\r\nuntil close");
    server.send_close_notify();
    carry(&mut stream, &mut server, 1000, &mut record).unwrap();
    assert!(stream.peer_closed() && stream.is_finished());
    // What comes behind close_notify takes nothing back.
    assert_eq!(stream.eof(true, &mut record), Over::Ended(End::Clean));
    assert_eq!((record.ended, &record.body[..]), (1, &b"until close"[..]));
    // Ours has come.
    let state = server.process_new_packets().unwrap();
    assert!(state.peer_has_closed());
}

#[test]
fn no_request_follows_close_notify() {
    // The server has had enough after one response, and its head does not say so.
    let (mut stream, mut server, mut record) = answered(HELLO);
    server.send_close_notify();
    carry(&mut stream, &mut server, 1000, &mut record).unwrap();
    assert_eq!((record.ended, stream.outstanding()), (1, 0));
    assert!(stream.is_closing() && stream.is_finished());
    assert_eq!(stream.capacity(), 0);
    assert_eq!(stream.send(&get(Encoding::H1), 0), Err(Refused::Draining));
    assert_eq!(stream.transmit(), Ok(&b""[..]));
}

#[test]
fn close_notify_with_the_handshake_is_told_wherever_it_is_cut() {
    for size in [1, 100_000] {
        let mut stream = connected(sealed(&[Version::H2]));
        let mut server = tls_server(&["h2"]);
        let hello = output(&mut stream);
        server.read_tls(&mut &hello[..]).unwrap();
        server.process_new_packets().unwrap();
        server.send_close_notify();
        let mut record = Record::default();
        carry(&mut stream, &mut server, size, &mut record).unwrap();
        assert!(stream.is_finished());
        assert!(plaintext(&mut server).starts_with(b"PRI * HTTP/2.0\r\n"));
        assert!(server.process_new_packets().unwrap().peer_has_closed());
    }
}

#[test]
fn an_end_without_close_notify_is_truncation() {
    let (mut stream, mut server, mut record) = answered(b"HTTP/1.1 200 OK\r\n\r\nhalf");
    carry(&mut stream, &mut server, 1000, &mut record).unwrap();
    assert_eq!(stream.eof(false, &mut record), Over::Ended(End::Truncated));
    assert_eq!(record.ended, 0);
    assert_eq!(record.failed[0].0, ErrorKind::Body);
}

#[test]
fn a_handshake_that_fails_leaves_its_alert_to_be_sent() {
    let mut stream = connected(sealed(&[Version::H1]));
    let mut record = Record::default();
    output(&mut stream);
    // A record of the type for application data, where ServerHello has to be.
    let over = give(
        &mut stream,
        &[0x16, 3, 3, 0, 4, 0xee, 0, 0, 0],
        100,
        &mut record,
    );
    assert!(matches!(over, Err(Over::Tls(_))), "{over:?}");
    let alert = output(&mut stream);
    assert_eq!(alert.first(), Some(&0x15), "an alert record: {alert:?}");
}

#[test]
fn an_end_in_the_handshake_is_told_as_such() {
    let mut stream = connected(sealed(&[Version::H1]));
    let over = stream.eof(false, &mut Record::default());
    assert!(
        matches!(&over, Over::Tls(error) if error.0.contains("during the TLS handshake")),
        "{over:?}"
    );
    let mut stream = connected(sealed(&[Version::H1]));
    let over = stream.eof(true, &mut Record::default());
    assert_eq!(over, Over::Early(Phase::Handshaking));
}

#[test]
fn a_version_that_is_not_wanted_ends_it() {
    let mut stream = connected(sealed(&[Version::H2]));
    let mut server = tls_server(&[]);
    let over = carry(&mut stream, &mut server, 1000, &mut Record::default());
    assert_eq!(over, Err(Over::Version(Version::H1)));
    assert_eq!(stream.send(&get(Encoding::H2), 0), Err(Refused::Full));
}

#[test]
fn a_socket_that_broke_takes_no_requests_and_tells_by_reading() {
    let mut stream = connected(plain(Version::H1));
    stream.send(&get(Encoding::H1), 0).unwrap();
    stream.broke();
    assert!(stream.is_closing() && !stream.has_output());
    assert_eq!(stream.transmit(), Ok(&b""[..]));
    assert_eq!(stream.send(&get(Encoding::H1), 0), Err(Refused::Draining));
    let mut record = Record::default();
    // A response may have come all the same.
    give(&mut stream, HELLO, 100, &mut record).unwrap();
    assert_eq!(record.ended, 1);
}

#[test]
fn nothing_is_added_for_a_socket_that_broke() {
    // TLS begins when the proxy has answered, with nobody to hear it.
    let (mut stream, _) = asking(sealed(&[Version::H1]));
    stream.broke();
    let answer = b"HTTP/1.1 200 OK\r\n\r\n";
    give(&mut stream, answer, 100, &mut Record::default()).unwrap();
    assert_eq!(stream.phase(), Phase::Handshaking);
    assert_eq!(stream.transmit(), Ok(&b""[..]));

    let mut stream = connected(plain(Version::H1));
    let id = stream.send(&put(Encoding::H1), 0).unwrap();
    stream.broke();
    stream.write(id, b"content");
    assert_eq!(stream.transmit(), Ok(&b""[..]));
    assert_eq!(stream.gathered(), 0);
}

#[test]
fn what_waits_for_tls_holds_up_reading_as_well() {
    let (mut stream, mut server, mut record) = answered(HELLO);
    carry(&mut stream, &mut server, 1000, &mut record).unwrap();
    let id = stream.send(&put(Encoding::H1), 0).unwrap();
    while stream.gathered() <= 1 << 20 {
        assert!(stream.may_read());
        stream.write(id, &[0; 64 * 1024]);
    }
    assert!(!stream.may_read());
    output(&mut stream);
    assert!(stream.may_read());
}

#[test]
fn a_record_that_has_begun_is_sent_to_its_end() {
    let (mut stream, mut server, mut record) = answered(HELLO);
    carry(&mut stream, &mut server, 1000, &mut record).unwrap();
    stream.send(&get(Encoding::H1), 0).unwrap();
    let begun = stream.transmit().unwrap()[..10].to_vec();
    stream.sent(begun.len());
    // The peer ends its direction, and may still read ours.
    stream.eof(false, &mut record);
    stream.close();
    let out = [begun, output(&mut stream)].concat();
    server.read_tls(&mut &out[..]).unwrap();
    let state = server.process_new_packets().unwrap();
    assert!(state.peer_has_closed());
}

/// A connection that has asked a proxy for a tunnel to localhost:443, and its request.
fn asking(then: StreamConfig) -> (Stream, String) {
    let tunnel = Tunnel::new("::1", 443, &[(b"Proxy-Authorization", b"Basic eA==")]).unwrap();
    let mut stream = connected(StreamConfig {
        tunnel: Some(tunnel),
        ..then
    });
    assert_eq!(stream.phase(), Phase::Tunnelling);
    let request = String::from_utf8(output(&mut stream)).unwrap();
    (stream, request)
}

#[test]
fn what_is_announced_goes_before_tls_and_through_the_tunnel() {
    const HEADER: &[u8] = b"PROXY TCP4 10.0.0.1 10.0.0.2 5000 443\r\n";
    let announced = |config: StreamConfig| {
        let now = Instant::now();
        let mut stream = Stream::new(Arc::new(config), now);
        stream.announce(HEADER.to_vec());
        stream.connected(now).unwrap();
        stream
    };
    // A record of TLS: a handshake's.
    let hello = [HEADER, &[22, 3, 1]].concat();
    assert!(output(&mut announced(sealed(&[Version::H1]))).starts_with(&hello));
    let preface = [HEADER, b"PRI * HTTP/2.0\r\n"].concat();
    assert!(output(&mut announced(plain(Version::H2))).starts_with(&preface));
    let tunnel = Tunnel::new("::1", 443, &[]).unwrap();
    let mut stream = announced(StreamConfig {
        tunnel: Some(tunnel),
        ..sealed(&[Version::H1])
    });
    assert!(output(&mut stream).starts_with(b"CONNECT [::1]:443 HTTP/1.1\r\n"));
    let answer = b"HTTP/1.1 200 OK\r\n\r\n";
    give(&mut stream, answer, 1, &mut Record::default()).unwrap();
    assert!(output(&mut stream).starts_with(&hello));
}

#[test]
fn tls_begins_behind_the_proxys_answer() {
    for size in [1, 1000] {
        let (mut stream, request) = asking(sealed(&[Version::H1]));
        assert!(
            request.starts_with("CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n"),
            "{request}"
        );
        assert!(request.contains("\r\nProxy-Authorization: Basic eA==\r\n"));
        let mut record = Record::default();
        // Content-Length means nothing here: RFC 9110 §9.3.6.
        let answer = b"HTTP/1.1 200 Connection established\r\nContent-Length: 9\r\n\r\n";
        give(&mut stream, answer, size, &mut record).unwrap();
        assert_eq!(stream.phase(), Phase::Handshaking);
        let mut server = tls_server(&["http/1.1"]);
        carry(&mut stream, &mut server, size, &mut record).unwrap();
        stream.send(&get(Encoding::H1), 0).unwrap();
        carry(&mut stream, &mut server, size, &mut record).unwrap();
        assert!(plaintext(&mut server).starts_with(b"GET / HTTP/1.1\r\n"));
        server.writer().write_all(HELLO).unwrap();
        carry(&mut stream, &mut server, size, &mut record).unwrap();
        assert_eq!((&record.heads[..], record.ended), (&[200][..], 1));
    }
}

#[test]
fn any_head_of_a_proxy_that_agrees_makes_a_tunnel() {
    for head in [
        "HTTP/1.0 200 OK\r\nProxy-Agent: x\r\n\r\n",
        "HTTP/1.1 204 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    ] {
        for size in [1, 1000] {
            let (mut stream, _) = asking(sealed(&[Version::H1]));
            give(&mut stream, head.as_bytes(), size, &mut Record::default()).unwrap();
            assert_eq!(stream.phase(), Phase::Handshaking, "{head} by {size}");
        }
    }
}

#[test]
fn what_is_no_answer_of_a_proxy_makes_no_tunnel() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(70_000));
    let hints = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100);
    for answer in ["\0\x01\x02\x03\r\n\r\n", &long, &hints] {
        let (mut stream, _) = asking(plain(Version::H1));
        let over = give(&mut stream, answer.as_bytes(), 1000, &mut Record::default());
        assert!(matches!(over, Err(Over::Tunnel(None, _))), "{over:?}");
    }
}

#[test]
fn a_proxy_that_refuses_is_quoted() {
    let (mut stream, _) = asking(plain(Version::H1));
    let answer = b"HTTP/1.1 407 Who are \xe9ou?\r\nContent-Length: 0\r\n\r\n";
    let over = give(&mut stream, answer, 1000, &mut Record::default());
    // What is no ASCII cannot reach a terminal.
    let reason = "Who are \\u{fffd}ou?".to_owned();
    assert_eq!(over, Err(Over::Tunnel(Some(407), reason)));
}

#[test]
fn an_early_end_makes_no_tunnel() {
    let (mut stream, _) = asking(plain(Version::H1));
    let over = stream.eof(false, &mut Record::default());
    assert_eq!(over, Over::Early(Phase::Tunnelling));
}

#[test]
fn what_stands_behind_the_proxys_answer_is_the_origins_wherever_it_is_cut() {
    let answer = b"HTTP/1.1 200 OK\r\n\r\n";
    for size in [1, answer.len(), 1000] {
        // A server of HTTP/2 need not wait for its client: RFC 9113 §3.4.
        let (mut stream, _) = asking(plain(Version::H2));
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let bytes = [&answer[..], &settings].concat();
        let opened = give(&mut stream, &bytes, size, &mut Record::default());
        assert_eq!(opened, Ok(Progress::Opened));
        assert!(stream.is_ready(), "in pieces of {size}");

        let (mut stream, _) = asking(plain(Version::H1));
        let bytes = [&answer[..], HELLO].concat();
        let over = give(&mut stream, &bytes, size, &mut Record::default());
        assert!(matches!(over, Err(Over::Protocol(_))), "{over:?}");

        let (mut stream, _) = asking(sealed(&[Version::H1]));
        let over = give(&mut stream, &bytes, size, &mut Record::default());
        assert!(matches!(over, Err(Over::Tls(_))), "{over:?}");
    }
}

/// A large answer over TLS, the server's bytes cut into pieces of `size`.
fn fetch(size: usize) -> Record {
    let mut stream = connected(sealed(&[Version::H1]));
    let mut server = tls_server(&["http/1.1"]);
    let mut record = Record::default();
    carry(&mut stream, &mut server, size, &mut record).unwrap();
    stream.send(&get(Encoding::H1), 0).unwrap();
    carry(&mut stream, &mut server, size, &mut record).unwrap();
    let body: Vec<u8> = (0..40_000u32).map(|n| n as u8).collect();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    server.writer().write_all(head.as_bytes()).unwrap();
    server.writer().write_all(&body).unwrap();
    carry(&mut stream, &mut server, size, &mut record).unwrap();
    record
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn where_the_bytes_are_cut_changes_nothing(size in prop_oneof![1usize..64, 64usize..40_000]) {
        let record = fetch(size);
        prop_assert_eq!(&record.heads[..], &[200][..]);
        prop_assert_eq!(record.body.len(), 40_000);
        prop_assert!(record.body.iter().enumerate().all(|(n, byte)| *byte == n as u8));
        prop_assert_eq!((record.ended, record.failed.len()), (1, 0));
    }

    #[test]
    fn what_a_socket_takes_at_once_changes_nothing(sizes in prop::collection::vec(1usize..3000, 1..40)) {
        let body: Vec<u8> = (0..20_000u32).map(|n| (n / 7) as u8).collect();
        let request = request(Encoding::H1, "POST", Content::Whole(body.clone().into()));
        let mut stream = connected(plain(Version::H1));
        stream.send(&request, 0).unwrap();
        let mut sent = Vec::new();
        for size in sizes.iter().cycle() {
            let bytes = stream.transmit().unwrap();
            if bytes.is_empty() {
                break;
            }
            let taken = bytes.len().min(*size);
            sent.extend_from_slice(&bytes[..taken]);
            stream.sent(taken);
        }
        let head = sent.windows(4).position(|end| end == b"\r\n\r\n").unwrap();
        prop_assert_eq!(&sent[head + 4..], &body[..]);
        prop_assert!(!stream.has_output());
    }
}
