//! Content coding: gzip where the client takes it and it is worth it.

use std::{io::Write, sync::OnceLock};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderName, header::ACCEPT_ENCODING};

/// Below this, the coding saves nothing that a packet would notice. nginx's default is 20 bytes,
/// Apache's advice 860, Caddy's 512.
pub(crate) const MIN_LENGTH: usize = 512;

/// A text in both forms; the compressed one is made when first asked for.
pub(super) struct Text {
    plain: Bytes,
    gzip: OnceLock<Bytes>,
}

impl Text {
    pub(super) fn new(plain: impl Into<Bytes>) -> Self {
        Self {
            plain: plain.into(),
            gzip: OnceLock::new(),
        }
    }

    pub(super) fn plain(&self) -> &Bytes {
        &self.plain
    }

    pub(super) fn gzip(&self) -> &Bytes {
        self.gzip.get_or_init(|| compress(&self.plain))
    }
}

pub(super) fn compress(plain: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 2), Compression::default());
    encoder
        .write_all(plain)
        .and_then(|()| encoder.finish())
        .expect("writing to a Vec does not fail")
        .into()
}

/// Whether `accept-encoding` accepts gzip.
pub(super) fn is_accepted(fields: &HeaderMap) -> bool {
    is_accepted_by(fields, &ACCEPT_ENCODING)
}

/// RFC 9110 section 12.5.3: gzip is named, or `*` is, and its weight is not 0.
pub(crate) fn is_accepted_by(fields: &HeaderMap, name: &HeaderName) -> bool {
    let mut any = false;
    for value in fields.get_all(name) {
        let Ok(value) = value.to_str() else { continue };
        for item in value.split(',') {
            let (coding, parameters) = item.split_once(';').unwrap_or((item, ""));
            let accepted = !parameters.split(';').any(is_zero_weight);
            match coding.trim() {
                c if c.eq_ignore_ascii_case("gzip") || c.eq_ignore_ascii_case("x-gzip") => {
                    return accepted;
                }
                "*" => any = accepted,
                _ => {}
            }
        }
    }
    any
}

/// `q=0`, `q=0.0`, `q=0.000`.
fn is_zero_weight(parameter: &str) -> bool {
    parameter
        .trim()
        .to_ascii_lowercase()
        .strip_prefix("q=")
        .and_then(|weight| weight.parse::<f32>().ok())
        .is_some_and(|weight| weight == 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(value: &str) -> bool {
        let mut fields = HeaderMap::new();
        fields.insert(ACCEPT_ENCODING, value.parse().unwrap());
        is_accepted(&fields)
    }

    #[test]
    fn weights_and_wildcards_are_honoured() {
        for yes in [
            "gzip",
            "deflate, gzip;q=0.5",
            "*",
            "GZIP",
            "br;q=1.0, *;q=0.1",
        ] {
            assert!(accepted(yes), "{yes}");
        }
        for no in [
            "",
            "identity",
            "gzip;q=0",
            "gzip; q=0.000, *",
            "*;q=0",
            "gzipped",
        ] {
            assert!(!accepted(no), "{no}");
        }
        assert!(!is_accepted(&HeaderMap::new()));
    }
}
