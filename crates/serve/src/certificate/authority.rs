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
use rustls::{
    CertificateError, RootCertStore, client::verify_server_cert_signed_by_trust_anchor,
    crypto::aws_lc_rs, server::ParsedCertificate,
};
use rustls_pki_types::{CertificateDer, UnixTime, pem::PemObject};

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
        let Ok(certificate) = CertificateDer::from_pem_slice(pem.as_bytes()) else {
            return Self::Unusable;
        };
        let mut roots = RootCertStore::empty();
        if roots.add(certificate.clone()).is_err() {
            return Self::Unusable;
        }
        let anchor = &roots.roots[0];
        // The name is the last, and only, part of the subject.
        if !anchor.subject.ends_with(NAME.as_bytes()) {
            return Self::Foreign;
        }
        let Some(names) = anchor.name_constraints.as_deref().and_then(further_names) else {
            return Self::Unusable;
        };
        Self::Constrained {
            names,
            is_ending: !is_valid(&certificate, RENEW_BEFORE),
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

/// Whether the certificate is valid now and after this time. The verifier looks at the dates first;
/// what else it says without roots is of no interest here.
fn is_valid(certificate: &CertificateDer<'_>, after: Duration) -> bool {
    let Ok(parsed) = ParsedCertificate::try_from(certificate) else {
        return false;
    };
    let provider = aws_lc_rs::default_provider();
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    [now, now + after].into_iter().all(|instant| {
        let verdict = verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &RootCertStore::empty(),
            &[],
            UnixTime::since_unix_epoch(instant),
            provider.signature_verification_algorithms.all,
        );
        !matches!(
            verdict,
            Err(rustls::Error::InvalidCertificate(
                CertificateError::Expired
                    | CertificateError::ExpiredContext { .. }
                    | CertificateError::NotValidYet
                    | CertificateError::NotValidYetContext { .. }
            ))
        )
    })
}

/// The names that constraints permit beside the local ones; `None` if they are not such as
/// [`make`] writes.
fn further_names(mut constraints: &[u8]) -> Option<Vec<String>> {
    const PERMITTED: u8 = 0xa0;
    const SEQUENCE: u8 = 0x30;
    const DNS_NAME: u8 = 0x82;
    let (PERMITTED, mut subtrees) = element(&mut constraints)? else {
        return None;
    };
    let mut names = Vec::new();
    while !subtrees.is_empty() {
        let (SEQUENCE, mut subtree) = element(&mut subtrees)? else {
            return None;
        };
        let (DNS_NAME, name) = element(&mut subtree)? else {
            return None;
        };
        let name = String::from_utf8(name.to_vec()).ok()?;
        if !is_free(&name) {
            names.push(name);
        }
    }
    Some(names)
}

/// The tag and the content of the next DER element.
fn element<'a>(input: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&[tag, first], rest) = input.split_first_chunk()?;
    // X.690 section 8.1.3.5: above 127, the number of bytes that hold the length.
    let (length, rest) = match usize::from(first) {
        length @ 0..128 => (length, rest),
        long => {
            let (bytes, rest) = rest.split_at_checked(long - 128)?;
            let length = bytes.iter().try_fold(0_u32, |sum, &byte| {
                Some(sum.checked_mul(256)? | u32::from(byte))
            })?;
            (usize::try_from(length).ok()?, rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    *input = rest;
    Some((tag, content))
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
        for constraints in [
            &[][..],
            &[0xa0],
            &[0xa0, 0x02, 0x30],
            &[0xa0, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[0xa0, 0x86, 1, 1, 1, 1, 1, 1],
            &[0xa1, 0x00],
            &[0xa0, 0x02, 0x31, 0x00],
            &[0xa0, 0x04, 0x30, 0x02, 0x87, 0x00],
            &[0xa0, 0x05, 0x30, 0x03, 0x82, 0x01, 0xff],
        ] {
            assert_eq!(further_names(constraints), None, "{constraints:?}");
        }
    }
}
