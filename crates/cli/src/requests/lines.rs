//! JSON Lines: a request a line.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use trilane_engine::Listed;

use super::Wrong;
use super::expect::{Expectation, Values};

/// A line. What it may have is all named here: a key that is written wrong is not silently left out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    url: String,
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

/// The requests of `text`, each with its line; empty lines are none.
pub(super) fn parse(text: &str) -> Result<Vec<(usize, Listed)>, Wrong> {
    let lines = (1..).zip(text.lines());
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| Ok((number, request(number, line)?)))
        .collect()
}

fn request(number: usize, text: &str) -> Result<Listed, Wrong> {
    // Values alone, by their order, would be taken for a request.
    if text.trim_start().starts_with('[') {
        let told = "a request is an object: write for example {\"url\": \"/hello\"}";
        return Err(Wrong::new(number, 1, told));
    }
    let line: Line = serde_json::from_str(text).map_err(|error| Wrong::json(number, &error))?;
    let wrong = |text: String| Wrong::new(number, 1, text);
    let mut listed = Listed::new("", line.url);
    listed.method = line.method;
    for (name, values) in &line.headers {
        listed.fields.extend(values.fields(name));
    }
    listed.body = match (line.body, line.body_base64) {
        (Some(_), Some(_)) => {
            return Err(wrong(
                "body and body_base64 are two contents: leave one out".into(),
            ));
        }
        (Some(body), None) => Some(content(&body, &mut listed.fields)),
        (None, Some(encoded)) => Some(
            STANDARD
                .decode(&encoded)
                .map_err(|error| wrong(format!("body_base64 is not base64: {error}")))?,
        ),
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
    use super::*;

    #[test]
    fn a_line_is_a_request() {
        let text = r#"{"url": "/a"}

{"method": "PUT", "url": "http://b/{seq}", "headers": {"X": "1", "y": ["2", "3"]}, "body": {"n": {"m": 1}}, "weight": 3, "expect": {"status": "200-299,404"}}
{"url": "/c", "body": "text\n", "expect": {"status": 201}}
{"url": "/d", "body_base64": "AP8="}"#;
        let listed = parse(text).unwrap();
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
            let wrong = parse(text).unwrap_err();
            assert_eq!(
                (wrong.line, wrong.column),
                (line, column),
                "{text}: {wrong:?}"
            );
            assert!(wrong.text.contains(told), "{text}: {wrong:?}");
        }
    }
}
