//! Connections that share a socket: whose a datagram is.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use trilane_quic_peer::{Identity, QuicPeer, TransportConfig};
use trilane_transport::quic::{Config, Endpoint, H3Session, Options};

use crate::support::{Record, h3_config, request};

/// The server's control stream with empty SETTINGS.
const CONTROL: [u8; 3] = [0, 4, 0];
/// HEADERS with `:status: 200`, DATA with two bytes.
const ANSWER: &[u8] = b"\x01\x03\x00\x00\xd9\x00\x02ok";
/// From one side to the other.
const WAY: Duration = Duration::from_millis(1);

/// Several sessions on one endpoint, each with a server's end of its own, and a clock that only they move.
struct Several {
    config: Config,
    identity: Identity,
    endpoint: Endpoint,
    pairs: Vec<(H3Session, QuicPeer)>,
    now: Instant,
    /// Datagrams for no connection that is known.
    strays: usize,
}

impl Several {
    fn new() -> Self {
        let identity = Identity::new("localhost");
        let mut roots = rustls::RootCertStore::empty();
        roots.add(identity.certificate()).unwrap();
        let mut tls = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let config = Config::from_rustls(Arc::new(tls), &Options::default()).unwrap();
        Self {
            endpoint: Endpoint::new(&config),
            config,
            identity,
            pairs: Vec::new(),
            now: Instant::now(),
            strays: 0,
        }
    }

    fn connect(&mut self) -> usize {
        let quic = self
            .endpoint
            .connect(&self.config, remote(), "localhost", self.now)
            .unwrap();
        let number = quic.number();
        let transport = TransportConfig::default();
        let server = QuicPeer::new(&self.identity, transport, CONTROL.to_vec());
        let session = H3Session::on(quic, h3_config());
        self.pairs.push((session, server));
        number
    }

    /// What the servers have to send, as one read of a socket with receive offload brings it: datagrams of one
    /// size in one batch, whoever they are for.
    fn batches(&mut self) -> Vec<(BytesMut, usize)> {
        let mut out = Vec::new();
        let mut batches: Vec<(BytesMut, usize)> = Vec::new();
        for (_, server) in &mut self.pairs {
            while server.transmit(self.now, &mut out) {
                match batches.iter_mut().find(|(_, size)| *size == out.len()) {
                    Some((batch, _)) => batch.extend_from_slice(&out),
                    None => batches.push((BytesMut::from(&out[..]), out.len())),
                }
            }
        }
        batches
    }

    fn step(&mut self, record: &mut [Record]) {
        let (mut sent, mut out) = (false, Vec::new());
        for (session, server) in &mut self.pairs {
            session.settle_with(&mut self.endpoint);
            while session.transmit(self.now, 1, &mut out).is_some() {
                sent = true;
                server.receive(self.now, &out);
            }
            for request in server.read() {
                assert!(server.answer(request, ANSWER));
            }
        }
        self.now += WAY;
        let batches = self.batches();
        sent |= !batches.is_empty();
        for (batch, size) in batches {
            self.receive(batch, size);
        }
        let mut next = None;
        for ((session, server), record) in self.pairs.iter_mut().zip(record) {
            session.process(self.now, record);
            for due in [session.timeout(), server.timeout()].into_iter().flatten() {
                next = Some(next.map_or(due, |next: Instant| next.min(due)));
            }
        }
        if let Some(next) = next.filter(|_| !sent) {
            self.now = self.now.max(next);
            for (session, server) in &mut self.pairs {
                session.handle_timeout(self.now, &mut Record::default());
                server.handle_timeout(self.now);
            }
        }
    }

    fn receive(&mut self, batch: BytesMut, size: usize) {
        let (total, mut delivered) = (batch.len().div_ceil(size), 0);
        let pairs = &mut self.pairs;
        self.endpoint
            .receive(self.now, remote(), 0, batch, size, |number, datagram| {
                delivered += 1;
                let mine = |(session, _): &&mut (H3Session, _)| session.quic().number() == number;
                let (session, _) = pairs.iter_mut().find(mine).unwrap();
                session.take(datagram);
            });
        self.strays += total - delivered;
    }

    fn until(&mut self, record: &mut [Record], done: impl Fn(&Self, &[Record]) -> bool) {
        for _ in 0..10_000 {
            if done(self, record) {
                return;
            }
            self.step(record);
        }
        panic!("hangs");
    }
}

fn remote() -> SocketAddr {
    ([192, 0, 2, 1], 443).into()
}

fn connected(several: &Several, _: &[Record]) -> bool {
    let mut sessions = several.pairs.iter();
    sessions.all(|(session, _)| session.is_connected())
}

#[test]
fn each_datagram_finds_its_connection() {
    let mut several = Several::new();
    let numbers: Vec<_> = (0..5).map(|_| several.connect()).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    let mut record: Vec<_> = (0..5).map(|_| Record::default()).collect();
    several.until(&mut record, connected);
    for (session, _) in &mut several.pairs {
        for slot in 0..3 {
            session.send(&request("GET", "/", b""), slot).unwrap();
        }
    }
    several.until(&mut record, |_, record| {
        record.iter().all(|record| record.done() == 3)
    });
    assert_eq!((several.endpoint.connections(), several.strays), (5, 0));
}

#[test]
fn what_comes_late_for_a_connection_that_is_forgotten_is_nobodys() {
    let mut several = Several::new();
    several.connect();
    several.connect();
    let mut record = [Record::default(), Record::default()];
    several.until(&mut record, connected);
    // The last words of the first come when it has gone and another one has its number.
    several.pairs[0].1.close(several.now, 0x100);
    let late = several.batches();
    let (mut session, _) = several.pairs.remove(0);
    session.leave(&mut several.endpoint);
    session.leave(&mut several.endpoint);
    assert_eq!(several.endpoint.connections(), 1);
    assert_eq!(several.connect(), 0);
    assert!(!late.is_empty());
    for (batch, size) in late {
        several.receive(batch, size);
    }
    assert!(several.strays > 0);
    several.until(&mut record, connected);
    for (session, _) in &several.pairs {
        assert!(session.error().is_none());
    }
}

#[test]
fn a_connection_that_has_ended_by_itself_is_forgotten_once() {
    let mut several = Several::new();
    several.connect();
    several.connect();
    let mut record = [Record::default(), Record::default()];
    several.until(&mut record, connected);
    several.pairs[0].1.close(several.now, 0x100);
    // It drains, and the endpoint forgets it by itself (RFC 9000 §10.2.2).
    several.until(&mut record, |several, _| {
        several.endpoint.connections() == 1
    });
    assert_eq!(several.connect(), 0);
    let (mut session, _) = several.pairs.remove(0);
    session.leave(&mut several.endpoint);
    assert_eq!(several.endpoint.connections(), 2);
}
