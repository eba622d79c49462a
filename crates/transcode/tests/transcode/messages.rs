//! Contents in both formats, streams, bounds, and what callers are told.

use std::sync::LazyLock;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, Value};
use trilane_transcode::{Format, Found, Match, Problem, Router};

static POOL: LazyLock<DescriptorPool> = LazyLock::new(crate::support::bindings);
static ROUTER: LazyLock<Router> = LazyLock::new(|| Router::new(&POOL).unwrap());

fn find(method: &str, path: &str) -> Match {
    match ROUTER.find(method, path) {
        Found::Match(found) => found,
        other => panic!("{method} {path}: {other:?}"),
    }
}

fn json(message: &DynamicMessage) -> String {
    serde_json::to_string(message).unwrap()
}

fn message(name: &str, text: &str) -> DynamicMessage {
    let descriptor = POOL.get_message_by_name(&format!("trilane.bindings.v1.{name}"));
    let mut deserializer = serde_json::Deserializer::from_str(text);
    DynamicMessage::deserialize(descriptor.unwrap(), &mut deserializer).unwrap()
}

#[test]
fn content_may_be_binary() {
    let shape = message("Shape", r#"{"text":"a","int32":5,"texts":["b","c"]}"#);
    let found = find("PUT", "/v1/whole/path");
    let request = found.request(None, Format::Protobuf, &shape.encode_to_vec());
    let wanted = r#"{"text":"path","int32":5,"texts":["b","c"]}"#;
    assert_eq!(json(&request.unwrap()), wanted);

    let inner = message("Inner", r#"{"number":"7"}"#);
    let found = find("PATCH", "/v1/inners/5");
    let request = found.request(Some("int32=1"), Format::Protobuf, &inner.encode_to_vec());
    let wanted = r#"{"int32":1,"inner":{"text":"inners/5","number":"7"}}"#;
    assert_eq!(json(&request.unwrap()), wanted);

    // A field that is not a message: the request with this field alone.
    let found = find("POST", "/v1/body/texts");
    let alone = message("Shape", r#"{"texts":["b","c"]}"#);
    let request = found.request(None, Format::Protobuf, &alone.encode_to_vec());
    assert_eq!(json(&request.unwrap()), r#"{"texts":["b","c"]}"#);
    let request = found.request(None, Format::Protobuf, &shape.encode_to_vec());
    let wanted =
        "the content has the field \"text\", but the rule wants nothing but \"texts\" there";
    assert_eq!(request.unwrap_err().message, wanted);

    let request = found.request(None, Format::Protobuf, b"\xff\xff");
    let problem = request.unwrap_err();
    assert_eq!(problem.code, 3);
    assert!(
        problem
            .message
            .starts_with("the content is not a message: "),
        "{problem}"
    );
}

#[test]
fn doubles_are_exact() {
    let number = "9.215290234614543e+18";
    let wanted = Value::F64(9.215_290_234_614_543e18);
    let query = format!("double={}", number.replace('+', "%2B"));
    let in_query = find("GET", "/v1/query").request(Some(&query), Format::Json, b"");
    let content = format!(r#"{{"double":{number}}}"#);
    let in_content = find("POST", "/v1/whole").request(None, Format::Json, content.as_bytes());
    for request in [in_query, in_content] {
        let request = request.unwrap();
        assert_eq!(
            request.get_field_by_name("double").as_deref(),
            Some(&wanted)
        );
    }
}

#[test]
fn a_response_may_be_binary() {
    let shape = message(
        "Shape",
        r#"{"text":"a","inner":{"number":"7"},"texts":["b"]}"#,
    );
    let cases = [
        ("/v1/whole", shape.encode_to_vec()),
        (
            "/v1/response/inner",
            message("Inner", r#"{"number":"7"}"#).encode_to_vec(),
        ),
        (
            "/v1/response/texts",
            message("Shape", r#"{"texts":["b"]}"#).encode_to_vec(),
        ),
        ("/v1/response/int64", Vec::new()),
    ];
    for (path, wanted) in cases {
        let mut out = b"before".to_vec();
        let binding = find("POST", path).binding;
        binding
            .response(&shape, Format::Protobuf, &mut out)
            .unwrap();
        assert_eq!(out, [b"before".as_slice(), &wanted].concat(), "{path}");
    }
}

#[test]
fn a_response_that_json_cannot_write_leaves_nothing() {
    let mut shape = message("Shape", "{}");
    let mut timestamp = message_of_pool("google.protobuf.Timestamp");
    timestamp.set_field_by_name("seconds", Value::I64(i64::MAX));
    shape.set_field_by_name("timestamp", Value::Message(timestamp));
    let mut out = b"before".to_vec();
    let binding = find("POST", "/v1/whole").binding;
    let problem = binding
        .response(&shape, Format::Json, &mut out)
        .unwrap_err();
    assert_eq!(problem.code, 13);
    assert!(
        problem
            .message
            .starts_with("the response cannot be written: "),
        "{problem}"
    );
    assert_eq!(out, b"before");
}

fn message_of_pool(name: &str) -> DynamicMessage {
    DynamicMessage::new(POOL.get_message_by_name(name).unwrap())
}

#[test]
fn messages_of_streams_take_what_the_path_and_the_query_hold() {
    let router = crate::support::router(&[
        r#"custom: {kind: "WEBSOCKET" path: "/watch/{text}"}"#,
        r#"post: "/import/{text}" body: "inner""#,
    ])
    .unwrap();
    let Found::Match(found) = router.find("WEBSOCKET", "/watch/me") else {
        panic!("the rule is there");
    };
    for (content, wanted) in [
        ("", r#"{"text":"me","int32":5}"#),
        (r#"{"bool":true}"#, r#"{"text":"me","int32":5,"bool":true}"#),
        (r#"{"text":"you","int32":6}"#, r#"{"text":"me","int32":5}"#),
    ] {
        let one = found.message(Some("int32=5"), Format::Json, content.as_bytes());
        assert_eq!(json(&one.unwrap()), wanted);
    }
    let one = found.request(None, Format::Json, b"{}").unwrap_err();
    assert_eq!(
        one.message,
        "the content has to be empty, not 2 bytes: the rule maps no body"
    );

    let Found::Match(found) = router.find("POST", "/import/me") else {
        panic!("the rule is there");
    };
    let one = found.message(Some("int32=5"), Format::Json, br#"{"text":"a"}"#);
    assert_eq!(
        json(&one.unwrap()),
        r#"{"text":"me","int32":5,"inner":{"text":"a"}}"#
    );
}

#[test]
fn a_caller_is_told_what_is_wrong() {
    let query = |query: &'static str| {
        let found = find("GET", "/v1/query");
        found.request(Some(query), Format::Json, b"").unwrap_err()
    };
    let whole = |content: &'static str| {
        let found = find("POST", "/v1/whole");
        found
            .request(None, Format::Json, content.as_bytes())
            .unwrap_err()
    };
    let taken = |method, path, query| {
        let found = find(method, path);
        found.request(Some(query), Format::Json, b"").unwrap_err()
    };
    let cases: Vec<(Problem, &str)> = vec![
        (
            query("inner.none=1"),
            "query parameter \"inner.none\" is not a field: trilane.bindings.v1.Inner has no field \
             \"none\"",
        ),
        (
            query("int32=x"),
            "query parameter \"int32\" has to be a whole number of 32 bits, not \"x\"",
        ),
        (
            query("kind=OVAL"),
            "query parameter \"kind\" has to be a name or number of trilane.bindings.v1.Kind, not \
             \"OVAL\"",
        ),
        (
            query("text=%f"),
            "query parameter \"text\" cannot be read: \"%f\" is not a percent-encoded byte",
        ),
        (
            query("inner=1"),
            "query parameter \"inner\" is a trilane.bindings.v1.Inner, whose fields are parameters \
             of their own",
        ),
        (
            query("labels=1"),
            "query parameter \"labels\" is a map, which no parameter can write",
        ),
        (
            taken("GET", "/v1/single/a", "text=b"),
            "query parameter \"text\" is a part of the path",
        ),
        (
            taken("PATCH", "/v1/inners/5", "inner.number=5"),
            "query parameter \"inner.number\" belongs into the content, which is this field",
        ),
        (
            taken("POST", "/v1/whole", "int32=5"),
            "query parameter \"int32\" belongs into the content, as all fields but those of the path",
        ),
        (
            taken("GET", "/v1/nested/a/seven", ""),
            "the path's \"inner.inner.number\" has to be a whole number of 64 bits, not \"seven\"",
        ),
        (
            taken("GET", "/v1/single/%FF", ""),
            "the path cannot be read: \"%FF\" is not UTF-8 after percent-decoding",
        ),
        (
            whole(r#"{"inner":{"inner":{"number":"x"}}}"#),
            "the content's field inner.inner.number is not what is wanted: invalid value: string \"x\", \
             expected a whole number from -9223372036854775808 to 9223372036854775807, or a string \
             with one at line 1 column 31",
        ),
        (
            whole(r#"{"inners":[{},{"none":1}]}"#),
            "the content's field inners[1] is not what is wanted: trilane.bindings.v1.Inner has no field \"none\" at line 1 column 24",
        ),
        (
            whole(r#"{} {}"#),
            "the content is not the JSON that is wanted: trailing characters at line 1 column 4",
        ),
    ];
    for (problem, wanted) in cases {
        assert_eq!((problem.code, problem.message.as_str()), (3, wanted));
    }
}

#[test]
fn what_is_told_stays_short() {
    let long = "x".repeat(100_000);
    for query in [
        format!("{long}=1"),
        format!("int32={long}"),
        format!("inner.{long}"),
    ] {
        let found = find("GET", "/v1/query");
        let problem = found.request(Some(&query), Format::Json, b"").unwrap_err();
        assert!(problem.message.len() < 500, "{}", problem.message.len());
    }
    let content = format!(r#"{{"{long}":1}}"#);
    let found = find("POST", "/v1/whole");
    let problem = found
        .request(None, Format::Json, content.as_bytes())
        .unwrap_err();
    assert!(problem.message.len() < 500, "{}", problem.message.len());
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| format!("{}text=a", "inner.".repeat(depth));
    let found = find("GET", "/v1/query");
    let request = found.request(Some(&nested(99)), Format::Json, b"").unwrap();
    let bytes = request.encode_to_vec();
    DynamicMessage::decode(
        POOL.get_message_by_name("trilane.bindings.v1.Shape")
            .unwrap(),
        &*bytes,
    )
    .unwrap();
    for depth in [100, 10_000] {
        let problem = found
            .request(Some(&nested(depth)), Format::Json, b"")
            .unwrap_err();
        assert!(
            problem
                .message
                .ends_with("it is nested deeper than 100 messages"),
            "{problem}"
        );
    }

    let nested =
        |depth: usize| format!("{}{{}}{}", r#"{"inner":"#.repeat(depth), "}".repeat(depth));
    let found = find("POST", "/v1/whole");
    found
        .request(None, Format::Json, nested(99).as_bytes())
        .unwrap();
    for content in [nested(100), nested(100_000), "[".repeat(1_000_000)] {
        let problem = found
            .request(None, Format::Json, content.as_bytes())
            .unwrap_err();
        assert_eq!(
            problem.message,
            "the content is nested deeper than 100 levels"
        );
    }
    // Brackets in strings are text.
    let text = format!(r#"{{"text":"\"{}"}}"#, "{".repeat(1000));
    found.request(None, Format::Json, text.as_bytes()).unwrap();
}

#[test]
fn long_requests_take_no_longer_than_they_are() {
    // Both take milliseconds; were one quadratic, it would take minutes.
    let (sender, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        ask_at_length();
        sender.send(()).unwrap();
    });
    done.recv_timeout(std::time::Duration::from_secs(120))
        .expect("it fails, or takes more than its length");
}

fn ask_at_length() {
    let path = format!("/v1/rest{}", "/a%2F".repeat(100_000));
    let found = find("GET", &path);
    let request = found.request(None, Format::Json, b"").unwrap();
    let text = request
        .get_field_by_name("text")
        .unwrap()
        .as_str()
        .unwrap()
        .len();
    assert_eq!(text, 5 * 100_000 - 1);
    let query = "texts=a&numbers=1&inner.inner.text=b&".repeat(20_000);
    let found = find("GET", "/v1/query");
    let request = found.request(Some(&query), Format::Json, b"").unwrap();
    let count = |name| {
        request
            .get_field_by_name(name)
            .unwrap()
            .as_list()
            .unwrap()
            .len()
    };
    assert_eq!((count("texts"), count("numbers")), (20_000, 20_000));
}
