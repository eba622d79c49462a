//! Connect's messages, errors and ends of streams.

use serde_json::{Value, json};
use trilane_transcode::{Format, connect};

use crate::answers::details;

fn parsed(content: &[u8]) -> Value {
    serde_json::from_slice(content).unwrap()
}

#[test]
fn an_error_has_a_name_and_details_without_padding() {
    let pool = crate::support::bindings();
    let bare = connect::error(5, "", b"", &pool);
    assert_eq!(bare, br#"{"code":"not_found"}"#);
    let given = details(&[
        ("t/trilane.bindings.v1.Inner", b"\x0a\x01a"),
        ("t/google.protobuf.Duration", b"\x08\x05"),
        ("type.googleapis.com/none.Such", b"\xff\x00"),
    ]);
    let wanted = json!({
        "code": "unavailable",
        "message": "a\"\n",
        "details": [
            { "type": "trilane.bindings.v1.Inner", "value": "CgFh", "debug": { "text": "a" } },
            { "type": "google.protobuf.Duration", "value": "CAU", "debug": "5s" },
            { "type": "none.Such", "value": "/wA" },
        ],
    });
    assert_eq!(parsed(&connect::error(14, "a\"\n", &given, &pool)), wanted);
    let broken = connect::error(14, "x", b"\xff", &pool);
    assert_eq!(broken, br#"{"code":"unavailable","message":"x"}"#);
}

#[test]
fn codes_have_the_names_of_connect() {
    let names = [
        "unknown",
        "canceled",
        "unknown",
        "invalid_argument",
        "deadline_exceeded",
        "not_found",
        "already_exists",
        "permission_denied",
        "resource_exhausted",
        "failed_precondition",
        "aborted",
        "out_of_range",
        "unimplemented",
        "internal",
        "unavailable",
        "data_loss",
        "unauthenticated",
        "unknown",
    ];
    for (code, name) in (0..).zip(names) {
        assert_eq!(connect::code(code), name, "{code}");
    }
}

#[test]
fn a_stream_ends_with_error_and_metadata() {
    assert_eq!(connect::end(None, []), b"{}");
    let error = br#"{"code":"internal"}"#;
    assert_eq!(
        connect::end(Some(error), []),
        br#"{"error":{"code":"internal"}}"#
    );
    let metadata = [("a", "1"), ("b", "\"2\""), ("b", "3")];
    assert_eq!(
        parsed(&connect::end(None, metadata)),
        json!({ "metadata": { "a": ["1"], "b": ["\"2\"", "3"] } })
    );
    assert_eq!(
        parsed(&connect::end(Some(error), [("a", "1")])),
        json!({ "error": { "code": "internal" }, "metadata": { "a": ["1"] } })
    );
}

#[test]
fn unknown_fields_of_json_are_passed_over() {
    let pool = crate::support::bindings();
    let inner = pool
        .get_message_by_name("trilane.bindings.v1.Inner")
        .unwrap();
    let read = |content: &[u8]| connect::read(&inner, Format::Json, content);
    let message = read(br#"{"newer": {"a": [1]}, "text": "x"}"#).unwrap();
    let mut out = Vec::new();
    connect::write(&message, Format::Json, &mut out).unwrap();
    assert_eq!(out, br#"{"text":"x"}"#);
    assert_eq!(read(b"").unwrap().fields().count(), 0);
    let problem = read(br#"{"text": 1}"#).unwrap_err();
    assert_eq!(problem.code, 3);
    assert!(problem.message.contains("text"), "{}", problem.message);
}
