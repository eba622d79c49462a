//! Errors as content: `google.rpc.Status`.

use std::sync::LazyLock;

use base64::{Engine, prelude::BASE64_STANDARD};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use trilane_grpc::json;

use crate::format::Format;

/// `google.rpc.Status`, as `google/rpc/status.proto` has it.
#[derive(Clone, PartialEq, prost::Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Any {
    #[prost(string, tag = "1")]
    pub(crate) type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

/// The messages of `google/rpc/error_details.proto`.
static DETAILS: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let set: &[u8] = include_bytes!("../generated/error_details.fds");
    // A test decodes it: what is compiled in is sound.
    DescriptorPool::decode(set).unwrap_or_default()
});

/// The content of an error: `google.rpc.Status` with this code and message.
///
/// `details` is what `grpc-status-details-bin` holds, decoded from base64: a `google.rpc.Status`, of
/// which the details are taken. In JSON a detail is written by its type, which `pool` or
/// `google/rpc/error_details.proto` knows; of any other type it keeps `@type`, and `value` is its
/// bytes in base64. Details that cannot be read are left out.
#[must_use]
pub fn status_content(
    code: u32,
    message: &str,
    details: &[u8],
    pool: &DescriptorPool,
    format: Format,
) -> Vec<u8> {
    let status = Status {
        code: i32::try_from(code).unwrap_or(i32::MAX),
        message: message.to_owned(),
        details: self::details(details),
    };
    if format == Format::Protobuf {
        return status.encode_to_vec();
    }
    let details: Vec<String> = status.details.iter().map(|any| detail(any, pool)).collect();
    let message = quoted(message);
    let details = details.join(",");
    format!(r#"{{"code":{code},"message":{message},"details":[{details}]}}"#).into_bytes()
}

/// The details of a `google.rpc.Status` in binary; none where it is none.
pub(crate) fn details(status: &[u8]) -> Vec<Any> {
    Status::decode(status).map_or_else(|_| Vec::new(), |status| status.details)
}

/// One detail in JSON.
fn detail(any: &Any, pool: &DescriptorPool) -> String {
    let url = quoted(&any.type_url);
    let Some(fields) = known(any, pool) else {
        let value = BASE64_STANDARD.encode(&any.value);
        return format!(r#"{{"@type":{url},"value":"{value}"}}"#);
    };
    // The types that JSON writes in a form of their own stand under `value`.
    let name = any.type_url.rsplit('/').next().unwrap_or_default();
    let own_form = name.starts_with("google.protobuf.") && name != "google.protobuf.Empty";
    match fields.strip_prefix('{') {
        Some("}") if !own_form => format!(r#"{{"@type":{url}}}"#),
        Some(fields) if !own_form => format!(r#"{{"@type":{url},{fields}"#),
        _ => format!(r#"{{"@type":{url},"value":{fields}}}"#),
    }
}

/// The detail's message in JSON, where its type is known and its bytes are of this type.
pub(crate) fn known(any: &Any, pool: &DescriptorPool) -> Option<String> {
    let (_, name) = any.type_url.rsplit_once('/')?;
    let descriptor = pool
        .get_message_by_name(name)
        .or_else(|| DETAILS.get_message_by_name(name))?;
    let message = DynamicMessage::decode(descriptor, any.value.as_slice()).ok()?;
    let mut out = Vec::new();
    json::write(&message, &mut out).ok()?;
    String::from_utf8(out).ok()
}

/// A string of JSON.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
