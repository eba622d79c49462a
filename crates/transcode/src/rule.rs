//! `google.api.http` as it stands in the options of a method.

use std::fmt;

use prost_reflect::{
    FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor,
    prost_types::method_options::IdempotencyLevel,
};

use crate::{
    binding::{Binding, Body, Parameter},
    query,
    service_config::ServiceConfig,
    template::{Template, Variable},
};

/// The kind of a custom pattern that stands for WebSocket.
pub(crate) const WEBSOCKET: &str = "WEBSOCKET";

/// The options of a method, as far as they matter here: the number of the extension is that of
/// `google/api/annotations.proto`.
#[derive(Clone, PartialEq, prost::Message)]
struct Options {
    #[prost(message, optional, tag = "72295728")]
    http: Option<HttpRule>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HttpRule {
    #[prost(oneof = "Pattern", tags = "2, 3, 4, 5, 6, 8")]
    pub(crate) pattern: Option<Pattern>,
    #[prost(string, tag = "7")]
    pub(crate) body: String,
    #[prost(string, tag = "12")]
    pub(crate) response_body: String,
    #[prost(message, repeated, tag = "11")]
    pub(crate) additional_bindings: Vec<HttpRule>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Pattern {
    #[prost(string, tag = "2")]
    Get(String),
    #[prost(string, tag = "3")]
    Put(String),
    #[prost(string, tag = "4")]
    Post(String),
    #[prost(string, tag = "5")]
    Delete(String),
    #[prost(string, tag = "6")]
    Patch(String),
    #[prost(message, tag = "8")]
    Custom(CustomHttpPattern),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CustomHttpPattern {
    #[prost(string, tag = "1")]
    pub(crate) kind: String,
    #[prost(string, tag = "2")]
    pub(crate) path: String,
}

/// A rule that cannot be kept: it says which one, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    message: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RuleError {}

impl RuleError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        RuleError {
            message: message.into(),
        }
    }

    /// Two rules that match the same requests.
    pub(crate) fn conflict(new: &Binding, old: &Binding) -> Self {
        RuleError {
            message: format!(
                "{}: \"{} {}\" matches the same requests as \"{} {}\" of {}",
                new.method().full_name(),
                new.http_method(),
                new.template(),
                old.http_method(),
                old.template(),
                old.method().full_name(),
            ),
        }
    }
}

/// All bindings of a method, each with its template; none where it has no rule.
///
/// # Errors
/// [`RuleError`] for a rule that does not follow `google/api/http.proto`.
pub(crate) fn bindings(
    method: &MethodDescriptor,
    config: &ServiceConfig,
) -> Result<Vec<(Binding, Template)>, RuleError> {
    let (selected, place) = match config.rule(method) {
        Some((rule, place)) => (Some(rule), format!("{place}, {}", method.full_name())),
        None => (None, method.full_name().to_owned()),
    };
    let error = |reason: String| RuleError::new(format!("{place}: {reason}"));
    let rule = match selected {
        Some(rule) => rule.clone(),
        None => {
            let options: Options = method
                .options()
                .transcode_to()
                .map_err(|reason| error(format!("its google.api.http cannot be read: {reason}")))?;
            match options.http {
                Some(rule) => rule,
                None => return Ok(Vec::new()),
            }
        }
    };
    let fully_decode = config.fully_decodes();
    let binding = |rule: &HttpRule| binding(method, rule, fully_decode);
    let mut found = vec![binding(&rule).map_err(error)?];
    for additional in &rule.additional_bindings {
        if !additional.additional_bindings.is_empty() {
            return Err(error(
                "an additional binding must not have additional bindings itself".to_owned(),
            ));
        }
        found.push(binding(additional).map_err(error)?);
    }
    Ok(found)
}

/// The binding of a method without a rule: `POST` of the path that gRPC calls it by, with the message as
/// content.
pub(crate) fn implicit(method: &MethodDescriptor) -> Result<(Binding, Template), RuleError> {
    let rule = HttpRule {
        pattern: Some(Pattern::Post(grpc_path(method))),
        body: "*".to_owned(),
        ..HttpRule::default()
    };
    made(method, &rule)
}

/// A binding of a method without content.
pub(crate) fn unruled(
    method: &MethodDescriptor,
    http_method: &str,
    path: &str,
) -> Result<(Binding, Template), RuleError> {
    let custom = CustomHttpPattern {
        kind: http_method.to_owned(),
        path: path.to_owned(),
    };
    let rule = HttpRule {
        pattern: Some(Pattern::Custom(custom)),
        ..HttpRule::default()
    };
    made(method, &rule)
}

fn made(method: &MethodDescriptor, rule: &HttpRule) -> Result<(Binding, Template), RuleError> {
    binding(method, rule, false)
        .map_err(|reason| RuleError::new(format!("{}: {reason}", method.full_name())))
}

/// Where gRPC calls a method.
pub(crate) fn grpc_path(method: &MethodDescriptor) -> String {
    format!("/{}/{}", method.parent_service().full_name(), method.name())
}

/// Whether the option `idempotency_level` says that a method changes nothing.
#[must_use]
pub fn is_without_side_effects(method: &MethodDescriptor) -> bool {
    let options = method.method_descriptor_proto().options.as_ref();
    options.is_some_and(|options| options.idempotency_level() == IdempotencyLevel::NoSideEffects)
}

fn binding(
    method: &MethodDescriptor,
    rule: &HttpRule,
    fully_decode: bool,
) -> Result<(Binding, Template), String> {
    let (http_method, path) = match &rule.pattern {
        Some(Pattern::Get(path)) => ("GET", path),
        Some(Pattern::Put(path)) => ("PUT", path),
        Some(Pattern::Post(path)) => ("POST", path),
        Some(Pattern::Delete(path)) => ("DELETE", path),
        Some(Pattern::Patch(path)) => ("PATCH", path),
        Some(Pattern::Custom(custom)) => (kind(&custom.kind)?, &custom.path),
        None => return Err("its rule has no pattern such as get: \"/v1/…\"".to_owned()),
    };
    let of_template = |reason: String| format!("template {path:?}: {reason}");
    let template = Template::parse(path).map_err(|reason| of_template(reason.to_string()))?;
    let input = method.input();
    let parameters = template
        .variables
        .iter()
        .map(|variable| parameter(&input, variable, fully_decode))
        .collect::<Result<_, _>>()
        .map_err(of_template)?;
    let body = match rule.body.as_str() {
        "" => Body::None,
        "*" => Body::Whole,
        name => Body::Field(top_level(&input, name).map_err(|e| format!("body: {e}"))?),
    };
    let response_body = match rule.response_body.as_str() {
        "" => None,
        name => Some(top_level(&method.output(), name).map_err(|e| format!("response_body: {e}"))?),
    };
    let binding = Binding::new(method, http_method, path, parameters, body, response_body);
    Ok((binding, template))
}

/// The HTTP method of a custom pattern.
fn kind(kind: &str) -> Result<&str, String> {
    if kind.eq_ignore_ascii_case(WEBSOCKET) {
        return Ok(WEBSOCKET);
    }
    // A token of RFC 9110, section 5.6.2.
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if kind.is_empty() || !kind.bytes().all(is_token) {
        return Err(format!(
            "the custom kind {kind:?} is not an HTTP method such as HEAD, '*' or WEBSOCKET"
        ));
    }
    Ok(kind)
}

fn parameter(
    input: &MessageDescriptor,
    variable: &Variable,
    fully_decode: bool,
) -> Result<Parameter, String> {
    let fields = query::resolve(input, &variable.field_path)?;
    let leaf = &fields[fields.len() - 1];
    if leaf.is_list() || leaf.is_map() {
        return Err(format!(
            "the variable {:?} must not be a repeated field or a map",
            variable.field_path
        ));
    }
    if let Kind::Message(message) = leaf.kind()
        && !crate::value::is_text(&message)
    {
        return Err(format!(
            "the variable {:?} is a {}: only what JSON writes as a scalar fits into a path",
            variable.field_path,
            message.full_name()
        ));
    }
    Ok(Parameter {
        fields,
        variable: variable.clone(),
        fully_decode,
    })
}

fn top_level(message: &MessageDescriptor, name: &str) -> Result<FieldDescriptor, String> {
    message.get_field_by_name(name).ok_or_else(|| {
        format!(
            "{} has no field {name:?} at its top level",
            message.full_name()
        )
    })
}
