//! A session against rustls' server: what is agreed on, and that data arrives whatever the splits.

use std::sync::Arc;

use crate::tls_common::{Authority, Pair, server_config};
use rustls::version::{TLS12, TLS13};
use trilane_transport::tls::{Config, Options};

#[test]
fn both_versions_carry_data_both_ways() {
    let authority = Authority::new();
    let identity = authority.issue(&["localhost"]);
    for (version, expected) in [(&TLS12, "TLSv1.2"), (&TLS13, "TLSv1.3")] {
        let mut pair = Pair::new(&authority.options(), server_config(&identity, version));
        assert!(pair.client.is_handshaking());
        assert_eq!(pair.client.info(), None);
        pair.handshake().unwrap();
        assert!(!pair.client.is_handshaking());

        let info = pair.client.info().unwrap();
        assert_eq!(info.version, expected);
        assert!(info.cipher.contains("AES_256_GCM"), "{info:?}");
        assert!(info.group.contains("25519"), "{info:?}");
        assert!(!info.resumed);

        pair.send(b"ping");
        assert_eq!(pair.at_server, b"ping");
        pair.answer(b"pong");
        assert_eq!(pair.at_client, b"pong");
    }
}

#[test]
fn alpn_is_offered_as_given() {
    let authority = Authority::new();
    let mut server = server_config(&authority.issue(&["localhost"]), &TLS13);
    server.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
    let client = Options {
        alpn: vec![b"h2".to_vec()],
        ..authority.options()
    };
    let mut pair = Pair::new(&client, server.clone());
    pair.handshake().unwrap();
    assert_eq!(pair.client.info().unwrap().alpn, b"h2");

    // Whether a server without ALPN will do is not for TLS to decide.
    server.alpn_protocols.clear();
    let mut pair = Pair::new(&client, server);
    pair.handshake().unwrap();
    assert_eq!(pair.client.info().unwrap().alpn, b"");
}

#[test]
fn every_split_gives_the_same_plaintext() {
    let authority = Authority::new();
    let identity = authority.issue(&["localhost"]);
    let text: Vec<u8> = (0..40_000).map(|n| (n * 7 % 251) as u8).collect();
    for version in [&TLS12, &TLS13] {
        for buffer in [Some(64 * 1024), Some(20_000), Some(64), None] {
            for step in [1, 2, 3, 5, 6, 64, 1000, 16_384, 16_406, 16_407, 60_000] {
                let mut pair = Pair::new(&authority.options(), server_config(&identity, version));
                (pair.step, pair.buffer) = (step, buffer);
                pair.handshake().unwrap();
                pair.answer(b"a");
                pair.answer(&text);
                assert_eq!(pair.at_client.len(), 1 + text.len(), "{step} {buffer:?}");
                assert_eq!(pair.at_client[1..], text);
                pair.send(b"still there");
                assert_eq!(pair.at_server, b"still there");
            }
        }
    }
}

#[test]
fn a_handshake_larger_than_the_buffer_is_put_together() {
    let authority = Authority::new();
    let mut identity = authority.issue(&["localhost"]);
    // Certificates that have nothing to do with it, as misconfigured servers send them.
    identity.chain.push_str(&authority.pem().repeat(80));
    for version in [&TLS12, &TLS13] {
        for step in [7, 4096, usize::MAX] {
            let mut pair = Pair::new(&authority.options(), server_config(&identity, version));
            (pair.step, pair.buffer) = (step, Some(4096));
            pair.handshake().unwrap();
            pair.answer(b"pong");
            assert_eq!(pair.at_client, b"pong");
        }
    }
}

#[test]
fn much_data_leaves_in_records_of_16_kib() {
    let authority = Authority::new();
    let identity = authority.issue(&["localhost"]);
    for version in [&TLS12, &TLS13] {
        let mut pair = Pair::new(&authority.options(), server_config(&identity, version));
        pair.handshake().unwrap();
        let text = vec![b'x'; 1_000_000];
        pair.client.send(&text, &mut pair.out).unwrap();
        let first = u16::from_be_bytes([pair.out[3], pair.out[4]]) as usize;
        assert!((16_384..16_384 + 32).contains(&first), "{first}");
        pair.drive().unwrap();
        assert_eq!(pair.at_server, text);

        pair.client.send(b"", &mut pair.out).unwrap();
        assert_eq!(pair.out, b"", "nothing to send is no record");
    }
}

#[test]
fn sessions_are_resumed_where_that_is_wanted() {
    let authority = Authority::new();
    let identity = authority.issue(&["localhost"]);
    for version in [&TLS12, &TLS13] {
        let server = Arc::new(server_config(&identity, version));
        for resumption in [true, false] {
            let options = Options {
                resumption,
                ..authority.options()
            };
            let config = Config::new(&options).unwrap();
            let mut resumed = Vec::new();
            for _ in 0..3 {
                let mut pair = Pair::with(&config, Arc::clone(&server), "localhost");
                pair.handshake().unwrap();
                resumed.push(pair.client.info().unwrap().resumed);
            }
            assert_eq!(resumed, [false, resumption, resumption]);
        }
    }
}

#[test]
fn keys_are_updated_when_the_server_asks() {
    let authority = Authority::new();
    let mut pair = Pair::new(
        &authority.options(),
        server_config(&authority.issue(&["localhost"]), &TLS13),
    );
    pair.handshake().unwrap();
    for round in 1..=3 {
        pair.server.refresh_traffic_keys().unwrap();
        pair.answer(b"pong");
        pair.send(b"ping");
        assert_eq!(
            (pair.at_client.len(), pair.at_server.len()),
            (4 * round, 4 * round)
        );
    }
}

#[test]
fn a_closure_is_told_and_ends_the_data() {
    let authority = Authority::new();
    let identity = authority.issue(&["localhost"]);
    for version in [&TLS12, &TLS13] {
        let mut pair = Pair::new(&authority.options(), server_config(&identity, version));
        pair.handshake().unwrap();
        pair.answer(b"last");
        assert!(!pair.client.peer_closed());
        pair.server.send_close_notify();
        pair.drive().unwrap();
        assert!(pair.client.peer_closed());
        assert_eq!(pair.client.eof(), Ok(()));

        // RFC 8446 §6.1: what follows is ignored, and we may still send.
        pair.give(&[0x55; 1000]).unwrap();
        assert_eq!(pair.at_client, b"last");
        pair.send(b"bye");
        pair.client.close(&mut pair.out);
        pair.drive().unwrap();
        assert_eq!(pair.at_server, b"bye");
        assert!(pair.server.process_new_packets().unwrap().peer_has_closed());
    }
}

#[test]
fn nothing_follows_a_closure() {
    let authority = Authority::new();
    let server = server_config(&authority.issue(&["localhost"]), &TLS13);
    let mut pair = Pair::new(&authority.options(), server);
    pair.handshake().unwrap();
    let mut out = Vec::new();
    pair.client.close(&mut out);
    let length = out.len();
    assert!(length > 0);
    pair.client.close(&mut out);
    assert!(pair.client.send(b"late", &mut out).is_err());
    assert_eq!(out.len(), length);
}

#[test]
fn nothing_is_closed_before_it_is_open() {
    let mut pair = Pair::new(
        &Options::default(),
        server_config(&Authority::new().issue(&["localhost"]), &TLS13),
    );
    pair.client.close(&mut pair.out);
    assert_eq!(pair.out, b"");
    assert!(pair.client.send(b"x", &mut pair.out).is_err());
}
