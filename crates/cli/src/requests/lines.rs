//! JSON Lines: a request a line.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use trilane_engine::Listed;

use super::expect::{Expectation, Values};
use super::{Called, CalledBody, Wrong};

/// A line. What it may have is all named here: a key that is written wrong is not silently left out.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "an object such as {\"url\": \"/hello\"}"
)]
struct Line {
    /// Of a call the path before that of its method, or a server: none is that of the command line.
    url: Option<String>,
    /// The method of gRPC that is called.
    grpc: Option<String>,
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Values>,
    /// Text, or any other JSON, which is sent as it is written.
    body: Option<Box<RawValue>>,
    /// Content that is not text.
    body_base64: Option<String>,
    weight: Option<u32>,
    #[serde(default)]
    expect: Expectation,
}

/// A request with its line.
type Numbered = (usize, Listed);

/// The requests of `text`, each with its line; empty lines are none. Where they are `calls` of gRPC, or one
/// of them is, what each calls.
pub(super) fn parse(text: &str, calls: bool) -> Result<(Vec<Numbered>, Vec<Called>), Wrong> {
    let lines = (1..).zip(text.lines());
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let lines =
        lines.map(|(number, line)| Ok((number, line.trim_end().len(), read(number, line)?)));
    let lines: Vec<(usize, usize, Line)> = lines.collect::<Result<_, Wrong>>()?;
    if !calls && lines.iter().all(|(.., line)| line.grpc.is_none()) {
        let requests = lines.into_iter().map(|(number, width, line)| {
            let request = request(number, width, line)?;
            Ok((number, request))
        });
        return Ok((requests.collect::<Result<_, Wrong>>()?, Vec::new()));
    }
    let (mut listed, mut called) = (Vec::new(), Vec::new());
    for (number, _, line) in lines {
        let (each, call) = call(number, line)?;
        listed.push((number, each));
        called.push(call);
    }
    Ok((listed, called))
}

fn read(number: usize, text: &str) -> Result<Line, Wrong> {
    // Values alone, by their order, would be taken for a request.
    if text.trim_start().starts_with('[') {
        let told = "a request is an object: write for example {\"url\": \"/hello\"}";
        return Err(Wrong::new(number, 1, told));
    }
    serde_json::from_str(text).map_err(|error| Wrong::json(number, &error))
}

/// The gRPC call of a line.
fn call(number: usize, line: Line) -> Result<(Listed, Called), Wrong> {
    let wrong = |text: String| Wrong::new(number, 1, text);
    if let Some(method) = line.method {
        return Err(wrong(format!(
            "\"method\": {method:?} is a method of HTTP, and calls have none: write what is called as \"grpc\": \"pkg.Service/Method\""
        )));
    }
    let mut listed = Listed::new("", line.url.unwrap_or_else(|| "/".to_owned()));
    for (name, values) in &line.headers {
        listed.fields.extend(values.fields(name));
    }
    listed.weight = line.weight.unwrap_or(1);
    let body = match (line.body, line.body_base64) {
        (Some(_), Some(_)) => return Err(wrong(TWO_CONTENTS.into())),
        (Some(body), None) => CalledBody::Json(messages(&body)),
        (None, Some(encoded)) => CalledBody::Encoded(decoded(&encoded).map_err(wrong)?),
        (None, None) => CalledBody::Run,
    };
    let called = Called {
        method: line.grpc,
        body,
        expected: line.expect.codes().map_err(wrong)?,
    };
    Ok((listed, called))
}

/// The messages in `body`, one after the other: a list has those of a stream.
fn messages(body: &RawValue) -> String {
    match serde_json::from_str::<Vec<Box<RawValue>>>(body.get()) {
        Ok(list) => {
            let each: Vec<_> = list.iter().map(|value| value.get()).collect();
            each.join("\n")
        }
        Err(_) => body.get().to_owned(),
    }
}

const TWO_CONTENTS: &str = "body and body_base64 are two contents: leave one out";

fn decoded(encoded: &str) -> Result<Vec<u8>, String> {
    let decoded = STANDARD.decode(encoded);
    decoded.map_err(|error| format!("body_base64 is not base64: {error}"))
}

fn request(number: usize, width: usize, line: Line) -> Result<Listed, Wrong> {
    let wrong = |text: String| Wrong::new(number, 1, text);
    let Some(url) = line.url else {
        return Err(Wrong::new(number, width, "missing field `url`"));
    };
    let mut listed = Listed::new("", url);
    listed.method = line.method;
    for (name, values) in &line.headers {
        listed.fields.extend(values.fields(name));
    }
    listed.body = match (line.body, line.body_base64) {
        (Some(_), Some(_)) => return Err(wrong(TWO_CONTENTS.into())),
        (Some(body), None) => Some(content(&body, &mut listed.fields)),
        (None, Some(encoded)) => Some(decoded(&encoded).map_err(wrong)?),
        (None, None) => None,
    };
    listed.weight = line.weight.unwrap_or(1);
    listed.statuses = line.expect.statuses().map_err(wrong)?;
    Ok(listed)
}

/// The content: that of a string, or JSON as it is written, whose type is told where the line does not.
fn content(body: &RawValue, fields: &mut Vec<(String, String)>) -> Vec<u8> {
    if let Ok(text) = serde_json::from_str::<String>(body.get()) {
        return text.into_bytes();
    }
    let is_told = fields
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if !is_told {
        fields.push(("content-type".into(), "application/json".into()));
    }
    body.get().as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use trilane_grpc::status::Code;

    use super::*;

    #[test]
    fn a_line_is_a_request() {
        let text = r#"{"url": "/a"}

{"method": "PUT", "url": "http://b/{seq}", "headers": {"X": "1", "y": ["2", "3"]}, "body": {"n": {"m": 1}}, "weight": 3, "expect": {"status": "200-299,404"}}
{"url": "/c", "body": "text\n", "expect": {"status": 201}}
{"url": "/d", "body_base64": "AP8="}"#;
        let (listed, called) = parse(text, false).unwrap();
        assert!(called.is_empty());
        let numbers: Vec<_> = listed.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 3, 4, 5]);
        assert_eq!(listed[0].1, Listed::new("", "/a"));
        let second = &listed[1].1;
        assert_eq!(second.method.as_deref(), Some("PUT"));
        let fields = [
            ("X", "1"),
            ("y", "2"),
            ("y", "3"),
            ("content-type", "application/json"),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(second.fields, fields);
        assert_eq!(second.body.as_deref(), Some(&br#"{"n": {"m": 1}}"#[..]));
        assert_eq!(
            (second.weight, &*second.statuses),
            (3, &[(200, 299), (404, 404)][..])
        );
        assert_eq!(listed[2].1.body.as_deref(), Some(&b"text\n"[..]));
        assert_eq!(listed[2].1.statuses, [(201, 201)]);
        assert_eq!(listed[3].1.body.as_deref(), Some(&b"\0\xff"[..]));
    }

    #[test]
    fn a_wrong_line_is_named_by_line_and_column() {
        for (text, line, column, told) in [
            ("{\"url\": \"/\"}\n{\"url\": }", 2, 9, "expected value"),
            (
                "{\"url\": \"/\", \"mehtod\": \"GET\"}",
                1,
                21,
                "unknown field `mehtod`",
            ),
            ("{\"method\": \"GET\"}", 1, 17, "missing field `url`"),
            (
                "{\"url\": \"/\", \"body\": 1, \"body_base64\": \"\"}",
                1,
                1,
                "two contents",
            ),
            (
                "{\"url\": \"/\", \"body_base64\": \"?\"}",
                1,
                1,
                "not base64",
            ),
            (
                "{\"url\": \"/\", \"expect\": {\"status\": \"2xx\"}}",
                1,
                1,
                "2xx",
            ),
            ("{\"url\": \"/\", \"expect\": {\"status\": 99}}", 1, 1, "99"),
            ("[]", 1, 1, "a request is an object"),
            ("7", 1, 1, "invalid type"),
        ] {
            let wrong = parse(text, false).unwrap_err();
            assert_eq!(
                (wrong.line, wrong.column),
                (line, column),
                "{text}: {wrong:?}"
            );
            assert!(wrong.text.contains(told), "{text}: {wrong:?}");
        }
    }

    #[test]
    fn a_line_may_be_a_call() {
        let text = r#"{"grpc": "a.B/C", "body": {"n": "{rand:1-5}"}, "weight": 3, "headers": {"x": "{seq}"}}
{"url": "/prefix", "body": [{"n": 1}, {"n": 2}], "expect": {"status": "not_found,OK"}}
{"body_base64": "CAE=", "expect": {"status": 5}}
{}"#;
        let (listed, called) = parse(text, false).unwrap();
        let urls: Vec<_> = listed.iter().map(|(_, each)| each.url.as_str()).collect();
        assert_eq!(urls, ["/", "/prefix", "/", "/"]);
        assert_eq!(
            (listed[0].1.weight, &listed[0].1.fields[0].1[..]),
            (3, "{seq}")
        );
        let expected = |codes: &[Code], method: Option<&str>, body| Called {
            method: method.map(str::to_owned),
            body,
            expected: codes.to_vec(),
        };
        let json = |text: &str| CalledBody::Json(text.to_owned());
        assert_eq!(
            called,
            [
                expected(&[], Some("a.B/C"), json(r#"{"n": "{rand:1-5}"}"#)),
                expected(
                    &[Code::NotFound, Code::Ok],
                    None,
                    json("{\"n\": 1}\n{\"n\": 2}")
                ),
                expected(&[Code::NotFound], None, CalledBody::Encoded(vec![8, 1])),
                expected(&[], None, CalledBody::Run),
            ]
        );
        for (text, told) in [
            (
                "{\"grpc\": \"a.B/C\", \"method\": \"GET\"}",
                "method of HTTP",
            ),
            (
                "{\"grpc\": \"a.B/C\", \"expect\": {\"status\": 404}}",
                "404",
            ),
            (
                "{\"grpc\": \"a.B/C\", \"expect\": {\"status\": \"MISSING\"}}",
                "MISSING",
            ),
        ] {
            let wrong = parse(text, false).unwrap_err();
            assert!(wrong.text.contains(told), "{text}: {wrong:?}");
        }
        // Where all are calls no line has to say so.
        assert_eq!(parse("{\"body\": {}}", true).unwrap().1.len(), 1);
    }
}
