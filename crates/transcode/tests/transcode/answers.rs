//! Media types and errors.

use prost_reflect::DescriptorPool;
use trilane_transcode::{Format, http_status, status_content};

#[test]
fn a_media_type_says_the_format() {
    let cases = [
        ("application/json", Some(Format::Json)),
        ("Application/JSON ; charset=utf-8", Some(Format::Json)),
        ("application/protobuf", Some(Format::Protobuf)),
        ("application/x-protobuf", Some(Format::Protobuf)),
        (
            "application/vnd.google.protobuf;messageType=x",
            Some(Format::Protobuf),
        ),
        ("application/x-ndjson", None),
        ("application/grpc", None),
        ("text/json", None),
        ("", None),
    ];
    for (value, wanted) in cases {
        assert_eq!(Format::of_media_type(value), wanted, "{value}");
    }
    for format in [Format::Json, Format::Protobuf] {
        assert_eq!(Format::of_media_type(format.media_type()), Some(format));
    }
}

#[test]
fn accept_is_weighed() {
    let cases = [
        ("", Some(Format::Json)),
        ("*/*", Some(Format::Json)),
        ("application/*", Some(Format::Json)),
        ("application/json", Some(Format::Json)),
        ("application/protobuf", Some(Format::Protobuf)),
        ("application/x-protobuf, */*", Some(Format::Protobuf)),
        ("*/*, application/json", Some(Format::Json)),
        ("application/json, application/protobuf", Some(Format::Json)),
        ("application/protobuf, application/json", Some(Format::Json)),
        (
            "application/json;q=0.5, application/protobuf",
            Some(Format::Protobuf),
        ),
        (
            "application/json;q=0.5, application/protobuf;q=0.4",
            Some(Format::Json),
        ),
        (
            "application/json; Q=0.001,application/protobuf ;q=0.01",
            Some(Format::Protobuf),
        ),
        ("application/json;q=0, */*", Some(Format::Protobuf)),
        ("application/json;q=0, application/protobuf;q=0", None),
        ("application/json;q=2", None),
        ("application/json;q=NaN", None),
        ("*/*;q=0", None),
        ("application/*;q=0, application/json", Some(Format::Json)),
        (
            "application/x-protobuf;q=0.1, application/protobuf;q=0.9, */*;q=0.5",
            Some(Format::Protobuf),
        ),
        (
            "text/html, application/xhtml+xml, */*;q=0.8",
            Some(Format::Json),
        ),
        ("text/html", None),
        ("text/event-stream", None),
        (",,;,", None),
    ];
    for (value, wanted) in cases {
        assert_eq!(Format::accept(value), wanted, "{value}");
    }
}

#[test]
fn codes_have_a_status() {
    let wanted = [
        200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401, 500,
    ];
    for (code, status) in (0..).zip(wanted) {
        assert_eq!(http_status(code), status, "{code}");
    }
    assert_eq!(http_status(u32::MAX), 500);
}

/// A `google.rpc.Status` with these details.
pub(crate) fn details(details: &[(&str, &[u8])]) -> Vec<u8> {
    let mut status = Vec::new();
    prost::encoding::int32::encode(1, &5, &mut status);
    for (type_url, value) in details {
        let mut any = Vec::new();
        prost::encoding::string::encode(1, &(*type_url).to_owned(), &mut any);
        prost::encoding::bytes::encode(2, &value.to_vec(), &mut any);
        prost::encoding::bytes::encode(3, &any, &mut status);
    }
    status
}

#[test]
fn an_error_is_a_status_with_its_details() {
    let pool = crate::support::bindings();
    let json = |message: &str, details: &[u8]| {
        let content = status_content(5, message, details, &pool, Format::Json);
        String::from_utf8(content).unwrap()
    };
    assert_eq!(
        json("none", b""),
        r#"{"code":5,"message":"none","details":[]}"#
    );
    assert_eq!(
        json("a\"\n", b""),
        r#"{"code":5,"message":"a\"\n","details":[]}"#
    );
    assert_eq!(
        json("none", b"\xff"),
        r#"{"code":5,"message":"none","details":[]}"#
    );
    let cases: [(&str, &[u8], &str); 7] = [
        (
            "t/trilane.bindings.v1.Inner",
            b"\x0a\x01a",
            r#"{"@type":"t/trilane.bindings.v1.Inner","text":"a"}"#,
        ),
        (
            "t/trilane.bindings.v1.Inner",
            b"",
            r#"{"@type":"t/trilane.bindings.v1.Inner"}"#,
        ),
        (
            "t/google.protobuf.Duration",
            b"\x08\x05",
            r#"{"@type":"t/google.protobuf.Duration","value":"5s"}"#,
        ),
        // Known without the pool.
        (
            "type.googleapis.com/google.rpc.ErrorInfo",
            b"\x0a\x04FULL\x12\x01d",
            r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"FULL","domain":"d"}"#,
        ),
        // Of a type that nobody knows, and of bytes that are not of the type.
        (
            "t/none.Such",
            b"\xff\x00",
            r#"{"@type":"t/none.Such","value":"/wA="}"#,
        ),
        (
            "t/trilane.bindings.v1.Inner",
            b"\xff",
            r#"{"@type":"t/trilane.bindings.v1.Inner","value":"/w=="}"#,
        ),
        ("none", b"", r#"{"@type":"none","value":""}"#),
    ];
    for (type_url, value, wanted) in cases {
        let wanted = format!(r#"{{"code":5,"message":"none","details":[{wanted}]}}"#);
        assert_eq!(json("none", &details(&[(type_url, value)])), wanted);
    }
    let two = json(
        "none",
        &details(&[cases[0], cases[4]].map(|(url, value, _)| (url, value))),
    );
    assert!(
        two.contains(r#""text":"a"},{"@type":"t/none.Such""#),
        "{two}"
    );
}

#[test]
fn an_error_may_be_binary() {
    let given = details(&[("t/none.Such", b"\xff")]);
    let content = status_content(5, "", &given, &DescriptorPool::global(), Format::Protobuf);
    assert_eq!(content, given);
}
