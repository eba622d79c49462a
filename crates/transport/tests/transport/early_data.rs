//! Early data (RFC 8446 §4.2.10) over TLS, against rustls' server.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::ServerSessionMemoryCache;
use rustls::version::{TLS12, TLS13};
use trilane_transport::tls::{Config, Options};

use crate::tls_common::{Authority, Identity, Pair, server_config};

/// A server that knows its sessions itself, and takes so much early data.
fn server(identity: &Identity, most: u32) -> ServerConfig {
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(identity.certificates(), identity.private_key())
        .unwrap();
    config.session_storage = ServerSessionMemoryCache::new(1024);
    config.max_early_data_size = most;
    config
}

fn client(authority: &Authority) -> Config {
    Config::new(&Options {
        early_data: true,
        ..authority.options()
    })
    .unwrap()
}

/// A connection whose ClientHello has been written, but not sent.
fn begun(client: &Config, server: &Arc<ServerConfig>) -> Pair {
    let mut pair = Pair::with(client, Arc::clone(server), "localhost");
    pair.client.start(&mut pair.out).unwrap();
    pair
}

fn handshake(client: &Config, server: &Arc<ServerConfig>) -> Pair {
    let mut pair = begun(client, server);
    pair.drive().unwrap();
    pair
}

#[test]
fn a_server_takes_early_data_on_a_session_that_it_knows() {
    let authority = Authority::new();
    let client = client(&authority);
    let server = Arc::new(server(&authority.issue(&["localhost"]), 16_384));
    let mut first = begun(&client, &server);
    assert!(!first.client.offers_early_data(), "there is no ticket");
    assert_eq!(first.client.send_early(b"early", &mut first.out), 0);
    first.drive().unwrap();
    assert_eq!(first.client.info().unwrap().early_data, None);

    let mut second = begun(&client, &server);
    assert!(second.client.offers_early_data());
    for piece in [&b"early, "[..], b"and earlier "] {
        let taken = second.client.send_early(piece, &mut second.out);
        assert_eq!(taken, piece.len());
    }
    second.drive().unwrap();
    let info = second.client.info().unwrap();
    assert_eq!((info.resumed, info.early_data), (true, Some(true)));
    assert_eq!(second.client.send_early(b"late", &mut second.out), 0);
    second.send(b"than late");
    assert_eq!(second.at_server, b"early, and earlier than late");
    second.answer(b"answer");
    assert_eq!(second.at_client, b"answer");
}

#[test]
fn early_data_that_is_offered_need_not_be_sent() {
    let authority = Authority::new();
    let client = client(&authority);
    let server = Arc::new(server(&authority.issue(&["localhost"]), 16_384));
    handshake(&client, &server);
    let mut pair = handshake(&client, &server);
    assert_eq!(pair.client.info().unwrap().early_data, Some(true));
    pair.send(b"hello");
    assert_eq!(pair.at_server, b"hello");
}

#[test]
fn a_server_that_does_not_know_the_session_rejects_early_data() {
    let authority = Authority::new();
    let client = client(&authority);
    let identity = authority.issue(&["localhost"]);
    handshake(&client, &Arc::new(server(&identity, 16_384)));
    let mut pair = begun(&client, &Arc::new(server(&identity, 16_384)));
    assert_eq!(pair.client.send_early(b"in vain", &mut pair.out), 7);
    pair.drive().unwrap();
    let info = pair.client.info().unwrap();
    assert_eq!((info.resumed, info.early_data), (false, Some(false)));
    pair.send(b"again");
    assert_eq!(pair.at_server, b"again");
}

#[test]
fn a_server_may_resume_a_session_and_reject_its_early_data() {
    let authority = Authority::new();
    let client = client(&authority);
    let takes = server(&authority.issue(&["localhost"]), 16_384);
    let mut refuses = takes.clone();
    refuses.max_early_data_size = 0;
    handshake(&client, &Arc::new(takes));
    let mut pair = begun(&client, &Arc::new(refuses));
    assert_eq!(pair.client.send_early(b"in vain", &mut pair.out), 7);
    pair.drive().unwrap();
    let info = pair.client.info().unwrap();
    assert_eq!((info.resumed, info.early_data), (true, Some(false)));
    assert_eq!(pair.at_server, b"");
}

#[test]
fn no_more_is_sent_early_than_the_ticket_allows() {
    let authority = Authority::new();
    let client = client(&authority);
    let server = Arc::new(server(&authority.issue(&["localhost"]), 10));
    handshake(&client, &server);
    let mut pair = begun(&client, &server);
    assert_eq!(pair.client.send_early(b"0123456789abc", &mut pair.out), 10);
    assert_eq!(pair.client.send_early(b"abc", &mut pair.out), 0);
    pair.drive().unwrap();
    assert_eq!(pair.client.info().unwrap().early_data, Some(true));
    pair.send(b"abc");
    assert_eq!(pair.at_server, b"0123456789abc");
}

#[test]
fn early_data_is_offered_only_where_it_is_asked_for_and_allowed() {
    let authority = Authority::new();
    let identity = authority.issue(&["localhost"]);
    let not_asked = Config::new(&authority.options()).unwrap();
    for (client, server) in [
        (not_asked, server(&identity, 16_384)),
        (client(&authority), server(&identity, 0)),
        (client(&authority), server_config(&identity, &TLS13)),
        (client(&authority), server_config(&identity, &TLS12)),
    ] {
        let server = Arc::new(server);
        handshake(&client, &server);
        let pair = handshake(&client, &server);
        let info = pair.client.info().unwrap();
        assert_eq!((info.resumed, info.early_data), (true, None));
    }
}

#[test]
fn as_many_connections_resume_as_tickets_have_come() {
    let authority = Authority::new();
    let client = client(&authority);
    let server = Arc::new(server(&authority.issue(&["localhost"]), 0));
    let all_at_once = || {
        let pairs: Vec<_> = (0..40).map(|_| begun(&client, &server)).collect();
        let resumed = pairs.into_iter().filter_map(|mut pair| {
            pair.drive().unwrap();
            pair.client.info().filter(|info| info.resumed)
        });
        resumed.count()
    };
    assert_eq!((all_at_once(), all_at_once()), (0, 40));
}
