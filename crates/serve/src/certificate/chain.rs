//! Chains of certificates as large as those of other servers.

use rcgen::{CertificateParams, CustomExtension, DnType, KeyPair};
use rustls::sign::CertifiedKey;
use rustls_pki_types::CertificateDer;

use super::tls;
use crate::Error;

/// Of an extension that nobody knows, below the private enterprise number that RFC 5612 sets aside for
/// documentation.
const PADDING: [u64; 8] = [1, 3, 6, 1, 4, 1, 32473, 1];

/// Makes the chain `size` bytes in DER, by one more certificate that no client needs for its trust.
///
/// # Errors
///
/// The chain is larger already, or so near to the size that no certificate fits in between.
pub(super) fn enlarge(key: &mut CertifiedKey, size: usize) -> Result<(), Error> {
    let own: usize = key.cert.iter().map(|each| each.len()).sum();
    let signer = KeyPair::generate().map_err(tls)?;
    let least = padded(&signer, 0)?.len();
    let Some(room) = size.checked_sub(own) else {
        return Err(Error::Config(format!(
            "--chain-size {size}: the chain has {own} bytes already"
        )));
    };
    if room == 0 {
        return Ok(());
    }
    let Some(mut padding) = room.checked_sub(least) else {
        return Err(Error::Config(format!(
            "--chain-size {size}: give {own}, which the chain has, or {} and more, as a certificate has to fit in",
            own + least + SLACK
        )));
    };
    // Lengths are written in more bytes where they are larger, and signatures are not of one length.
    for _ in 0..TRIES {
        let certificate = padded(&signer, padding)?;
        if certificate.len() == room {
            key.cert.push(certificate);
            return Ok(());
        }
        padding = (padding + room).saturating_sub(certificate.len());
    }
    Err(Error::Config(format!(
        "--chain-size {size}: no certificate of {room} bytes fits in: give {} or more",
        own + least + SLACK
    )))
}

/// Bytes that lengths and signature may take beside what is asked for.
const SLACK: usize = 16;
const TRIES: usize = 1000;

fn padded(key: &KeyPair, bytes: usize) -> Result<CertificateDer<'static>, Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.remove(DnType::CommonName);
    params
        .distinguished_name
        .push(DnType::CommonName, "trilane serve, further certificate");
    let extension = CustomExtension::from_oid_content(&PADDING, vec![0; bytes]);
    params.custom_extensions = vec![extension];
    Ok(params.self_signed(key).map_err(tls)?.der().clone())
}
