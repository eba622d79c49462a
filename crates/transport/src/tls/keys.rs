//! The client's private key, also where it is encrypted.

use pkcs8::{EncryptedPrivateKeyInfoRef, SecretDocument};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{Error, Words};

/// What a key in PKCS #8 begins and ends with that is encrypted (RFC 7468 §11).
const BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const END: &str = "-----END ENCRYPTED PRIVATE KEY-----";
/// What a key says that OpenSSL has encrypted in its own way (RFC 1421 §4.6.1.1).
const TRADITIONAL: &str = "Proc-Type: 4,ENCRYPTED";

/// The first private key in a PEM file, decrypted by `password` where it is encrypted.
pub(super) fn private_key(
    file: &str,
    contents: &[u8],
    password: Option<&[u8]>,
    words: &Words,
) -> Result<PrivateKeyDer<'static>, Error> {
    let text = String::from_utf8_lossy(contents);
    if text.contains(TRADITIONAL) {
        return Err(Error(format!(
            "the key in {file} is encrypted in a way of OpenSSL's own: write it as PKCS #8 with 'openssl pkcs8 -topk8 -in {file} -out FILE'"
        )));
    }
    match PrivateKeyDer::from_pem_slice(contents) {
        Ok(key) => return Ok(key),
        Err(pem::Error::NoItemsFound) => (),
        Err(error) => return Err(Error(format!("{file} is not a PEM file: {error}"))),
    }
    let encrypted = text.find(BEGIN).and_then(|begin| {
        let length = text[begin..].find(END)? + END.len();
        text.get(begin..begin + length)
    });
    let Some(encrypted) = encrypted else {
        return Err(Error(format!(
            "{file} has no private key: it needs a PEM block that begins with -----BEGIN PRIVATE KEY-----"
        )));
    };
    let Some(password) = password else {
        let or = |how| format!("{how}, or ");
        let password = words.password.map(or).unwrap_or_default();
        return Err(Error(format!(
            "the key in {file} is encrypted: {password}decrypt it with 'openssl pkey -in {file} -out FILE'"
        )));
    };
    decrypted(encrypted, password)
        .map_err(|error| Error(format!("the key in {file} cannot be decrypted: {error}")))
}

fn decrypted(encrypted: &str, password: &[u8]) -> Result<PrivateKeyDer<'static>, pkcs8::Error> {
    let (_, der) = SecretDocument::from_pem(encrypted)?;
    let key = EncryptedPrivateKeyInfoRef::try_from(der.as_bytes())?.decrypt(password)?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}
