//! What JSON and queries may not say twice, and what may be left out.

use prost_reflect::DescriptorPool;
use trilane_transcode::{Format, Found, Router};

use crate::support;

fn answer(router: &Router, method: &str, target: &str, content: &str) -> Result<String, String> {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let Found::Match(found) = router.find(method, path) else {
        panic!("{target}")
    };
    match found.request(query, Format::Json, content.as_bytes()) {
        Ok(message) => {
            let mut out = Vec::new();
            let written = found.binding.response(&message, Format::Json, &mut out);
            written.unwrap();
            Ok(String::from_utf8(out).unwrap())
        }
        Err(problem) => Err(problem.message),
    }
}

#[test]
fn two_fields_of_a_oneof_are_refused_wherever_they_come_from() {
    let router = support::router(&[
        r#"get: "/v1/one/{left}""#,
        r#"get: "/v1/query""#,
        r#"post: "/v1/both/{left}" body: "*""#,
    ])
    .unwrap();
    let taken = answer(&router, "GET", "/v1/one/x?int32=5", "").unwrap();
    assert_eq!(taken, r#"{"int32":5,"left":"x"}"#);
    let path = answer(&router, "GET", "/v1/one/x?right=5", "").unwrap_err();
    assert!(path.contains("\"right\" belongs to a oneof"), "{path}");
    let query = answer(&router, "GET", "/v1/query?left=a&right=5", "").unwrap_err();
    assert!(
        query.contains("\"right\" cannot be set beside \"left\""),
        "{query}"
    );
    let again = answer(&router, "GET", "/v1/query?left=a&left=b", "").unwrap();
    assert_eq!(again, r#"{"left":"b"}"#);
    let content = answer(&router, "POST", "/v1/both/x", r#"{"right":5}"#).unwrap_err();
    assert!(
        content.contains("the path's \"left\" cannot be set beside \"right\""),
        "{content}"
    );
    let same = answer(&router, "POST", "/v1/both/x", r#"{"left":"y"}"#).unwrap();
    assert_eq!(same, r#"{"left":"x"}"#);
}

#[test]
fn a_number_is_not_nothing() {
    let router = support::router(&[
        r#"post: "/v1/int32" body: "int32""#,
        r#"post: "/v1/inner" body: "inner""#,
        r#"post: "/v1/texts" body: "texts""#,
    ])
    .unwrap();
    let told = answer(&router, "POST", "/v1/int32", "").unwrap_err();
    assert!(
        told.contains("the content is empty") && told.contains("\"int32\""),
        "{told}"
    );
    for path in ["/v1/inner", "/v1/texts"] {
        assert_eq!(answer(&router, "POST", path, "").unwrap(), "{}", "{path}");
    }
}

#[test]
fn what_proto2_requires_is_there() {
    let source = r#"syntax = "proto2"; package test; import "google/api/annotations.proto";
        message M { required string name = 1; repeated M list = 2; optional M one = 3; }
        service Test { rpc Do(M) returns (M) {
          option (google.api.http) = {post: "/v1/do" body: "*" additional_bindings {get: "/v1/{name}"}};
        } }"#;
    let pool = DescriptorPool::decode(support::compile("test.proto", source).as_slice()).unwrap();
    let router = Router::new(&pool).unwrap();
    for content in [r#"{"name":""}"#, r#"{"name":"a","list":[{"name":"b"}]}"#] {
        assert_eq!(answer(&router, "POST", "/v1/do", content).unwrap(), content);
    }
    // The path has it.
    assert_eq!(
        answer(&router, "GET", "/v1/x", "").unwrap(),
        r#"{"name":"x"}"#
    );
    for (content, field) in [
        ("{}", "name"),
        ("", "name"),
        (r#"{"name":"a","list":[{"name":"b"},{}]}"#, "list.name"),
        (r#"{"name":"a","one":{}}"#, "one.name"),
    ] {
        let told = answer(&router, "POST", "/v1/do", content).unwrap_err();
        assert_eq!(
            told,
            format!("the required field {field} of test.M is missing"),
            "{content}"
        );
    }
    let Found::Match(found) = router.find("POST", "/v1/do") else {
        panic!()
    };
    assert_eq!(
        found
            .request(None, Format::Protobuf, b"\x12\0")
            .unwrap_err()
            .code,
        3
    );
}

#[test]
fn parameters_that_are_no_fields_are_ignored_where_that_is_wanted() {
    let mut router = support::router(&[r#"get: "/v1/one/{text}""#]).unwrap();
    for target in [
        "/v1/one/x?utm_source=a",
        "/v1/one/x?inner.none=a",
        "/v1/one/x?text.a=b",
    ] {
        assert!(answer(&router, "GET", target, "").is_err(), "{target}");
    }
    router.ignore_unknown_query(true);
    for target in [
        "/v1/one/x?utm_source=a&int32=5",
        "/v1/one/x?inner.none=a&int32=5",
        "/v1/one/x?text.a=b&int32=5",
        "/v1/one/x?a=%FF&int32=5",
    ] {
        let taken = answer(&router, "GET", target, "").unwrap();
        assert_eq!(taken, r#"{"text":"x","int32":5}"#, "{target}");
    }
    // Fields are held to their types, and to their place.
    for target in ["/v1/one/x?int32=a", "/v1/one/x?text=a"] {
        assert!(answer(&router, "GET", target, "").is_err(), "{target}");
    }
}

#[test]
fn a_field_that_is_named_twice_is_told() {
    let router = support::router(&[r#"post: "/v1/whole" body: "*""#]).unwrap();
    for (content, place) in [
        (r#"{"text":"a","text":"b"}"#, "\"text\""),
        (r#"{"inner":{"twoWords":"a","two_words":"b"}}"#, "inner"),
        (r#"{"labels":{"a":"b","a":"c"}}"#, "labels"),
        (r#"{"structure":{"a":{"b":1,"b":2}}}"#, "structure"),
    ] {
        let told = answer(&router, "POST", "/v1/whole", content).unwrap_err();
        assert!(told.contains("stands there twice"), "{content}: {told}");
        assert!(told.contains(place), "{content}: {told}");
    }
}
