//! The rules of `google/api/http.proto`, case by case.

use trilane_transcode::{Format, Found, Router};

/// Template, path, and the JSON of the request where they match.
const PATHS: &[(&str, &str, Option<&str>)] = &[
    // LITERAL matches literal text.
    ("/v1", "/v1", Some("{}")),
    ("/v1", "/v1/", None),
    ("/v1", "/v2", None),
    ("/v1", "/V1", None),
    ("/v1", "v1", None),
    ("/v1", "", None),
    ("/v1", "/v1/a", None),
    ("/v1/a", "/v1", None),
    ("/a%20b", "/a%20b", Some("{}")),
    ("/caf%C3%A9", "/caf%c3%a9", Some("{}")),
    ("/a-b", "/a%2Db", Some("{}")),
    ("/a", "/%zz", None),
    ("/a!$&'()+,;=@b", "/a!$&'()+,;=@b", Some("{}")),
    // * matches a single segment, ** zero or more.
    ("/*", "/a", Some("{}")),
    ("/*", "/", Some("{}")),
    ("/*", "/a/b", None),
    ("/*/b", "/a/b", Some("{}")),
    ("/**", "/", Some("{}")),
    ("/**", "/a/b/c", Some("{}")),
    ("/a/**", "/a", Some("{}")),
    ("/a/**", "/b", None),
    ("/a/*/**", "/a/b", Some("{}")),
    ("/a/*/**", "/a", None),
    // {var} is {var=*}.
    ("/v1/{text}", "/v1/abc", Some(r#"{"text":"abc"}"#)),
    ("/v1/{text=*}", "/v1/abc", Some(r#"{"text":"abc"}"#)),
    ("/v1/{text}", "/v1/a/b", None),
    ("/v1/{text}", "/v1", None),
    ("/{text=fixed}", "/fixed", Some(r#"{"text":"fixed"}"#)),
    ("/{text=fixed}", "/other", None),
    // Several segments, and nested fields.
    (
        "/v1/{text=shelves/*/books/*}",
        "/v1/shelves/1/books/2",
        Some(r#"{"text":"shelves/1/books/2"}"#),
    ),
    ("/v1/{text=shelves/*/books/*}", "/v1/shelves/1/books", None),
    (
        "/v1/{text=shelves/*/books/*}",
        "/v1/shelves/1/books/2/3",
        None,
    ),
    (
        "/v1/{text}/{inner.text}/{inner.inner.number}",
        "/v1/a/b/5",
        Some(r#"{"text":"a","inner":{"text":"b","inner":{"number":"5"}}}"#),
    ),
    (
        "/{inner.text=a/*}/m/{text=**}",
        "/a/b/m/c/d",
        Some(r#"{"text":"c/d","inner":{"text":"a/b"}}"#),
    ),
    ("/{text=**}", "/", Some("{}")),
    ("/{text=**}", "/a//b/", Some(r#"{"text":"a//b/"}"#)),
    ("/v1/{text=a/**}", "/v1/a", Some(r#"{"text":"a"}"#)),
    ("/v1/{text=a/**}", "/v1/a/", Some(r#"{"text":"a/"}"#)),
    ("/v1/{text=a/**}", "/v1/b", None),
    // Names of fields in templates are their original ones, or JSON's.
    (
        "/{inner.two_words}",
        "/a",
        Some(r#"{"inner":{"twoWords":"a"}}"#),
    ),
    (
        "/{inner.twoWords}",
        "/a",
        Some(r#"{"inner":{"twoWords":"a"}}"#),
    ),
    // A verb.
    ("/v1/{text}:go", "/v1/a:go", Some(r#"{"text":"a"}"#)),
    ("/v1/{text}:go", "/v1/a", None),
    ("/v1/{text}:go", "/v1/a:stop", None),
    ("/v1/{text}:go", "/v1/a:b:go", Some(r#"{"text":"a:b"}"#)),
    ("/v1/{text}:go", "/v1/:go", Some("{}")),
    ("/v1:go", "/v1:go", Some("{}")),
    ("/v1:go", "/v1%3Ago", None),
    ("/v1/{text=**}:go", "/v1/a/b:go", Some(r#"{"text":"a/b"}"#)),
    ("/v1/{text=**}:go", "/v1:go", Some("{}")),
    ("/v1/{text=**}:go", "/v1/a:go/b", None),
    ("/v1/{text}", "/v1/a:go", Some(r#"{"text":"a:go"}"#)),
    ("/v1/{text}", "/v1/a:", Some(r#"{"text":"a:"}"#)),
    // Percent-decoding: all in a single segment, all but %2F in several.
    ("/{text}", "/a%2Fb%2fc", Some(r#"{"text":"a/b/c"}"#)),
    ("/{text}", "/%25%3F%23", Some(r#"{"text":"%?#"}"#)),
    ("/{text}", "/%252F", Some(r#"{"text":"%2F"}"#)),
    ("/{text}", "/a+b", Some(r#"{"text":"a+b"}"#)),
    ("/{text}", "/%E2%82%AC", Some(r#"{"text":"€"}"#)),
    (
        "/{text=**}",
        "/a%2Fb%2fc%3F",
        Some(r#"{"text":"a%2Fb%2fc?"}"#),
    ),
    (
        "/{text=a/*}",
        "/a/b%2Fc%20d",
        Some(r#"{"text":"a/b%2Fc d"}"#),
    ),
    ("/{text=a/*}", "/%61/b", Some(r#"{"text":"a/b"}"#)),
    // Values of other types.
    ("/{int32}", "/-5", Some(r#"{"int32":-5}"#)),
    ("/{kind}", "/SQUARE", Some(r#"{"kind":"SQUARE"}"#)),
    (
        "/{timestamp}",
        "/1970-01-01T00:00:01Z",
        Some(r#"{"timestamp":"1970-01-01T00:00:01Z"}"#),
    ),
    ("/{maybe}", "/0", Some(r#"{"maybe":0}"#)),
];

#[test]
fn a_template_matches_what_it_should() {
    for &(template, path, wanted) in PATHS {
        let router = crate::support::router(&[&format!("get: {template:?}")]).unwrap();
        let found = match router.find("GET", path) {
            Found::Match(found) => {
                let request = found.request(None, Format::Json, b"").unwrap();
                Some(serde_json::to_string(&request).unwrap())
            }
            Found::Method(_) => panic!("{template} {path}: there is no other method"),
            Found::Nothing => None,
        };
        assert_eq!(found.as_deref(), wanted, "{template} {path}");
    }
}

/// Templates that are none, with what is said about them.
const MALFORMED: &[(&str, &str)] = &[
    ("", "the template ends where '/' is expected at column 1"),
    ("v1", "'v' stands where '/' is expected at column 1"),
    (
        "/",
        "the template ends where a segment is expected at column 2",
    ),
    ("//a", "'/' stands where a segment is expected at column 2"),
    (
        "/a/",
        "the template ends where a segment is expected at column 4",
    ),
    (
        "/a b",
        "' ' stands where '/', ':' or the end is expected at column 3",
    ),
    (
        "/***",
        "'*' stands where '/', ':' or the end is expected at column 4",
    ),
    (
        "/a*",
        "'*' stands where '/', ':' or the end is expected at column 3",
    ),
    (
        "/**/a",
        "'**' has to be the last segment, but another follows at column 5",
    ),
    (
        "/{text=**}/a",
        "'**' has to be the last segment, but another follows at column 12",
    ),
    (
        "/{text=**/a}",
        "'**' has to be the last segment, but another follows at column 11",
    ),
    (
        "/{text={left}}",
        "a variable must not contain another variable at column 8",
    ),
    (
        "/{text",
        "the template ends where '}' is expected at column 7",
    ),
    (
        "/{}",
        "'}' stands where the name of a field is expected at column 3",
    ),
    (
        "/{.text}",
        "'.' stands where the name of a field is expected at column 3",
    ),
    (
        "/{inner.}",
        "'}' stands where the name of a field is expected at column 9",
    ),
    (
        "/{text=}",
        "'}' stands where a segment is expected at column 8",
    ),
    (
        "/{text=/a}",
        "'/' stands where a segment is expected at column 8",
    ),
    (
        "/{text}{left}",
        "'{' stands where '/', ':' or the end is expected at column 8",
    ),
    (
        "/{text}/{text}",
        "the variable \\\"text\\\" stands there twice at column 15",
    ),
    (
        "/a:",
        "the template ends where a verb is expected at column 4",
    ),
    (
        "/a:b/c",
        "'/' stands where '/', ':' or the end is expected at column 5",
    ),
    (
        "/a:b:c",
        "':' stands where '/', ':' or the end is expected at column 5",
    ),
    (
        "/%g0",
        "\\\"%g0\\\" is not a percent-encoded byte at column 2",
    ),
    (
        "/%FF",
        "\\\"%FF\\\" is not UTF-8 after percent-decoding at column 2",
    ),
    (
        "/{unknown}",
        "trilane.bindings.v1.Shape has no field \\\"unknown\\\"",
    ),
    (
        "/{inner.unknown}",
        "trilane.bindings.v1.Inner has no field \\\"unknown\\\"",
    ),
    ("/{text.text}", "\\\"text\\\" has no fields"),
    ("/{inners.text}", "\\\"inners\\\" has no fields"),
    (
        "/{texts}",
        "the variable \\\"texts\\\" must not be a repeated field or a map",
    ),
    (
        "/{labels}",
        "the variable \\\"labels\\\" must not be a repeated field or a map",
    ),
    (
        "/{inner}",
        "the variable \\\"inner\\\" is a trilane.bindings.v1.Inner: only what JSON writes as a scalar \
         fits into a path",
    ),
];

#[test]
fn a_malformed_template_is_refused_with_its_place() {
    for (template, reason) in MALFORMED {
        let error = crate::support::router(&[&format!("get: {template:?}")]).unwrap_err();
        let reason = reason.replace("\\\"", "\"");
        let wanted = format!("test.Test.M0: template {template:?}: {reason}");
        assert_eq!(error.to_string(), wanted);
    }
}

#[test]
fn a_malformed_rule_is_refused_with_its_reason() {
    let cases = [
        (
            r#"body: "*""#,
            "its rule has no pattern such as get: \"/v1/…\"",
        ),
        (
            r#"custom: {kind: "" path: "/a"}"#,
            "the custom kind \"\" is not an HTTP method such as HEAD, '*' or WEBSOCKET",
        ),
        (
            r#"custom: {kind: "A B" path: "/a"}"#,
            "the custom kind \"A B\" is not an HTTP method such as HEAD, '*' or WEBSOCKET",
        ),
        (
            r#"post: "/a" body: "none""#,
            "body: trilane.bindings.v1.Shape has no field \"none\" at its top level",
        ),
        (
            r#"post: "/a" body: "inner.text""#,
            "body: trilane.bindings.v1.Shape has no field \"inner.text\" at its top level",
        ),
        (
            r#"get: "/a" response_body: "none""#,
            "response_body: trilane.bindings.v1.Shape has no field \"none\" at its top level",
        ),
        (
            r#"get: "/a" additional_bindings {get: "/b" additional_bindings {get: "/c"}}"#,
            "an additional binding must not have additional bindings itself",
        ),
    ];
    for (rule, reason) in cases {
        let error = crate::support::router(&[rule]).unwrap_err();
        assert_eq!(error.to_string(), format!("test.Test.M0: {reason}"));
    }
}

#[test]
fn two_rules_for_the_same_requests_are_refused_with_both_names() {
    let conflicts = [
        (r#"get: "/a/{text}""#, r#"get: "/a/{left}""#),
        (r#"get: "/a/*/b""#, r#"get: "/a/{text}/b""#),
        (r#"get: "/a/{text=**}:x""#, r#"get: "/a/**:x""#),
        (
            r#"get: "/{text=a/*}""#,
            r#"custom: {kind: "GET" path: "/a/{text}"}"#,
        ),
        (r#"get: "/%61""#, r#"get: "/a""#),
    ];
    for (first, second) in conflicts {
        let error = crate::support::router(&[first, second])
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("test.Test.M1: \"GET /"), "{error}");
        assert!(
            error.contains("matches the same requests as \"GET /"),
            "{error}"
        );
        assert!(error.ends_with("of test.Test.M0"), "{error}");
    }
    let different = [
        (r#"get: "/a/{text}""#, r#"post: "/a/{text}""#),
        (r#"get: "/a/{text}""#, r#"get: "/a/{text}:b""#),
        (r#"get: "/a/{text}""#, r#"get: "/a/b""#),
        (r#"get: "/a/{text}""#, r#"get: "/a/{text=**}""#),
        (
            r#"get: "/a/{text}""#,
            r#"custom: {kind: "*" path: "/a/{text}"}"#,
        ),
    ];
    for (first, second) in different {
        crate::support::router(&[first, second]).unwrap();
    }
}

/// The number of the method that a request leads to.
fn method(router: &Router, http_method: &str, path: &str) -> Result<String, Vec<String>> {
    match router.find(http_method, path) {
        Found::Match(found) => Ok(found.binding.method().name().to_owned()),
        Found::Method(allowed) => Err(allowed.into_iter().map(str::to_owned).collect()),
        Found::Nothing => Err(vec!["nothing".to_owned()]),
    }
}

#[test]
fn the_more_precise_template_goes_first() {
    let router = crate::support::router(&[
        r#"get: "/a/{text=**}""#,
        r#"get: "/a/{text}""#,
        r#"get: "/a/b""#,
        r#"get: "/a/*/c""#,
        r#"get: "/a/{text=**}:go""#,
        r#"post: "/a/b""#,
        r#"delete: "/a/{text}""#,
    ])
    .unwrap();
    let cases = [
        ("GET", "/a/b", Ok("M2")),
        ("GET", "/a/x", Ok("M1")),
        ("GET", "/a", Ok("M0")),
        ("GET", "/a/x/y", Ok("M0")),
        ("GET", "/a/x/c", Ok("M3")),
        ("GET", "/a/b/c", Ok("M3")),
        ("GET", "/a/b/c/d", Ok("M0")),
        ("GET", "/a/b:go", Ok("M4")),
        ("GET", "/a/b:else", Ok("M1")),
        ("POST", "/a/b", Ok("M5")),
        ("DELETE", "/a/b", Ok("M6")),
        ("PUT", "/a/b", Err(vec!["DELETE", "GET", "POST"])),
        ("POST", "/a/x", Err(vec!["DELETE", "GET"])),
        ("POST", "/a/b:go", Err(vec!["GET"])),
        ("GET", "/b", Err(vec!["nothing"])),
        ("get", "/a/b", Err(vec!["DELETE", "GET", "POST"])),
    ];
    for (http_method, path, wanted) in cases {
        let wanted: Result<String, Vec<String>> = wanted
            .map(str::to_owned)
            .map_err(|names| names.into_iter().map(str::to_owned).collect());
        assert_eq!(
            method(&router, http_method, path),
            wanted,
            "{http_method} {path}"
        );
    }
}

#[test]
fn custom_kinds_are_methods_of_their_own() {
    let router = crate::support::router(&[
        r#"custom: {kind: "HEAD" path: "/a"}"#,
        r#"custom: {kind: "*" path: "/b"}"#,
        r#"get: "/b""#,
        r#"custom: {kind: "websocket" path: "/c"}"#,
        r#"custom: {kind: "WEBSOCKET" path: "/b/{text}"}"#,
    ])
    .unwrap();
    assert_eq!(method(&router, "HEAD", "/a"), Ok("M0".to_owned()));
    assert_eq!(method(&router, "GET", "/a"), Err(vec!["HEAD".to_owned()]));
    assert_eq!(method(&router, "GET", "/b"), Ok("M2".to_owned()));
    assert_eq!(method(&router, "BREW", "/b"), Ok("M1".to_owned()));
    assert_eq!(method(&router, "WEBSOCKET", "/c"), Ok("M3".to_owned()));
    // Whatever the method of HTTP, it is not WebSocket, and WebSocket is none of them.
    assert_eq!(
        method(&router, "WEBSOCKET", "/b"),
        Err(vec!["GET".to_owned()])
    );
    assert_eq!(method(&router, "GET", "/c"), Err(vec![]));
    let Found::Match(found) = router.find("WEBSOCKET", "/b/x") else {
        panic!("the rule is there");
    };
    assert!(found.binding.is_websocket());
}
