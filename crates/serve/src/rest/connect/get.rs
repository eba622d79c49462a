//! The message of a GET, in the query: `connect=v1&encoding=json&message=%7B%7D`.

use std::borrow::Cow;

use base64::{
    Engine,
    alphabet::URL_SAFE,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use tonic::Status;
use trilane_transcode::Format;

use super::{super::answer::Refusal, gunzip};
use crate::value::query;

/// Padding may be left out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The message, of at most so many bytes, and what it is written in.
pub(super) fn message(asked: Option<&str>, most: usize) -> Result<(Format, Bytes), Refusal> {
    let parameter = |name| query(asked, name).map(decoded);
    let wrong = |text: String| Err(Refusal::of(Status::invalid_argument(text)));
    let shown = |value: &[u8]| -> String {
        let value = String::from_utf8_lossy(value);
        format!("{:?}", value.chars().take(50).collect::<String>())
    };
    if let Some(version) = parameter("connect")
        && *version != *b"v1"
    {
        return wrong(format!(
            "query parameter connect is {}; v1 is the one version",
            shown(&version)
        ));
    }
    let format = match parameter("encoding").as_deref() {
        Some(b"json") => Format::Json,
        Some(b"proto") => Format::Protobuf,
        Some(other) => {
            let text = format!(
                "query parameter encoding is {}; type json or proto",
                shown(other)
            );
            let status = Status::unknown(text);
            return Err(Refusal::new(
                http::StatusCode::UNSUPPORTED_MEDIA_TYPE,
                status,
            ));
        }
        None => return wrong("query parameter encoding is missing: type json or proto".into()),
    };
    let Some(message) = parameter("message") else {
        return wrong("query parameter message is missing".into());
    };
    let message = match parameter("base64").as_deref() {
        None | Some(b"0" | b"") => Bytes::from(message.into_owned()),
        Some(b"1") => match BASE64.decode(&*message) {
            Ok(message) => message.into(),
            Err(error) => {
                return wrong(format!(
                    "query parameter message is no URL-safe base64: {error}"
                ));
            }
        },
        Some(other) => {
            return wrong(format!(
                "query parameter base64 is {}; 1 is the one value",
                shown(other)
            ));
        }
    };
    match parameter("compression").as_deref() {
        None | Some(b"identity" | b"") => Ok((format, message)),
        Some(b"gzip") if message.is_empty() => Ok((format, message)),
        Some(b"gzip") => Ok((format, gunzip(&message, most)?)),
        Some(other) => Err(Refusal::of(Status::unimplemented(format!(
            "query parameter compression is {}; supported are gzip and identity",
            shown(other)
        )))),
    }
}

/// Decodes a value of `application/x-www-form-urlencoded`; it need not be text.
fn decoded(text: &str) -> Cow<'_, [u8]> {
    match text.contains('+') {
        true => Cow::Owned(percent_decode_str(&text.replace('+', " ")).collect()),
        false => percent_decode_str(text).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Most bytes of a message.
    const MOST: usize = 1000;

    fn found(query: &str) -> (Format, Bytes) {
        message(Some(query), MOST).unwrap_or_else(|refusal| panic!("{query}: {}", refusal.status()))
    }

    #[test]
    fn the_message_is_text_or_base64() {
        let json = (Format::Json, Bytes::from_static(br#"{"a": "b c"}"#));
        for query in [
            "connect=v1&encoding=json&message=%7B%22a%22%3A+%22b%20c%22%7D",
            "message=eyJhIjogImIgYyJ9&base64=1&encoding=json",
        ] {
            assert_eq!(found(query), json, "{query}");
        }
        let binary = (Format::Protobuf, Bytes::from_static(b"\xfb\xff\xfe"));
        for query in [
            "encoding=proto&message=%FB%FF%fe&compression=identity",
            "encoding=proto&message=-__-&base64=1",
        ] {
            assert_eq!(found(query), binary, "{query}");
        }
        let padded = (Format::Protobuf, Bytes::from_static(b"\xfb"));
        for query in [
            "encoding=proto&message=-w&base64=1",
            "encoding=proto&message=-w%3D%3D&base64=1",
        ] {
            assert_eq!(found(query), padded, "{query}");
        }
        let empty = found("connect=v1&encoding=proto&message=");
        assert_eq!(empty, (Format::Protobuf, Bytes::new()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (query, word) in [
            ("connect=v2&encoding=json&message=", "connect is \"v2\""),
            ("connect=v1&message=", "encoding is missing"),
            ("encoding=xml&message=", "encoding is \"xml\""),
            ("encoding=json", "message is missing"),
            ("encoding=json&message=%&base64=1", "base64"),
            ("encoding=json&message=&base64=2", "base64 is \"2\""),
            (
                "encoding=json&message=a&compression=br",
                "compression is \"br\"",
            ),
            ("encoding=json&message=a&compression=gzip", "gzip"),
        ] {
            let refusal = message(Some(query), MOST).unwrap_err();
            let text = refusal.status().message();
            assert!(text.contains(word), "{query}: {text}");
        }
    }
}
