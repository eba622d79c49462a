//! The status of a call, as its response has it.

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use http::HeaderMap;
use percent_encoding::percent_decode;
use tonic::{Code, Status};

const DETAILS: &str = "grpc-status-details-bin";
/// As gRPC has it: padding may be left out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The status that trailers have, or the head of a response without content.
///
/// Of a server that is not ours: where its text or its details are damaged, its code still counts. (tonic's own
/// reading makes such a text UNKNOWN, and panics at such details.) The rest of the fields stays out of it.
pub(crate) fn status_of(fields: &HeaderMap) -> Option<Status> {
    let code = Code::from_bytes(fields.get("grpc-status")?.as_bytes());
    let message = fields.get("grpc-message").map(|text| {
        let text = percent_decode(text.as_bytes()).decode_utf8_lossy();
        text.into_owned()
    });
    let details = fields
        .get(DETAILS)
        .and_then(|details| BASE64.decode(details).ok());
    let (message, details) = (message.unwrap_or_default(), details.unwrap_or_default());
    Some(Status::with_details(code, message, details.into()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn details_that_are_no_base64_are_left_out() {
        let mut fields = HeaderMap::new();
        assert!(status_of(&fields).is_none());
        fields.insert("grpc-status", HeaderValue::from_static("5"));
        for (details, expected) in [("CAU", &b"\x08\x05"[..]), ("CAU=", b"\x08\x05"), ("!", b"")] {
            fields.insert(DETAILS, HeaderValue::from_static(details));
            let status = status_of(&fields).unwrap();
            assert_eq!(
                (status.code(), status.details()),
                (Code::NotFound, expected)
            );
        }
    }

    #[test]
    fn a_text_that_is_not_utf8_leaves_the_code_as_it_is() {
        let mut fields = HeaderMap::new();
        fields.insert("grpc-status", HeaderValue::from_static("7"));
        for (text, expected) in [
            (&b"caf%C3%A9"[..], "caf\u{e9}"),
            (b"caf%E9 closed", "caf\u{fffd} closed"),
            (b"caf\xe9", "caf\u{fffd}"),
            (b"100%", "100%"),
        ] {
            fields.insert("grpc-message", HeaderValue::from_bytes(text).unwrap());
            let status = status_of(&fields).unwrap();
            assert_eq!(status.code(), Code::PermissionDenied);
            assert_eq!(status.message(), expected);
        }
    }
}
