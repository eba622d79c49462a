//! `grpc-encoding: gzip`.

use std::fmt;
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

/// Why a message cannot be decompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GzipError {
    /// It is not gzip, or cut, or its checksum is wrong.
    Broken(String),
    /// It expands to more than this many bytes.
    Limit(usize),
}

impl fmt::Display for GzipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GzipError::Broken(reason) => write!(f, "a message is not valid gzip: {reason}"),
            GzipError::Limit(limit) => {
                write!(f, "a message expands to more than {limit} bytes")
            }
        }
    }
}

impl std::error::Error for GzipError {}

/// Compresses a message.
pub fn compress(message: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder
        .write_all(message)
        .and_then(|()| encoder.finish())
        .expect("a write to memory cannot fail")
}

/// Decompresses a message of at most `limit` bytes.
pub fn decompress(message: &[u8], limit: usize) -> Result<Vec<u8>, GzipError> {
    let mut whole = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    MultiGzDecoder::new(message)
        .take(most)
        .read_to_end(&mut whole)
        .map_err(|error| GzipError::Broken(error.to_string()))?;
    if whole.len() > limit {
        return Err(GzipError::Limit(limit));
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_expands_too_much_is_refused() {
        let bomb = compress(&vec![0; 1 << 20]);
        assert!(bomb.len() < 2000);
        assert_eq!(decompress(&bomb, 1 << 20).unwrap().len(), 1 << 20);
        let error = decompress(&bomb, (1 << 20) - 1).unwrap_err();
        assert_eq!(error, GzipError::Limit((1 << 20) - 1));
    }

    #[test]
    fn broken_messages_are_refused() {
        let whole = compress(b"some text");
        let mut wrong = whole.clone();
        let at = wrong.len() - 5;
        wrong[at] ^= 1;
        let cut = &whole[..whole.len() - 1];
        for broken in [&b""[..], b"some text", cut, &wrong] {
            let error = decompress(broken, 100).unwrap_err();
            assert!(error.to_string().starts_with("a message is not valid gzip"));
        }
    }

    proptest! {
        #[test]
        fn messages_come_back(message in prop::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert_eq!(decompress(&compress(&message), message.len()), Ok(message));
        }
    }
}
