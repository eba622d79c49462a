//! What QUIC does below HTTP/3, each seen working once: Retry, version negotiation, idle timeout,
//! stateless reset, key update, path MTU, and the ways in which a connection does not come about.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::lockstep::Lockstep;
use crate::support::{Client, Count, Record, Server, ServerOptions, h3_config, request, server};
use quinn::VarInt;
use trilane_transport::quic::{Config, Error, ErrorKind, H3Session, Options};
use trilane_transport::tls;

fn client(server: &Server, options: &Options) -> Client {
    Client::connect(&server.client(options), server.address, "localhost")
}

fn get(client: &mut Client) {
    client
        .session
        .send(&request("GET", "/bytes/11", b""), 0)
        .unwrap();
    let mut record = Record::default();
    client.until(&mut record, |_, record| record.done() == 1);
    assert_eq!(record.0[&0].body.len(), 11);
}

/// Why the connection ends, with nothing sent on it.
fn failure(client: &mut Client) -> Error {
    client.until(&mut Record::default(), |session, _| {
        session.error().is_some()
    });
    assert!(client.session.is_closing() && !client.session.is_connected());
    client.session.error().unwrap().clone()
}

#[test]
fn a_retry_is_answered() {
    let retries = Arc::new(AtomicUsize::new(0));
    let server = server(ServerOptions {
        retries: Some(Arc::clone(&retries)),
        ..ServerOptions::default()
    });
    let mut client = client(&server, &Options::default());
    client.connected();
    get(&mut client);
    // Once for each datagram of a ClientHello with a post-quantum key share.
    assert!(retries.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_server_without_our_version_is_named() {
    let server = server(ServerOptions {
        version: Some(0xff00_001d),
        ..ServerOptions::default()
    });
    let error = failure(&mut client(&server, &Options::default()));
    assert_eq!(error.kind, ErrorKind::Version);
}

#[test]
fn a_server_that_refuses_is_named() {
    let server = server(ServerOptions {
        refuse: true,
        ..ServerOptions::default()
    });
    let error = failure(&mut client(&server, &Options::default()));
    assert_eq!((error.kind, error.code), (ErrorKind::Refused, Some(2)));
}

#[test]
fn silence_ends_in_the_idle_timeout() {
    let idle = Duration::from_secs(30);
    let options = Options {
        max_idle_timeout: idle,
        ..Options::default()
    };
    // The server acknowledges the request and says no more.
    let mut pair = Lockstep::new(&options, false, |_| ());
    pair.session.send(&request("GET", "/", b""), 0).unwrap();
    let begin = pair.now;
    let mut record = Record::default();
    pair.until(&mut record, |pair, _| pair.session.error().is_some());
    pair.session.abandon(&mut record);
    assert_eq!(pair.session.error().unwrap().kind, ErrorKind::IdleTimeout);
    assert!(record.0[&0].error.is_some());
    let silent = pair.now - begin;
    assert!(
        silent >= idle && silent < idle + Duration::from_secs(1),
        "{silent:?}"
    );
}

#[test]
fn a_keep_alive_outlasts_the_idle_timeout() {
    let options = Options {
        max_idle_timeout: Duration::from_secs(30),
        keep_alive: Some(Duration::from_secs(10)),
        ..Options::default()
    };
    let mut pair = Lockstep::new(&options, true, |_| ());
    let mut record = Record::default();
    pair.pass(Duration::from_secs(3600), &mut record);
    pair.session.send(&request("GET", "/", b""), 0).unwrap();
    pair.until(&mut record, |_, record| record.done() == 1);
    assert_eq!(record.0[&0].body, b"hello world");
}

#[test]
fn a_server_that_lost_its_state_resets_the_connection() {
    let forgetful = || {
        server(ServerOptions {
            forgetful: true,
            ..ServerOptions::default()
        })
    };
    let (first, second) = (forgetful(), forgetful());
    let mut client = client(&first, &Options::default());
    client.connected();
    get(&mut client);
    // The second takes over the first one's address, as far as the client can tell.
    client.socket.connect(second.address).unwrap();
    client
        .session
        .send(&request("GET", "/bytes/11", b""), 0)
        .unwrap();
    let mut record = Record::default();
    client.until(&mut record, |session, _| session.error().is_some());
    assert_eq!(client.session.error().unwrap().kind, ErrorKind::Reset);
    assert!(record.0[&0].error.is_some());
}

#[test]
fn key_updates_are_followed() {
    let server = Server::with_connections(ServerOptions::default(), |connection| async move {
        let quic = connection.clone();
        let mut h3 =
            h3::server::Connection::<_, bytes::Bytes>::new(h3_quinn::Connection::new(connection))
                .await
                .unwrap();
        while let Ok(Some(resolver)) = h3.accept().await {
            let (request, stream) = resolver.resolve_request().await.unwrap();
            quic.force_key_update();
            tokio::spawn(crate::support::answer(request, stream));
        }
    });
    let mut client = client(&server, &Options::default());
    client.connected();
    for _ in 0..4 {
        get(&mut client);
    }
}

#[test]
fn the_path_mtu_is_discovered() {
    let server = server(ServerOptions::default());
    let mut client = client(&server, &Options::default());
    client.connected();
    assert_eq!(client.session.quic().stats().mtu, 1200);
    while client.session.quic().stats().mtu != 1452 {
        get(&mut client);
    }
    assert!(client.session.quic().stats().mtu_probes > 0);

    let options = Options {
        mtu_discovery: None,
        ..Options::default()
    };
    let mut client = self::client(&server, &options);
    client.connected();
    for _ in 0..20 {
        get(&mut client);
    }
    let stats = client.session.quic().stats();
    assert_eq!((stats.mtu, stats.mtu_probes), (1200, 0));
}

#[test]
fn many_datagrams_leave_in_one_batch() {
    let server = server(ServerOptions::default());
    let mut client = client(&server, &Options::default());
    client.connected();
    client
        .session
        .send(&request("POST", "/echo", &[1; 9000]), 0)
        .unwrap();
    let mut out = Vec::new();
    let transmit = client
        .session
        .transmit(Instant::now(), 5, &mut out)
        .unwrap();
    assert_eq!(transmit.segment_size, 1200);
    assert_eq!((transmit.len, out.len()), (5 * 1200, 5 * 1200));
    for datagram in out.chunks(transmit.segment_size) {
        client.socket.send(datagram).unwrap();
    }
    let mut record = Record::default();
    client.until(&mut record, |_, record| record.done() == 1);
    assert_eq!(record.0[&0].body, [1; 9000]);
}

#[test]
fn a_closed_port_is_refused_at_once() {
    let port = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let server = server(ServerOptions::default());
    let config = server.client(&Options::default());
    let error = failure(&mut Client::connect(&config, port, "localhost"));
    assert_eq!(error.kind, ErrorKind::Refused);
}

#[test]
fn a_black_hole_ends_in_the_handshake_timeout() {
    // Nobody is there and no clock runs: the timers alone lead to the end.
    let server = server(ServerOptions::default());
    let timeout = Duration::from_secs(3);
    let options = Options {
        handshake_timeout: timeout,
        ..Options::default()
    };
    let begin = Instant::now();
    let address = "192.0.2.1:443".parse().unwrap();
    let mut session = H3Session::connect(
        &server.client(&options),
        h3_config(),
        address,
        "localhost",
        begin,
    )
    .unwrap();
    let (mut now, mut datagrams, mut out) = (begin, 0, Vec::new());
    while session.error().is_none() {
        while session.transmit(now, 1, &mut out).is_some() {
            datagrams += 1;
        }
        assert!(session.send(&request("GET", "/", b""), 0).is_err());
        now = session.timeout().unwrap();
        assert!(now <= begin + timeout);
        session.handle_timeout(now, &mut Record::default());
    }
    assert_eq!(session.error().unwrap().kind, ErrorKind::HandshakeTimeout);
    assert_eq!(now, begin + timeout);
    assert!(datagrams > 2, "the first packet is sent again");
}

#[test]
fn a_handshake_that_stops_half_way_ends_in_the_handshake_timeout() {
    let server = server(ServerOptions::default());
    let options = Options {
        handshake_timeout: Duration::from_millis(300),
        ..Options::default()
    };
    let mut client = client(&server, &options);
    let mut arrived = 0;
    client.road = Some(Box::new(move |datagram| {
        arrived += 1;
        if arrived < 3 { vec![datagram] } else { vec![] }
    }));
    assert_eq!(failure(&mut client).kind, ErrorKind::HandshakeTimeout);
}

#[test]
fn certificates_are_checked_and_the_way_out_is_named() {
    let (server, other) = (
        server(ServerOptions::default()),
        server(ServerOptions::default()),
    );
    let config = other.client(&Options::default());
    let error = failure(&mut Client::connect(&config, server.address, "localhost"));
    assert_eq!(error.kind, ErrorKind::Tls);
    assert!(error.reason.contains("--cacert"), "{error}");

    let config = server.client(&Options::default());
    let error = failure(&mut Client::connect(
        &config,
        server.address,
        "other.example",
    ));
    assert_eq!(error.kind, ErrorKind::Tls);
    assert!(error.reason.contains("--sni"), "{error}");
}

#[test]
fn a_server_without_our_protocol_is_named() {
    let server = server(ServerOptions {
        alpn: Some(b"hq"),
        ..ServerOptions::default()
    });
    let error = failure(&mut client(&server, &Options::default()));
    assert_eq!((error.kind, error.code), (ErrorKind::Tls, Some(0x178)));
    assert!(error.reason.contains("does not speak HTTP/3"), "{error}");
}

#[test]
fn what_the_server_says_when_it_closes_is_told() {
    let server = Server::with_connections(ServerOptions::default(), |connection| async move {
        connection.close(VarInt::from_u32(0x107), b"too\x1bmuch");
    });
    let mut client = client(&server, &Options::default());
    client.until(&mut Record::default(), |session, _| {
        session.error().is_some()
    });
    let error = client.session.error().unwrap();
    assert_eq!((error.kind, error.code), (ErrorKind::Closed, Some(0x107)));
    assert!(error.reason.contains("(too much)"), "{error}");
}

#[test]
fn a_second_connection_resumes_the_session() {
    let server = server(ServerOptions::default());
    let config = server.client(&Options::default());
    let mut resumed = Vec::new();
    for _ in 0..2 {
        let mut client = Client::connect(&config, server.address, "localhost");
        client.connected();
        get(&mut client);
        resumed.push(client.session.quic().tls().unwrap().resumed);
    }
    assert_eq!(resumed, [false, true]);
}

#[test]
fn the_tls_configuration_of_tcp_serves_quic() {
    let server = server(ServerOptions::default());
    let options = tls::Options {
        authorities: vec![],
        platform: true,
        insecure: true,
        client: None,
        password: None,
        pins: Vec::new(),
        alpn: vec![b"h3".to_vec()],
        resumption: false,
        early_data: false,
        version: None,
        ciphers: Vec::new(),
        words: tls::Words::LOAD,
    };
    let config = Config::new(&tls::Config::new(&options).unwrap(), &Options::default()).unwrap();
    let mut client = Client::connect(&config, server.address, "anything.example");
    client.connected();
    get(&mut client);
}

#[test]
fn options_out_of_range_are_refused() {
    let server = server(ServerOptions::default());
    let tls = server.tls(b"h3");
    let refused = |options: Options| {
        let error = Config::from_rustls(Arc::clone(&tls), &options).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Options);
    };
    refused(Options {
        max_udp_payload: 1000,
        ..Options::default()
    });
    refused(Options {
        stream_window: 1 << 62,
        ..Options::default()
    });
    refused(Options {
        max_idle_timeout: Duration::MAX,
        ..Options::default()
    });
    let config = Config::from_rustls(Arc::clone(&tls), &Options::default()).unwrap();
    let connect = |address: &str, name| {
        let address = address.parse().unwrap();
        H3Session::connect(&config, h3_config(), address, name, Instant::now())
    };
    assert!(connect("127.0.0.1:0", "localhost").is_err());
    assert!(connect("127.0.0.1:443", "not a name").is_err());
    assert!(connect("127.0.0.1:443", "127.0.0.1").is_ok());
}

/// A random number generator that is the same each time.
fn dice(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |sides| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % sides
    }
}

#[test]
fn loss_duplication_reordering_and_corruption_are_survived() {
    let server = server(ServerOptions::default());
    for seed in 0..3 {
        let mut client = client(&server, &Options::default());
        let (mut dice, mut late) = (dice(seed), None::<Vec<u8>>);
        client.road = Some(Box::new(move |mut datagram| {
            let mut out = Vec::new();
            match dice(20) {
                0 => {}
                1 => out.extend([datagram.clone(), datagram]),
                2 if late.is_none() => late = Some(datagram),
                3 => {
                    let at = dice(datagram.len() as u64) as usize;
                    datagram[at] ^= 1 << dice(8);
                    out.push(datagram);
                }
                4 => {
                    let garbage = (0..dice(1400)).map(|_| dice(256) as u8).collect();
                    out.extend([garbage, datagram]);
                }
                _ => out.push(datagram),
            }
            out.extend(late.take_if(|_| dice(4) == 0));
            out
        }));
        client.connected();
        let get = request("GET", "/bytes/5000", b"");
        let post = request("POST", "/echo", &[7; 3000]);
        let mut count = Count::default();
        for slot in 0..20 {
            client.session.send(&get, slot).unwrap();
            client.session.send(&post, slot).unwrap();
        }
        client.until(&mut count, |session, count| {
            assert_eq!(session.error(), None);
            count.ended == 40
        });
        assert_eq!((count.failed, count.bytes), (0, 20 * 8000));
    }
}
