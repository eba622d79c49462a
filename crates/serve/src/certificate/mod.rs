//! The local certificate authority and the server's own certificate.
//!
//! Both live in the state folder and are kept from start to start, so that trusting the authority
//! is enough for most of its life. A stored certificate is used only if a client that trusts the
//! authority would accept it, for every name, also in [`RENEW_BEFORE`]; that one check covers
//! expiry, missing names, a replaced authority and damaged files.
//!
//! An authority whose life is ending, or that may not sign for a name, is made anew with the same
//! key and name: until the old one expires, who trusts it trusts what the new one signs.

mod authority;
mod chain;
mod cluster;

use std::{
    collections::BTreeSet,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::aws_lc_rs,
    sign::CertifiedKey,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject};
use x509_parser::{extensions::GeneralName, parse_x509_certificate};

use self::authority::Stored;
pub use self::cluster::make_cluster_identity;
use crate::{Config, Error, state::State};

const AUTHORITY: &str = "ca.pem";
const AUTHORITY_KEY: &str = "ca-key.pem";
const LEAF: &str = "cert.pem";
const LEAF_KEY: &str = "key.pem";

const DAY: Duration = Duration::from_secs(24 * 3600);
const LEAF_LIFE: Duration = DAY.saturating_mul(90);
/// A third of it.
const RENEW_BEFORE: Duration = DAY.saturating_mul(30);

/// What the server shows to its clients.
pub(crate) struct Identity {
    pub(crate) key: Arc<CertifiedKey>,
    /// The authority to trust; `None` with a certificate that the user brought.
    pub(crate) authority: Option<PathBuf>,
    /// The authority was made just now, so nobody trusts it yet.
    pub(crate) new_authority: bool,
    /// It takes the place of another.
    pub(crate) replaced_authority: bool,
}

impl Identity {
    pub(crate) fn load(config: &Config) -> Result<Self, Error> {
        let mut identity = match &config.identity {
            Some((chain, key)) => Self::brought(chain, key)?,
            None => Self::local(&State::open(config.state.as_deref())?, &names(config)?)?,
        };
        if let Some(size) = config.chain_size {
            let mut key = CertifiedKey::clone(&identity.key);
            chain::enlarge(&mut key, size)?;
            identity.key = Arc::new(key);
        }
        Ok(identity)
    }

    /// Names of hosts that the certificate is for, of which one may begin with `*.`.
    pub(crate) fn names(&self) -> Vec<String> {
        let leaf = self.key.cert.first();
        let parsed = leaf.and_then(|leaf| parse_x509_certificate(leaf).ok());
        let Some((_, certificate)) = parsed else {
            return Vec::new();
        };
        let Ok(Some(names)) = certificate.subject_alternative_name() else {
            return Vec::new();
        };
        let names = names.value.general_names.iter();
        names
            .filter_map(|name| match name {
                GeneralName::DNSName(name) => Some((*name).to_owned()),
                _ => None,
            })
            .collect()
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
            replaced_authority: false,
        })
    }

    fn local(state: &State, names: &[String]) -> Result<Self, Error> {
        let identity = |key, new_authority, replaced_authority| Self {
            key: Arc::new(key),
            authority: Some(state.path(AUTHORITY)),
            new_authority,
            replaced_authority,
        };
        state.keep_private(AUTHORITY_KEY)?;
        state.keep_private(LEAF_KEY)?;
        let stored = state.read(AUTHORITY)?;
        let is_replaced = stored.is_some();
        let mut kept_key = None;
        let mut permitted = names.to_vec();
        if let Some(authority) = stored {
            let key = state.read(AUTHORITY_KEY)?;
            let key = key.and_then(|key| KeyPair::from_pem(&key).ok());
            let leaf = state.read(LEAF)?.zip(state.read(LEAF_KEY)?);
            let leaf = || leaf.and_then(|(leaf, key)| accept(&authority, &leaf, &key, names));
            match Stored::read(&authority) {
                Stored::Foreign => {
                    if let Some(certified) = leaf() {
                        return Ok(identity(certified, false, false));
                    }
                }
                Stored::Constrained {
                    names: further,
                    is_ending,
                } => {
                    if !is_ending && let Some(certified) = leaf() {
                        return Ok(identity(certified, false, false));
                    }
                    // All that it was ever asked for, because other servers may share it.
                    permitted.retain(|name| !further.contains(name));
                    permitted.extend(further);
                    if !is_ending
                        && let Some(key) = &key
                        && let Some(certified) = renew(state, &authority, key, &permitted)?
                    {
                        return Ok(identity(certified, false, false));
                    }
                    kept_key = key;
                }
                Stored::Unusable => {}
            }
        }
        let key = match kept_key {
            Some(key) => key,
            None => KeyPair::generate().map_err(tls)?,
        };
        let authority = authority::make(&key, &permitted, authority::LIFE)?;
        state.write(AUTHORITY_KEY, 0o600, &key.serialize_pem())?;
        state.write(AUTHORITY, 0o644, &authority)?;
        let certified = renew(state, &authority, &key, &permitted)?.ok_or_else(|| {
            Error::Tls("the certificate just made is not acceptable; is the clock right?".into())
        })?;
        Ok(identity(certified, true, is_replaced))
    }
}

/// Issues a leaf and stores it, if a client trusting `authority` would accept it.
fn renew(
    state: &State,
    authority: &str,
    authority_key: &KeyPair,
    names: &[String],
) -> Result<Option<CertifiedKey>, Error> {
    let (leaf, key) = issue(authority_key, names)?;
    let certified = accept(authority, &leaf, &key, names);
    if certified.is_some() {
        state.write(LEAF_KEY, 0o600, &key)?;
        state.write(LEAF, 0o644, &leaf)?;
    }
    Ok(certified)
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
        if let Ok(address) = name.parse::<IpAddr>() {
            names.insert(address.to_string());
        } else if ServerName::try_from(name.as_str()).is_ok() {
            names.insert(name.clone());
        } else {
            return Err(Error::Config(format!(
                "--name {name:?} is neither a host name nor an IP address"
            )));
        }
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
fn issue(authority_key: &KeyPair, names: &[String]) -> Result<(String, String), Error> {
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
    let issuer = Issuer::new(authority::params(), authority_key);
    let leaf = params.signed_by(&key, &issuer).map_err(tls)?;
    Ok((leaf.pem(), key.serialize_pem()))
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
    use std::{fs, os::unix::fs::PermissionsExt, process::Command};

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
    fn a_name_that_needs_no_constraint_renews_the_leaf_under_the_same_authority() {
        let folder = tempfile::tempdir().unwrap();
        let first = Identity::load(&config(folder.path(), &[])).unwrap();
        let authority = fs::read(folder.path().join(AUTHORITY)).unwrap();
        let names = ["books.localhost", "192.0.2.7"];
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
        let issuer = Issuer::new(authority::params(), KeyPair::from_pem(&key).unwrap());
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

    /// The stored authority and leaf, PEM.
    fn stored(folder: &Path) -> (String, String, String) {
        let read = |name| fs::read_to_string(folder.join(name)).unwrap();
        (read(AUTHORITY), read(AUTHORITY_KEY), read(LEAF))
    }

    /// Whether who trusts that authority accepts the stored leaf for that name.
    fn is_trusted(authority: &str, folder: &Path, name: &str) -> bool {
        let key = fs::read_to_string(folder.join(LEAF_KEY)).unwrap();
        accept(authority, &stored(folder).2, &key, &[name.to_owned()]).is_some()
    }

    #[test]
    fn a_further_name_makes_an_authority_that_may_sign_for_it_and_all_before() {
        let folder = tempfile::tempdir().unwrap();
        let load = |names: &[&str]| Identity::load(&config(folder.path(), names)).unwrap();
        assert!(load(&["films.example"]).new_authority);
        let (old, old_key, _) = stored(folder.path());
        let wider = load(&["books.example"]);
        assert!(wider.new_authority && wider.replaced_authority);
        let (new, new_key, _) = stored(folder.path());
        assert_eq!(old_key, new_key);
        for name in ["books.example", "films.example", "localhost", "::1"] {
            assert!(is_trusted(&new, folder.path(), name), "{name}");
        }
        assert!(!is_trusted(&old, folder.path(), "books.example"));
        for names in [&["films.example"][..], &["books.example"], &[]] {
            assert_eq!(load(names).key.cert, wider.key.cert);
        }
    }

    #[test]
    fn an_ending_authority_is_renewed_for_those_who_trust_it() {
        let folder = tempfile::tempdir().unwrap();
        Identity::load(&config(folder.path(), &[])).unwrap();
        let (_, key, _) = stored(folder.path());
        let key = KeyPair::from_pem(&key).unwrap();
        let old = authority::make(&key, &[], DAY * 100).unwrap();
        fs::write(folder.path().join(AUTHORITY), &old).unwrap();
        let renewed = Identity::load(&config(folder.path(), &[])).unwrap();
        assert!(renewed.new_authority && renewed.replaced_authority);
        let (new, _, _) = stored(folder.path());
        assert_ne!(old, new);
        for authority in [&old, &new] {
            assert!(is_trusted(authority, folder.path(), "localhost"));
        }
        assert!(
            !Identity::load(&config(folder.path(), &[]))
                .unwrap()
                .new_authority
        );
    }

    #[test]
    fn an_authority_without_constraints_is_replaced_and_its_key_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        Identity::load(&config(folder.path(), &[])).unwrap();
        let (_, old_key, _) = stored(folder.path());
        let mut params = authority::params();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
        set_life(&mut params, DAY * 3650);
        let key = KeyPair::from_pem(&old_key).unwrap();
        let old = params.self_signed(&key).unwrap().pem();
        fs::write(folder.path().join(AUTHORITY), &old).unwrap();
        let made = Identity::load(&config(folder.path(), &[])).unwrap();
        assert!(made.new_authority && made.replaced_authority);
        assert_ne!(stored(folder.path()).1, old_key);
        assert!(!is_trusted(&old, folder.path(), "localhost"));
    }

    #[test]
    fn an_authority_of_the_user_is_used_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        Identity::load(&config(folder.path(), &[])).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let own = params.self_signed(&key).unwrap();
        let mut leaf = CertificateParams::new(names(&config(folder.path(), &[])).unwrap()).unwrap();
        set_life(&mut leaf, LEAF_LIFE);
        let leaf_key = KeyPair::generate().unwrap();
        let leaf = leaf
            .signed_by(&leaf_key, &Issuer::new(params, &key))
            .unwrap();
        for (name, text) in [
            (AUTHORITY, own.pem()),
            (LEAF, leaf.pem()),
            (LEAF_KEY, leaf_key.serialize_pem()),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let brought = Identity::load(&config(folder.path(), &[])).unwrap();
        assert!(!brought.new_authority);
        assert_eq!(brought.key.cert[0], *leaf.der());
    }

    #[test]
    fn the_key_signs_for_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        Identity::load(&config(folder.path(), &["books.example"])).unwrap();
        let (authority, key, _) = stored(folder.path());
        let key = KeyPair::from_pem(&key).unwrap();
        for (name, good) in [
            ("localhost", true),
            ("a.localhost", true),
            ("192.0.2.7", true),
            ("::1", true),
            ("books.example", true),
            ("localhost.example", false),
            ("example", false),
            ("films.example", false),
        ] {
            let names = [name.to_owned()];
            let (leaf, leaf_key) = issue(&key, &names).unwrap();
            let accepted = accept(&authority, &leaf, &leaf_key, &names).is_some();
            assert_eq!(accepted, good, "{name}: webpki");
            let file = folder.path().join("leaf.pem");
            fs::write(&file, leaf).unwrap();
            let openssl = Command::new("openssl")
                .args(["verify", "-x509_strict", "-purpose", "sslserver", "-CAfile"])
                .arg(folder.path().join(AUTHORITY))
                .arg(file)
                .output();
            match openssl {
                Ok(said) => assert_eq!(said.status.success(), good, "{name}: {said:?}"),
                Err(error) => {
                    assert!(std::env::var_os("CI").is_none(), "no openssl: {error}");
                    println!("skipped: openssl cannot be run: {error}");
                }
            }
        }
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
