//! What is expanded is matched again, and nothing that a peer can send breaks anything.

use std::sync::LazyLock;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use proptest::prelude::*;
use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage};
use trilane_transcode::{Format, Found, Router};

static POOL: LazyLock<DescriptorPool> = LazyLock::new(crate::support::bindings);
static ROUTER: LazyLock<Router> = LazyLock::new(|| Router::new(&POOL).unwrap());

/// "All characters except `[-_.~0-9a-zA-Z]` are percent-encoded."
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Fields of text that a template can have, each once.
const FIELDS: [&str; 4] = ["text", "inner.text", "inner.inner.two_words", "spelled"];

/// A part of a template, and of a path that it matches.
#[derive(Debug, Clone)]
enum Part {
    Literal(String),
    Star(String),
    /// The segments of a variable: a literal, or what `*` stands for.
    Variable(Vec<Result<String, String>>),
}

fn literal() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9._~-]{0,6}"
}

fn segment() -> impl Strategy<Value = String> {
    "[^/]{1,8}"
}

fn part() -> impl Strategy<Value = Part> {
    let element = prop_oneof![literal().prop_map(Ok), segment().prop_map(Err)];
    prop_oneof![
        literal().prop_map(Part::Literal),
        segment().prop_map(Part::Star),
        // One segment may hold a slash, which is encoded then.
        ".{1,8}".prop_map(|text| Part::Variable(vec![Err(text)])),
        prop::collection::vec(element, 2..4).prop_map(Part::Variable),
    ]
}

/// The template, the path, and what each variable holds.
fn expand(
    parts: &[Part],
    rest: Option<&[String]>,
    verb: Option<&str>,
) -> (String, String, Vec<(&'static str, String)>) {
    let encoded = |text: &str| utf8_percent_encode(text, ENCODED).to_string();
    let (mut template, mut path, mut values) = (String::new(), String::new(), Vec::new());
    let mut fields = FIELDS.iter().copied();
    for part in parts {
        template.push('/');
        path.push('/');
        match part {
            Part::Literal(text) => {
                template += text;
                path += text;
            }
            Part::Star(text) => {
                template.push('*');
                path += &encoded(text);
            }
            Part::Variable(segments) => {
                let Some(field) = fields.next() else {
                    template.push('*');
                    path.push('x');
                    continue;
                };
                let pattern: Vec<&str> = segments
                    .iter()
                    .map(|segment| segment.as_ref().map_or("*", String::as_str))
                    .collect();
                template += &format!("{{{field}={}}}", pattern.join("/"));
                let texts: Vec<&String> = segments
                    .iter()
                    .map(|segment| segment.as_ref().unwrap_or_else(|text| text))
                    .collect();
                let expanded: Vec<String> = texts.iter().map(|text| encoded(text)).collect();
                path += &expanded.join("/");
                let texts: Vec<&str> = texts.into_iter().map(String::as_str).collect();
                values.push((field, texts.join("/")));
            }
        }
    }
    if let Some(rest) = rest
        && let Some(field) = fields.next()
    {
        template += &format!("/{{{field}=**}}");
        for segment in rest {
            path.push('/');
            path += &encoded(segment);
        }
        values.push((field, rest.join("/")));
    }
    if let Some(verb) = verb {
        template += &format!(":{verb}");
        path += &format!(":{verb}");
    }
    (template, path, values)
}

fn text_at(message: &DynamicMessage, field_path: &str) -> String {
    let (name, rest) = field_path.split_once('.').unwrap_or((field_path, ""));
    let value = message.get_field_by_name(name).unwrap();
    match rest {
        "" => value.as_str().unwrap().to_owned(),
        rest => text_at(value.as_message().unwrap(), rest),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_is_expanded_is_matched(
        parts in prop::collection::vec(part(), 1..5),
        rest in prop::option::of(prop::collection::vec(segment(), 0..4)),
        verb in prop::option::of(literal()),
    ) {
        let (template, path, values) = expand(&parts, rest.as_deref(), verb.as_deref());
        let router = crate::support::router(&[&format!("get: {template:?}")]).unwrap();
        let Found::Match(found) = router.find("GET", &path) else {
            panic!("{template} does not match {path}");
        };
        let request = found.request(None, Format::Json, b"").unwrap();
        for (field, value) in values {
            prop_assert_eq!(text_at(&request, field), value, "{} {}", template, path);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_breaks(
        method in prop_oneof![Just("GET"), Just("POST"), Just("PATCH"), Just("PUT")],
        path in prop_oneof![
            "[/a-z0-9%:*{}=.]{0,40}",
            "/v1/(rest|whole|query|typed|pick|verbs|body|files)(/[a-z0-9%:F]{0,6}){0,5}",
            ".{0,40}",
        ],
        query in prop_oneof![
            "([a-z0-9._]{0,12}=[a-zA-Z0-9%+.:-]{0,12}&?){0,6}",
            "(int32|kind|inner\\.text|texts|timestamp|bytes|double)=[ -~]{0,10}",
            ".{0,40}",
        ],
        content in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            "[\\[\\]{}\",:a-z0-9]{0,60}".prop_map(String::into_bytes),
        ],
        json in any::<bool>(),
    ) {
        let format = if json { Format::Json } else { Format::Protobuf };
        if let Found::Match(found) = ROUTER.find(method, &path) {
            for result in [
                found.request(Some(&query), format, &content),
                found.message(Some(&query), format, &content),
                found.request(Some(&query), format, b""),
            ] {
                match result {
                    // What is taken can be sent on and read again.
                    Ok(message) => {
                        let bytes = prost::Message::encode_to_vec(&message);
                        DynamicMessage::decode(message.descriptor(), bytes.as_slice()).unwrap();
                    }
                    Err(problem) => prop_assert_eq!(problem.code, 3),
                }
            }
        }
    }
}
