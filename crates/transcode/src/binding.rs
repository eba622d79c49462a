//! One rule of one method: an HTTP method and a path that lead to it.

use prost_reflect::{DynamicMessage, FieldDescriptor, MessageDescriptor, MethodDescriptor};

use crate::{
    content,
    format::Format,
    problem::Problem,
    raw::{self, RawContent},
    rule::WEBSOCKET,
    template::Variable,
};

/// A method of gRPC, under one of the paths that its rule gives it.
#[derive(Debug)]
pub struct Binding {
    method: MethodDescriptor,
    input: MessageDescriptor,
    grpc_path: Box<str>,
    http_method: Box<str>,
    template: Box<str>,
    parameters: Vec<Parameter>,
    body: Body,
    response_body: Option<FieldDescriptor>,
}

/// A variable of the path and the field that it sets.
#[derive(Debug)]
pub(crate) struct Parameter {
    /// From the request's field to the one that is set.
    pub(crate) fields: Vec<FieldDescriptor>,
    pub(crate) variable: Variable,
    /// Whether what `**` stands for is percent-decoded as a whole: `fully_decode_reserved_expansion`.
    pub(crate) fully_decode: bool,
}

/// What the content of a request is.
#[derive(Debug)]
pub(crate) enum Body {
    /// There must be none.
    None,
    /// `*`: the message.
    Whole,
    /// One field of the message.
    Field(FieldDescriptor),
}

impl Binding {
    pub(crate) fn new(
        method: &MethodDescriptor,
        http_method: &str,
        template: &str,
        parameters: Vec<Parameter>,
        body: Body,
        response_body: Option<FieldDescriptor>,
    ) -> Self {
        let service = method.parent_service().full_name();
        Binding {
            method: method.clone(),
            input: method.input(),
            grpc_path: format!("/{service}/{}", method.name()).into(),
            http_method: http_method.into(),
            template: template.into(),
            parameters,
            body,
            response_body,
        }
    }

    /// The method of gRPC.
    #[must_use]
    pub fn method(&self) -> &MethodDescriptor {
        &self.method
    }

    /// Where gRPC calls it: `/package.Service/Method`.
    #[must_use]
    pub fn grpc_path(&self) -> &str {
        &self.grpc_path
    }

    /// The HTTP method: `*` for all, `WEBSOCKET` for [`Binding::is_websocket`].
    #[must_use]
    pub fn http_method(&self) -> &str {
        &self.http_method
    }

    /// The path template, as the rule has it.
    #[must_use]
    pub fn template(&self) -> &str {
        &self.template
    }

    /// Whether this is called over WebSocket: the rule has a custom pattern of kind `WEBSOCKET`.
    #[must_use]
    pub fn is_websocket(&self) -> bool {
        &*self.http_method == WEBSOCKET
    }

    /// Writes a response, or the field of it that `response_body` names, to the end of `out`.
    ///
    /// A field that is not a message has no binary form of its own: there [`Format::Protobuf`] is the
    /// response with this field alone.
    ///
    /// # Errors
    /// INTERNAL for a message that JSON cannot write, such as a `google.protobuf.Any` of an unknown
    /// type or a `google.protobuf.Timestamp` beyond the year 9999. `out` is then as it was.
    pub fn response(
        &self,
        message: &DynamicMessage,
        format: Format,
        out: &mut Vec<u8>,
    ) -> Result<(), Problem> {
        let start = out.len();
        let result = match &self.response_body {
            None => content::write(message, format, out),
            Some(field) => content::write_field(message, field, format, out),
        };
        result.inspect_err(|_| out.truncate(start))
    }

    /// Whether the content of requests is taken as it is, of whatever type: what the rule maps it to is a
    /// `google.api.HttpBody` (see [`Match::raw`](crate::Match::raw)).
    #[must_use]
    pub fn takes_raw(&self) -> bool {
        match &self.body {
            Body::None => false,
            Body::Whole => raw::is_http_body(&self.input),
            Body::Field(field) => raw::holds_http_body(field),
        }
    }

    /// Whether the content of responses is what a `google.api.HttpBody` holds, of the type that it
    /// names (see [`Binding::raw_response`]): the response is one, or the field that `response_body`
    /// names.
    #[must_use]
    pub fn gives_raw(&self) -> bool {
        match &self.response_body {
            None => raw::is_http_body(&self.method.output()),
            Some(field) => raw::holds_http_body(field),
        }
    }

    /// The content of a response, where [`Binding::gives_raw`].
    ///
    /// # Errors
    /// INTERNAL where the response is not a `google.api.HttpBody`, and holds none.
    pub fn raw_response(&self, message: &DynamicMessage) -> Result<RawContent, Problem> {
        let found = match &self.response_body {
            None => raw::content(message),
            Some(field) => message.get_field(field).as_message().and_then(raw::content),
        };
        found.ok_or_else(|| {
            let name = self.method.full_name();
            Problem::internal(format!("the response of {name} is no google.api.HttpBody"))
        })
    }

    pub(crate) fn input(&self) -> &MessageDescriptor {
        &self.input
    }

    pub(crate) fn response_body(&self) -> Option<&FieldDescriptor> {
        self.response_body.as_ref()
    }

    pub(crate) fn body(&self) -> &Body {
        &self.body
    }

    pub(crate) fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Why a query parameter must not set this field: the path or the content holds it already.
    pub(crate) fn taken(&self, fields: &[FieldDescriptor]) -> Option<&'static str> {
        let same = |parameter: &Parameter| {
            let numbers = parameter.fields.iter().map(FieldDescriptor::number);
            numbers.eq(fields.iter().map(FieldDescriptor::number))
        };
        if self.parameters.iter().any(same) {
            return Some("is a part of the path");
        }
        let excluded = |parameter: &Parameter| other_of_oneof(&parameter.fields, fields);
        if self.parameters.iter().any(excluded) {
            return Some("belongs to a oneof of which the path holds another field");
        }
        match &self.body {
            Body::None => None,
            Body::Whole => Some("belongs into the content, as all fields but those of the path"),
            Body::Field(field) => (fields.first()?.number() == field.number())
                .then_some("belongs into the content, which is this field"),
        }
    }
}

/// Whether two fields cannot both be set: on the way to them there are two of one oneof.
fn other_of_oneof(one: &[FieldDescriptor], other: &[FieldDescriptor]) -> bool {
    let differ = one
        .iter()
        .zip(other)
        .find(|(one, other)| one.number() != other.number());
    differ.is_some_and(|(one, other)| {
        let oneof = one.containing_oneof();
        oneof.is_some() && oneof == other.containing_oneof()
    })
}
