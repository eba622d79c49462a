//! What a connection grants and asks.

use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, EndpointConfig, IdleTimeout, MtuDiscoveryConfig, QlogConfig,
    TransportConfig, VarInt,
};

use super::crypto::Crypto;
use super::{Error, ErrorKind};
use crate::tls;

/// A congestion controller, quinn's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// NewReno, as QUIC has it (RFC 9002 §7).
    Reno,
    /// BBR, version 1.
    Bbr,
}

impl Congestion {
    /// Every controller.
    pub const ALL: [Self; 3] = [Self::Cubic, Self::Reno, Self::Bbr];

    /// The name that Linux gives to the same algorithm of TCP.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr => "bbr",
        }
    }

    fn factory(self) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self {
            Self::Cubic => Arc::new(CubicConfig::default()),
            Self::Reno => Arc::new(NewRenoConfig::default()),
            Self::Bbr => Arc::new(BbrConfig::default()),
        }
    }
}

/// What path MTU discovery tries where nothing else was asked for, in bytes of UDP payload: an Ethernet frame
/// has room for it behind IPv6 and UDP.
pub const LARGEST_PROBE: u16 = 1452;

/// Limits and timeouts of a connection.
#[derive(Clone, Debug)]
pub struct Options {
    /// What each stream may receive before we grant more, in bytes.
    pub stream_window: u64,
    /// What the connection may receive before we grant more, in bytes.
    pub connection_window: u64,
    /// Most bytes sent and not yet acknowledged that are kept, over all streams.
    pub send_window: u64,
    /// From `connect` to the end of the handshake.
    pub handshake_timeout: Duration,
    /// Silence that ends the connection (RFC 9000 §10.1); zero means never.
    pub max_idle_timeout: Duration,
    /// Silence after which we send a PING, `None` for never.
    pub keep_alive: Option<Duration>,
    /// Who says how much may be on its way.
    pub congestion: Congestion,
    /// UDP payload size to begin with, at least 1200 bytes.
    pub initial_mtu: u16,
    /// Largest UDP payload that path MTU discovery tries (RFC 8899), `None` for no discovery. The
    /// socket must forbid fragmentation then.
    pub mtu_discovery: Option<u16>,
    /// The server is asked to acknowledge every so-manieth packet, instead of every second
    /// (draft-ietf-quic-ack-frequency-04), where it knows how; `None` asks for nothing.
    pub ack_frequency: Option<u32>,
    /// Largest UDP payload that we take, in bytes, 1200…65527.
    pub max_udp_payload: u16,
}

impl Default for Options {
    /// Large windows, so that a single stream is never held up by us on any path of today: 16 MiB
    /// are 1.3 Gbit/s at a round trip of 100 ms.
    fn default() -> Self {
        Self {
            stream_window: 16 << 20,
            connection_window: 64 << 20,
            send_window: 16 << 20,
            handshake_timeout: Duration::from_secs(10),
            max_idle_timeout: Duration::from_secs(30),
            keep_alive: None,
            congestion: Congestion::default(),
            initial_mtu: 1200,
            mtu_discovery: Some(LARGEST_PROBE),
            ack_frequency: None,
            max_udp_payload: 65527,
        }
    }
}

/// A configuration shared by every connection of a worker. Cheap to clone.
#[derive(Clone)]
pub struct Config {
    pub(super) client: ClientConfig,
    pub(super) tls: Arc<rustls::ClientConfig>,
    endpoint: Arc<EndpointConfig>,
    options: Options,
    pub(super) handshake_timeout: Duration,
    pub(super) words: tls::Words,
}

impl Config {
    /// A configuration with the certificates and protocols of `tls`, which should offer `h3` by ALPN.
    pub fn new(tls: &tls::Config, options: &Options) -> Result<Self, Error> {
        let config = Self::from_rustls(Arc::clone(tls.rustls()), options)?;
        Ok(Self {
            words: *tls.words(),
            ..config
        })
    }

    /// As [`Self::new`], from rustls itself.
    pub fn from_rustls(tls: Arc<rustls::ClientConfig>, options: &Options) -> Result<Self, Error> {
        let transport = transport(options)?;
        let mut endpoint = EndpointConfig::default();
        endpoint
            .max_udp_payload_size(options.max_udp_payload)
            .map_err(|_| wrong("a UDP payload size that is not in 1200…65527"))?;

        let crypto = Crypto::new(Arc::clone(&tls))
            .ok_or_else(|| wrong("TLS 1.3 with AES-128-GCM, which QUIC needs, is switched off"))?;
        let mut client = ClientConfig::new(Arc::new(crypto));
        client.transport_config(Arc::new(transport));
        Ok(Self {
            client,
            tls,
            endpoint: Arc::new(endpoint),
            options: options.clone(),
            handshake_timeout: options.handshake_timeout,
            words: tls::Words::LOAD,
        })
    }

    /// The same for one connection, of which quinn-proto writes a qlog to `log`: JSON-SEQ, a record for each
    /// packet and each change of what congestion control knows.
    pub fn logged(&self, log: Box<dyn Write + Send + Sync>, title: String) -> Result<Self, Error> {
        let mut qlog = QlogConfig::default();
        qlog.writer(log).title(Some(title));
        let Some(stream) = qlog.into_stream() else {
            return Err(wrong("a qlog that cannot be written to"));
        };
        let mut transport = transport(&self.options)?;
        transport.qlog_stream(Some(stream));
        let mut config = self.clone();
        config.client.transport_config(Arc::new(transport));
        Ok(config)
    }

    /// What knows the ids of connections, without any.
    pub(super) fn new_endpoint(&self) -> quinn_proto::Endpoint {
        let discovers_mtu = self.options.mtu_discovery.is_some();
        quinn_proto::Endpoint::new(self.endpoint.clone(), None, discovers_mtu, None)
    }
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::Options, what)
}

fn transport(options: &Options) -> Result<TransportConfig, Error> {
    let window = |value| VarInt::from_u64(value).map_err(|_| wrong("a window above 2^62-1"));

    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        // Control, QPACK encoder, QPACK decoder, and some that are reserved to be ignored.
        .max_concurrent_uni_streams(VarInt::from_u32(8))
        .stream_receive_window(window(options.stream_window)?)
        .receive_window(window(options.connection_window)?)
        .send_window(options.send_window)
        .keep_alive_interval(options.keep_alive)
        .datagram_receive_buffer_size(None)
        .initial_mtu(options.initial_mtu.max(1200))
        .congestion_controller_factory(options.congestion.factory())
        .ack_frequency_config(options.ack_frequency.map(|every| {
            let mut config = AckFrequencyConfig::default();
            // As many may come without being acknowledged at once.
            config.ack_eliciting_threshold(every.saturating_sub(1).into());
            config
        }))
        .mtu_discovery_config(options.mtu_discovery.map(|bound| {
            let mut config = MtuDiscoveryConfig::default();
            config.upper_bound(bound);
            config
        }));
    transport.max_idle_timeout(match options.max_idle_timeout {
        Duration::ZERO => None,
        time => Some(IdleTimeout::try_from(time).map_err(|_| wrong("an endless timeout"))?),
    });
    Ok(transport)
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}
