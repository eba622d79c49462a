//! A server's end of one QUIC connection for tests in virtual time, on quinn-proto: what somebody else
//! makes of QUIC, with as much of HTTP/3 as tells requests from each other.
//!
//! Datagrams and instants come in as arguments and go out as return values. Whoever drives it says
//! what is answered, and calls [`QuicPeer::transmit`] until it is false after everything else.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, ServerConfig, Side, StreamEvent, WriteError,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, StoresServerSessions};

pub use quinn_proto::{StreamId, TransportConfig};

/// A name, with a certificate that signs itself.
pub struct Identity {
    certificate: CertificateDer<'static>,
    crypto: Arc<QuicServerConfig>,
}

impl Identity {
    /// Makes a key and a certificate for a server of HTTP/3 that has this name, resumes sessions and
    /// takes early data.
    pub fn new(name: &str) -> Self {
        Self::with(name, ServerSessionMemoryCache::new(4096))
    }

    /// As [`Self::new`], of a server that gives no tickets and knows none: it rejects early data.
    pub fn forgetful(name: &str) -> Self {
        Self::with(name, Arc::new(NoServerSessionStorage {}))
    }

    fn with(name: &str, sessions: Arc<dyn StoresServerSessions>) -> Self {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a name");
        let certificate = made.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut tls = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key.into())
            .expect("they belong together");
        tls.alpn_protocols = vec![b"h3".to_vec()];
        tls.session_storage = sessions;
        // The only value but 0 that QUIC allows (RFC 9001 §4.6.1).
        tls.max_early_data_size = u32::MAX;
        let crypto = QuicServerConfig::try_from(tls).expect("TLS 1.3 is on");
        Self {
            certificate,
            crypto: Arc::new(crypto),
        }
    }

    /// What a client has to trust.
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }
}

/// A stream by its number (RFC 9000 §2.1).
pub fn stream_id(number: u64) -> StreamId {
    let (side, dir) = match number & 3 {
        0 => (Side::Client, Dir::Bi),
        1 => (Side::Server, Dir::Bi),
        2 => (Side::Client, Dir::Uni),
        _ => (Side::Server, Dir::Uni),
    };
    StreamId::new(side, dir, number >> 2)
}

/// What a client says of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// CONNECTION_CLOSE with a code of HTTP/3.
    Close(u64),
    /// STOP_SENDING with a code.
    Stop(u64),
}

/// The server's end of one connection.
#[derive(Debug)]
pub struct QuicPeer {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    /// What begins the control stream.
    greeting: Vec<u8>,
    control: Option<StreamId>,
    /// Unidirectional streams of ours.
    opened: u64,
    /// Requests that have not come whole.
    coming: Vec<StreamId>,
    told: Vec<Told>,
}

impl QuicPeer {
    /// A server that waits for its client; once that has come, `greeting` is written on a
    /// unidirectional stream, the control stream. With none, streams begin by [`Self::write`].
    pub fn new(identity: &Identity, transport: TransportConfig, greeting: Vec<u8>) -> Self {
        let mut config = ServerConfig::with_crypto(Arc::clone(&identity.crypto) as _);
        config.transport_config(Arc::new(transport));
        let (endpoint, seed) = (Arc::new(EndpointConfig::default()), Some([7; 32]));
        Self {
            endpoint: Endpoint::new(endpoint, Some(Arc::new(config)), false, seed),
            connection: None,
            greeting,
            control: None,
            opened: 0,
            coming: Vec::new(),
            told: Vec::new(),
        }
    }

    /// Takes a datagram of the client's.
    pub fn receive(&mut self, now: Instant, datagram: &[u8]) {
        let (client, mut reply) = (SocketAddr::from(([192, 0, 2, 2], 5000)), Vec::new());
        let datagram = BytesMut::from(datagram);
        let event = self
            .endpoint
            .handle(now, client, None, None, datagram, &mut reply);
        match event {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, now, &mut reply, None);
                self.connection = Some(accepted.expect("the first of a client's"));
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            // For nobody that is known, or not any more.
            Some(DatagramEvent::Response(_)) | None => (),
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

    /// Whether the handshake is under way: requests that have come came in early data.
    pub fn is_handshaking(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|(_, connection)| connection.is_handshaking())
    }

    /// Takes what QUIC has to tell.
    fn poll(&mut self) {
        let Some((_, connection)) = &mut self.connection else {
            return;
        };
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected if !self.greeting.is_empty() => {
                    self.control = connection.streams().open(Dir::Uni);
                    self.opened += 1;
                    if let Some(control) = self.control {
                        let _ = connection.send_stream(control).write(&self.greeting);
                    }
                }
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    while let Some(id) = connection.streams().accept(Dir::Bi) {
                        self.coming.push(id);
                    }
                }
                Event::Stream(StreamEvent::Stopped { error_code, .. }) => {
                    self.told.push(Told::Stop(error_code.into()));
                }
                Event::ConnectionLost {
                    reason: ConnectionError::ApplicationClosed(close),
                } => self.told.push(Told::Close(close.error_code.into())),
                _ => (),
            }
        }
    }

    /// Reads requests, and says which have come whole since the last call.
    pub fn read(&mut self) -> Vec<StreamId> {
        self.poll();
        let Some((_, connection)) = &mut self.connection else {
            return Vec::new();
        };
        let coming = std::mem::take(&mut self.coming).into_iter();
        let (whole, coming) = coming.partition(|&id| has_come(connection, id));
        self.coming = coming;
        whole
    }

    /// Says which requests have begun since the last call; nothing is read of them.
    pub fn begun(&mut self) -> Vec<StreamId> {
        self.poll();
        std::mem::take(&mut self.coming)
    }

    /// What the client has said of errors since the last call.
    pub fn told(&mut self) -> Vec<Told> {
        self.poll();
        std::mem::take(&mut self.told)
    }

    /// Writes on a stream, which is opened where it is a unidirectional one of ours, and gives how much QUIC
    /// took: all, where the client wants no more.
    pub fn write(&mut self, id: StreamId, bytes: &[u8]) -> usize {
        self.open(id);
        let Some((_, connection)) = &mut self.connection else {
            return bytes.len();
        };
        match connection.send_stream(id).write(bytes) {
            Ok(taken) => taken,
            Err(WriteError::Blocked) => 0,
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => bytes.len(),
        }
    }

    /// Ends a stream.
    pub fn finish(&mut self, id: StreamId) {
        self.open(id);
        if let Some((_, connection)) = &mut self.connection {
            let _ = connection.send_stream(id).finish();
        }
    }

    /// Asks the client to send no more on a stream.
    pub fn stop(&mut self, id: StreamId, code: u32) {
        if let Some((_, connection)) = &mut self.connection {
            let _ = connection.recv_stream(id).stop(code.into());
        }
    }

    /// Opens the unidirectional streams of ours up to this one.
    fn open(&mut self, id: StreamId) {
        if let Some((_, connection)) = &mut self.connection
            && (id.initiator(), id.dir()) == (Side::Server, Dir::Uni)
        {
            while self.opened <= id.index() && connection.streams().open(Dir::Uni).is_some() {
                self.opened += 1;
            }
        }
    }

    /// Sends `bytes` as all of the answer to a request. False where the client has given it up.
    pub fn answer(&mut self, id: StreamId, bytes: &[u8]) -> bool {
        self.connection.as_mut().is_some_and(|(_, connection)| {
            let mut stream = connection.send_stream(id);
            let answered = stream.write(bytes) == Ok(bytes.len()) && stream.finish().is_ok();
            if !answered {
                // Or it would count among the open streams for ever (H3_REQUEST_CANCELLED).
                let _ = stream.reset(0x010c_u32.into());
            }
            answered
        })
    }

    /// Resets the answer to a request, unless the client has given it up.
    pub fn reset(&mut self, id: StreamId, code: u32) {
        if let Some((_, connection)) = &mut self.connection {
            let _ = connection.send_stream(id).reset(code.into());
        }
    }

    /// Writes on the control stream, where there is one.
    pub fn write_control(&mut self, bytes: &[u8]) {
        if let (Some((_, connection)), Some(control)) = (&mut self.connection, self.control) {
            let _ = connection.send_stream(control).write(bytes);
        }
    }

    /// Closes the connection with a code of HTTP/3's.
    pub fn close(&mut self, now: Instant, code: u32) {
        if let Some((_, connection)) = &mut self.connection {
            connection.close(now, code.into(), Bytes::new());
        }
    }

    /// Replaces what is in `out` by the next datagram. False where there is none.
    pub fn transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        out.clear();
        let Some((_, connection)) = &mut self.connection else {
            return false;
        };
        let transmit = connection.poll_transmit(now, 1, out);
        self.settle();
        transmit.is_some()
    }

    /// When [`Self::handle_timeout`] has to be called.
    pub fn timeout(&mut self) -> Option<Instant> {
        self.connection.as_mut()?.1.poll_timeout()
    }

    /// The time of [`Self::timeout`] has come, if it has.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(now);
        }
        self.settle();
    }
}

/// Whether the whole request has come.
fn has_come(connection: &mut Connection, id: StreamId) -> bool {
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
