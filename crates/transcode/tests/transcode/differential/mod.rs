//! The router beside vanguard and grpc-gateway: the same requests, the same messages, but for tables of
//! differences.

mod cases;
mod differences;
mod peer;
mod random;
mod table;

use self::peer::{Peer, Response};
use base64::{Engine, prelude::BASE64_STANDARD};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::Value;
use trilane_transcode::{Format, Found, Router, connect, http_status, status_content};

use crate::answers::details;

const SERVICE: &str = "trilane.bindings.v1.Bindings";

/// What a request leads to.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// A call: its path, its request in binary and in JSON (to be read), the content of the response.
    Call {
        path: String,
        request: Vec<u8>,
        readable: String,
        response: Value,
    },
    /// A status, and the methods that `allow` names.
    Refused(u16, Vec<String>),
}

fn ours(router: &Router, (method, target, content): (&str, &str, &str)) -> Outcome {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let found = match router.find(method, path) {
        Found::Match(found) => found,
        Found::Method(allowed) => {
            let mut allowed: Vec<_> = allowed.into_iter().map(str::to_owned).collect();
            allowed.sort();
            return Outcome::Refused(405, allowed);
        }
        Found::Nothing => return Outcome::Refused(404, Vec::new()),
    };
    match found.request(query, Format::Json, content.as_bytes()) {
        Ok(request) => {
            let mut response = Vec::new();
            let written = found
                .binding
                .response(&request, Format::Json, &mut response);
            written.unwrap();
            call(found.binding.grpc_path(), &request, &response)
        }
        Err(problem) => Outcome::Refused(http_status(problem.code), Vec::new()),
    }
}

fn theirs(
    peer: &Peer,
    pool: &DescriptorPool,
    (method, target, content): (&str, &str, &str),
) -> Outcome {
    let response = peer.send(method, target, &[], content.as_bytes());
    if response.status != 200 {
        let allow = response.field("allow").unwrap_or_default();
        let mut allowed: Vec<_> = allow
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect();
        allowed.retain(|name| !name.is_empty());
        allowed.sort();
        return Outcome::Refused(response.status, allowed);
    }
    let echo = response.field("echo-request").unwrap_or_default();
    let bytes = BASE64_STANDARD.decode(echo).unwrap();
    let shape = pool
        .get_message_by_name("trilane.bindings.v1.Shape")
        .unwrap();
    let request = DynamicMessage::decode(shape, bytes.as_slice()).unwrap();
    let mut content = response.content.as_slice();
    if method == "HEAD" {
        content = b"null";
    }
    call(response.field("echo-method").unwrap(), &request, content)
}

fn call(path: &str, request: &DynamicMessage, response: &[u8]) -> Outcome {
    let mut readable = Vec::new();
    trilane_grpc::json::write(request, &mut readable).unwrap();
    let readable = String::from_utf8(readable).unwrap();
    Outcome::Call {
        path: path.to_owned(),
        // There are many ways to write NaN in bits: its name has to do.
        request: match readable.contains("NaN") {
            true => Vec::new(),
            false => request.encode_to_vec(),
        },
        readable,
        response: by_value(serde_json::from_slice(response).unwrap()),
    }
}

/// 1 and 1.0 are the same number of JSON.
fn by_value(json: Value) -> Value {
    match json {
        Value::Number(number) => number.as_f64().into(),
        Value::Array(values) => values.into_iter().map(by_value).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, by_value(value)))
            .collect(),
        other => other,
    }
}

/// HEAD has no content to compare.
fn without_content(outcome: Outcome, (method, ..): (&str, &str, &str)) -> Outcome {
    match outcome {
        Outcome::Call {
            path,
            request,
            readable,
            ..
        } if method == "HEAD" => Outcome::Call {
            path,
            request,
            readable,
            response: Value::Null,
        },
        outcome => outcome,
    }
}

#[test]
fn requests_become_what_vanguard_makes_of_them() {
    let pool = crate::support::bindings();
    let router = Router::new(&pool).unwrap();
    let descriptors = crate::support::compile("bindings.proto", "");
    let Some(peer) = Peer::start(&descriptors, SERVICE) else {
        return;
    };
    let mut wrong = Vec::new();
    for &case in cases::SAME {
        let ours = without_content(ours(&router, case), case);
        let theirs = theirs(&peer, &pool, case);
        if ours != theirs {
            wrong.push(format!(
                "{case:?}\n  ours     {ours:?}\n  vanguard {theirs:?}"
            ));
        }
    }
    for &case in cases::MALFORMED {
        let ours = ours(&router, case);
        let theirs = theirs(&peer, &pool, case);
        let refused = |outcome: &Outcome, status| *outcome == Outcome::Refused(status, Vec::new());
        if !refused(&ours, 400) || !refused(&theirs, 500) {
            wrong.push(format!(
                "{case:?}\n  ours     {ours:?}\n  vanguard {theirs:?}"
            ));
        }
    }
    for &(case, status, field, reason) in differences::DIFFERENT {
        let ours = ours(&router, case);
        let theirs = theirs(&peer, &pool, case);
        let is_as_told = match &ours {
            Outcome::Refused(found, _) => *found == status,
            Outcome::Call { readable, .. } => status == 200 && readable == field,
        };
        if ours == theirs || !is_as_told {
            wrong.push(format!(
                "{case:?} ({reason})\n  ours     {ours:?}\n  vanguard {theirs:?}"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} cases:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn random_requests_become_what_vanguard_makes_of_them() {
    let pool = crate::support::bindings();
    let router = Router::new(&pool).unwrap();
    let descriptors = crate::support::compile("bindings.proto", "");
    let Some(peer) = Peer::start(&descriptors, SERVICE) else {
        return;
    };
    // Others than the usual ones, to look for more.
    let seed = std::env::var("TRANSCODE_SEED").map_or(1, |seed| seed.parse().unwrap());
    let mut calls = 0;
    let mut wrong = Vec::new();
    for (method, target, content) in random::requests(1000, seed) {
        let case = (method.as_str(), target.as_str(), content.as_str());
        let ours = ours(&router, case);
        let theirs = theirs(&peer, &pool, case);
        calls += usize::from(matches!(ours, Outcome::Call { .. }));
        let both_refuse = ours == Outcome::Refused(400, Vec::new())
            && theirs == Outcome::Refused(500, Vec::new());
        if ours != theirs && !both_refuse {
            wrong.push(format!(
                "{case:?}\n  ours     {ours:?}\n  vanguard {theirs:?}"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} cases:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(calls > 200, "only {calls} requests were taken");
}

#[test]
fn errors_become_what_vanguard_makes_of_them() {
    let pool = crate::support::bindings();
    let descriptors = crate::support::compile("bindings.proto", "");
    let Some(peer) = Peer::start(&descriptors, SERVICE) else {
        return;
    };
    let shape = pool
        .get_message_by_name("trilane.bindings.v1.Inner")
        .unwrap();
    let mut detail = DynamicMessage::new(shape);
    let set = detail.try_set_field_by_name("two_words", prost_reflect::Value::String("x".into()));
    set.unwrap();
    let detail = detail.encode_to_vec();
    let value = BASE64_STANDARD.encode(&detail);
    for code in 1..=16 {
        let name = connect::code(code);
        let fields = [
            ("fail", name),
            ("fail-type", "trilane.bindings.v1.Inner"),
            ("fail-value", value.as_str()),
        ];
        let response: Response = peer.send("GET", "/v1/single/x", &fields, b"");
        assert_eq!(response.status, http_status(code), "{name}");
        let any = details(&[("type.googleapis.com/trilane.bindings.v1.Inner", &detail)]);
        let ours = status_content(code, "as told", &any, &pool, Format::Json);
        let ours: Value = serde_json::from_slice(&ours).unwrap();
        let theirs: Value = serde_json::from_slice(&response.content).unwrap();
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn content_as_it_is_becomes_what_vanguard_makes_of_it() {
    let pool = crate::support::bindings();
    let router = Router::new(&pool).unwrap();
    let descriptors = crate::support::compile("bindings.proto", "");
    let Some(peer) = Peer::start(&descriptors, SERVICE) else {
        return;
    };
    for (target, kind, content) in [
        ("/v1/raw", "image/png", &b"\x89PNG\r\n\x00\xff"[..]),
        ("/v1/raw", "text/html; charset=utf-8", b"<p>"),
        ("/v1/raw", "application/json", b"not JSON"),
        ("/v1/raw", "application/x-protobuf", b"\xff"),
        // Of a query vanguard takes nothing here. "Use of this type only changes how the request and
        // response bodies are handled, all other features will continue to work unchanged."
        ("/v1/raw/some%20name", "a/b", b"x"),
        ("/v1/raw/n", "a/b", b""),
    ] {
        let theirs = peer.send("POST", target, &[("content-type", kind)], content);
        let Found::Match(found) = router.find("POST", target) else {
            panic!("{target}")
        };
        assert!(found.binding.takes_raw() && found.binding.gives_raw());
        let request = found.raw(None, kind, content.to_vec().into()).unwrap();
        let echo = theirs.field("echo-request").unwrap();
        let echo = BASE64_STANDARD.decode(echo).unwrap();
        let echo = DynamicMessage::decode(found.binding.method().input(), &*echo).unwrap();
        assert_eq!(request, echo, "{target} {kind}");
        let answer = found.binding.raw_response(&request).unwrap();
        assert_eq!(theirs.status, 200, "{target} {kind}");
        assert_eq!(theirs.content, answer.data, "{target} {kind}");
        assert_eq!(
            theirs.field("content-type"),
            Some(answer.content_type.as_str())
        );
    }
}
