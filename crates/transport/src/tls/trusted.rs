//! Servers whose very certificate is trusted, though it is an authority's.

use std::collections::HashSet;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::words;

/// Verifies as another, and lets a server show a certificate that is itself among the trusted ones.
///
/// RFC 5280 has no such case: `openssl req -x509` makes a certificate that signs itself and says that it
/// is an authority, and webpki takes no authority for a server. OpenSSL and Go do where it is trusted.
/// Its dates have been checked when webpki says so, its name is checked here, and that the server
/// has its key is shown by the handshake.
#[derive(Debug)]
pub(super) struct Trusted {
    inner: Arc<dyn ServerCertVerifier>,
    /// SHA-256 of each of them.
    certificates: HashSet<Vec<u8>>,
}

impl Trusted {
    /// `certificates` are those that are trusted.
    pub(super) fn over(
        inner: Arc<dyn ServerCertVerifier>,
        certificates: &[CertificateDer<'_>],
    ) -> Arc<dyn ServerCertVerifier> {
        let certificates = certificates.iter().map(fingerprint).collect();
        Arc::new(Self {
            inner,
            certificates,
        })
    }
}

impl ServerCertVerifier for Trusted {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verdict = self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match &verdict {
            Err(rustls::Error::InvalidCertificate(error))
                if words::is_of_authority(error)
                    && self.certificates.contains(&fingerprint(end_entity)) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            _ => verdict,
        }
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

fn fingerprint(certificate: &CertificateDer<'_>) -> Vec<u8> {
    digest(&SHA256, certificate).as_ref().to_vec()
}
