//! A session of ours and a server of quinn-proto's (`trilane_quic_peer`) on one thread, with a clock that only they move:
//! what happens does not depend on the machine.
#![allow(dead_code, reason = "each test program uses a part")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trilane_quic_peer::{Identity, QuicPeer, TransportConfig};
use trilane_transport::quic::{Config, H3Session, Options, ReceiveBuffer};
use trilane_wire::{Events, h3};

/// From one side to the other.
const WAY: Duration = Duration::from_micros(250);
/// More steps than any test takes.
const STEPS: usize = 100_000;

/// The server's control stream with empty SETTINGS.
const CONTROL: [u8; 3] = [0, 4, 0];
/// HEADERS with `:status: 200` (RFC 9204, Appendix A: 25), DATA with eleven bytes.
const ANSWER: &[u8] = b"\x01\x03\x00\x00\xd9\x00\x0bhello world";

/// Both ends of one connection.
pub(crate) struct Lockstep {
    pub(crate) session: H3Session,
    pub(crate) now: Instant,
    /// Told when a call of the session begins (true) and when it is over (false).
    watch: fn(bool),
    server: QuicPeer,
    /// Whether the server answers requests; it acknowledges them in any case.
    answers: bool,
    buffer: ReceiveBuffer,
    out: Vec<u8>,
    server_out: Vec<u8>,
}

impl Lockstep {
    /// A session that has shaken hands.
    pub(crate) fn new(options: &Options, answers: bool, watch: fn(bool)) -> Self {
        let identity = Identity::new("localhost");
        let server = QuicPeer::new(&identity, TransportConfig::default(), CONTROL.to_vec());
        let config = trusting(&identity, options);
        let now = Instant::now();
        let limits = h3::Config {
            field_section: 64 * 1024,
            max_streams: 1000,
        };
        let session = H3Session::connect(&config, limits, remote(), "localhost", now).unwrap();
        let mut pair = Self {
            session,
            now,
            watch,
            server,
            answers,
            buffer: ReceiveBuffer::new(),
            out: Vec::new(),
            server_out: Vec::new(),
        };
        pair.until(&mut Nothing, |pair, _| pair.session.is_connected());
        pair
    }

    /// Steps until `done`.
    pub(crate) fn until<E: Events>(&mut self, events: &mut E, done: impl Fn(&Self, &E) -> bool) {
        for _ in 0..STEPS {
            if done(self, events) {
                return;
            }
            self.step(events);
        }
        panic!("hangs: {:?}", self.session);
    }

    /// Steps until the clock has gone on by `time`.
    pub(crate) fn pass<E: Events>(&mut self, time: Duration, events: &mut E) {
        let end = self.now + time;
        self.until(events, |pair, _| pair.now >= end);
    }

    /// Each side sends what it has to, and the timers that are due run. Where there is nothing to
    /// send, the clock goes on to the next timer.
    pub(crate) fn step<E: Events>(&mut self, events: &mut E) {
        let mut sent = false;
        while self.transmit() {
            sent = true;
            self.server.receive(self.now + WAY, &self.out);
        }
        self.now += WAY;
        for request in self.server.read() {
            assert!(!self.answers || self.server.answer(request, ANSWER));
        }
        while self.server.transmit(self.now, &mut self.server_out) {
            sent = true;
            let length = self.server_out.len();
            self.buffer.space()[..length].copy_from_slice(&self.server_out);
            (self.watch)(true);
            let batch = self.buffer.take(length);
            let now = self.now + WAY;
            self.session
                .receive(now, remote(), 0, batch, length, events);
            (self.watch)(false);
        }
        self.now += WAY;
        let timers = [self.session.timeout(), self.server.timeout()];
        if let Some(next) = timers.into_iter().flatten().min().filter(|_| !sent) {
            self.now = self.now.max(next);
        }
        if timers[0].is_some_and(|due| due <= self.now) {
            (self.watch)(true);
            self.session.handle_timeout(self.now, events);
            (self.watch)(false);
        }
        self.server.handle_timeout(self.now);
    }

    fn transmit(&mut self) -> bool {
        (self.watch)(true);
        let transmit = self.session.transmit(self.now, 1, &mut self.out);
        (self.watch)(false);
        transmit.is_some()
    }
}

/// The configuration of a client that trusts the server of this name.
fn trusting(identity: &Identity, options: &Options) -> Config {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(identity.certificate()).unwrap();
    let mut tls = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    Config::from_rustls(Arc::new(tls), options).unwrap()
}

/// Hears nothing.
struct Nothing;

impl Events for Nothing {
    const FIELDS: bool = false;
    fn head(&mut self, _: trilane_wire::StreamId, _: trilane_wire::Head<'_>) {}
    fn data(&mut self, _: trilane_wire::StreamId, _: &[u8]) {}
    fn end(&mut self, _: trilane_wire::StreamId, _: Option<trilane_wire::Fields<'_>>) {}
    fn fail(&mut self, _: trilane_wire::StreamId, _: trilane_wire::StreamError) {}
}

fn remote() -> SocketAddr {
    ([192, 0, 2, 1], 443).into()
}
