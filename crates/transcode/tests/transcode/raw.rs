//! `google.api.HttpBody`: content as it is.

use prost_reflect::DynamicMessage;
use trilane_transcode::{Found, Match, Router};

use crate::support;

fn found(router: &Router, method: &str, path: &str) -> Match {
    match router.find(method, path) {
        Found::Match(found) => found,
        other => panic!("{path}: {other:?}"),
    }
}

fn json(message: &DynamicMessage) -> serde_json::Value {
    serde_json::to_value(message).unwrap()
}

#[test]
fn content_is_the_message_or_a_field_of_it() {
    let router = Router::new(&support::bindings()).unwrap();
    let whole = found(&router, "POST", "/v1/raw");
    assert!(whole.binding.takes_raw() && whole.binding.gives_raw());
    let message = whole.raw(None, "a/b", b"\xff\0"[..].into()).unwrap();
    assert_eq!(
        json(&message),
        serde_json::json!({"contentType": "a/b", "data": "/wA="})
    );
    let field = found(&router, "POST", "/v1/raw/n");
    assert!(field.binding.takes_raw() && field.binding.gives_raw());
    let message = field.raw(Some("title=T"), "", b"x"[..].into()).unwrap();
    assert_eq!(
        json(&message),
        serde_json::json!({"name": "n", "title": "T", "file": {"data": "eA=="}})
    );
    let answer = field.binding.raw_response(&message).unwrap();
    assert_eq!((&*answer.content_type, &answer.data[..]), ("", &b"x"[..]));
}

#[test]
fn pieces_behind_the_first_hold_data_alone() {
    let router = Router::new(&support::bindings()).unwrap();
    let field = found(&router, "POST", "/v1/raw/n");
    let piece = field.raw_piece(b"x"[..].into());
    assert_eq!(json(&piece), serde_json::json!({"file": {"data": "eA=="}}));
}

#[test]
fn the_query_is_as_strict_as_elsewhere() {
    let router = Router::new(&support::bindings()).unwrap();
    let field = found(&router, "POST", "/v1/raw/n");
    for query in ["file.data=eA==", "name=x", "other=1"] {
        let problem = field.raw(Some(query), "a/b", b""[..].into()).unwrap_err();
        assert_eq!(problem.code, 3, "{query}");
    }
}

#[test]
fn other_messages_are_not_raw() {
    let router = Router::new(&support::bindings()).unwrap();
    for (method, path) in [
        ("GET", "/v1/query"),
        ("POST", "/v1/whole"),
        ("POST", "/v1/response/inner"),
    ] {
        let found = found(&router, method, path);
        assert!(
            !found.binding.takes_raw() && !found.binding.gives_raw(),
            "{path}"
        );
    }
    let whole = found(&router, "POST", "/v1/whole");
    let message = whole
        .request(None, trilane_transcode::Format::Json, b"{}")
        .unwrap();
    assert_eq!(whole.binding.raw_response(&message).unwrap_err().code, 13);
}

#[test]
fn without_a_rule_the_content_is_as_it_is_too() {
    let pool = support::bindings();
    let mut router = Router::new(&pool).unwrap();
    let service = pool
        .get_service_by_name("trilane.bindings.v1.Bindings")
        .unwrap();
    router.add_implicit(service.methods()).unwrap();
    let raw = found(&router, "POST", "/trilane.bindings.v1.Bindings/Raw");
    assert!(raw.binding.takes_raw());
    // The file is a field among others there.
    let field = found(&router, "POST", "/trilane.bindings.v1.Bindings/RawField");
    assert!(!field.binding.takes_raw());
}
