//! Whether a request is one of Connect, by its content type, its version and its query.

use http::{Method, header::CONTENT_TYPE, request::Parts};
use trilane_transcode::Format;

use super::VERSION;
use crate::value::query;

const STREAM_KIND: &str = "application/connect+";

/// How a request of Connect brings its messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::rest) enum Form {
    /// One as content.
    Unary(Format),
    /// In envelopes.
    Stream(Format),
    /// One in the query.
    Query,
    /// In a way that is not known here.
    Other,
}

/// Whether a request may be one of Connect. Cheap: only its fields are looked at.
pub(crate) fn is_likely(head: &Parts) -> bool {
    form(head).is_some()
}

pub(super) fn form(head: &Parts) -> Option<Form> {
    let asked = head.uri.query();
    if is_get(head) && (query(asked, "connect").is_some() || query(asked, "encoding").is_some()) {
        return Some(Form::Query);
    }
    let kind = head
        .headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .map(|kind| kind.split(';').next().unwrap_or_default().trim())
        .unwrap_or_default()
        .to_ascii_lowercase();
    let other = || head.headers.contains_key(VERSION).then_some(Form::Other);
    match kind.strip_prefix(STREAM_KIND) {
        Some("proto") => Some(Form::Stream(Format::Protobuf)),
        Some("json") => Some(Form::Stream(Format::Json)),
        Some(_) => Some(Form::Other),
        None => match kind.as_str() {
            "application/proto" => Some(Form::Unary(Format::Protobuf)),
            "application/json" => Some(Form::Unary(Format::Json)),
            _ => other(),
        },
    }
}

fn is_get(head: &Parts) -> bool {
    head.method == Method::GET || head.method == Method::HEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(method: &str, uri: &str, fields: &[(&str, &str)]) -> Parts {
        let mut builder = http::Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap().into_parts().0
    }

    #[test]
    fn the_content_type_tells_connect() {
        let version = ("connect-protocol-version", "1");
        for (method, uri, fields, expected) in [
            (
                "POST",
                "/a.B/C",
                &[("content-type", "application/proto")][..],
                Some(Form::Unary(Format::Protobuf)),
            ),
            (
                "POST",
                "/a.B/C",
                &[("content-type", "Application/JSON; charset=utf-8")],
                Some(Form::Unary(Format::Json)),
            ),
            (
                "POST",
                "/a.B/C",
                &[("content-type", "application/connect+json")],
                Some(Form::Stream(Format::Json)),
            ),
            (
                "POST",
                "/a.B/C",
                &[("content-type", "application/connect+proto")],
                Some(Form::Stream(Format::Protobuf)),
            ),
            (
                "POST",
                "/a.B/C",
                &[("content-type", "application/connect+thrift")],
                Some(Form::Other),
            ),
            (
                "POST",
                "/a.B/C",
                &[("content-type", "application/thrift"), version],
                Some(Form::Other),
            ),
            (
                "POST",
                "/a.B/C",
                &[("content-type", "application/thrift")],
                None,
            ),
            (
                "POST",
                "/a.B/C",
                &[("content-type", "application/protobuf")],
                None,
            ),
            ("POST", "/a.B/C?connect=v1", &[], None),
            (
                "GET",
                "/a.B/C?encoding=json&message=",
                &[],
                Some(Form::Query),
            ),
            ("HEAD", "/a.B/C?connect=v1", &[], Some(Form::Query)),
            ("GET", "/a.B/C", &[], None),
        ] {
            assert_eq!(
                form(&head(method, uri, fields)),
                expected,
                "{method} {uri} {fields:?}"
            );
        }
    }
}
