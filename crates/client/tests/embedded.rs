//! The client against the embedded server (hyper, quinn): three versions, one behaviour.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use trilane_client::{
    ConnectOptions, Connection, Error, Exchange, FieldList, Flush, Kind, Patience, Submission, Tls,
    TlsOptions, Version,
};
use trilane_serve::{Config, Server};
use trilane_wire::{Content, Unprocessed};

const LIMIT: Option<Duration> = Some(Duration::from_secs(120));
const VERSIONS: [Version; 3] = [Version::H1, Version::H2, Version::H3];

struct Forever;

impl Patience for Forever {
    fn exhausted(&mut self) -> bool {
        false
    }

    fn slice(&self) -> Option<Duration> {
        None
    }
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        Server::start(Config {
            port: 0,
            tls_port: 0,
            threads: 1,
            ..Config::default()
        })
        .unwrap()
    })
}

fn tls() -> Tls {
    static TLS: OnceLock<Tls> = OnceLock::new();
    TLS.get_or_init(|| {
        Tls::new(TlsOptions {
            insecure: true,
            ..TlsOptions::default()
        })
        .unwrap()
    })
    .clone()
}

fn options(versions: &[Version]) -> ConnectOptions {
    ConnectOptions {
        host: "localhost".into(),
        port: server().addresses().https.port(),
        secure: true,
        versions: versions.to_vec(),
        tls: Some(tls()),
        server_name: None,
        timeout: LIMIT,
        source: None,
        proxy: None,
        race: Duration::from_millis(250),
        driven: false,
        unix: None,
        addresses: None,
        ech: None,
        streams: None,
    }
}

fn connect(version: Version) -> Connection {
    let connection = Connection::connect(&options(&[version]), &mut Forever).unwrap();
    assert_eq!(connection.version(), version);
    connection
}

fn submission<'a>(method: &'a str, target: &'a str, content: Content) -> Submission<'a> {
    Submission {
        method,
        target,
        authority: None,
        fields: &[],
        content,
        flush: Flush::Soon,
        timed: false,
    }
}

fn get(connection: &Connection, target: &str) -> Exchange {
    let content = Content::Whole([].into());
    connection
        .submit(submission("GET", target, content))
        .unwrap()
}

fn all(exchange: &Exchange) -> Vec<u8> {
    exchange.read_all(LIMIT, &mut Forever).unwrap()
}

#[test]
fn a_request_is_answered_over_every_version() {
    for version in VERSIONS {
        let connection = connect(version);
        for round in 0..3 {
            let exchange = get(&connection, "/hello");
            assert_eq!(exchange.head(LIMIT, &mut Forever), Ok(200), "{version:?}");
            assert!(
                exchange
                    .fields()
                    .iter()
                    .any(|(name, _)| name.eq_ignore_ascii_case(b"content-length"))
            );
            assert!(!all(&exchange).is_empty());
            assert!(exchange.is_complete());
            assert_eq!(connection.outstanding(), 0, "{version:?} {round}");
            assert!(connection.is_alive());
        }
        connection.close();
        connection.close();
        assert!(connection.is_closing());
        let content = Content::Whole([].into());
        let error = connection
            .submit(submission("GET", "/", content))
            .unwrap_err();
        assert_eq!(error.kind, Kind::Closed);
        assert_eq!(error.unprocessed, Unprocessed::Proved);
    }
}

#[test]
fn responses_are_read_in_any_order() {
    for version in [Version::H2, Version::H3] {
        let connection = connect(version);
        let exchanges: Vec<_> = (0..100)
            .map(|index| get(&connection, &format!("/bytes/{}", 1000 + index)))
            .collect();
        for (index, exchange) in exchanges.iter().enumerate().rev() {
            assert_eq!(all(exchange).len(), 1000 + index, "{version:?}");
        }
    }
}

#[test]
fn a_slow_reader_does_not_stall_the_others() {
    for version in [Version::H2, Version::H3] {
        let connection = connect(version);
        let slow = get(&connection, "/bytes/20000000");
        assert_eq!(slow.head(LIMIT, &mut Forever), Ok(200));
        for _ in 0..20 {
            assert_eq!(all(&get(&connection, "/bytes/300000")).len(), 300_000);
        }
        assert!(slow.unread() < 4 << 20, "{version:?}: {}", slow.unread());
        assert_eq!(all(&slow).len(), 20_000_000, "{version:?}");
    }
}

#[test]
fn threads_share_a_connection() {
    for version in [Version::H2, Version::H3] {
        let connection = Arc::new(connect(version));
        let threads: Vec<_> = (0..16)
            .map(|number| {
                let connection = Arc::clone(&connection);
                thread::spawn(move || {
                    for round in 0..200 {
                        let length = 100 + number * 1000 + round;
                        let exchange = get(&connection, &format!("/bytes/{length}"));
                        assert_eq!(all(&exchange).len(), length);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(connection.outstanding(), 0);
    }
}

#[test]
fn content_goes_up_piece_by_piece() {
    let piece: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
    for version in VERSIONS {
        let connection = connect(version);
        for length in [None, Some(3_000_000)] {
            let content = Content::Streamed { length, raw: false };
            let exchange = connection
                .submit(submission("POST", "/echo", content))
                .unwrap();
            let echoed = thread::scope(|scope| {
                let reader = scope.spawn(|| all(&exchange));
                for _ in 0..30 {
                    exchange.write(&piece, LIMIT, &mut Forever).unwrap();
                }
                exchange
                    .finish(&FieldList::new(), LIMIT, &mut Forever)
                    .unwrap();
                reader.join().unwrap()
            });
            assert!(echoed == piece.repeat(30), "{version:?} {length:?}");
            assert!(!exchange.upload_open());
        }
    }
}

#[test]
fn a_cancelled_request_leaves_the_others() {
    for version in [Version::H2, Version::H3] {
        let connection = connect(version);
        let first = get(&connection, "/bytes/50000000");
        let second = get(&connection, "/bytes/2000000");
        assert_eq!(first.head(LIMIT, &mut Forever), Ok(200));
        first.cancel();
        first.cancel();
        assert_eq!(all(&second).len(), 2_000_000);
        drop(first);
        assert_eq!(all(&get(&connection, "/bytes/10")).len(), 10);
    }
}

#[test]
fn a_wait_ends_in_time_and_can_be_taken_up_again() {
    for version in VERSIONS {
        let connection = connect(version);
        let exchange = get(&connection, "/delay/400ms");
        let short = Some(Duration::from_millis(30));
        let error = exchange.head(short, &mut Forever).unwrap_err();
        assert_eq!(error.kind, Kind::ReadTimeout, "{version:?}");
        assert_eq!(exchange.head(LIMIT, &mut Forever), Ok(200), "{version:?}");
    }
}

#[test]
fn http_3_wins_where_it_is_spoken() {
    let connection = Connection::connect(&options(&VERSIONS), &mut Forever).unwrap();
    assert_eq!(connection.version(), Version::H3);
    let tcp = Connection::connect(&options(&[Version::H2, Version::H1]), &mut Forever).unwrap();
    assert_eq!(tcp.version(), Version::H2);
    assert!(!tcp.facts().tls.as_ref().unwrap().certificates.is_empty());
}

#[test]
fn failures_have_kinds() {
    let failure = |change: &dyn Fn(&mut ConnectOptions)| -> Error {
        let mut options = options(&[Version::H2, Version::H1]);
        change(&mut options);
        Connection::connect(&options, &mut Forever).unwrap_err()
    };
    let refused = failure(&|options| options.port = 1);
    assert_eq!(refused.kind, Kind::Refused, "{refused}");
    let unknown = failure(&|options| options.host = "no-such-host.invalid".into());
    assert_eq!(unknown.kind, Kind::Resolve, "{unknown}");
    let stranger = failure(&|options| {
        options.tls = Some(
            Tls::new(TlsOptions {
                platform: true,
                ..TlsOptions::default()
            })
            .unwrap(),
        );
    });
    assert_eq!(stranger.kind, Kind::Tls, "{stranger}");
    assert!(stranger.message.contains("verify="), "{stranger}");
    let plain = failure(&|options| options.port = server().addresses().http.port());
    assert_eq!(plain.kind, Kind::Tls, "{plain}");
}

#[test]
fn requests_leave_though_nobody_waits() {
    for version in [Version::H2, Version::H3] {
        let connection = connect(version);
        let exchanges: Vec<_> = (0..3).map(|_| get(&connection, "/hello")).collect();
        // Nobody waits for any of them until all of them are there.
        let begun = Instant::now();
        while !exchanges.iter().all(Exchange::is_complete) {
            assert!(
                begun.elapsed() < Duration::from_secs(120),
                "{version:?} hangs"
            );
            thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn an_echo_is_read_after_all_of_it_was_written() {
    let piece = vec![7; 256 * 1024];
    for version in VERSIONS {
        let connection = connect(version);
        let content = Content::Streamed {
            length: None,
            raw: false,
        };
        let exchange = connection
            .submit(submission("POST", "/echo", content))
            .unwrap();
        for _ in 0..40 {
            exchange.write(&piece, LIMIT, &mut Forever).unwrap();
        }
        exchange
            .finish(&FieldList::new(), LIMIT, &mut Forever)
            .unwrap();
        assert_eq!(all(&exchange).len(), 40 * piece.len(), "{version:?}");
    }
}

#[test]
fn a_hundred_slow_readers_stall_nobody() {
    for version in [Version::H2, Version::H3] {
        let connection = connect(version);
        let slow: Vec<_> = (0..100).map(|_| get(&connection, "/bytes/4m")).collect();
        for exchange in &slow {
            assert_eq!(exchange.head(LIMIT, &mut Forever), Ok(200));
        }
        assert_eq!(all(&get(&connection, "/bytes/1m")).len(), 1 << 20);
        for exchange in &slow {
            assert_eq!(all(exchange).len(), 4 << 20, "{version:?}");
        }
    }
}
