//! The authority's own certificate: for which names it may sign, and how long.
//!
//! Who trusts it should not have to trust it, or who steals its key, with the rest of the web. So
//! it may sign for `localhost` and for the names that it was asked for, and for no other (RFC 5280
//! section 4.2.1.10). Addresses are free: BoringSSL, and with it gRPC, refuses all certificates for
//! addresses from an authority that is constrained to some ("unsupported name constraint type").

use std::{
    net::IpAddr,
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, GeneralSubtree, IsCa, KeyPair, KeyUsagePurpose,
    NameConstraints,
};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use x509_parser::{
    certificate::X509Certificate, extensions::GeneralName, parse_x509_certificate, time::ASN1Time,
};

use super::{DAY, set_life, tls};
use crate::Error;

const NAME: &str = "Trilane local authority";
pub(super) const LIFE: Duration = DAY.saturating_mul(365);
/// A third of its life, and longer than a leaf's, which therefore never outlives it.
const RENEW_BEFORE: Duration = DAY.saturating_mul(122);

/// `localhost` and all below it. A further name covers what is below it, too: constraints cannot
/// be narrower.
const LOCAL_NAME: &str = "localhost";

/// What a stored authority is good for.
pub(super) enum Stored {
    /// Not made here, and used as long as it works.
    Foreign,
    /// May sign for these names beside local ones and addresses.
    Constrained { names: Vec<String>, is_ending: bool },
    /// Damaged, or made before authorities were constrained: its key must not sign any more.
    Unusable,
}

impl Stored {
    pub(super) fn read(pem: &str) -> Self {
        let Ok(der) = CertificateDer::from_pem_slice(pem.as_bytes()) else {
            return Self::Unusable;
        };
        let Ok((_, certificate)) = parse_x509_certificate(&der) else {
            return Self::Unusable;
        };
        let mut names = certificate.subject().iter_common_name();
        if !names.any(|name| name.as_str().is_ok_and(|name| name == NAME)) {
            return Self::Foreign;
        }
        match further_names(&certificate) {
            Some(names) => Self::Constrained {
                names,
                is_ending: !is_valid(&certificate, RENEW_BEFORE),
            },
            None => Self::Unusable,
        }
    }
}

/// The certificate, PEM, of an authority that may sign for these names and the local ones.
pub(super) fn make(key: &KeyPair, names: &[String], life: Duration) -> Result<String, Error> {
    let mut params = params();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    // No extended key usage: qh3, and with it Niquests, takes no authority that has one.
    let further = names.iter().filter(|name| !is_free(name)).cloned();
    let permitted_subtrees = [LOCAL_NAME.to_owned()].into_iter().chain(further);
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: permitted_subtrees.map(GeneralSubtree::DnsName).collect(),
        excluded_subtrees: Vec::new(),
    });
    set_life(&mut params, life);
    Ok(params.self_signed(key).map_err(tls)?.pem())
}

/// As much of the authority as its leaves need: its name is fixed, so that its key alone is enough
/// to issue again.
pub(super) fn params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, NAME);
    params
}

/// Whether a name, or an address, is among those that every authority may sign for.
fn is_free(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok() || name == LOCAL_NAME || name.ends_with(".localhost")
}

/// Whether the certificate is valid now and after this time.
fn is_valid(certificate: &X509Certificate<'_>, after: Duration) -> bool {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    [now, now + after].into_iter().all(|instant| {
        i64::try_from(instant.as_secs())
            .ok()
            .and_then(|seconds| ASN1Time::from_timestamp(seconds).ok())
            .is_some_and(|instant| certificate.validity().is_valid_at(instant))
    })
}

/// The names that a certificate may sign for beside the local ones; `None` if its constraints are
/// not such as [`make`] writes.
fn further_names(certificate: &X509Certificate<'_>) -> Option<Vec<String>> {
    let constraints = certificate.name_constraints().ok()??.value;
    let permitted = constraints.permitted_subtrees.as_ref()?;
    let names = permitted.iter().map(|subtree| match subtree.base {
        GeneralName::DNSName(name) => Some(name),
        _ => None,
    });
    let names: Vec<_> = names.collect::<Option<_>>()?;
    let further = names.into_iter().filter(|name| !is_free(name));
    Some(further.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[&str]) -> Vec<String> {
        of.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn what_it_may_sign_for_is_read_back() {
        let key = KeyPair::generate().unwrap();
        let many: Vec<_> = (0..300).map(|n| format!("n{n}.example")).collect();
        for further in [&[][..], &names(&["films.example", "books.example"]), &many] {
            let local = names(&["localhost", "a.localhost", "192.0.2.7", "::1"]);
            let pem = make(&key, &[&local, further].concat(), LIFE).unwrap();
            let Stored::Constrained { names, is_ending } = Stored::read(&pem) else {
                panic!("unusable");
            };
            assert_eq!((names.as_slice(), is_ending), (further, false));
        }
    }

    #[test]
    fn what_is_not_such_a_certificate_is_unusable() {
        assert!(matches!(Stored::read("nonsense"), Stored::Unusable));
        let key = KeyPair::generate().unwrap();
        let read =
            |params: CertificateParams| Stored::read(&params.self_signed(&key).unwrap().pem());
        assert!(matches!(read(params()), Stored::Unusable), "no constraints");
        let mut other = params();
        other.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        other.name_constraints = Some(NameConstraints {
            permitted_subtrees: vec![GeneralSubtree::Rfc822Name("a.example".into())],
            excluded_subtrees: Vec::new(),
        });
        assert!(matches!(read(other), Stored::Unusable), "for mail");
        assert!(matches!(
            read(CertificateParams::default()),
            Stored::Foreign
        ));
    }
}
