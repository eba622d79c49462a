//! A session of ours and a server of quinn-proto's on one thread, with a clock that only they move:
//! what happens does not depend on the machine.
#![allow(dead_code, reason = "each test program uses a part")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    ServerConfig, StreamEvent, StreamId,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
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
    server: Server,
    buffer: ReceiveBuffer,
    out: Vec<u8>,
}

struct Server {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    /// Whether it answers requests; it acknowledges them in any case.
    answers: bool,
    /// Requests that have not come whole.
    requests: Vec<StreamId>,
    out: Vec<u8>,
}

impl Lockstep {
    /// A session that has shaken hands.
    pub(crate) fn new(options: &Options, answers: bool, watch: fn(bool)) -> Self {
        let (server, config) = Server::new(options, answers);
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
            buffer: ReceiveBuffer::new(),
            out: Vec::new(),
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
            let datagram = BytesMut::from(&self.out[..]);
            self.server.receive(self.now + WAY, datagram);
        }
        self.now += WAY;
        self.server.serve();
        while let Some(length) = self.server.transmit(self.now) {
            sent = true;
            let space = self.buffer.space();
            space[..length].copy_from_slice(&self.server.out[..length]);
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

impl Server {
    fn new(options: &Options, answers: bool) -> (Self, Config) {
        let key = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
        let certificate = key.cert.der().clone();
        let private = PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
        let mut tls = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], private.into())
            .unwrap();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let crypto = Arc::new(QuicServerConfig::try_from(tls).unwrap());
        let config = Arc::new(ServerConfig::with_crypto(crypto));
        let endpoint = Arc::new(EndpointConfig::default());
        let server = Self {
            endpoint: Endpoint::new(endpoint, Some(config), false, Some([7; 32])),
            connection: None,
            answers,
            requests: Vec::new(),
            out: Vec::new(),
        };

        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate).unwrap();
        let mut tls = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        (server, Config::from_rustls(Arc::new(tls), options).unwrap())
    }

    fn receive(&mut self, now: Instant, datagram: BytesMut) {
        let mut reply = Vec::new();
        let client = ([192, 0, 2, 2], 5000).into();
        let event = self
            .endpoint
            .handle(now, client, None, None, datagram, &mut reply);
        match event {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, now, &mut reply, None);
                self.connection = Some(accepted.unwrap());
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                let (_, connection) = self.connection.as_mut().unwrap();
                connection.handle_event(event);
            }
            Some(DatagramEvent::Response(_)) => panic!("no connection fits"),
            None => {}
        }
        self.settle();
    }

    /// Hands on what connection and endpoint have to tell each other.
    fn settle(&mut self) {
        let Some((handle, connection)) = &mut self.connection else {
            return;
        };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
    }

    /// Reads requests, and answers those that have come whole.
    fn serve(&mut self) {
        let Some((_, connection)) = &mut self.connection else {
            return;
        };
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected => {
                    let control = connection.streams().open(Dir::Uni).unwrap();
                    connection.send_stream(control).write(&CONTROL).unwrap();
                }
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    while let Some(id) = connection.streams().accept(Dir::Bi) {
                        self.requests.push(id);
                    }
                }
                _ => {}
            }
        }
        self.requests.retain(|&id| {
            let mut stream = connection.recv_stream(id);
            let mut chunks = stream.read(true).unwrap();
            let ended = loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(_)) => {}
                    Ok(None) => break true,
                    Err(_) => break false,
                }
            };
            let _ = chunks.finalize();
            if ended && self.answers {
                let mut stream = connection.send_stream(id);
                assert_eq!(stream.write(ANSWER), Ok(ANSWER.len()));
                stream.finish().unwrap();
            }
            !ended
        });
    }

    /// Writes one datagram, and says how long it is.
    fn transmit(&mut self, now: Instant) -> Option<usize> {
        let (_, connection) = self.connection.as_mut()?;
        self.out.clear();
        let transmit = connection.poll_transmit(now, 1, &mut self.out);
        self.settle();
        transmit.map(|transmit| transmit.size)
    }

    fn timeout(&mut self) -> Option<Instant> {
        self.connection.as_mut()?.1.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(now);
        }
        self.settle();
    }
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
