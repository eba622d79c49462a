//! The certificate of a cluster: its own authority, shown and trusted by all of its processes. Who has the key belongs to
//! the cluster.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::{crypto::aws_lc_rs, sign::CertifiedKey};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use x509_parser::parse_x509_certificate;

use super::{DAY, RENEW_BEFORE, set_life, tls};
use crate::{Error, state::State};

const CERTIFICATE: &str = "cluster.pem";
const KEY: &str = "cluster-key.pem";
const LIFE: Duration = DAY.saturating_mul(365);

/// Makes a cluster's certificate, `cluster.pem`, and its key, `cluster-key.pem`, in a state folder that has none, or
/// where the one it has is no longer usable.
pub fn make_cluster_identity(folder: &Path) -> Result<(), Error> {
    let state = State::open(Some(folder))?;
    state.keep_private(KEY)?;
    let stored = state.read(CERTIFICATE)?.zip(state.read(KEY)?);
    if stored.is_some_and(|(certificate, key)| is_good(&certificate, &key)) {
        return Ok(());
    }
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "trilane cluster");
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    set_life(&mut params, LIFE);
    let key = KeyPair::generate().map_err(tls)?;
    let certificate = params.self_signed(&key).map_err(tls)?;
    state.write(KEY, 0o600, &key.serialize_pem())?;
    state.write(CERTIFICATE, 0o644, &certificate.pem())
}

/// Whether the certificate is that of the key, and will be valid for long enough.
fn is_good(certificate: &str, key: &str) -> bool {
    let read = || {
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).ok()?;
        let end = {
            let (_, parsed) = parse_x509_certificate(&certificate).ok()?;
            parsed.validity().not_after.timestamp()
        };
        CertifiedKey::from_der(vec![certificate], key, &aws_lc_rs::default_provider()).ok()?;
        u64::try_from(end).ok()
    };
    let needed = SystemTime::now() + RENEW_BEFORE;
    let needed = needed.duration_since(SystemTime::UNIX_EPOCH);
    read().is_some_and(|end| needed.is_ok_and(|needed| needed.as_secs() < end))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn it_is_made_once_for_its_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("state");
        let made = || {
            make_cluster_identity(&folder).unwrap();
            [CERTIFICATE, KEY].map(|name| fs::read(folder.join(name)).unwrap())
        };
        let first = made();
        assert_eq!(made(), first);
        let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (mode(folder.join(KEY)), mode(folder.clone())),
            (0o600, 0o700)
        );
        // A key that is not the certificate's is of no use.
        fs::write(
            folder.join(KEY),
            KeyPair::generate().unwrap().serialize_pem(),
        )
        .unwrap();
        assert_ne!(made(), first);
    }

    #[test]
    fn one_that_ends_soon_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        set_life(&mut params, RENEW_BEFORE - DAY);
        let certificate = params.self_signed(&key).unwrap().pem();
        fs::write(folder.path().join(CERTIFICATE), &certificate).unwrap();
        fs::write(folder.path().join(KEY), key.serialize_pem()).unwrap();
        make_cluster_identity(folder.path()).unwrap();
        let made = fs::read_to_string(folder.path().join(CERTIFICATE)).unwrap();
        assert_ne!(made, certificate);
    }
}
