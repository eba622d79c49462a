//! A scripted server's end of one QUIC connection, on quinn-proto, speaking HTTP/3.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    ServerConfig, StreamEvent, StreamId, TransportConfig,
};
use rustls::pki_types::PrivatePkcs8KeyDer;

use super::Happening;
use super::script::{Ending, Seen, Serve};

/// From the server to the client; what the client sends is there at once.
const WAY: Duration = Duration::from_millis(1);
/// HEADERS with `:status: 200` (RFC 9204, Appendix A: 25), DATA with two bytes.
const ANSWER: &[u8] = b"\x01\x03\x00\x00\xd9\x00\x02ok";
/// RFC 9114 §8.1.
const H3_NO_ERROR: u32 = 0x100;
const H3_INTERNAL_ERROR: u32 = 0x102;
const H3_REQUEST_REJECTED: u32 = 0x10b;

/// What happens after which time.
type Planned = Vec<(Duration, Happening)>;

/// What a server does when a request has taken its time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reply {
    Answer(StreamId),
    Refuse(StreamId),
    /// No request from this one on was processed.
    Goaway(u64),
    Close(u32),
    /// DATA on the control stream.
    Nonsense,
}

/// The server's end of one connection.
#[derive(Debug)]
pub(super) struct QuicServer {
    serve: Serve,
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    control: Option<StreamId>,
    /// Requests that have not come whole.
    coming: Vec<StreamId>,
    requests: usize,
    answered: usize,
    /// The request behind the last that was answered.
    next_request: u64,
    over: bool,
    /// When [`Self::on_timer`] will be called.
    timer: Option<Instant>,
}

impl QuicServer {
    pub(super) fn new(serve: Serve) -> Self {
        let mut config = config();
        let mut transport = TransportConfig::default();
        if let Some(streams) = serve.streams {
            transport.max_concurrent_bidi_streams(streams.into());
        }
        config.transport_config(Arc::new(transport));
        let endpoint = Arc::new(EndpointConfig::default());
        Self {
            serve,
            endpoint: Endpoint::new(endpoint, Some(Arc::new(config)), false, Some([7; 32])),
            connection: None,
            control: None,
            coming: Vec::new(),
            requests: 0,
            answered: 0,
            next_request: 0,
            over: false,
            timer: None,
        }
    }

    /// Takes a datagram of the client's.
    pub(super) fn receive(&mut self, now: Instant, datagram: &[u8], seen: &mut Seen) -> Planned {
        let (client, mut reply) = (SocketAddr::from(([192, 0, 2, 2], 5000)), Vec::new());
        let datagram = BytesMut::from(datagram);
        let event = self
            .endpoint
            .handle(now, client, None, None, datagram, &mut reply);
        match event {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, now, &mut reply, None);
                self.connection = Some(accepted.unwrap());
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::Response(_)) | None => (),
        }
        self.settle();
        let mut planned = self.read(seen);
        planned.extend(self.transmit(now));
        planned
    }

    /// A request has taken its time.
    pub(super) fn reply(&mut self, now: Instant, reply: Reply, seen: &mut Seen) -> Planned {
        let Some((_, connection)) = &mut self.connection else {
            return Vec::new();
        };
        match reply {
            Reply::Answer(id) => {
                let mut stream = connection.send_stream(id);
                // The client may have given the request up.
                if stream.write(ANSWER) == Ok(ANSWER.len()) && stream.finish().is_ok() {
                    seen.answered += 1;
                }
            }
            Reply::Refuse(id) => {
                let _ = connection.send_stream(id).reset(H3_REQUEST_REJECTED.into());
            }
            Reply::Goaway(id) => {
                let mut goaway = vec![7, 8];
                goaway.extend_from_slice(&(id | 0b11 << 62).to_be_bytes());
                self.write_control(&goaway);
                let mut planned = self.transmit(now);
                planned.push((WAY, Happening::Reply(Reply::Close(H3_NO_ERROR))));
                return planned;
            }
            Reply::Nonsense => self.write_control(&[0, 1, 0]),
            Reply::Close(code) => connection.close(now, code.into(), Bytes::new()),
        }
        self.transmit(now)
    }

    /// The time of the timer has come.
    pub(super) fn on_timer(&mut self, now: Instant) -> Planned {
        self.timer = None;
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(now);
        }
        self.settle();
        self.transmit(now)
    }

    fn write_control(&mut self, bytes: &[u8]) {
        if let (Some((_, connection)), Some(control)) = (&mut self.connection, self.control) {
            let _ = connection.send_stream(control).write(bytes);
        }
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

    /// Reads requests, and plans what becomes of those that have come whole.
    fn read(&mut self, seen: &mut Seen) -> Planned {
        let mut opened = false;
        if let Some((_, connection)) = &mut self.connection {
            while let Some(event) = connection.poll() {
                match event {
                    Event::Connected => opened = true,
                    Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                        while let Some(id) = connection.streams().accept(Dir::Bi) {
                            self.coming.push(id);
                        }
                    }
                    _ => (),
                }
            }
            if opened {
                self.control = connection.streams().open(Dir::Uni);
            }
        }
        if opened {
            let settings = self.settings();
            self.write_control(&settings);
        }
        let mut planned = Vec::new();
        for id in std::mem::take(&mut self.coming) {
            if !self.has_come(id) {
                self.coming.push(id);
            } else if !self.over
                && let Some(reply) = self.respond(id, seen)
            {
                planned.push((self.serve.delay, Happening::Reply(reply)));
            }
        }
        planned
    }

    /// What becomes of a request.
    fn respond(&mut self, id: StreamId, seen: &mut Seen) -> Option<Reply> {
        self.requests += 1;
        if self.serve.refuses(self.requests) {
            return Some(Reply::Refuse(id));
        }
        if self.answered < self.serve.answers {
            self.answered += 1;
            self.next_request = u64::from(id) + 4;
            seen.taken += 1;
            return Some(Reply::Answer(id));
        }
        self.over = true;
        if self.serve.ending != Ending::Goaway {
            seen.taken += 1;
        }
        match self.serve.ending {
            Ending::Silence => None,
            Ending::Reset => Some(Reply::Close(H3_INTERNAL_ERROR)),
            Ending::Nonsense => Some(Reply::Nonsense),
            Ending::Close => Some(Reply::Close(H3_NO_ERROR)),
            Ending::Goaway => Some(Reply::Goaway(self.next_request)),
        }
    }

    /// Whether the whole request has come.
    fn has_come(&mut self, id: StreamId) -> bool {
        let Some((_, connection)) = &mut self.connection else {
            return false;
        };
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else {
            return false;
        };
        let ended = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(_)) => (),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        let _ = chunks.finalize();
        ended
    }

    fn transmit(&mut self, now: Instant) -> Planned {
        let mut planned = Vec::new();
        let Some((_, connection)) = &mut self.connection else {
            return planned;
        };
        let mut out = Vec::new();
        while connection.poll_transmit(now, 1, &mut out).is_some() {
            planned.push((WAY, Happening::Datagram(std::mem::take(&mut out))));
        }
        let timeout = connection.poll_timeout();
        self.settle();
        if let Some(at) = timeout
            && self.timer.is_none_or(|timer| at < timer)
        {
            self.timer = Some(at);
            planned.push((at.saturating_duration_since(now), Happening::Timer));
        }
        planned
    }

    /// The control stream's type, and SETTINGS.
    fn settings(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        if let Some(section) = self.serve.section {
            // SETTINGS_MAX_FIELD_SECTION_SIZE, with an integer of four bytes.
            payload.push(6);
            payload.extend_from_slice(&(section | 0b10 << 30).to_be_bytes());
        }
        [&[0, 4, payload.len() as u8][..], &payload].concat()
    }
}

/// A server's configuration, with a certificate that nobody has to believe.
fn config() -> ServerConfig {
    static CRYPTO: OnceLock<Arc<QuicServerConfig>> = OnceLock::new();
    let crypto = CRYPTO.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(["a.example".into()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut tls = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .unwrap();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        Arc::new(QuicServerConfig::try_from(tls).unwrap())
    });
    ServerConfig::with_crypto(Arc::clone(crypto) as _)
}
