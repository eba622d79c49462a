//! Keys that servers must have.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, OtherError, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// The key that a server must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The name of the server, in lower case; `None`: any.
    pub host: Option<String>,
    /// SHA-256 of the SubjectPublicKeyInfo (RFC 5280 §4.1.2.7) of its certificate, in DER.
    pub digest: [u8; 32],
}

/// Verifies as another, and then looks for the pinned keys of the server's own certificate. The rest of
/// what a server sends is not looked at: it may send what it likes beside the chain that was verified.
#[derive(Debug)]
pub(super) struct Pinned {
    inner: Arc<dyn ServerCertVerifier>,
    pins: Vec<Pin>,
}

impl Pinned {
    /// `inner` itself where there are no pins.
    pub(super) fn over(
        inner: Arc<dyn ServerCertVerifier>,
        pins: &[Pin],
    ) -> Arc<dyn ServerCertVerifier> {
        if pins.is_empty() {
            return inner;
        }
        Arc::new(Self {
            inner,
            pins: pins.to_vec(),
        })
    }

    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        server: &ServerName<'_>,
    ) -> Result<(), rustls::Error> {
        let server = server.to_str();
        let concerns = |pin: &&Pin| match &pin.host {
            Some(host) => host.eq_ignore_ascii_case(&server),
            None => true,
        };
        let mut wanted = self.pins.iter().filter(concerns).peekable();
        if wanted.peek().is_none() {
            return Ok(());
        }
        let key = ParsedCertificate::try_from(certificate)?.subject_public_key_info();
        let found = digest(&SHA256, key.as_ref());
        if wanted.any(|pin| pin.digest == found.as_ref()) {
            return Ok(());
        }
        let other = OtherError(Arc::new(NotPinned(found.as_ref().to_vec())));
        Err(CertificateError::Other(other).into())
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )?;
        self.check(end_entity, server_name)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// The server has another key than those that are pinned: this one, by its digest.
#[derive(Debug)]
pub(super) struct NotPinned(Vec<u8>);

impl fmt::Display for NotPinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its key is none of those that are pinned, but has the SHA-256 ")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::error::Error for NotPinned {}
