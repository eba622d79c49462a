//! A connection by quinn-proto until it is established, and the keys that it has then.

use std::any::Any;
use std::collections::VecDeque;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::crypto::{
    self, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, PacketKey, Session,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{
    ClientConfig, ConnectError, ConnectionHandle, ConnectionId, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, Side, TransportConfig, TransportError, VarInt,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use trilane_connection::Taken;
use trilane_socket::Moved;
use trilane_socket::udp::{Inbox, Received, Socket};
use trilane_transport::quic::Transmit;

use super::packets::Packets;
use crate::Job;

/// How long a handshake may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// For how long a server says nothing that has said all.
const QUIET: Duration = Duration::from_millis(100);

/// How long the timers of quinn-proto wait at most.
const MOMENT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};

/// Streams that are used at once, where a server allows more.
const MOST_STREAMS: u32 = 1 << 16;

/// Bytes of the connection ids that quinn-proto gives itself.
const ID_LENGTH: usize = 8;

/// Keys of one direction.
pub(super) struct Direction {
    pub(super) packet: Arc<dyn PacketKey>,
    pub(super) header: Arc<dyn HeaderKey>,
}

/// Keys of packets after the handshake.
pub(super) struct Keys {
    pub(super) local: Direction,
    pub(super) remote: Direction,
    agreed: Agreed,
}

impl Keys {
    /// The keys of the next phase (RFC 9001 §6).
    pub(super) fn update(&mut self) -> Result<(), Box<dyn Error>> {
        let keys = self.agreed.next().ok_or("there are no further keys")?;
        self.local.packet = keys.local;
        self.remote.packet = keys.remote;
        Ok(())
    }
}

/// What all connections of a job are made from.
pub(super) struct Setup {
    server: SocketAddr,
    host: String,
    crypto: Arc<QuicClientConfig>,
    endpoint: Arc<EndpointConfig>,
    transport: Arc<TransportConfig>,
}

impl Setup {
    pub(super) fn new(job: &Job) -> Result<Self, Box<dyn Error>> {
        let mut roots = RootCertStore::empty();
        let file = job.cacert.as_ref().ok_or("there are no certificates")?;
        for certificate in CertificateDer::pem_file_iter(file)? {
            roots.add(certificate?)?;
        }
        let mut tls = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let mut transport = TransportConfig::default();
        // The loop grants nothing later, and probes for nothing.
        transport
            .receive_window(VarInt::MAX)
            .stream_receive_window(VarInt::MAX)
            .mtu_discovery_config(None);
        Ok(Self {
            server: job.server()?,
            host: job.host.clone(),
            crypto: Arc::new(QuicClientConfig::try_from(tls)?),
            endpoint: Arc::new(EndpointConfig::default()),
            transport: Arc::new(transport),
        })
    }

    /// Shakes hands, opens the control stream, and waits until the server has nothing more to say.
    pub(super) fn connect(&self) -> Result<super::Connection, Box<dyn Error>> {
        let socket = Socket::connect(self.server, None)
            .map_err(|unmade| format!("{}: {}", unmade.what, unmade.error))?;
        let tap = Arc::new(Tap {
            crypto: Arc::clone(&self.crypto),
            agreed: Mutex::default(),
        });
        let mut config = ClientConfig::new(Arc::clone(&tap) as _);
        config.transport_config(Arc::clone(&self.transport));
        let mut endpoint = Endpoint::new(Arc::clone(&self.endpoint), None, false, None);
        let start = Instant::now();
        let (handle, connection) = endpoint.connect(start, config, self.server, &self.host)?;
        let mut half = Half {
            socket,
            endpoint,
            handle,
            connection,
            server: self.server,
            server_id: Vec::new(),
            established: false,
            heard: start,
        };
        while !half.established || half.heard.elapsed() < QUIET {
            half.turn()?;
            if start.elapsed() > TIMEOUT {
                return Err("the handshake took more than 10 s".into());
            }
        }
        let mut streams = half.connection.streams();
        let allowed = (0..MOST_STREAMS).take_while(|_| streams.open(Dir::Bi).is_some());
        let agreed = tap.agreed().take().ok_or("no session was begun")?;
        Ok(super::Connection {
            allowed: allowed.count() as u64,
            packets: Packets::new(agreed.keys()?, half.server_id, ID_LENGTH),
            socket: half.socket,
            sent: 0,
            ended: 0,
            heard: Instant::now(),
        })
    }
}

/// A connection that is being established.
struct Half {
    socket: Socket,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: quinn_proto::Connection,
    server: SocketAddr,
    /// By which the server knows its packets.
    server_id: Vec<u8>,
    established: bool,
    heard: Instant,
}

impl Half {
    /// Sends what is due, waits for a moment, and takes what comes.
    fn turn(&mut self) -> Result<(), Box<dyn Error>> {
        let mut out = Vec::new();
        while let Some(transmit) = self.connection.poll_transmit(Instant::now(), 1, &mut out) {
            let shape = Transmit {
                len: transmit.size,
                segment_size: transmit.size,
                ecn: 0,
            };
            if self.socket.send(&out, shape) == Taken::Unreachable {
                return Err("nobody listens there".into());
            }
            out.clear();
        }
        self.settle();
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => {
                    self.established = true;
                    let control = self.connection.streams().open(Dir::Uni);
                    let control = control.ok_or("the server allows no control stream")?;
                    // The type of the stream, and SETTINGS without any (RFC 9114 §6.2.1).
                    self.connection.send_stream(control).write(&[0, 4, 0])?;
                }
                Event::ConnectionLost { reason } => return Err(reason.into()),
                _ => (),
            }
        }
        poll(
            &mut [PollFd::new(&self.socket, PollFlags::IN)],
            Some(&MOMENT),
        )?;
        let mut inbox = Inbox::default();
        match self.socket.receive(&mut inbox, &mut Moved::default()) {
            Received::Datagrams { .. } => self.heard = Instant::now(),
            Received::Nothing => (),
            Received::Unreachable => return Err("nobody listens there".into()),
            Received::Failed(error) => return Err(error.into()),
        }
        for mut batch in inbox.take() {
            while !batch.bytes.is_empty() {
                let length = batch.segment_size.min(batch.bytes.len());
                self.receive(batch.bytes.split_to(length));
            }
        }
        let now = Instant::now();
        if self.connection.poll_timeout().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
        }
        self.settle();
        Ok(())
    }

    fn receive(&mut self, datagram: BytesMut) {
        // A long header names its sender behind its receiver (RFC 9000 §17.2).
        if datagram[0] & 0x80 != 0
            && let Some((&length, rest)) = datagram.get(5..).and_then(<[u8]>::split_first)
            && let Some((&length, rest)) = rest
                .get(usize::from(length)..)
                .and_then(<[u8]>::split_first)
            && let Some(id) = rest.get(..usize::from(length))
        {
            self.server_id = id.to_vec();
        }
        let now = Instant::now();
        let event = self
            .endpoint
            .handle(now, self.server, None, None, datagram, &mut Vec::new());
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
    }

    fn settle(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
    }
}

/// Begins sessions of which the keys can be had.
struct Tap {
    crypto: Arc<QuicClientConfig>,
    agreed: Mutex<Option<Agreed>>,
}

impl Tap {
    fn agreed(&self) -> MutexGuard<'_, Option<Agreed>> {
        self.agreed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl crypto::ClientConfig for Tap {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let session = Arc::clone(&self.crypto).start_session(version, server_name, params)?;
        let agreed = Agreed(Arc::new(Mutex::new(State {
            session,
            levels: 0,
            header: None,
            packet: VecDeque::new(),
        })));
        *self.agreed() = Some(agreed.clone());
        Ok(Box::new(agreed))
    }
}

/// A session, and the keys that it has given to quinn-proto.
#[derive(Clone)]
struct Agreed(Arc<Mutex<State>>);

struct State {
    session: Box<dyn Session>,
    /// Levels of encryption that have been reached: Handshake, then 1-RTT.
    levels: u8,
    header: Option<KeyPair<Arc<dyn HeaderKey>>>,
    /// Of one key phase after the other.
    packet: VecDeque<KeyPair<Arc<dyn PacketKey>>>,
}

impl Agreed {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keys(self) -> Result<Keys, Box<dyn Error>> {
        let header = self.state().header.take();
        let (header, packet) = header.zip(self.next()).ok_or("there are no keys")?;
        Ok(Keys {
            local: Direction {
                packet: packet.local,
                header: header.local,
            },
            remote: Direction {
                packet: packet.remote,
                header: header.remote,
            },
            agreed: self,
        })
    }

    fn next(&self) -> Option<KeyPair<Arc<dyn PacketKey>>> {
        let mut state = self.state();
        let known = state.packet.pop_front();
        known.or_else(|| state.session.next_1rtt_keys().map(shared))
    }
}

impl Session for Agreed {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> crypto::Keys {
        self.state().session.initial_keys(dst_cid, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.state().session.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.state().session.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.state().session.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.state().session.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.state().session.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.state().session.read_handshake(buf)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.state().session.transport_parameters()
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<crypto::Keys> {
        let mut state = self.state();
        let keys = state.session.write_handshake(buf)?;
        state.levels += 1;
        if state.levels < 2 {
            return Some(keys);
        }
        let crypto::Keys { header, packet } = keys;
        let header = KeyPair {
            local: Arc::from(header.local),
            remote: Arc::from(header.remote),
        };
        let packet = shared(packet);
        let keys = crypto::Keys {
            header: KeyPair {
                local: Box::new(Shared(Arc::clone(&header.local))),
                remote: Box::new(Shared(Arc::clone(&header.remote))),
            },
            packet: lent(&packet),
        };
        state.header = Some(header);
        state.packet.push_back(packet);
        Some(keys)
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let mut state = self.state();
        let keys = shared(state.session.next_1rtt_keys()?);
        let lent = lent(&keys);
        state.packet.push_back(keys);
        Some(lent)
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        let state = self.state();
        state.session.is_valid_retry(orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        let state = self.state();
        state.session.export_keying_material(output, label, context)
    }
}

fn shared(keys: KeyPair<Box<dyn PacketKey>>) -> KeyPair<Arc<dyn PacketKey>> {
    KeyPair {
        local: Arc::from(keys.local),
        remote: Arc::from(keys.remote),
    }
}

fn lent(keys: &KeyPair<Arc<dyn PacketKey>>) -> KeyPair<Box<dyn PacketKey>> {
    KeyPair {
        local: Box::new(Shared(Arc::clone(&keys.local))),
        remote: Box::new(Shared(Arc::clone(&keys.remote))),
    }
}

/// A key that the loop has, too.
struct Shared<T: ?Sized>(Arc<T>);

impl PacketKey for Shared<dyn PacketKey> {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        self.0.encrypt(packet, buf, header_len);
    }

    fn decrypt(
        &self,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.0.decrypt(packet, header, payload)
    }

    fn tag_len(&self) -> usize {
        self.0.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.0.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.0.integrity_limit()
    }
}

impl HeaderKey for Shared<dyn HeaderKey> {
    fn decrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        self.0.decrypt(pn_offset, packet);
    }

    fn encrypt(&self, pn_offset: usize, packet: &mut [u8]) {
        self.0.encrypt(pn_offset, packet);
    }

    fn sample_size(&self) -> usize {
        self.0.sample_size()
    }
}
