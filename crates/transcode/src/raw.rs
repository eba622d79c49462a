//! Content as it is: `google.api.HttpBody` (`google/api/httpbody.proto`).

use prost::bytes::Bytes;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage, Value,
};

const HTTP_BODY: &str = "google.api.HttpBody";
/// Numbers of its fields.
const CONTENT_TYPE: u32 = 1;
const DATA: u32 = 2;

/// What a `google.api.HttpBody` holds, as content of HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawContent {
    /// The media type; empty where the service names none.
    pub content_type: String,
    /// The bytes.
    pub data: Bytes,
}

pub(crate) fn is_http_body(message: &MessageDescriptor) -> bool {
    message.full_name() == HTTP_BODY
}

/// Whether a field is one `google.api.HttpBody`.
pub(crate) fn holds_http_body(field: &FieldDescriptor) -> bool {
    let is_one = !field.is_list() && !field.is_map();
    is_one && matches!(field.kind(), Kind::Message(message) if is_http_body(&message))
}

/// The message that holds this content. What is empty is left out.
pub(crate) fn message(
    descriptor: &MessageDescriptor,
    content_type: &str,
    data: Bytes,
) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    if !content_type.is_empty() {
        set(
            &mut message,
            CONTENT_TYPE,
            Value::String(content_type.to_owned()),
        );
    }
    if !data.is_empty() {
        set(&mut message, DATA, Value::Bytes(data));
    }
    message
}

/// A message by another definition of the name has no such field, or one of another type.
fn set(message: &mut DynamicMessage, number: u32, value: Value) {
    if let Some(field) = message.descriptor().get_field(number) {
        let _ = message.try_set_field(&field, value);
    }
}

/// The content that a message holds; `None` where it is no `google.api.HttpBody`.
pub(crate) fn content(message: &DynamicMessage) -> Option<RawContent> {
    if !is_http_body(&message.descriptor()) {
        return None;
    }
    let content_type = message.get_field_by_number(CONTENT_TYPE)?;
    let data = message.get_field_by_number(DATA)?;
    Some(RawContent {
        content_type: content_type.as_str()?.to_owned(),
        data: data.as_bytes()?.clone(),
    })
}
