//! TLS for both transports: one certificate, two lists of protocols.

use std::{sync::Arc, time::Duration};

use quinn::{
    IdleTimeout, TransportConfig, VarInt,
    congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig},
    crypto::rustls::QuicServerConfig,
};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    server::ServerSessionMemoryCache,
    sign::{CertifiedKey, SingleCertAndKey},
};

use crate::{Congestion, Error};

/// Sessions remembered for resumption, over all clients.
const SESSIONS: usize = 1 << 14;
/// Receive window of one stream and of one connection, for HTTP/2 and HTTP/3 alike: uploads
/// should be limited by the road, not by us.
pub(crate) const STREAM_WINDOW: u32 = 1 << 20;
pub(crate) const CONNECTION_WINDOW: u32 = 16 << 20;
/// RFC 9114 section 6.2 asks for three; a few more for extensions and grease.
const UNIDIRECTIONAL_STREAMS: u32 = 16;
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Most bytes of early data over TCP: what browsers and other servers grant.
const EARLY_DATA: u32 = 16 << 10;

/// HTTP/1.1 or HTTP/2, whichever the client prefers to have.
pub(crate) fn tcp(key: Arc<CertifiedKey>, early_data: bool) -> Result<Arc<ServerConfig>, Error> {
    let mut config = common(key)?;
    if early_data {
        config.max_early_data_size = EARLY_DATA;
        // Else the answer would wait for the end of the handshake.
        config.send_half_rtt_data = true;
    }
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

pub(crate) fn quic(
    key: Arc<CertifiedKey>,
    streams: u32,
    early_data: bool,
    congestion: Congestion,
) -> Result<quinn::ServerConfig, Error> {
    let mut config = common(key)?;
    if early_data {
        // The only value that QUIC allows (RFC 9001 section 4.6.1).
        config.max_early_data_size = u32::MAX;
    }
    config.alpn_protocols = vec![b"h3".to_vec()];
    let crypto = QuicServerConfig::try_from(config).map_err(|e| Error::Tls(e.to_string()))?;
    let idle = IdleTimeout::try_from(IDLE_TIMEOUT).map_err(|e| Error::Tls(e.to_string()))?;
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(streams))
        .max_concurrent_uni_streams(VarInt::from_u32(UNIDIRECTIONAL_STREAMS))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .max_idle_timeout(Some(idle))
        .congestion_controller_factory(controllers(congestion))
        .datagram_receive_buffer_size(None);
    let mut server = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    server.transport_config(Arc::new(transport));
    Ok(server)
}

fn controllers(congestion: Congestion) -> Arc<dyn ControllerFactory + Send + Sync> {
    match congestion {
        Congestion::Cubic => Arc::new(CubicConfig::default()),
        Congestion::Reno => Arc::new(NewRenoConfig::default()),
        Congestion::Bbr => Arc::new(BbrConfig::default()),
    }
}

fn common(key: Arc<CertifiedKey>) -> Result<ServerConfig, Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::Tls(e.to_string()))?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(CertifiedKey::clone(&key))));
    // Each ticket is good for one connection, so that early data is not taken twice (RFC 8446 section 8.1).
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    Ok(config)
}
