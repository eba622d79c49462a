//! Rules of service configuration files.

use prost_reflect::{DescriptorPool, ServiceDescriptor};
use trilane_transcode::{Format, Found, Router, RuleError, ServiceConfig};

use crate::support;

const FILE: &str = r#"
type: google.api.Service
config_version: 3
name: library.example.com
title: Example
apis:
- name: trilane.bindings.v1.Bindings
http:
  rules:
  - selector: trilane.bindings.v1.Bindings.*
    get: /all/{text=**}
  - selector: trilane.bindings.v1.Bindings.Query
    get: /overridden
  - selector: trilane.bindings.v1.Bindings.Query
    post: /queries/{text}
    body: inner
    response_body: inner
    additional_bindings:
    - get: /queries/{text}
    - custom:
        kind: LIST
        path: /queries
"#;

fn pool() -> DescriptorPool {
    support::bindings()
}

fn service(pool: &DescriptorPool) -> ServiceDescriptor {
    pool.get_service_by_name("trilane.bindings.v1.Bindings")
        .unwrap()
}

fn told(text: &str) -> String {
    let pool = pool();
    let read = || -> Result<(), RuleError> {
        let config = ServiceConfig::parse("a.yaml", text)?;
        config.check(&pool)?;
        Router::configured([service(&pool)], &config).map(drop)
    };
    read().unwrap_err().to_string()
}

/// The paths of a method, by a file that has rules for it alone.
fn paths(config: &ServiceConfig, method: &str) -> Vec<String> {
    let pool = pool();
    config.check(&pool).unwrap();
    let router = Router::configured([service(&pool)], config).unwrap();
    router
        .bindings()
        .filter(|binding| binding.method().name() == method)
        .map(|binding| format!("{} {}", binding.http_method(), binding.template()))
        .collect()
}

fn without_wildcard() -> String {
    let start = FILE
        .find("  - selector: trilane.bindings.v1.Bindings.*")
        .unwrap();
    let end = FILE
        .find("  - selector: trilane.bindings.v1.Bindings.Query")
        .unwrap();
    [&FILE[..start], &FILE[end..]].concat()
}

#[test]
fn the_last_rule_of_a_method_is_its_only_one() {
    let config = ServiceConfig::parse("a.yaml", &without_wildcard()).unwrap();
    assert_eq!(
        paths(&config, "Query"),
        [
            "POST /queries/{text}",
            "GET /queries/{text}",
            "LIST /queries"
        ]
    );
    // Methods that no rule selects keep those of their options.
    assert_eq!(paths(&config, "Single"), ["GET /v1/single/{text}"]);
    assert_eq!(config.title(), Some("Example"));
}

#[test]
fn rules_map_as_those_of_options_do() {
    let pool = pool();
    let config = ServiceConfig::parse("a.yaml", &without_wildcard()).unwrap();
    let router = Router::configured([service(&pool)], &config).unwrap();
    assert!(matches!(router.find("GET", "/v1/query"), Found::Nothing));
    let Found::Match(found) = router.find("POST", "/queries/a") else {
        panic!()
    };
    let content = br#"{"text":"b"}"#;
    let message = found.request(None, Format::Json, content).unwrap();
    let text = |name: &str| message.get_field_by_name(name).unwrap().into_owned();
    assert_eq!(text("text").as_str(), Some("a"));
    let mut out = Vec::new();
    found
        .binding
        .response(&message, Format::Json, &mut out)
        .unwrap();
    assert_eq!(out, content);
}

#[test]
fn a_file_may_be_json_and_files_follow_one_another() {
    let json = r#"{"http": {"rules": [{
        "selector": "trilane.bindings.v1.Bindings.Query, trilane.bindings.v1.Bindings.Single",
        "custom": {"kind": "websocket", "path": "/ws/{text}"},
        "additionalBindings": [{"get": "/json/{text}", "responseBody": "text"}]}]}}"#;
    let mut config = ServiceConfig::parse("a.yaml", &without_wildcard()).unwrap();
    // Two methods under one path conflict, which both are named for.
    let both = ServiceConfig::parse("b.json", json).unwrap();
    let pool = pool();
    let error = Router::configured([service(&pool)], &both)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("Bindings.Query") && error.contains("Bindings.Single"),
        "{error}"
    );
    let one = json.replace(", trilane.bindings.v1.Bindings.Single", "");
    config.extend(ServiceConfig::parse("b.json", &one).unwrap());
    assert_eq!(
        paths(&config, "Query"),
        ["WEBSOCKET /ws/{text}", "GET /json/{text}"]
    );
    assert_eq!(config.title(), Some("Example"));
}

#[test]
fn reserved_expansion_may_be_decoded_as_a_whole() {
    let file = |flag: &str| {
        let text = format!(
            "http:\n  {flag}\n  rules:\n  - selector: trilane.bindings.v1.Bindings.Query\n    \
             get: /v9/{{text=a/*/**}}\n    additional_bindings: [{{get: '/v8/{{text=a/*}}'}}]\n"
        );
        let config = ServiceConfig::parse("a.yaml", &text).unwrap();
        let pool = pool();
        Router::configured([service(&pool)], &config).unwrap()
    };
    let text = |router: &Router, path: &str| {
        let Found::Match(found) = router.find("GET", path) else {
            panic!("{path}")
        };
        let message = found.request(None, Format::Json, b"").unwrap();
        let text = message.get_field_by_name("text").unwrap().into_owned();
        text.as_str().unwrap().to_owned()
    };
    let path = "/v9/a/b%2Fc%3A/d%2Fe%3A/f";
    let kept = file("");
    assert_eq!(text(&kept, path), "a/b%2Fc:/d%2Fe:/f");
    let decoded = file("fully_decode_reserved_expansion: true");
    // "except in cases of single segment matches in reserved expansion, where %2F will be left encoded"
    assert_eq!(text(&decoded, path), "a/b%2Fc:/d/e:/f");
    assert_eq!(text(&decoded, "/v8/a/b%2Fc%3A"), "a/b%2Fc:");
    assert_eq!(text(&decoded, "/v9/a/b"), "a/b");
    // Of a variable of one segment all is decoded in any case.
    assert_eq!(text(&decoded, "/v1/single/a%2Fb"), "a/b");
}

#[test]
fn what_is_wrong_is_named() {
    let rule = |rule: &str| format!("http:\n  rules:\n  - {rule}\n");
    let query = "selector: trilane.bindings.v1.Bindings.Query";
    for (text, words) in [
        (
            "a: [".to_owned(),
            "a.yaml: this is no service configuration",
        ),
        ("name: x".to_owned(), "it has no \"http\""),
        (
            "{\"http\": 5}".to_owned(),
            "a.yaml: this is no service configuration",
        ),
        (rule(&format!("{{{query}, gett: /a}}")), "gett"),
        (
            rule(&format!("{{{query}}}")),
            "a.yaml: rule 1: it has 0 of get, put",
        ),
        (
            rule(&format!("{{{query}, get: /a, put: /a}}")),
            "it has 2 of",
        ),
        (rule("{get: /a}"), "it has no selector"),
        (
            rule("{selector: a.b*, get: /a}"),
            "a.yaml: rule 1: the selector \"a.b*\"",
        ),
        (rule("{selector: '*.b', get: /a}"), "\"*.b\""),
        (rule("{selector: 'a..b', get: /a}"), "\"a..b\""),
        (
            rule("{selector: trilane.bindings.v1.Bindings.Quary, get: /a}"),
            "selects no method: did you mean trilane.bindings.v1.Bindings.Query?",
        ),
        (
            rule("{selector: other.*, get: /a}"),
            "the selector \"other.*\" selects no method",
        ),
        (
            rule(&format!("{{{query}, get: '/a/{{none}}'}}")),
            "a.yaml: rule 1, trilane.bindings.v1.Bindings.Query: template",
        ),
        (rule(&format!("{{{query}, get: /a, body: none}}")), "body:"),
        (
            rule(&format!(
                "{{{query}, get: /a, additional_bindings: [{{{query}, get: /b}}]}}"
            )),
            "a selector of its own",
        ),
        (
            rule(&format!(
                "{{{query}, get: /a, additional_bindings: [{{get: /b, additional_bindings: [{{get: /c}}]}}]}}"
            )),
            "must not have additional bindings itself",
        ),
    ] {
        let told = told(&text);
        assert!(told.contains(words), "{text}: {told}");
        assert!(!told.contains('\n'), "{told}");
    }
}
