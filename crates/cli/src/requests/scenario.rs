//! Scenarios in TOML or JSON: what virtual users do, step after step.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use toml::Spanned;
use trilane_engine::{Check, Flow, Listed, Scenario, Source, Step, Take, Test};
use trilane_units as units;

use super::Wrong;
use super::expect::{Expectation, Values};

/// How deep groups and choices may be nested.
const DEEPEST: usize = 16;

/// The whole file. What it may have is all named here: a key that is written wrong is not silently left
/// out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with the list steps")]
struct Document<S> {
    name: Option<String>,
    /// Whether users keep cookies.
    cookies: Option<bool>,
    /// Fields of all requests that do not say otherwise.
    #[serde(default = "BTreeMap::new")]
    headers: BTreeMap<String, Values>,
    steps: Vec<S>,
}

/// One of the steps: a request, a group of steps, a choice between groups, or a pause.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a step with its keys, such as url")]
struct Item<S> {
    name: Option<String>,
    url: Option<String>,
    method: Option<String>,
    #[serde(default = "BTreeMap::new")]
    headers: BTreeMap<String, Values>,
    /// Text, or anything else, which is sent as JSON.
    body: Option<Value>,
    /// A file whose contents are the body.
    body_file: Option<String>,
    #[serde(default)]
    expect: Expectation,
    #[serde(default)]
    checks: Vec<CheckItem>,
    #[serde(default)]
    take: BTreeMap<String, TakeItem>,
    steps: Option<Vec<S>>,
    choose: Option<Vec<Choice<S>>>,
    /// How often all of it is done.
    repeat: Option<u32>,
    /// What is waited for behind it, such as 1s, or 1s-3s.
    pause: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a choice with the list steps")]
struct Choice<S> {
    #[serde(default = "one")]
    weight: u32,
    steps: Vec<S>,
}

fn one() -> u32 {
    1
}

/// Where a text of a response is, and what it must be.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a check with its keys, such as json and equals"
)]
struct CheckItem {
    json: Option<String>,
    header: Option<String>,
    equals: Option<Value>,
    contains: Option<String>,
    matches: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with json, header or regex")]
struct TakeItem {
    json: Option<String>,
    header: Option<String>,
    regex: Option<String>,
}

/// A step of which the place in the file is known.
trait Placed: Sized {
    /// Where in `text` it begins, and what it says.
    fn open(self, text: &str) -> Result<(usize, Item<Self>), Wrong>;
}

#[derive(Deserialize)]
#[serde(transparent)]
struct TomlItem(Spanned<Item<TomlItem>>);

impl Placed for TomlItem {
    fn open(self, _: &str) -> Result<(usize, Item<Self>), Wrong> {
        Ok((self.0.span().start, self.0.into_inner()))
    }
}

impl Placed for &RawValue {
    fn open(self, text: &str) -> Result<(usize, Item<Self>), Wrong> {
        let own = self.get();
        let start = own.as_ptr() as usize - text.as_ptr() as usize;
        let item = serde_json::from_str(own).map_err(|error| {
            let (line, column) = place(text, start);
            let mut wrong = Wrong::json(line, &error);
            if wrong.line == line {
                wrong.column += column - 1;
            }
            wrong
        })?;
        Ok((start, item))
    }
}

/// Reads a scenario in TOML.
pub(super) fn parse_toml(text: &str, file: &Path) -> Result<(Vec<Listed>, Scenario), Wrong> {
    let document: Document<TomlItem> = toml::from_str(text).map_err(|error| {
        let (line, column) = place(text, error.span().map_or(0, |span| span.start));
        Wrong::of_shape(line, column, error.message())
    })?;
    read(document, text, file)
}

/// Reads a scenario in JSON.
pub(super) fn parse_json(text: &str, file: &Path) -> Result<(Vec<Listed>, Scenario), Wrong> {
    let document: Document<&RawValue> =
        serde_json::from_str(text).map_err(|error| Wrong::json(1, &error))?;
    read(document, text, file)
}

/// Line and column of a byte of `text`, both from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at.min(text.len())];
    let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    (line, before[start..].chars().count() + 1)
}

fn read<S: Placed>(
    document: Document<S>,
    text: &str,
    file: &Path,
) -> Result<(Vec<Listed>, Scenario), Wrong> {
    let mut reader = Reader {
        text,
        file,
        headers: document.headers,
        listed: Vec::new(),
        steps: Vec::new(),
    };
    let flow = reader.flow(document.steps, 0)?;
    let stem = file.file_stem().unwrap_or_default();
    let name = document.name;
    let name = name.unwrap_or_else(|| stem.to_string_lossy().into_owned());
    let scenario = Scenario {
        name,
        users: None,
        flow,
        steps: reader.steps,
        cookies: document.cookies.unwrap_or(true),
    };
    Ok((reader.listed, scenario))
}

struct Reader<'a> {
    text: &'a str,
    file: &'a Path,
    headers: BTreeMap<String, Values>,
    listed: Vec<Listed>,
    steps: Vec<Step>,
}

impl Reader<'_> {
    fn flow<S: Placed>(&mut self, items: Vec<S>, depth: usize) -> Result<Vec<Flow>, Wrong> {
        let mut flow = Vec::with_capacity(items.len());
        for item in items {
            let (start, item) = item.open(self.text)?;
            let at = place(self.text, start);
            let wrong = |text: String| Wrong::new(at.0, at.1, text);
            if depth > DEEPEST {
                return Err(wrong(format!(
                    "steps are nested more than {DEEPEST} deep: write them one behind the other"
                )));
            }
            flow.extend(self.item(item, at, depth).map_err(|told| match told {
                Told::Here(text) => wrong(text),
                Told::There(wrong) => wrong,
            })?);
        }
        Ok(flow)
    }

    fn item<S: Placed>(
        &mut self,
        mut item: Item<S>,
        at: (usize, usize),
        depth: usize,
    ) -> Result<Vec<Flow>, Told> {
        let pause = item.pause.take().as_deref().map(pause).transpose()?;
        let repeat = item.repeat.take();
        let (steps, choose) = (item.steps.take(), item.choose.take());
        let kinds = [item.url.is_some(), steps.is_some(), choose.is_some()];
        if kinds.iter().filter(|is| **is).count() > 1 {
            return here(
                "a step is one thing: give it a url, steps or choose, and not several of them",
            );
        }
        if !kinds[0] && item.says_of_a_request() {
            return here(
                "a step that says something about a request or its response has a url: write one",
            );
        }
        let mut flow = match (steps, choose) {
            (Some(steps), _) => self.flow(steps, depth + 1)?,
            (None, Some(choices)) => vec![self.choose(choices, depth)?],
            (None, None) if kinds[0] => vec![self.request(item, at)?],
            (None, None) if pause.is_none() => {
                return here("a step does something: give it a url, steps, choose or a pause");
            }
            (None, None) => Vec::new(),
        };
        flow.extend(pause);
        match repeat {
            None | Some(1) => Ok(flow),
            Some(0) => here("repeat = 0 is a step that is never taken: leave it out"),
            Some(times) => Ok(vec![Flow::Repeat(times, flow)]),
        }
    }

    fn choose<S: Placed>(&mut self, choices: Vec<Choice<S>>, depth: usize) -> Result<Flow, Told> {
        if choices.is_empty() {
            return here("choose has nothing to choose from: write { weight = 1, steps = […] }");
        }
        let mut chosen = Vec::with_capacity(choices.len());
        for Choice { weight, steps } in choices {
            if weight == 0 {
                return here("weight = 0 is never chosen: leave it out, or give it 1");
            }
            chosen.push((weight, self.flow(steps, depth + 1)?));
        }
        Ok(Flow::Choose(chosen))
    }

    fn request<S>(&mut self, item: Item<S>, at: (usize, usize)) -> Result<Flow, Told> {
        let place = format!("{}:{}:{}", self.file.display(), at.0, at.1);
        let mut listed = Listed::new(place, item.url.unwrap_or_default());
        listed.method = item.method;
        let is_own = |name: &str| {
            item.headers
                .keys()
                .any(|own| own.eq_ignore_ascii_case(name))
        };
        let shared = self.headers.iter().filter(|(name, _)| !is_own(name));
        for (name, values) in item.headers.iter().chain(shared) {
            listed.fields.extend(values.fields(name));
        }
        listed.body = Some(self.body(item.body, item.body_file, &mut listed.fields)?);
        listed.statuses = item.expect.statuses()?;
        let name = item.name.unwrap_or_else(|| {
            let method = match (&listed.method, &listed.body) {
                (Some(method), _) => method.as_str(),
                (None, Some(body)) if !body.is_empty() => "POST",
                (None, _) => "GET",
            };
            format!("{method} {}", trilane_text::url(&listed.url))
        });
        let take = item.take.into_iter().map(|(variable, take)| {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if variable.is_empty() || !variable.chars().all(is_name) {
                return here(format!(
                    "{variable:?} is not a name for what is taken: letters, digits, _ and - are"
                ));
            }
            let take = Take {
                source: source(take.json, take.header)?,
                regex: take.regex,
            };
            Ok((variable, take))
        });
        self.steps.push(Step {
            name,
            take: take.collect::<Result<_, _>>()?,
            checks: item
                .checks
                .into_iter()
                .map(check)
                .collect::<Result<_, _>>()?,
        });
        self.listed.push(listed);
        Ok(Flow::Send(self.steps.len() - 1))
    }

    /// The content; its type is told where it is JSON and the step tells none.
    fn body(
        &self,
        body: Option<Value>,
        file: Option<String>,
        fields: &mut Vec<(String, String)>,
    ) -> Result<Vec<u8>, Told> {
        match (body, file) {
            (Some(_), Some(_)) => here("body and body_file are two contents: leave one out"),
            (None, Some(name)) => {
                let folder = self.file.parent().unwrap_or(Path::new(""));
                let path = folder.join(&name);
                super::named(folder, &path).or_else(|error| {
                    here(format!(
                        "body_file: cannot read {}: {error}",
                        path.display()
                    ))
                })
            }
            (Some(Value::String(text)), None) => Ok(text.into_bytes()),
            (Some(value), None) => {
                let is_told = fields
                    .iter()
                    .any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
                if !is_told {
                    fields.push(("content-type".into(), "application/json".into()));
                }
                Ok(value.to_string().into_bytes())
            }
            (None, None) => Ok(Vec::new()),
        }
    }
}

/// What is wrong: in the step that is being read, or in one inside it, whose place is known.
enum Told {
    Here(String),
    There(Wrong),
}

impl From<String> for Told {
    fn from(text: String) -> Self {
        Self::Here(text)
    }
}

impl From<Wrong> for Told {
    fn from(wrong: Wrong) -> Self {
        Self::There(wrong)
    }
}

fn here<T>(text: impl Into<String>) -> Result<T, Told> {
    Err(Told::Here(text.into()))
}

impl<S> Item<S> {
    /// Whether it has anything that only a request has.
    fn says_of_a_request(&self) -> bool {
        self.method.is_some()
            || !self.headers.is_empty()
            || self.body.is_some()
            || self.body_file.is_some()
            || self.expect.is_some()
            || !self.checks.is_empty()
            || !self.take.is_empty()
    }
}

/// Parses a pause: `1s`, or `1s-3s` for any time between two.
fn pause(text: &str) -> Result<Flow, String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let [low, high]: [Duration; 2] = [units::time(low)?, units::time(high)?];
    if low > high {
        return Err(format!(
            "pause = {text:?}: the first time is the shorter one: write for example 1s-3s"
        ));
    }
    Ok(Flow::Pause(low, high))
}

fn source(json: Option<String>, header: Option<String>) -> Result<Source, Told> {
    match (json, header) {
        (Some(_), Some(_)) => here("json and header are two places: leave one out"),
        (Some(pointer), None) => Ok(Source::Json(pointer)),
        (None, Some(name)) => Ok(Source::Header(name)),
        (None, None) => Ok(Source::Body),
    }
}

fn check(item: CheckItem) -> Result<Check, Told> {
    let source = source(item.json, item.header)?;
    let test = match (item.equals, item.contains, item.matches) {
        (None, None, None) if source == Source::Body => {
            return here("a check looks for something: give it json, header, contains or matches");
        }
        (None, None, None) => Test::Exists,
        (Some(value), None, None) => Test::Equals(value),
        (None, Some(text), None) => Test::Contains(text),
        (None, None, Some(regex)) => Test::Matches(regex),
        _ => return here("equals, contains and matches are several checks: write one for each"),
    };
    Ok(Check { source, test })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: &str = r#"
name = "shop"
headers = { accept = "application/json" }

[[steps]]
name = "login"
url = "/login"
body = { user = "{csv:users.csv:name}" }
expect = { status = 201 }
take = { token = { json = "/token" }, id = { header = "location", regex = "/(\\d+)$" } }
checks = [{ header = "content-type", matches = "json" }, { json = "/ok", equals = true }]
pause = "1s-3s"

[[steps]]
repeat = 2
steps = [{ url = "/items/{var:id}", headers = { authorization = "Bearer {var:token}" } }]

[[steps]]
choose = [
  { weight = 3, steps = [{ url = "/cart", method = "PUT", body = "x" }] },
  { steps = [{ pause = "1s" }, { url = "/" }] },
]
"#;

    fn toml(text: &str) -> Result<(Vec<Listed>, Scenario), Wrong> {
        parse_toml(text, Path::new("shop.toml"))
    }

    fn json(text: &str) -> Result<(Vec<Listed>, Scenario), Wrong> {
        parse_json(text, Path::new("shop.json"))
    }

    #[test]
    fn a_scenario_is_read() {
        let (listed, scenario) = toml(SHOP).unwrap();
        let names: Vec<_> = scenario.steps.iter().map(|step| &*step.name).collect();
        assert_eq!(
            names,
            ["login", "GET /items/{var:id}", "PUT /cart", "GET /"]
        );
        let second = Duration::from_secs(1);
        let flow = [
            Flow::Send(0),
            Flow::Pause(second, 3 * second),
            Flow::Repeat(2, vec![Flow::Send(1)]),
            Flow::Choose(vec![
                (3, vec![Flow::Send(2)]),
                (1, vec![Flow::Pause(second, second), Flow::Send(3)]),
            ]),
        ];
        assert_eq!(scenario.flow, flow);
        assert_eq!((&*scenario.name, scenario.cookies), ("shop", true));
        let login = &listed[0];
        assert_eq!(login.place, "shop.toml:5:1");
        let body = br#"{"user":"{csv:users.csv:name}"}"#;
        assert_eq!(login.body.as_deref(), Some(&body[..]));
        let fields = [
            ("accept", "application/json"),
            ("content-type", "application/json"),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(login.fields, fields);
        assert_eq!(login.statuses, [(201, 201)]);
        let step = &scenario.steps[0];
        assert_eq!(step.take.len(), 2);
        assert_eq!(step.take[1].1.source, Source::Json("/token".into()));
        let test = Test::Matches("json".into());
        assert_eq!(step.checks[0].test, test);
    }

    #[test]
    fn json_says_the_same() {
        let document: toml::Table = toml::from_str(SHOP).unwrap();
        let text = serde_json::to_string_pretty(&document).unwrap();
        let ((mut one, first), (mut other, second)) = (toml(SHOP).unwrap(), json(&text).unwrap());
        for each in one.iter_mut().chain(&mut other) {
            each.place.clear();
        }
        assert_eq!((one, first.flow), (other, second.flow));
        assert_eq!(first.steps, second.steps);
    }

    #[test]
    fn what_is_wrong_is_told_by_line_and_column() {
        let step = |text: &str| format!("name = \"a\"\n\n[[steps]]\n{text}\n");
        for (text, line, told) in [
            ("steps = [".to_owned(), 1, ""),
            (step("ulr = \"/\""), 4, "unknown field `ulr`"),
            (step("url = 7"), 4, "invalid type"),
            (step("name = \"x\""), 3, "a step does something"),
            (step("url = \"/\"\nsteps = []"), 3, "a step is one thing"),
            (step("steps = []\nmethod = \"PUT\""), 3, "has a url"),
            (step("url = \"/\"\nrepeat = 0"), 3, "never taken"),
            (step("url = \"/\"\npause = \"3s-1s\""), 3, "the shorter one"),
            (step("url = \"/\"\npause = \"soon\""), 3, "soon"),
            (step("url = \"/\"\nexpect = { status = 99 }"), 3, "99"),
            (step("url = \"/\"\nchecks = [{}]"), 3, "looks for something"),
            (
                step("url = \"/\"\ntake = { \"a b\" = {} }"),
                3,
                "not a name",
            ),
            (step("choose = []"), 3, "nothing to choose"),
            (
                step("steps = [\n  { url = \"/\" },\n  { name = \"b\" },\n]"),
                6,
                "does something",
            ),
            (
                step("url = \"/\"\nbody_file = \"no.such\""),
                3,
                "cannot read no.such",
            ),
        ] {
            let wrong = toml(&text).map(|_| ()).unwrap_err();
            assert_eq!(wrong.line, line, "{text}: {wrong:?}");
            assert!(wrong.text.contains(told), "{text}: {wrong:?}");
        }
        for (text, line, column, told) in [
            ("{\n\"steps\": 7}", 2, 10, "invalid type"),
            (
                "{\"steps\": [\n {\"url\": \"/\"},\n {\"ulr\": \"/\"}]}",
                3,
                7,
                "unknown field `ulr`",
            ),
            (
                "{\"steps\": [\n {\"name\": \"b\"}]}",
                2,
                2,
                "does something",
            ),
        ] {
            let wrong = json(text).map(|_| ()).unwrap_err();
            assert_eq!(
                (wrong.line, wrong.column),
                (line, column),
                "{text}: {wrong:?}"
            );
            assert!(wrong.text.contains(told), "{text}: {wrong:?}");
        }
    }

    #[test]
    fn values_of_a_wrong_kind_are_told_in_the_words_of_the_file() {
        let steps = [
            ("expect", "200", "200"),
            ("expect", r#"{"status": 1.5}"#, "{ status = 1.5 }"),
            ("checks", r#"["x"]"#, "['x']"),
            ("take", r#"{"a": "x"}"#, "{ a = 'x' }"),
            ("repeat", "-1", "-1"),
            ("choose", "[7]", "[7]"),
            ("headers", r#"{"a": 1}"#, "{ a = 1 }"),
        ];
        let steps = steps.map(|(key, of_json, of_toml)| {
            (
                format!("{{\"steps\": [{{\"url\": \"/\", \"{key}\": {of_json}}}]}}"),
                format!("[[steps]]\nurl = '/'\n{key} = {of_toml}"),
            )
        });
        let documents = [
            ("3", "steps = 3"),
            (r#"{"steps": 3}"#, "steps = '/hello'"),
            (r#"{"steps": ["/hello"]}"#, "steps = ['/hello']"),
            (r#"{"steps": [], "cookies": 1}"#, "steps = []\ncookies = 1"),
            (r#"{"steps": [], "headers": []}"#, "steps = []\nheaders = 1"),
        ];
        let documents = documents.map(|(json, toml)| (json.to_owned(), toml.to_owned()));
        for (of_json, of_toml) in steps.into_iter().chain(documents) {
            for result in [json(&of_json), toml(&of_toml)] {
                let said = result.map(|_| ()).unwrap_err().text;
                for rust in ["struct", "enum", "u16", "u32", "sequence", "map", "spanned"] {
                    assert!(!said.contains(rust), "{of_json}: {said}");
                }
            }
        }
    }

    #[test]
    fn steps_are_nested_so_deep_and_no_deeper() {
        let nested = |depth: usize| {
            let (open, close) = ("{\"steps\": [".repeat(depth), "]}".repeat(depth));
            format!("{{\"steps\": [{open}{{\"url\": \"/\"}}{close}]}}")
        };
        json(&nested(DEEPEST)).unwrap();
        let wrong = json(&nested(DEEPEST + 1)).map(|_| ()).unwrap_err();
        assert!(wrong.text.contains("nested"), "{wrong:?}");
    }
}
