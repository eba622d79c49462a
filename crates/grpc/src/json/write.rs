//! Messages as JSON.
//!
//! `prost-reflect` writes JSON too, and writes here the types that JSON has a form of its own for, but
//! for the wrappers of floating-point numbers: there it writes `null` for NaN and Infinity.

use base64::{display::Base64Display, engine::general_purpose::STANDARD};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, ReflectMessage, Value};
use serde::Serialize;

use super::expected;
use crate::zero;

/// Writes a message to the end of `out`, on one line; fields that are not set are left out.
///
/// # Errors
/// What JSON cannot write: a `google.protobuf.Any` of a type that the pool does not know, a
/// `google.protobuf.Timestamp` beyond the year 9999 and its like. Something may have been written.
pub fn write(message: &DynamicMessage, out: &mut Vec<u8>) -> Result<(), String> {
    let descriptor = message.descriptor();
    let name = descriptor.full_name();
    match name.strip_prefix("google.protobuf.") {
        Some("Any") => return any(message, out),
        Some("FloatValue" | "DoubleValue") => {
            if let Some(field) = descriptor.get_field(1) {
                return value(&message.get_field(&field), &field.kind(), out);
            }
        }
        Some(_) if expected::well_known(name).is_some() => return plain(message, out),
        _ => {}
    }
    out.push(b'{');
    fields(message, true, out)?;
    out.push(b'}');
    Ok(())
}

/// Writes what a field holds, or would hold: a value of this field.
///
/// # Errors
/// As [`write()`].
pub fn write_field(
    content: &Value,
    field: &FieldDescriptor,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    value(content, &field.kind(), out)
}

/// The fields that are set, with commas between them and, unless it is the first, before.
fn fields(message: &DynamicMessage, mut is_first: bool, out: &mut Vec<u8>) -> Result<(), String> {
    for (field, content) in message.fields() {
        entry(field.json_name(), &mut is_first, out)?;
        value(content, &field.kind(), out)?;
    }
    for (field, content) in zero::of(message) {
        entry(field.json_name(), &mut is_first, out)?;
        value(&content, &field.kind(), out)?;
    }
    for (extension, content) in message.extensions() {
        entry(extension.json_name(), &mut is_first, out)?;
        value(content, &extension.kind(), out)?;
    }
    Ok(())
}

fn entry(name: &str, is_first: &mut bool, out: &mut Vec<u8>) -> Result<(), String> {
    if !std::mem::take(is_first) {
        out.push(b',');
    }
    plain(name, out)?;
    out.push(b':');
    Ok(())
}

fn any(message: &DynamicMessage, out: &mut Vec<u8>) -> Result<(), String> {
    let url = message.get_field_by_number(1);
    let bytes = message.get_field_by_number(2);
    let url = url
        .as_ref()
        .and_then(|url| url.as_str())
        .unwrap_or_default();
    let bytes = bytes.as_ref().and_then(|bytes| bytes.as_bytes());
    let bytes = bytes.map(|bytes| &bytes[..]).unwrap_or_default();
    if url.is_empty() && bytes.is_empty() {
        out.extend_from_slice(b"{}");
        return Ok(());
    }
    let name = url.rsplit_once('/').map_or("", |(_, name)| name);
    let inner = message
        .descriptor()
        .parent_pool()
        .get_message_by_name(name)
        .ok_or_else(|| {
            let shown: String = url.chars().take(80).collect();
            format!("a google.protobuf.Any has the type {shown:?}, which the schema does not know")
        })?;
    let inner = DynamicMessage::decode(inner, bytes)
        .map_err(|reason| format!("a google.protobuf.Any is no {name}: {reason}"))?;
    out.extend_from_slice(b"{\"@type\":");
    plain(url, out)?;
    if expected::is_in_value(name) {
        out.extend_from_slice(b",\"value\":");
        write(&inner, out)?;
    } else {
        fields(&inner, false, out)?;
    }
    out.push(b'}');
    Ok(())
}

fn value(content: &Value, kind: &Kind, out: &mut Vec<u8>) -> Result<(), String> {
    match content {
        Value::Bool(value) => plain(value, out),
        Value::I32(value) => plain(value, out),
        Value::U32(value) => plain(value, out),
        // Numbers that JavaScript cannot hold are strings.
        Value::I64(value) => quoted(value, out),
        Value::U64(value) => quoted(value, out),
        Value::F32(value) if value.is_finite() => plain(value, out),
        Value::F64(value) if value.is_finite() => plain(value, out),
        Value::F32(value) => plain(not_finite((*value).into()), out),
        Value::F64(value) => plain(not_finite(*value), out),
        Value::String(text) => plain(text, out),
        Value::Bytes(bytes) => {
            out.push(b'"');
            let text = Base64Display::new(bytes, &STANDARD).to_string();
            out.extend_from_slice(text.as_bytes());
            out.push(b'"');
            Ok(())
        }
        Value::EnumNumber(number) => match kind {
            Kind::Enum(of) if of.full_name() == "google.protobuf.NullValue" => plain(&(), out),
            Kind::Enum(of) => match of.get_value(*number) {
                Some(value) => plain(value.name(), out),
                None => plain(number, out),
            },
            _ => plain(number, out),
        },
        Value::Message(message) => write(message, out),
        Value::List(items) => {
            out.push(b'[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                value(item, kind, out)?;
            }
            out.push(b']');
            Ok(())
        }
        Value::Map(entries) => {
            let Kind::Message(of) = kind else {
                return Err("a map has no entries".to_owned());
            };
            let kind = of.map_entry_value_field().kind();
            let mut is_first = true;
            out.push(b'{');
            for (key, content) in entries {
                let text = match key {
                    MapKey::Bool(key) => key.to_string(),
                    MapKey::I32(key) => key.to_string(),
                    MapKey::I64(key) => key.to_string(),
                    MapKey::U32(key) => key.to_string(),
                    MapKey::U64(key) => key.to_string(),
                    MapKey::String(key) => key.clone(),
                };
                entry(&text, &mut is_first, out)?;
                value(content, &kind, out)?;
            }
            out.push(b'}');
            Ok(())
        }
    }
}

fn not_finite(value: f64) -> &'static str {
    if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

fn quoted<T: Serialize>(value: &T, out: &mut Vec<u8>) -> Result<(), String> {
    out.push(b'"');
    plain(value, out)?;
    out.push(b'"');
    Ok(())
}

/// As serde writes it.
fn plain<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), String> {
    serde_json::to_writer(out, value).map_err(|reason| reason.to_string())
}
