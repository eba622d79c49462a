//! The fields of the opening handshake by which a server shows that it speaks WebSocket.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

/// Appended to the key before it is hashed (RFC 6455 §1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The length of a `sec-websocket-key`, in bytes.
pub const KEY_LENGTH: usize = 24;

/// The `sec-websocket-key` made of a nonce (RFC 6455 §4.1).
pub fn key(nonce: [u8; 16]) -> [u8; KEY_LENGTH] {
    let mut key = [0; KEY_LENGTH];
    let written = STANDARD.encode_slice(nonce, &mut key);
    debug_assert_eq!(written, Ok(KEY_LENGTH));
    key
}

/// The `sec-websocket-accept` by which a server answers `key` (RFC 6455 §4.2.2).
pub fn accept(key: &[u8]) -> [u8; 28] {
    let digest = Sha1::new().chain_update(key).chain_update(GUID).finalize();
    let mut accept = [0; 28];
    let written = STANDARD.encode_slice(digest, &mut accept);
    debug_assert_eq!(written, Ok(accept.len()));
    accept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc() {
        // RFC 6455 §1.3.
        assert_eq!(key(*b"the sample nonce"), *b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(
            &accept(b"dGhlIHNhbXBsZSBub25jZQ=="),
            b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }
}
