//! What Connect makes of messages, errors and the end of streams
//! (<https://connectrpc.com/docs/protocol>).

use base64::{Engine, prelude::BASE64_STANDARD_NO_PAD};
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor};
use serde::de::{DeserializeSeed, Deserializer};

use crate::{
    content,
    format::Format,
    problem::Problem,
    status::{self, Any, quoted},
};

/// Reads a message; nothing at all is one without fields.
///
/// Fields that JSON has and the message has not are passed over, as the implementations of Connect's
/// own authors do it: a caller may know a newer schema.
///
/// # Errors
/// INVALID_ARGUMENT for content that is not such a message; it says where.
pub fn read(
    descriptor: &MessageDescriptor,
    format: Format,
    content: &[u8],
) -> Result<DynamicMessage, Problem> {
    let message = match format {
        Format::Json if !content.is_empty() => {
            content::json(content, || Lenient(descriptor.clone()))?
        }
        _ => content::read(descriptor, format, content)?,
    };
    content::has_required(&message)?;
    Ok(message)
}

/// Writes a message to the end of `out`.
///
/// # Errors
/// INTERNAL for a message that JSON cannot write. `out` may then have a part of it.
pub fn write(message: &DynamicMessage, format: Format, out: &mut Vec<u8>) -> Result<(), Problem> {
    content::write(message, format, out)
}

/// The name of a code of gRPC that is an error; `unknown` for what is none.
#[must_use]
pub fn code(code: u32) -> &'static str {
    match code {
        1 => "canceled",
        3 => "invalid_argument",
        4 => "deadline_exceeded",
        5 => "not_found",
        6 => "already_exists",
        7 => "permission_denied",
        8 => "resource_exhausted",
        9 => "failed_precondition",
        10 => "aborted",
        11 => "out_of_range",
        12 => "unimplemented",
        13 => "internal",
        14 => "unavailable",
        15 => "data_loss",
        16 => "unauthenticated",
        _ => "unknown",
    }
}

/// An error in JSON: `{"code","message","details":[{"type","value","debug"}]}`.
///
/// `details` is what `grpc-status-details-bin` holds, decoded from base64. `debug` is the detail in
/// JSON where `pool` or `google/rpc/error_details.proto` knows its type. Details that cannot be read
/// are left out, and so are an empty message and an empty list.
#[must_use]
pub fn error(code: u32, message: &str, details: &[u8], pool: &DescriptorPool) -> Vec<u8> {
    let mut out = format!(r#"{{"code":"{}""#, self::code(code));
    if !message.is_empty() {
        out.push_str(r#","message":"#);
        out.push_str(&quoted(message));
    }
    let details: Vec<String> = status::details(details)
        .iter()
        .map(|any| detail(any, pool))
        .collect();
    if !details.is_empty() {
        out.push_str(r#","details":["#);
        out.push_str(&details.join(","));
        out.push(']');
    }
    out.push('}');
    out.into_bytes()
}

fn detail(any: &Any, pool: &DescriptorPool) -> String {
    let name = any.type_url.rsplit('/').next().unwrap_or_default();
    let name = quoted(name);
    let value = BASE64_STANDARD_NO_PAD.encode(&any.value);
    match status::known(any, pool) {
        Some(debug) => format!(r#"{{"type":{name},"value":"{value}","debug":{debug}}}"#),
        None => format!(r#"{{"type":{name},"value":"{value}"}}"#),
    }
}

/// The message that ends a stream: `{"error","metadata":{"name":["value"]}}`.
///
/// `error` is what [`error`] wrote. Values of one name follow each other in `metadata`.
#[must_use]
pub fn end<'a>(
    error: Option<&[u8]>,
    metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<u8> {
    let mut out = Vec::from(*b"{");
    if let Some(error) = error {
        out.extend_from_slice(br#""error":"#);
        out.extend_from_slice(error);
    }
    let mut last = None;
    for (name, value) in metadata {
        match last {
            Some(before) if before == name => out.push(b','),
            Some(_) => out.extend_from_slice(b"],"),
            None if out.len() > 1 => out.extend_from_slice(br#","metadata":{"#),
            None => out.extend_from_slice(br#""metadata":{"#),
        }
        if last != Some(name) {
            out.extend_from_slice(quoted(name).as_bytes());
            out.extend_from_slice(b":[");
        }
        out.extend_from_slice(quoted(value).as_bytes());
        last = Some(name);
    }
    if last.is_some() {
        out.extend_from_slice(b"]}");
    }
    out.push(b'}');
    out
}

/// Reads a message, and passes over fields that it has not.
struct Lenient(MessageDescriptor);

impl<'de> DeserializeSeed<'de> for Lenient {
    type Value = DynamicMessage;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Self::Value, D::Error> {
        let options = DeserializeOptions::new().deny_unknown_fields(false);
        DynamicMessage::deserialize_with_options(self.0, value, &options)
    }
}
