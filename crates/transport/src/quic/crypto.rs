//! TLS inside QUIC (RFC 9001), so that what the handshake agreed on can be told.
//!
//! quinn-proto has a session of its own for rustls, which keeps the cipher suite, the group, the
//! resumption and the words of an error to itself. This one does the same and shows them.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::crypto::{
    self, ClientConfig, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, KeyChange, Secrets, Suite, Version};
use rustls::{CipherSuite, HandshakeKind};

use crate::tls;

/// The only version that `quinn_proto::ClientConfig` offers unless told otherwise.
const VERSION: u32 = 1;

/// The client's side of TLS for any number of connections.
pub(super) struct Crypto {
    config: Arc<rustls::ClientConfig>,
    /// AES-128-GCM, which protects Initial packets (RFC 9001 §5.2).
    initial: Suite,
    /// A session that never speaks: it lends quinn-proto's check of the Retry integrity tag.
    retry: OnceLock<Option<Box<dyn crypto::Session>>>,
}

/// What [`quinn_proto::crypto::Session::handshake_data`] carries out of a session.
pub(super) struct HandshakeData {
    /// `None` while handshaking.
    pub(super) info: Option<tls::Info>,
    /// Tickets that have come.
    pub(super) tickets: u32,
    /// What rustls said when it gave up.
    pub(super) error: Option<rustls::Error>,
}

impl Crypto {
    /// `None` where `config` lacks what QUIC needs.
    pub(super) fn new(config: Arc<rustls::ClientConfig>) -> Option<Self> {
        let initial = config
            .crypto_provider()
            .cipher_suites
            .iter()
            .find_map(|suite| match (suite.suite(), suite.tls13()) {
                (CipherSuite::TLS13_AES_128_GCM_SHA256, Some(suite)) => suite.quic_suite(),
                _ => None,
            })?;
        // The first random number of a process costs aws-lc a tenth of a second of collecting
        // entropy, which would be measured as part of the first handshake.
        let _ = config.crypto_provider().secure_random.fill(&mut [0]);
        Some(Self {
            config,
            initial,
            retry: OnceLock::new(),
        })
    }

    fn retry_checker(&self) -> Option<&dyn crypto::Session> {
        let make = || {
            let config = Arc::new(QuicClientConfig::try_from(Arc::clone(&self.config)).ok()?);
            let parameters = TransportParameters::read(Side::Client, &mut &[][..]).ok()?;
            config
                .start_session(VERSION, "retry.invalid", &parameters)
                .ok()
        };
        self.retry.get_or_init(make).as_deref()
    }
}

impl ClientConfig for Crypto {
    fn start_session(
        self: Arc<Self>,
        _version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn crypto::Session>, ConnectError> {
        let invalid = || ConnectError::InvalidServerName(server_name.into());
        let name = ServerName::try_from(server_name)
            .map_err(|_| invalid())?
            .to_owned();
        let mut parameters = Vec::new();
        params.write(&mut parameters);
        // Fails only on a configuration without TLS 1.3, which `new` has excluded.
        let inner = ClientConnection::new(Arc::clone(&self.config), Version::V1, name, parameters)
            .map_err(|_| invalid())?;
        Ok(Box::new(Session {
            crypto: self,
            inner,
            next_secrets: None,
            told: false,
            error: None,
        }))
    }
}

struct Session {
    crypto: Arc<Crypto>,
    inner: ClientConnection,
    next_secrets: Option<Secrets>,
    /// Whether `read_handshake` has announced that the handshake data is there.
    told: bool,
    error: Option<rustls::Error>,
}

impl Session {
    fn info(&self) -> Option<tls::Info> {
        if self.inner.is_handshaking() {
            return None;
        }
        let name = |name: Option<String>| name.unwrap_or_default();
        Some(tls::Info {
            version: "TLSv1.3".into(),
            cipher: name(
                self.inner
                    .negotiated_cipher_suite()
                    .map(|s| format!("{:?}", s.suite())),
            ),
            group: name(
                self.inner
                    .negotiated_key_exchange_group()
                    .map(|g| format!("{:?}", g.name())),
            ),
            resumed: self.inner.handshake_kind() == Some(HandshakeKind::Resumed),
            alpn: self
                .inner
                .alpn_protocol()
                .map(<[u8]>::to_vec)
                .unwrap_or_default(),
            // Whether it was offered, `quinn_proto::Connection` knows.
            early_data: None,
            ech: false,
        })
    }
}

impl crypto::Session for Session {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        let side = match side {
            Side::Client => rustls::Side::Client,
            Side::Server => rustls::Side::Server,
        };
        into_keys(self.crypto.initial.keys(dst_cid, side, Version::V1))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(HandshakeData {
            info: self.info(),
            tickets: self.inner.tls13_tickets_received(),
            error: self.error.clone(),
        }))
    }

    /// The server's certificates in DER, its own first: `Vec<Vec<u8>>`.
    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        let certificates = self.inner.peer_certificates()?;
        let chain: Vec<Vec<u8>> = certificates.iter().map(|der| der.to_vec()).collect();
        Some(Box::new(chain))
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.inner.zero_rtt_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        Some(self.inner.is_early_data_accepted())
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        if let Err(error) = self.inner.read_hs(buf) {
            let reason = error.to_string();
            self.error = Some(error);
            let code = match self.inner.alert() {
                Some(alert) => TransportErrorCode::crypto(alert.into()),
                None => TransportErrorCode::PROTOCOL_VIOLATION,
            };
            return Err(TransportError {
                code,
                frame: None,
                reason,
            });
        }
        let ready = self.inner.alpn_protocol().is_some() || !self.inner.is_handshaking();
        Ok(ready && !std::mem::replace(&mut self.told, ready))
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(mut bytes) = self.inner.quic_transport_parameters() else {
            return Ok(None);
        };
        Ok(Some(TransportParameters::read(Side::Client, &mut bytes)?))
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let keys = match self.inner.write_hs(buf)? {
            KeyChange::Handshake { keys } => keys,
            KeyChange::OneRtt { keys, next } => {
                self.next_secrets = Some(next);
                keys
            }
        };
        Some(into_keys(keys))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next_secrets.as_mut()?.next_packet_keys();
        Some(KeyPair {
            local: Box::new(keys.local),
            remote: Box::new(keys.remote),
        })
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        let checker = self.crypto.retry_checker();
        checker.is_some_and(|session| session.is_valid_retry(orig_dst_cid, header, payload))
    }

    /// Nobody asks for it here.
    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

fn into_keys(keys: rustls::quic::Keys) -> Keys {
    Keys {
        header: KeyPair {
            local: Box::new(keys.local.header),
            remote: Box::new(keys.remote.header),
        },
        packet: KeyPair {
            local: Box::new(keys.local.packet),
            remote: Box::new(keys.remote.packet),
        },
    }
}
