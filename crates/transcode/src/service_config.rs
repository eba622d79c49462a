//! Service configuration files: the rules of a `google.api.Service`, beside the `.proto` files.

use prost_reflect::{DescriptorPool, MethodDescriptor};
use serde::Deserialize;
use trilane_grpc::near;

use crate::rule::{CustomHttpPattern, HttpRule, Pattern, RuleError};

/// The `http` of one or more service configuration files: rules that override those of the methods'
/// options.
#[derive(Debug, Clone, Default)]
pub struct ServiceConfig {
    rules: Vec<Selected>,
    fully_decodes: bool,
    title: Option<String>,
}

/// A rule and the methods that it is for.
#[derive(Debug, Clone)]
struct Selected {
    selectors: Vec<Selector>,
    rule: HttpRule,
    /// Which file and which of its rules.
    place: String,
}

/// One pattern of a `selector`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Selector {
    /// `*`.
    All,
    /// `a.b.*`, without the asterisk: one or more components follow.
    Below(String),
    /// `a.b.C`.
    Name(String),
}

/// `google.api.Service`, as far as it is about HTTP; the rest of the file may be anything.
#[derive(Deserialize)]
struct Service {
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    http: Option<Http>,
}

/// `google.api.Http`. Names are those of the file format and of its JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Http {
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default, alias = "fullyDecodeReservedExpansion")]
    fully_decode_reserved_expansion: bool,
}

/// `google.api.HttpRule`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    #[serde(default)]
    selector: String,
    get: Option<String>,
    put: Option<String>,
    post: Option<String>,
    delete: Option<String>,
    patch: Option<String>,
    custom: Option<Custom>,
    #[serde(default)]
    body: String,
    #[serde(default, alias = "responseBody")]
    response_body: String,
    #[serde(default, alias = "additionalBindings")]
    additional_bindings: Vec<Rule>,
}

/// `google.api.CustomHttpPattern`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Custom {
    kind: String,
    path: String,
}

impl ServiceConfig {
    /// Reads a file in YAML or JSON. `name` names it in errors.
    ///
    /// # Errors
    /// [`RuleError`] for what is neither, and for a rule without a selector, with one that has a
    /// wildcard in the wrong place, or without exactly one pattern.
    pub fn parse(name: &str, text: &str) -> Result<Self, RuleError> {
        let wrong = |reason: String| {
            let words: Vec<&str> = reason.split_whitespace().collect();
            RuleError::new(format!(
                "{name}: this is no service configuration: {}",
                words.join(" ")
            ))
        };
        let service: Service = match text.trim_start().starts_with('{') {
            true => serde_json::from_str(text).map_err(|reason| wrong(reason.to_string()))?,
            false => {
                let options = serde_saphyr::options! { with_snippet: false };
                serde_saphyr::from_str_with_options(text, options)
                    .map_err(|reason| wrong(reason.to_string()))?
            }
        };
        let http = service
            .http
            .ok_or_else(|| wrong("it has no \"http\" with rules".to_owned()))?;
        let rules = (1..).zip(http.rules).map(|(number, rule)| {
            let place = format!("{name}: rule {number}");
            let error = |reason: String| RuleError::new(format!("{place}: {reason}"));
            let selectors = selectors(&rule.selector).map_err(error)?;
            let rule = rule.into_rule().map_err(error)?;
            Ok(Selected {
                selectors,
                rule,
                place,
            })
        });
        Ok(Self {
            rules: rules.collect::<Result<_, _>>()?,
            fully_decodes: http.fully_decode_reserved_expansion,
            title: service.title,
        })
    }

    /// Adds the rules of another file, which go before those that are here: the last one wins.
    pub fn extend(&mut self, other: Self) {
        self.rules.extend(other.rules);
        self.fully_decodes |= other.fully_decodes;
        self.title = other.title.or_else(|| self.title.take());
    }

    /// Checks that each selector is one of a method that `pool` knows.
    ///
    /// # Errors
    /// [`RuleError`] with the first that selects nothing.
    pub fn check(&self, pool: &DescriptorPool) -> Result<(), RuleError> {
        let methods: Vec<MethodDescriptor> = pool
            .services()
            .flat_map(|service| service.methods().collect::<Vec<_>>())
            .collect();
        let names = || methods.iter().map(MethodDescriptor::full_name);
        for Selected {
            selectors, place, ..
        } in &self.rules
        {
            for selector in selectors {
                if names().any(|name| selector.selects(name)) {
                    continue;
                }
                let (text, bare) = match selector {
                    Selector::All => ("*".to_owned(), ""),
                    Selector::Below(start) => (format!("{start}*"), start.trim_end_matches('.')),
                    Selector::Name(name) => (name.clone(), name.as_str()),
                };
                let known = match near::nearest(bare, names()) {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("there are {}", near::list(bare, names())),
                };
                return Err(RuleError::new(format!(
                    "{place}: the selector {text:?} selects no method: {known}"
                )));
            }
        }
        Ok(())
    }

    /// `title` of the service, where a file has one.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// The rule of a method, and where it stands; the last of several.
    pub(crate) fn rule(&self, method: &MethodDescriptor) -> Option<(&HttpRule, &str)> {
        let selects = |rule: &&Selected| {
            let mut selectors = rule.selectors.iter();
            selectors.any(|selector| selector.selects(method.full_name()))
        };
        let found = self.rules.iter().rev().find(selects)?;
        Some((&found.rule, &found.place))
    }

    /// `fully_decode_reserved_expansion`.
    pub(crate) fn fully_decodes(&self) -> bool {
        self.fully_decodes
    }
}

impl Selector {
    fn selects(&self, name: &str) -> bool {
        match self {
            Selector::All => true,
            Selector::Below(start) => name.starts_with(start.as_str()),
            Selector::Name(known) => known == name,
        }
    }
}

/// The patterns of a `selector`, by `google.api.DocumentationRule.selector`: "a comma-separated list of
/// patterns", where "wildcards are only allowed at the end and for a whole component".
fn selectors(text: &str) -> Result<Vec<Selector>, String> {
    if text.trim().is_empty() {
        return Err("it has no selector, such as \"pkg.Service.Method\"".to_owned());
    }
    text.split(',')
        .map(|pattern| {
            let pattern = pattern.trim();
            if pattern == "*" {
                return Ok(Selector::All);
            }
            let (name, is_start) = match pattern.strip_suffix(".*") {
                Some(start) => (start, true),
                None => (pattern, false),
            };
            let is_name = |part: &str| {
                let mut letters = part.bytes();
                letters
                    .next()
                    .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
                    && letters.all(|other| other.is_ascii_alphanumeric() || other == b'_')
            };
            if !name.split('.').all(is_name) {
                return Err(format!(
                    "the selector {pattern:?} is no name of a method: write pkg.Service.Method, \
                     pkg.Service.* or *"
                ));
            }
            Ok(match is_start {
                true => Selector::Below(format!("{name}.")),
                false => Selector::Name(name.to_owned()),
            })
        })
        .collect()
}

impl Rule {
    fn into_rule(self) -> Result<HttpRule, String> {
        let custom = self.custom.map(|custom| {
            Pattern::Custom(CustomHttpPattern {
                kind: custom.kind,
                path: custom.path,
            })
        });
        let patterns: Vec<Pattern> = [
            self.get.map(Pattern::Get),
            self.put.map(Pattern::Put),
            self.post.map(Pattern::Post),
            self.delete.map(Pattern::Delete),
            self.patch.map(Pattern::Patch),
            custom,
        ]
        .into_iter()
        .flatten()
        .collect();
        let [pattern] = <[Pattern; 1]>::try_from(patterns).map_err(|patterns| {
            format!(
                "it has {} of get, put, post, delete, patch and custom, where one is wanted",
                patterns.len()
            )
        })?;
        let additional =
            self.additional_bindings
                .into_iter()
                .map(|rule| match rule.selector.is_empty() {
                    true => rule.into_rule(),
                    false => Err("an additional binding has a selector of its own".to_owned()),
                });
        Ok(HttpRule {
            pattern: Some(pattern),
            body: self.body,
            response_body: self.response_body,
            additional_bindings: additional.collect::<Result<_, _>>()?,
        })
    }
}
