//! Content codings of HTTP (RFC 9110 section 8.4): gzip, in requests and in answers.

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY},
};
use tonic::Status;
use trilane_grpc::gzip::{self, GzipError};

use super::answer::{Answered, Content, Refusal};
use crate::app::{MIN_GZIP, accepts_gzip};

const GZIP: HeaderValue = HeaderValue::from_static("gzip");

/// Refuses content in any coding, where it is read piece by piece.
pub(super) fn refuse(fields: &HeaderMap) -> Result<(), Refusal> {
    match coding(fields)? {
        None => Ok(()),
        Some(()) => Err(unsupported(
            "the content of a stream has no content-encoding here",
        )),
    }
}

/// Content as it is without its coding, of at most so many bytes.
pub(super) fn decode(fields: &HeaderMap, content: Bytes, most: usize) -> Result<Bytes, Refusal> {
    if coding(fields)?.is_none() || content.is_empty() {
        return Ok(content);
    }
    match gzip::decompress(&content, most) {
        Ok(plain) => Ok(plain.into()),
        Err(GzipError::Limit(limit)) => Err(Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            Status::resource_exhausted(format!("the content expands to more than {limit} bytes")),
        )),
        Err(GzipError::Broken(reason)) => Err(Refusal::of(Status::invalid_argument(format!(
            "the content is not gzip, as content-encoding says: {reason}"
        )))),
    }
}

/// Whether the content is gzip; other codings are refused.
fn coding(fields: &HeaderMap) -> Result<Option<()>, Refusal> {
    let mut codings = fields
        .get_all(CONTENT_ENCODING)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"));
    match (codings.next(), codings.next()) {
        (None, _) => Ok(None),
        (Some(only), None)
            if only.eq_ignore_ascii_case(b"gzip") || only.eq_ignore_ascii_case(b"x-gzip") =>
        {
            Ok(Some(()))
        }
        _ => Err(unsupported("the content-encoding has to be gzip, if any")),
    }
}

/// RFC 9110 section 15.5.16: which codings there are, `accept-encoding` says.
fn unsupported(text: &str) -> Refusal {
    let status = Status::invalid_argument(text);
    Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, status).with(ACCEPT_ENCODING, GZIP)
}

/// The answer in gzip, where its content is worth that and the client takes it. Streams stay as they are:
/// their messages are to arrive as they come.
pub(super) fn encode(fields: &HeaderMap, mut answered: Answered) -> Answered {
    let Content::Bytes(plain) = answered.content() else {
        return answered;
    };
    if plain.len() < MIN_GZIP {
        return answered;
    }
    if accepts_gzip(fields, &ACCEPT_ENCODING) {
        let coded = gzip::compress(plain).into();
        answered = answered.coded(coded).with(CONTENT_ENCODING, GZIP);
    }
    answered.with(VARY, HeaderValue::from_static("accept-encoding"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&'static str]) -> HeaderMap {
        let mut fields = HeaderMap::new();
        for &value in values {
            fields.append(CONTENT_ENCODING, HeaderValue::from_static(value));
        }
        fields
    }

    /// Most bytes of the content.
    const MOST: usize = 100;

    #[test]
    fn gzip_is_the_only_coding() {
        let plain = Bytes::from_static(b"{}");
        let coded: Bytes = gzip::compress(&plain).into();
        for values in [&["gzip"][..], &["X-GZIP"], &["identity, gzip"]] {
            let found = decode(&of(values), coded.clone(), MOST).ok().unwrap();
            assert_eq!(found, plain, "{values:?}");
        }
        for values in [&[][..], &["identity"], &[""]] {
            let found = decode(&of(values), plain.clone(), MOST).ok().unwrap();
            assert_eq!(found, plain, "{values:?}");
        }
        for values in [&["br"][..], &["gzip", "gzip"], &["gzip, deflate"]] {
            assert!(
                decode(&of(values), coded.clone(), MOST).is_err(),
                "{values:?}"
            );
        }
        assert!(decode(&of(&["gzip"]), plain, MOST).is_err());
        let bomb = gzip::compress(&[0; MOST + 1]);
        assert!(decode(&of(&["gzip"]), bomb.into(), MOST).is_err());
    }
}
