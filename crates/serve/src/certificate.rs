//! The local certificate authority and the server's own certificate.
//!
//! Both live in the state folder and are kept from start to start, so that trusting the authority
//! once is enough. A stored certificate is used only if a client that trusts the authority would
//! accept it, for every name, also in [`RENEW_BEFORE`]; that one check covers expiry, missing
//! names, a replaced authority and damaged files.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::aws_lc_rs,
    sign::CertifiedKey,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject};

use crate::{Config, Error, state::State};

const AUTHORITY: &str = "ca.pem";
const AUTHORITY_KEY: &str = "ca-key.pem";
const LEAF: &str = "cert.pem";
const LEAF_KEY: &str = "key.pem";

const DAY: Duration = Duration::from_secs(24 * 3600);
const AUTHORITY_LIFE: Duration = DAY.saturating_mul(3650);
/// Well below the 398 days that browsers allow.
const LEAF_LIFE: Duration = DAY.saturating_mul(90);
const RENEW_BEFORE: Duration = DAY.saturating_mul(30);

/// What the server shows to its clients.
pub(crate) struct Identity {
    pub(crate) key: Arc<CertifiedKey>,
    /// The authority to trust; `None` with a certificate that the user brought.
    pub(crate) authority: Option<PathBuf>,
    /// The authority was made just now, so nobody trusts it yet.
    pub(crate) new_authority: bool,
}

impl Identity {
    pub(crate) fn load(config: &Config) -> Result<Self, Error> {
        match &config.identity {
            Some((chain, key)) => Self::brought(chain, key),
            None => Self::local(&State::open(config.state.as_deref())?, &names(config)?),
        }
    }

    fn brought(chain_path: &Path, key_path: &Path) -> Result<Self, Error> {
        let chain: Vec<_> = CertificateDer::pem_file_iter(chain_path)
            .and_then(Iterator::collect)
            .map_err(|cause| Error::file(chain_path, cause))?;
        if chain.is_empty() {
            return Err(Error::file(chain_path, "no certificate in this PEM file"));
        }
        let key =
            PrivateKeyDer::from_pem_file(key_path).map_err(|cause| Error::file(key_path, cause))?;
        let key = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
            .map_err(|cause| Error::file(key_path, cause))?;
        Ok(Self {
            key: Arc::new(key),
            authority: None,
            new_authority: false,
        })
    }

    fn local(state: &State, names: &[String]) -> Result<Self, Error> {
        let identity = |key, new_authority| Self {
            key: Arc::new(key),
            authority: Some(state.path(AUTHORITY)),
            new_authority,
        };
        let stored = state.read(AUTHORITY)?.zip(state.read(AUTHORITY_KEY)?);
        if let Some((authority, authority_key)) = stored {
            if let Some((leaf, key)) = state.read(LEAF)?.zip(state.read(LEAF_KEY)?)
                && let Some(key) = accept(&authority, &leaf, &key, names)
            {
                return Ok(identity(key, false));
            }
            if let Ok(authority_key) = KeyPair::from_pem(&authority_key) {
                let (leaf, key) = issue(authority_key, names)?;
                if let Some(certified) = accept(&authority, &leaf, &key, names) {
                    state.write(LEAF_KEY, 0o600, &key)?;
                    state.write(LEAF, 0o644, &leaf)?;
                    return Ok(identity(certified, false));
                }
            }
        }
        let authority_key = KeyPair::generate().map_err(tls)?;
        let authority = authority_params()
            .self_signed(&authority_key)
            .map_err(tls)?
            .pem();
        state.write(AUTHORITY_KEY, 0o600, &authority_key.serialize_pem())?;
        state.write(AUTHORITY, 0o644, &authority)?;
        let (leaf, key) = issue(authority_key, names)?;
        state.write(LEAF_KEY, 0o600, &key)?;
        state.write(LEAF, 0o644, &leaf)?;
        let certified = accept(&authority, &leaf, &key, names).ok_or_else(|| {
            Error::Tls("the certificate just made is not acceptable; is the clock right?".into())
        })?;
        Ok(identity(certified, true))
    }
}

/// Every name that the certificate must hold, without duplicates.
fn names(config: &Config) -> Result<Vec<String>, Error> {
    let mut names: BTreeSet<String> = ["localhost", "127.0.0.1", "::1"]
        .into_iter()
        .map(str::to_owned)
        .collect();
    if !config.bind.is_unspecified() {
        names.insert(config.bind.to_string());
    }
    for name in &config.names {
        if name.parse::<IpAddr>().is_err() && ServerName::try_from(name.as_str()).is_err() {
            return Err(Error::Config(format!(
                "--name {name:?} is neither a host name nor an IP address"
            )));
        }
        names.insert(name.clone());
    }
    Ok(names.into_iter().collect())
}

/// Parses a stored certificate, if a client trusting `authority` would accept it for all `names`.
fn accept(authority: &str, leaf: &str, key: &str, names: &[String]) -> Option<CertifiedKey> {
    let provider = aws_lc_rs::default_provider();
    let leaf = CertificateDer::from_pem_slice(leaf.as_bytes()).ok()?;
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.as_bytes()).ok()?)
        .ok()?;
    let verifier =
        WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone().into())
            .build()
            .ok()?;
    let now = SystemTime::now();
    for instant in [now, now + RENEW_BEFORE] {
        let instant = instant.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        for name in names {
            let name = ServerName::try_from(name.as_str()).ok()?;
            let instant = UnixTime::since_unix_epoch(instant);
            verifier
                .verify_server_cert(&leaf, &[], &name, &[], instant)
                .ok()?;
        }
    }
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).ok()?;
    CertifiedKey::from_der(vec![leaf], key, &provider).ok()
}

/// A new key and a certificate for it: (certificate, key), both PEM.
fn issue(authority_key: KeyPair, names: &[String]) -> Result<(String, String), Error> {
    let mut params = CertificateParams::new(names.to_vec()).map_err(tls)?;
    params.distinguished_name.remove(DnType::CommonName);
    params
        .distinguished_name
        .push(DnType::CommonName, "trilane serve");
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    set_life(&mut params, LEAF_LIFE);
    let key = KeyPair::generate().map_err(tls)?;
    let issuer = Issuer::new(authority_params(), authority_key);
    let leaf = params.signed_by(&key, &issuer).map_err(tls)?;
    Ok((leaf.pem(), key.serialize_pem()))
}

/// The authority's name is fixed, so that its key alone is enough to issue again.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.remove(DnType::CommonName);
    params
        .distinguished_name
        .push(DnType::CommonName, "Trilane local authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_life(&mut params, AUTHORITY_LIFE);
    params
}

/// Valid from yesterday, because clocks differ.
fn set_life(params: &mut CertificateParams, life: Duration) {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(DAY);
    params.not_after = epoch + (now + life);
}

fn tls(cause: impl ToString) -> Error {
    Error::Tls(cause.to_string())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    fn config(folder: &Path, names: &[&str]) -> Config {
        Config {
            state: Some(folder.to_owned()),
            names: names.iter().map(|&name| name.to_owned()).collect(),
            ..Config::default()
        }
    }

    #[test]
    fn the_authority_is_made_once_and_the_leaf_kept() {
        let folder = tempfile::tempdir().unwrap();
        let first = Identity::load(&config(folder.path(), &[])).unwrap();
        assert!(first.new_authority);
        let second = Identity::load(&config(folder.path(), &[])).unwrap();
        assert!(!second.new_authority);
        assert_eq!(first.key.cert, second.key.cert);
    }

    #[test]
    fn keys_are_readable_by_their_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        Identity::load(&config(folder.path(), &[])).unwrap();
        for key in [AUTHORITY_KEY, LEAF_KEY] {
            let mode = fs::metadata(folder.path().join(key)).unwrap().permissions();
            assert_eq!(mode.mode() & 0o777, 0o600, "{key}");
        }
    }

    #[test]
    fn a_missing_name_renews_the_leaf_under_the_same_authority() {
        let folder = tempfile::tempdir().unwrap();
        let first = Identity::load(&config(folder.path(), &[])).unwrap();
        let authority = fs::read(folder.path().join(AUTHORITY)).unwrap();
        let names = ["books.example", "192.0.2.7"];
        let second = Identity::load(&config(folder.path(), &names)).unwrap();
        assert_ne!(first.key.cert, second.key.cert);
        assert!(!second.new_authority);
        assert_eq!(authority, fs::read(folder.path().join(AUTHORITY)).unwrap());
        // The wider certificate serves the narrower wish too.
        let third = Identity::load(&config(folder.path(), &[])).unwrap();
        assert_eq!(second.key.cert, third.key.cert);
    }

    #[test]
    fn an_expiring_leaf_is_renewed() {
        let folder = tempfile::tempdir().unwrap();
        Identity::load(&config(folder.path(), &[])).unwrap();
        let key = fs::read_to_string(folder.path().join(AUTHORITY_KEY)).unwrap();
        let issuer = Issuer::new(authority_params(), KeyPair::from_pem(&key).unwrap());
        let mut params =
            CertificateParams::new(names(&config(folder.path(), &[])).unwrap()).unwrap();
        set_life(&mut params, RENEW_BEFORE - DAY);
        let leaf_key = KeyPair::generate().unwrap();
        let leaf = params.signed_by(&leaf_key, &issuer).unwrap();
        fs::write(folder.path().join(LEAF), leaf.pem()).unwrap();
        fs::write(folder.path().join(LEAF_KEY), leaf_key.serialize_pem()).unwrap();
        let renewed = Identity::load(&config(folder.path(), &[])).unwrap();
        assert_ne!(renewed.key.cert[0], *leaf.der());
        assert!(!renewed.new_authority);
    }

    #[test]
    fn damaged_files_are_replaced() {
        for damaged in [AUTHORITY, AUTHORITY_KEY, LEAF, LEAF_KEY] {
            let folder = tempfile::tempdir().unwrap();
            Identity::load(&config(folder.path(), &[])).unwrap();
            fs::write(folder.path().join(damaged), "nonsense").unwrap();
            let wider = config(folder.path(), &["healed.example"]);
            Identity::load(&wider).unwrap();
            assert!(!Identity::load(&wider).unwrap().new_authority, "{damaged}");
        }
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = Identity::load(&config(folder.path(), &["not a name"]))
            .err()
            .unwrap();
        assert!(error.to_string().contains("not a name"), "{error}");
    }

    #[test]
    fn a_certificate_of_the_user_is_used_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let made = Identity::load(&config(folder.path(), &[])).unwrap();
        let own = |chain, key| Config {
            identity: Some((folder.path().join(chain), folder.path().join(key))),
            ..Config::default()
        };
        let brought = Identity::load(&own(LEAF, LEAF_KEY)).unwrap();
        assert_eq!(brought.key.cert, made.key.cert);
        assert_eq!(brought.authority, None);
        assert!(Identity::load(&own(LEAF, AUTHORITY_KEY)).is_err());
        assert!(Identity::load(&own("missing.pem", LEAF_KEY)).is_err());
    }
}
