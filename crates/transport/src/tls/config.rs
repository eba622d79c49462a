//! Roots, client certificate and key, loaded once.

use std::env;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::version::{TLS12, TLS13};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, KeyLog, KeyLogFile, RootCertStore,
    SignatureScheme, SupportedCipherSuite, SupportedProtocolVersion,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::ech::{self, Rejection};
use super::pins::Pinned;
use super::tickets::Tickets;
use super::trusted::Trusted;
use super::{Error, Options, TlsVersion, Words, keys, words};

/// A configuration shared by every connection of a worker. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Config {
    rustls: Arc<ClientConfig>,
    verifier: Arc<dyn ServerCertVerifier>,
    /// What became of Encrypted Client Hello, where it is offered.
    ech: Option<Arc<Rejection>>,
    /// The version that is offered alone, where only one is.
    only: Option<TlsVersion>,
    words: Words,
}

impl Config {
    /// Loads roots, client certificate and key.
    pub fn new(options: &Options) -> Result<Self, Error> {
        let (provider, offered) = offer(options.version, &options.ciphers)?;
        let provider = Arc::new(provider);
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&offered)
            .map_err(|error| Error(format!("TLS cannot be offered: {error}")))?;

        // Files are read even where nothing is checked: a wrong name is a mistake all the same.
        let authorities = authorities(options, &provider)?;
        let verifier: Arc<dyn ServerCertVerifier> = if options.insecure {
            Arc::new(AcceptAny {
                provider: Arc::clone(&provider),
            })
        } else {
            let trusted = trusted(authorities, options.platform)?;
            let roots = Arc::new(roots(&trusted, &options.words)?);
            let webpki = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
                .build()
                .map_err(|error| Error(format!("certificates cannot be verified: {error}")))?;
            Trusted::over(webpki, &trusted)
        };
        let verifier = Pinned::over(verifier, &options.pins);
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&verifier));

        let mut config = match &options.client {
            None => builder.with_no_client_auth(),
            Some(((chain_file, chain), (key_file, key))) => {
                let chain = certificates(chain_file, chain)?;
                expect_current(chain_file, &chain[..1], &provider)?;
                let key =
                    keys::private_key(key_file, key, options.password.as_deref(), &options.words)?;
                builder.with_client_auth_cert(chain, key).map_err(|error| match error {
                    rustls::Error::InconsistentKeys(_) => Error(format!(
                        "the key in {key_file} does not belong to the first certificate in {chain_file}"
                    )),
                    rustls::Error::InvalidCertificate(error) if words::is_of_old_version(&error) => {
                        Error(format!(
                            "{chain_file} is no X.509 certificate of version 3, as TLS wants it: issue one with extensions (openssl x509 -req -extfile FILE)"
                        ))
                    }
                    error => Error(format!(
                        "{chain_file} and {key_file} cannot be used as a client certificate: {error}"
                    )),
                })?
            }
        };
        config.alpn_protocols = options.alpn.clone();
        config.enable_early_data = options.early_data;
        // For the records behind a handshake over TCP, which are not read by rustls.
        config.enable_secret_extraction = true;
        config.resumption = if options.resumption {
            Resumption::store(Arc::new(Tickets::new()))
        } else {
            Resumption::disabled()
        };
        if let Some(file) = env::var_os(KEY_LOG).filter(|file| !file.is_empty()) {
            config.key_log = key_log(Path::new(&file))?;
        }
        Ok(Self {
            rustls: Arc::new(config),
            verifier,
            ech: None,
            only: match offered[..] {
                [only] if only.version == TLS12.version => Some(TlsVersion::V1_2),
                [_] => Some(TlsVersion::V1_3),
                _ => None,
            },
            words: options.words,
        })
    }

    /// The same with another offer by ALPN, in order of preference. Certificates and sessions are
    /// shared.
    pub fn with_alpn(&self, alpn: Vec<Vec<u8>>) -> Self {
        let mut config = ClientConfig::clone(&self.rustls);
        config.alpn_protocols = alpn;
        Self {
            rustls: Arc::new(config),
            ..self.clone()
        }
    }

    /// The same for the servers of an ECHConfigList: it says TLS 1.3 alone, and the name of the server
    /// to nobody else. One that rejects it fails the handshake, and [`Self::ech_retry`] tells.
    pub fn with_ech(&self, list: &[u8]) -> Result<Self, Error> {
        let old = &self.rustls;
        let mut config = ClientConfig::builder_with_provider(Arc::clone(old.crypto_provider()))
            .with_ech(ech::mode(list)?)
            .map_err(|error| Error(format!("TLS cannot be offered: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&self.verifier))
            .with_client_cert_resolver(Arc::clone(&old.client_auth_cert_resolver));
        config.alpn_protocols.clone_from(&old.alpn_protocols);
        config.enable_early_data = old.enable_early_data;
        config.enable_secret_extraction = old.enable_secret_extraction;
        config.resumption = old.resumption.clone();
        config.key_log = Arc::clone(&old.key_log);
        Ok(Self {
            rustls: Arc::new(config),
            verifier: Arc::clone(&self.verifier),
            ech: Some(Arc::default()),
            only: Some(TlsVersion::V1_3),
            words: self.words,
        })
    }

    /// Whether a server has rejected the offer of [`Self::with_ech`], and with what it is to be asked again:
    /// without ECH where it gave nothing (RFC 9849 §6.1.6).
    pub fn ech_retry(&self) -> Option<ech::Retry> {
        self.ech.as_ref()?.retry()
    }

    /// The version that is offered alone, where only one is.
    pub(crate) fn only(&self) -> Option<TlsVersion> {
        self.only
    }

    /// What messages call the ways out.
    pub(crate) fn words(&self) -> &Words {
        &self.words
    }

    pub(super) fn offers_ech(&self) -> bool {
        self.ech.is_some()
    }

    pub(super) fn notice(&self, error: &rustls::Error) {
        if let Some(rejection) = &self.ech {
            rejection.notice(error);
        }
    }

    /// The same for QUIC, which brings its own records.
    pub fn rustls(&self) -> &Arc<ClientConfig> {
        &self.rustls
    }
}

/// Refuses cipher suites that there are not, or that no version has which is to be offered.
pub fn check_offer(version: Option<TlsVersion>, ciphers: &[String]) -> Result<(), Error> {
    offer(version, ciphers).map(drop)
}

/// The cipher suites of these names, or all, and the versions of TLS that are offered with them.
fn offer(
    version: Option<TlsVersion>,
    ciphers: &[String],
) -> Result<(CryptoProvider, Vec<&'static SupportedProtocolVersion>), Error> {
    let mut provider = aws_lc_rs::default_provider();
    if !ciphers.is_empty() {
        provider.cipher_suites = suites(ciphers, &provider.cipher_suites)?;
    }
    let mut versions = match version {
        None => vec![&TLS13, &TLS12],
        Some(TlsVersion::V1_2) => vec![&TLS12],
        Some(TlsVersion::V1_3) => vec![&TLS13],
    };
    // Where no suite is of one of the versions, that is not offered.
    versions.retain(|offered| {
        let mut suites = provider.cipher_suites.iter();
        suites.any(|suite| suite.version() == *offered)
    });
    if versions.is_empty() {
        return Err(Error(
            "none of these cipher suites is of the version of TLS that is asked for".to_owned(),
        ));
    }
    Ok((provider, versions))
}

/// The suites of these names among `known` ones, in the order of the names.
fn suites(
    names: &[String],
    known: &[SupportedCipherSuite],
) -> Result<Vec<SupportedCipherSuite>, Error> {
    // RFC 8446 has no "13" in its names.
    let name =
        |suite: &SupportedCipherSuite| format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1);
    let find = |asked: &String| {
        let canonical = asked.trim().to_ascii_uppercase();
        let canonical = canonical.replacen("TLS13_", "TLS_", 1);
        let found = known.iter().find(|suite| name(suite) == canonical);
        found.copied().ok_or_else(|| {
            let known: Vec<_> = known.iter().map(name).collect();
            Error(format!(
                "{asked:?} is not among the cipher suites that are offered: {}",
                known.join(", ")
            ))
        })
    };
    names.iter().map(find).collect()
}

/// Names the file that gets the secrets of all connections, for programs that look into what was
/// captured on the way (NSS Key Log Format).
const KEY_LOG: &str = "SSLKEYLOGFILE";

/// What appends to the file that [`KEY_LOG`] names, which nobody else may read.
fn key_log(file: &Path) -> Result<Arc<dyn KeyLog>, Error> {
    let opened = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(file);
    opened.map_err(|error| {
        Error(format!(
            "the file that {KEY_LOG} names for the secrets of connections cannot be written: {}: {error}",
            file.display()
        ))
    })?;
    Ok(Arc::new(KeyLogFile::new()))
}

/// Names the file of authorities in place of the platform's.
const CERTIFICATES: &str = "SSL_CERT_FILE";

/// The certificates to trust: the caller's, and the `platform`'s.
fn trusted(
    mut authorities: Vec<CertificateDer<'static>>,
    platform: bool,
) -> Result<Vec<CertificateDer<'static>>, Error> {
    if platform {
        let found = rustls_native_certs::load_native_certs();
        if authorities.is_empty()
            && let Some(file) = env::var_os(CERTIFICATES)
            && let Some(lack) = lack(Path::new(&file), found.certs.is_empty())
        {
            return Err(Error(format!(
                "{CERTIFICATES} names {}, {lack}",
                Path::new(&file).display()
            )));
        }
        authorities.extend(found.certs);
    }
    Ok(authorities)
}

/// What is wrong with a file of authorities; where nothing was found at all, it has none.
fn lack(file: &Path, nothing: bool) -> Option<String> {
    match File::open(file) {
        Err(error) => Some(format!("which cannot be read: {error}")),
        Ok(_) => nothing.then(|| "which has no certificate".to_owned()),
    }
}

fn roots(trusted: &[CertificateDer<'static>], words: &Words) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    // The caller's have been parsed before; some of a platform's may be of a kind that nobody reads any more.
    roots.add_parsable_certificates(trusted.iter().cloned());
    if roots.is_empty() {
        return Err(Error(format!(
            "this machine has no trusted certificate authorities: name one with {}{}",
            words.authority,
            words.or_unchecked()
        )));
    }
    Ok(roots)
}

/// The certificates of all of the caller's files.
fn authorities(
    options: &Options,
    provider: &CryptoProvider,
) -> Result<Vec<CertificateDer<'static>>, Error> {
    let mut all = Vec::new();
    for (file, contents) in &options.authorities {
        let certificates = certificates(file, contents)?;
        for certificate in &certificates {
            RootCertStore::empty()
                .add(certificate.clone())
                .map_err(|error| {
                    let reason = match &error {
                        rustls::Error::InvalidCertificate(error) => words::reason(error),
                        error => error.to_string(),
                    };
                    Error(format!(
                        "{file} has a certificate that cannot be read: {reason}"
                    ))
                })?;
        }
        expect_current(file, &certificates, provider)?;
        all.extend(certificates);
    }
    Ok(all)
}

/// The certificates in a PEM file, at least one.
fn certificates(file: &str, contents: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(contents).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err(Error(format!(
            "{file} has no certificate: it needs a PEM block that begins with -----BEGIN CERTIFICATE-----"
        ))),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(Error(format!("{file} is not a PEM file: {error}"))),
    }
}

/// Refuses a file in which every certificate is out of date; a bundle may have old ones.
fn expect_current(
    file: &str,
    certificates: &[CertificateDer<'_>],
    provider: &CryptoProvider,
) -> Result<(), Error> {
    let mut outdated = None;
    for certificate in certificates {
        match validity(certificate, provider) {
            Ok(()) => return Ok(()),
            Err(reason) => outdated = Some(reason),
        }
    }
    outdated.map_or(Ok(()), |reason| {
        Err(Error(format!("the certificate in {file} {reason}")))
    })
}

/// Whether a certificate is valid today, or what is wrong in words. The verifier looks at the
/// dates first; what else it says without roots is of no interest here.
fn validity(certificate: &CertificateDer<'_>, provider: &CryptoProvider) -> Result<(), String> {
    let Ok(parsed) = ParsedCertificate::try_from(certificate) else {
        return Ok(());
    };
    let verdict = rustls::client::verify_server_cert_signed_by_trust_anchor(
        &parsed,
        &RootCertStore::empty(),
        &[],
        UnixTime::now(),
        provider.signature_verification_algorithms.all,
    );
    match verdict {
        Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext {
            not_after,
            ..
        })) => Err(format!("expired on {}", words::date(not_after))),
        Err(rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext {
            not_before,
            ..
        })) => Err(format!("is not valid before {}", words::date(not_before))),
        _ => Ok(()),
    }
}

/// Accepts any certificate, but only from a peer that has its key.
#[derive(Debug)]
struct AcceptAny {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
