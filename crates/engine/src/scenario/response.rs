//! What a step takes from a response, and what it finds wrong with it.

use std::borrow::Cow;
use std::cell::OnceCell;

use regex::Regex;
use serde_json::Value;
use trilane_wire::Fields;

use crate::plan::{PlanError, usage, wrong_regex};

use super::{Check, LARGEST_BODY, LONGEST_VALUE, Source, StepPlan, Take, Test};

/// Fields of one response that set cookies, and bytes of each; browsers keep as many (RFC 6265 §6.1).
const MOST_COOKIES: usize = 50;
const LONGEST_COOKIE: usize = 4096;
/// What of a text is shown in a message, in characters.
const SHOWN: usize = 60;

/// A [`Take`], checked.
#[derive(Debug)]
pub(super) struct TakePlan {
    source: Source,
    regex: Option<Regex>,
}

/// A [`Check`], checked.
#[derive(Debug)]
pub(super) struct CheckPlan {
    source: Source,
    test: TestPlan,
}

#[derive(Debug)]
enum TestPlan {
    Exists,
    Equals(Value),
    Contains(String),
    Matches(Regex),
}

impl TakePlan {
    pub(super) fn new(take: &Take) -> Result<Self, PlanError> {
        check_source(&take.source)?;
        Ok(Self {
            source: take.source.clone(),
            regex: take.regex.as_deref().map(regex).transpose()?,
        })
    }
}

impl CheckPlan {
    pub(super) fn new(check: &Check) -> Result<Self, PlanError> {
        check_source(&check.source)?;
        Ok(Self {
            source: check.source.clone(),
            test: match &check.test {
                Test::Exists => TestPlan::Exists,
                Test::Equals(value) => TestPlan::Equals(value.clone()),
                Test::Contains(text) => TestPlan::Contains(text.clone()),
                Test::Matches(text) => TestPlan::Matches(regex(text)?),
            },
        })
    }
}

fn check_source(source: &Source) -> Result<(), PlanError> {
    match source {
        Source::Json(pointer) if !pointer.is_empty() && !pointer.starts_with('/') => {
            usage(format!(
                "{pointer:?} is not a JSON Pointer, which begins with a slash: write \"/{pointer}\""
            ))
        }
        _ => Ok(()),
    }
}

fn regex(text: &str) -> Result<Regex, PlanError> {
    Regex::new(text).map_err(|error| PlanError::Usage(wrong_regex(&error)))
}

/// What has come of the response to a user's request, as far as its step looks at it.
#[derive(Debug, Default)]
pub(crate) struct Visit {
    user: u32,
    /// The values of the step's fields, as far as they came, each with its place among them.
    fields: Vec<(usize, String)>,
    set_cookies: Vec<String>,
    body: Vec<u8>,
    is_too_long: bool,
}

/// The responses that are awaited on one connection, by slot. Empty where there is no scenario.
#[derive(Debug, Default)]
pub(crate) struct Visits(Vec<Visit>);

impl Visits {
    pub(crate) fn new(slots: usize) -> Self {
        Self((0..slots).map(|_| Visit::default()).collect())
    }

    /// A request of a user is sent, whose response will be in this slot.
    #[inline]
    pub(crate) fn open(&mut self, slot: u32, user: u32) {
        if let Some(visit) = self.0.get_mut(slot as usize) {
            visit.user = user;
            visit.fields.clear();
            visit.set_cookies.clear();
            visit.body.clear();
            visit.is_too_long = false;
        }
    }

    /// Whose request is in this slot; 0 where there is no scenario.
    #[inline]
    pub(crate) fn user(&self, slot: u32) -> u32 {
        self.0.get(slot as usize).map_or(0, |visit| visit.user)
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> &mut Visit {
        &mut self.0[slot as usize]
    }
}

impl Visit {
    /// The head of the response has come.
    pub(super) fn head(&mut self, step: &StepPlan, fields: Fields<'_>, cookies: bool) {
        for (name, value) in fields.iter() {
            if cookies
                && name.eq_ignore_ascii_case(b"set-cookie")
                && value.len() <= LONGEST_COOKIE
                && !value.iter().any(u8::is_ascii_control)
                && self.set_cookies.len() < MOST_COOKIES
            {
                self.set_cookies
                    .push(String::from_utf8_lossy(value).into_owned());
            }
        }
        for (at, name) in step.fields.iter().enumerate() {
            if let Some(value) = fields.first(name.as_bytes()) {
                let value = String::from_utf8_lossy(value).into_owned();
                self.fields.push((at, value));
            }
        }
    }

    /// A piece of the content has come.
    pub(super) fn data(&mut self, step: &StepPlan, bytes: &[u8]) {
        if !step.reads_body || self.is_too_long {
            return;
        }
        if self.body.len() + bytes.len() > LARGEST_BODY {
            self.is_too_long = true;
            return;
        }
        self.body.extend_from_slice(bytes);
    }

    /// The fields by which the server sets cookies.
    pub(super) fn set_cookies(&self) -> &[String] {
        &self.set_cookies
    }

    /// Looks at the complete response: writes what the step takes into `variables`, or says what is
    /// wrong.
    pub(super) fn judge(&self, step: &StepPlan, variables: &mut [String]) -> Result<(), String> {
        let response = Response {
            visit: self,
            step,
            text: OnceCell::new(),
            json: OnceCell::new(),
        };
        for check in &step.checks {
            response.check(check)?;
        }
        for (variable, take) in &step.take {
            let value = response.take(take)?;
            if let Some(variable) = variables.get_mut(*variable) {
                value.clone_into(variable);
            }
        }
        Ok(())
    }
}

/// A complete response, of which the content is read when it is first looked at.
struct Response<'a> {
    visit: &'a Visit,
    step: &'a StepPlan,
    text: OnceCell<Cow<'a, str>>,
    json: OnceCell<Result<Value, String>>,
}

/// What is at a [`Source`].
enum Found<'a> {
    Text(&'a str),
    Json(&'a Value),
}

impl Found<'_> {
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(*text),
            Self::Json(Value::String(text)) => Cow::Borrowed(text.as_str()),
            Self::Json(value) => Cow::Owned(value.to_string()),
        }
    }

    /// Its beginning, text in quotes.
    fn shown(&self) -> String {
        match self {
            Self::Text(text) => shown(text),
            Self::Json(Value::String(text)) => shown(text),
            Self::Json(value) => cut(&value.to_string()),
        }
    }

    fn equals(&self, wanted: &Value) -> bool {
        match (self, wanted) {
            (Self::Json(value), _) => *value == wanted,
            (Self::Text(text), Value::String(wanted)) => text == wanted,
            (Self::Text(text), _) => {
                serde_json::from_str::<Value>(text).is_ok_and(|it| it == *wanted)
            }
        }
    }
}

impl Response<'_> {
    fn find(&self, source: &Source) -> Result<Option<Found<'_>>, String> {
        if self.visit.is_too_long && !matches!(source, Source::Header(_)) {
            return Err(format!(
                "the content is longer than the {} MiB that are looked at",
                LARGEST_BODY >> 20
            ));
        }
        match source {
            Source::Header(name) => {
                let mut names = self.step.fields.iter();
                let at = names.position(|known| known.eq_ignore_ascii_case(name));
                let mut values = self.visit.fields.iter();
                let value = values.find(|(field, _)| Some(*field) == at);
                Ok(value.map(|(_, value)| Found::Text(value)))
            }
            Source::Body => {
                let text = || String::from_utf8_lossy(&self.visit.body);
                Ok(Some(Found::Text(self.text.get_or_init(text))))
            }
            Source::Json(pointer) => {
                let parse = || {
                    serde_json::from_slice(&self.visit.body)
                        .map_err(|error| format!("the content is not JSON: {error}"))
                };
                match self.json.get_or_init(parse) {
                    Ok(value) => Ok(value.pointer(pointer).map(Found::Json)),
                    Err(text) => Err(text.clone()),
                }
            }
        }
    }

    fn check(&self, check: &CheckPlan) -> Result<(), String> {
        let place = place(&check.source);
        let Some(found) = self.find(&check.source)? else {
            return Err(format!("{place} is not there"));
        };
        let text = found.text();
        let wrong = match &check.test {
            TestPlan::Exists => return Ok(()),
            TestPlan::Equals(wanted) if !found.equals(wanted) => format!("not {wanted}"),
            TestPlan::Contains(wanted) if !text.contains(wanted) => {
                format!("which does not contain {wanted:?}")
            }
            TestPlan::Matches(regex) if !regex.is_match(&text) => {
                format!("which {:?} does not match", regex.as_str())
            }
            _ => return Ok(()),
        };
        Err(format!("{place} is {}, {wrong}", found.shown()))
    }

    fn take(&self, take: &TakePlan) -> Result<String, String> {
        let place = place(&take.source);
        let Some(found) = self.find(&take.source)? else {
            return Err(format!("{place} is not there to be taken"));
        };
        let text = found.text();
        let value = match &take.regex {
            None => &*text,
            Some(regex) => {
                let groups = regex.captures(&text).ok_or_else(|| {
                    let (text, regex) = (shown(&text), regex.as_str());
                    format!("{place} is {text}, of which {regex:?} takes nothing")
                })?;
                let group = groups.get(1).or_else(|| groups.get(0));
                group.map_or("", |group| group.as_str())
            }
        };
        if value.len() > LONGEST_VALUE {
            return Err(format!(
                "what is to be taken of {place} has {} bytes, and at most {LONGEST_VALUE} are kept",
                value.len()
            ));
        }
        let value = value.trim();
        if value.is_empty() {
            return Err(format!("what is to be taken of {place} is empty"));
        }
        // It may go into a field, where they would begin another one.
        if value
            .bytes()
            .any(|byte| byte.is_ascii_control() && byte != b'\t')
        {
            return Err(format!(
                "what is to be taken of {place} has control characters: {}",
                shown(value)
            ));
        }
        Ok(value.to_owned())
    }
}

fn place(source: &Source) -> String {
    match source {
        Source::Json(pointer) if pointer.is_empty() => "the JSON of the content".into(),
        Source::Json(pointer) => format!("{pointer} of the content"),
        Source::Header(name) => format!("the field {name}"),
        Source::Body => "the content".into(),
    }
}

/// The beginning of `text`, in quotes.
fn shown(text: &str) -> String {
    let start = cut(text);
    match start.strip_suffix('…') {
        Some(start) if start.len() < text.len() => format!("{start:?}…"),
        _ => format!("{start:?}"),
    }
}

/// The beginning of `text`.
fn cut(text: &str) -> String {
    let mut characters = text.chars();
    let start: String = characters.by_ref().take(SHOWN).collect();
    let rest = if characters.next().is_some() {
        "…"
    } else {
        ""
    };
    start + rest
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trilane_wire::FieldList;
    use url::Url;

    use super::*;
    use crate::listed::Listed;
    use crate::scenario::Step;

    fn check(source: Source, test: Test) -> Step {
        Step {
            checks: vec![Check { source, test }],
            ..Step::default()
        }
    }

    fn take(source: Source, regex: Option<&str>) -> Step {
        let regex = regex.map(str::to_owned);
        Step {
            take: vec![("x".into(), Take { source, regex })],
            ..Step::default()
        }
    }

    fn judged(step: &Step, fields: &[(&str, &str)], body: &str) -> Result<String, String> {
        let url = Url::parse("http://a/").unwrap();
        let listed = Listed::new("", "http://a/");
        let step = StepPlan::new(step, &listed, url, None, &["x".into()]).unwrap();
        let mut list = FieldList::default();
        for (name, value) in fields {
            list.push(name.as_bytes(), value.as_bytes());
        }
        let mut visits = Visits::new(1);
        visits.open(0, 7);
        let visit = visits.get_mut(0);
        visit.head(&step, list.as_fields(), true);
        let (start, end) = body.split_at(body.len() / 2);
        visit.data(&step, start.as_bytes());
        visit.data(&step, end.as_bytes());
        let mut variables = [String::new()];
        visit.judge(&step, &mut variables)?;
        let [value] = variables;
        Ok(value)
    }

    fn json(pointer: &str) -> Source {
        Source::Json(pointer.into())
    }

    #[test]
    fn values_are_taken_from_content_and_fields() {
        let body = r#"{"token": "t-1", "items": [{"id": 7}, {"id": 8}], "a/b": true}"#;
        let fields = [("Location", "/items/42?x=1")];
        for (step, value) in [
            (take(json("/token"), None), "t-1"),
            (take(json("/items/1/id"), None), "8"),
            (take(json("/items/0"), None), "{\"id\":7}"),
            (take(json("/a~1b"), None), "true"),
            (
                take(Source::Header("location".into()), None),
                "/items/42?x=1",
            ),
            (
                take(Source::Header("LOCATION".into()), Some("/items/(\\d+)")),
                "42",
            ),
            (take(Source::Body, Some("t-\\d")), "t-1"),
        ] {
            assert_eq!(judged(&step, &fields, body).unwrap(), value, "{step:?}");
        }
        for (step, told) in [
            (
                take(json("/tokens"), None),
                "/tokens of the content is not there",
            ),
            (
                take(Source::Header("x".into()), None),
                "the field x is not there",
            ),
            (take(Source::Body, Some("u-\\d")), "takes nothing"),
            (take(Source::Body, Some("$")), "is empty"),
        ] {
            let wrong = judged(&step, &fields, body).unwrap_err();
            assert!(wrong.contains(told), "{wrong}");
        }
        let wrong = judged(&take(json("/a"), None), &[], "<html>").unwrap_err();
        assert!(wrong.contains("not JSON"), "{wrong}");
        let wrong = judged(&take(json("/a"), None), &[], r#"{"a": "x\r\ny: z"}"#).unwrap_err();
        assert!(wrong.contains("control characters"), "{wrong}");
        let long = format!("{{\"a\": \"{}\"}}", "x".repeat(LONGEST_VALUE + 1));
        let wrong = judged(&take(json("/a"), None), &[], &long).unwrap_err();
        assert!(wrong.contains("at most"), "{wrong}");
    }

    #[test]
    fn checks_say_what_is_wrong() {
        let body = r#"{"state": "open", "count": 3}"#;
        let fields = [("content-type", "application/json")];
        let kind = || Source::Header("content-type".into());
        for step in [
            check(json("/state"), Test::Exists),
            check(json("/state"), Test::Equals(json!("open"))),
            check(json("/count"), Test::Equals(json!(3))),
            check(json(""), Test::Equals(json!({"count": 3, "state": "open"}))),
            check(kind(), Test::Matches("^application/".into())),
            check(kind(), Test::Equals(json!("application/json"))),
            check(Source::Body, Test::Contains("open".into())),
        ] {
            judged(&step, &fields, body).unwrap();
        }
        for (step, told) in [
            (
                check(json("/state"), Test::Equals(json!("shut"))),
                "/state of the content is \"open\", not \"shut\"",
            ),
            (
                check(json("/count"), Test::Equals(json!("3"))),
                "/count of the content is 3, not \"3\"",
            ),
            (
                check(kind(), Test::Matches("html".into())),
                "the field content-type is \"application/json\", which \"html\" does not match",
            ),
            (
                check(Source::Body, Test::Contains("shut".into())),
                "which does not contain \"shut\"",
            ),
            (
                check(json("/x"), Test::Exists),
                "/x of the content is not there",
            ),
        ] {
            let wrong = judged(&step, &fields, body).unwrap_err();
            assert!(wrong.contains(told), "{wrong}");
        }
    }

    #[test]
    fn content_without_an_end_is_not_kept() {
        let step = check(Source::Body, Test::Exists);
        let wrong = judged(&step, &[], &"x".repeat(LARGEST_BODY + 2)).unwrap_err();
        assert!(wrong.contains("longer than the 4 MiB"), "{wrong}");
        // What is not looked at may be as long as it likes.
        let step = check(Source::Header("a".into()), Test::Exists);
        judged(&step, &[("a", "b")], &"x".repeat(LARGEST_BODY + 2)).unwrap();
    }

    #[test]
    fn wrong_patterns_are_told() {
        for (source, test, told) in [
            (json("state"), Test::Exists, "write \"/state\""),
            (Source::Body, Test::Matches("(".into()), "unclosed group"),
        ] {
            let wrong = CheckPlan::new(&Check { source, test }).unwrap_err();
            assert!(wrong.to_string().contains(told), "{wrong}");
        }
    }
}
