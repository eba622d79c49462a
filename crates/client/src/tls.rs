//! Certificates, loaded once for any number of connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use trilane_transport::{quic, tls};

pub use trilane_transport::tls::{Pin, Words};

use crate::{Error, Kind, Version};

/// A file that has been read: its name, for messages, and its contents.
pub type File = (String, Vec<u8>);

/// What is trusted, and who we are.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// PEM files of certificate authorities that are trusted.
    pub authorities: Vec<File>,
    /// Whether the platform's authorities are trusted as well.
    pub platform: bool,
    /// Accept any certificate.
    pub insecure: bool,
    /// PEM certificate chain and key of the client.
    pub certificate: Option<(File, File)>,
    /// The password of the key, where it is encrypted.
    pub password: Option<Vec<u8>>,
    /// Keys that servers must have.
    pub pins: Vec<Pin>,
    /// Whether nothing older than TLS 1.3 is offered; else TLS 1.2 is offered too.
    pub tls13_only: bool,
    /// What messages call the ways out; `None` for the arguments of Python's client.
    pub words: Option<Words>,
}

/// The arguments of Python's client.
const PYTHON: Words = Words {
    authority: "verify=\"FILE\"",
    // Whoever reads the message of a server that is not trusted is not to be led there first.
    unchecked: None,
    one_of_its_names: "ask for it by one of its names",
    served_name: "ask for it by the name it serves",
    a_name: "ask for it by one",
    name: "",
    certificate: "cert=(\"FILE\", \"KEY\")",
    given_certificate: "cert",
    password: Some("give its password, cert=(\"FILE\", \"KEY\", \"PASSWORD\")"),
};

/// What the handshake agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsInfo {
    /// `TLSv1.3`.
    pub version: String,
    /// `TLS13_AES_128_GCM_SHA256`.
    pub cipher: String,
    /// `X25519MLKEM768`; empty where there was no key exchange.
    pub group: String,
    /// `h2`; empty where none was agreed.
    pub alpn: String,
    /// Whether the session was resumed.
    pub resumed: bool,
    /// Whether the server took Encrypted Client Hello.
    pub ech: bool,
    /// The server's certificates in DER, its own first.
    pub certificates: Vec<Vec<u8>>,
}

/// Roots, client certificate and session cache. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tls(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    base: tls::Config,
    /// By what is offered: a configuration of rustls has its offer in it.
    tcp: Mutex<HashMap<Vec<Version>, tls::Config>>,
    quic: Mutex<Option<quic::Config>>,
}

impl Tls {
    /// Reads certificates and key.
    pub fn new(options: TlsOptions) -> Result<Self, Error> {
        let base = tls::Config::new(&tls::Options {
            authorities: options.authorities,
            platform: options.platform,
            insecure: options.insecure,
            client: options.certificate,
            password: options.password,
            pins: options.pins,
            version: options.tls13_only.then_some(tls::TlsVersion::V1_3),
            words: options.words.unwrap_or(PYTHON),
            ..tls::Options::default()
        })
        .map_err(|error| failure(&error.0))?;
        Ok(Self(Arc::new(Shared {
            base,
            tcp: Mutex::default(),
            quic: Mutex::default(),
        })))
    }

    /// For TCP, offering `versions` in order.
    pub(crate) fn tcp(&self, versions: &[Version]) -> tls::Config {
        let mut kept = self.0.tcp.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = kept.get(versions) {
            return config.clone();
        }
        let offer = versions.iter().filter_map(|version| match version {
            Version::H1 => Some(b"http/1.1".to_vec()),
            Version::H2 => Some(b"h2".to_vec()),
            Version::H3 => None,
        });
        let config = self.0.base.with_alpn(offer.collect());
        kept.insert(versions.to_vec(), config.clone());
        config
    }

    pub(crate) fn quic(&self) -> Result<quic::Config, Error> {
        let mut kept = self.0.quic.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = &*kept {
            return Ok(config.clone());
        }
        let options = quic::Options {
            stream_window: crate::slots::STREAM_WINDOW.into(),
            // What nobody reads is bounded for each response: it must not hold up the others.
            connection_window: 1 << 30,
            ..quic::Options::default()
        };
        let config = quic::Config::new(&self.0.base.with_alpn(vec![b"h3".to_vec()]), &options)
            .map_err(|error| Error::new(Kind::Tls, error.to_string()))?;
        *kept = Some(config.clone());
        Ok(config)
    }
}

impl From<tls::Info> for TlsInfo {
    fn from(info: tls::Info) -> Self {
        Self {
            version: info.version,
            cipher: info.cipher,
            group: info.group,
            alpn: String::from_utf8_lossy(&info.alpn).into_owned(),
            resumed: info.resumed,
            ech: info.ech,
            certificates: Vec::new(),
        }
    }
}

/// An error of TLS.
pub(crate) fn failure(message: &str) -> Error {
    Error::new(Kind::Tls, message.to_owned())
}
