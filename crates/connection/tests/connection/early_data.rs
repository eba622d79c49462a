//! Requests in early data (RFC 8470), against rustls' server.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::server::ServerSessionMemoryCache;
use rustls::{ServerConfig, ServerConnection};

use trilane_connection::{Over, Phase, StreamConfig, Version};
use trilane_wire::Encoding;

use crate::common::{HELLO, Record, carry, connected, early, get, output, plaintext};

/// A server that takes so much early data, and answers before the handshake is done.
fn server(alpn: &str, most: u32) -> Arc<ServerConfig> {
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der());
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key.into())
        .unwrap();
    config.alpn_protocols = vec![alpn.into()];
    config.session_storage = ServerSessionMemoryCache::new(100);
    config.max_early_data_size = most;
    config.send_half_rtt_data = true;
    Arc::new(config)
}

/// A way to connect that has a ticket of the server.
fn known(version: Version, server: &Arc<ServerConfig>) -> StreamConfig {
    let config = early(version);
    let mut stream = connected(config.clone());
    assert!(!stream.is_early(), "there is no ticket");
    let mut server = ServerConnection::new(Arc::clone(server)).unwrap();
    carry(&mut stream, &mut server, 1000, &mut Record::default()).unwrap();
    assert_eq!(stream.tls_info().unwrap().early_data, None);
    config
}

/// What the server reads of early data, from what the client sends first.
fn read_early(server: &mut ServerConnection, mut bytes: &[u8]) -> Vec<u8> {
    let mut plaintext = Vec::new();
    while !bytes.is_empty() {
        server.read_tls(&mut bytes).unwrap();
        server.process_new_packets().unwrap();
        if let Some(mut early) = server.early_data() {
            early.read_to_end(&mut plaintext).unwrap();
        }
    }
    plaintext
}

#[test]
fn a_request_in_early_data_is_answered_before_the_handshake_is_done() {
    let server = server("http/1.1", 16_384);
    let mut stream = connected(known(Version::H1, &server));
    assert!(stream.is_early() && !stream.is_ready());
    assert_eq!(stream.capacity(), 1);
    stream.send(&get(Encoding::H1), 0).unwrap();
    let mut server = ServerConnection::new(server).unwrap();
    let request = read_early(&mut server, &output(&mut stream));
    assert!(request.starts_with(b"GET / HTTP/1.1\r\n"), "{request:?}");
    assert!(server.is_handshaking());
    server.writer().write_all(HELLO).unwrap();
    let mut record = Record::default();
    carry(&mut stream, &mut server, 1000, &mut record).unwrap();
    assert_eq!((record.heads, record.ended), (vec![200], 1));
    let info = stream.tls_info().unwrap();
    assert_eq!(info.early_data, Some(true));
    assert!(stream.is_ready() && !stream.is_early());
    assert_eq!(plaintext(&mut server), b"", "it is not sent twice");
}

#[test]
fn what_the_server_rejects_is_sent_again() {
    for (version, alpn) in [(Version::H1, "http/1.1"), (Version::H2, "h2")] {
        let mut stream = connected(known(version, &server(alpn, 16_384)));
        let encoding = match version {
            Version::H1 => Encoding::H1,
            _ => Encoding::H2,
        };
        stream.send(&get(encoding), 0).unwrap();
        let mut other = ServerConnection::new(server(alpn, 16_384)).unwrap();
        assert_eq!(read_early(&mut other, &output(&mut stream)), b"");
        carry(&mut stream, &mut other, 7, &mut Record::default()).unwrap();
        assert_eq!(stream.tls_info().unwrap().early_data, Some(false));
        assert_eq!(stream.outstanding(), 1);
        let begin = plaintext(&mut other);
        let expected = match version {
            Version::H1 => &b"GET / HTTP/1.1\r\n"[..],
            _ => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        };
        assert!(begin.starts_with(expected), "{begin:?}");
    }
}

#[test]
fn what_the_ticket_has_no_room_for_follows_the_handshake() {
    let server = server("http/1.1", 10);
    let mut stream = connected(known(Version::H1, &server));
    stream.send(&get(Encoding::H1), 0).unwrap();
    let mut server = ServerConnection::new(server).unwrap();
    let early = read_early(&mut server, &output(&mut stream));
    assert_eq!(early, b"GET / HTTP");
    carry(&mut stream, &mut server, 1000, &mut Record::default()).unwrap();
    let rest = plaintext(&mut server);
    assert!(rest.starts_with(b"/1.1\r\n"), "{rest:?}");
}

#[test]
fn an_end_of_the_handshake_ends_early_requests_with_it() {
    let mut stream = connected(known(Version::H1, &server("http/1.1", 16_384)));
    stream.send(&get(Encoding::H1), 0).unwrap();
    output(&mut stream);
    let over = stream.eof(true, &mut Record::default());
    assert_eq!(over, Over::Early(Phase::Handshaking));
    assert_eq!(stream.outstanding(), 1, "the caller knows what it has lost");
}
