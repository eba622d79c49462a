//! An authority that issues certificates, and a client and a server joined without sockets.

use std::io::{Read, Write};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::crypto::aws_lc_rs;
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use trilane_transport::tls::{Config, Error, Options, Session};

/// A certificate chain and its key, as PEM.
pub(crate) struct Identity {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Identity {
    pub(crate) fn certificates(&self) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(self.chain.as_bytes())
            .map(Result::unwrap)
            .collect()
    }

    pub(crate) fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap()
    }
}

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// One that nobody trusts.
    pub(crate) fn stranger() -> Self {
        Self::with(|params| {
            params
                .distinguished_name
                .push(DnType::CommonName, "Stranger")
        })
    }

    pub(crate) fn with(change: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut params = CertificateParams::new(vec!["ca.example".into()]).unwrap();
        // OpenSSL takes a certificate for self-signed whose issuer has the same name.
        params
            .distinguished_name
            .push(DnType::CommonName, "Authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        change(&mut params);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Its own certificate, as that of a server.
    pub(crate) fn itself(&self) -> Identity {
        Identity {
            chain: self.pem(),
            key: self.0.key().serialize_pem(),
        }
    }

    pub(crate) fn issue(&self, names: &[&str]) -> Identity {
        self.issue_with(names, |_| {})
    }

    pub(crate) fn issue_with(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Identity {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Identity {
            chain: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// What a client asks that trusts this authority.
    pub(crate) fn options(&self) -> Options {
        Options {
            authorities: vec![("ca.pem".into(), self.pem().into())],
            ..Options::default()
        }
    }
}

pub(crate) fn server_config(
    identity: &Identity,
    version: &'static SupportedProtocolVersion,
) -> ServerConfig {
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(identity.certificates(), identity.private_key())
        .unwrap();
    config.ticketer = aws_lc_rs::Ticketer::new().unwrap();
    config
}

/// Our client and a rustls server.
pub(crate) struct Pair {
    pub(crate) client: Session,
    pub(crate) server: ServerConnection,
    /// Plaintext that has arrived at the client.
    pub(crate) at_client: Vec<u8>,
    /// Plaintext that has arrived at the server.
    pub(crate) at_server: Vec<u8>,
    /// Bytes on the way to the server.
    pub(crate) out: Vec<u8>,
    /// How many bytes the client is given at a time.
    pub(crate) step: usize,
    /// The size of the client's read buffer; `None`: never restore.
    pub(crate) buffer: Option<usize>,
}

impl Pair {
    pub(crate) fn new(options: &Options, server: ServerConfig) -> Self {
        Self::with(
            &Config::new(options).unwrap(),
            Arc::new(server),
            "localhost",
        )
    }

    pub(crate) fn with(config: &Config, server: Arc<ServerConfig>, name: &str) -> Self {
        Self {
            client: Session::new(config, name).unwrap(),
            server: ServerConnection::new(server).unwrap(),
            at_client: Vec::new(),
            at_server: Vec::new(),
            out: Vec::new(),
            step: usize::MAX,
            buffer: Some(64 * 1024),
        }
    }

    /// Gives `bytes` to the client as a driver does: behind what `restore` puts before them.
    pub(crate) fn give(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for piece in bytes.chunks(self.step) {
            let mut at = 0;
            while at < piece.len() {
                let mut buffer = vec![0; self.buffer.unwrap_or(64 * 1024)];
                let half = buffer.len() / 2;
                let read = (buffer.len() - half).min(piece.len() - at);
                let end = half + read;
                buffer[half..end].copy_from_slice(&piece[at..at + read]);
                at += read;
                let begin = if self.buffer.is_some() {
                    self.client.restore(&mut buffer, half)
                } else {
                    half
                };
                let at_client = &mut self.at_client;
                self.client.receive(
                    &mut buffer[begin..end],
                    |plaintext| at_client.extend_from_slice(plaintext),
                    &mut self.out,
                )?;
            }
        }
        Ok(())
    }

    /// Moves bytes both ways until nobody has any.
    pub(crate) fn drive(&mut self) -> Result<(), Error> {
        loop {
            let mut idle = self.out.is_empty();
            let mut to_server = &std::mem::take(&mut self.out)[..];
            while !to_server.is_empty() {
                self.server.read_tls(&mut to_server).unwrap();
                // The alert is on its way even where the server fails.
                let _ = self.server.process_new_packets();
                if let Some(mut early) = self.server.early_data() {
                    early.read_to_end(&mut self.at_server).unwrap();
                }
                let _ = self.server.reader().read_to_end(&mut self.at_server);
            }
            let mut to_client = Vec::new();
            while self.server.wants_write() {
                self.server.write_tls(&mut to_client).unwrap();
                idle = false;
            }
            self.give(&to_client)?;
            if idle {
                return Ok(());
            }
        }
    }

    pub(crate) fn handshake(&mut self) -> Result<(), Error> {
        self.client.start(&mut self.out)?;
        self.drive()
    }

    /// Sends to the server.
    pub(crate) fn send(&mut self, plaintext: &[u8]) {
        self.client.send(plaintext, &mut self.out).unwrap();
        self.drive().unwrap();
    }

    /// Sends to the client.
    pub(crate) fn answer(&mut self, mut plaintext: &[u8]) {
        while !plaintext.is_empty() {
            let taken = self.server.writer().write(plaintext).unwrap();
            plaintext = &plaintext[taken..];
            self.drive().unwrap();
        }
    }
}

/// The error of a handshake that has to fail.
pub(crate) fn refusal(options: &Options, server: ServerConfig, name: &str) -> String {
    let mut pair = Pair::with(&Config::new(options).unwrap(), Arc::new(server), name);
    let error = pair.handshake().unwrap_err();
    assert_eq!(pair.client.eof(), Err(error.clone()), "an error is final");
    assert_eq!(pair.client.send(b"x", &mut pair.out), Err(error.clone()));
    error.0
}
