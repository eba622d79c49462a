//! Negative zeros: a field without presence that holds one is set, as the sign says
//! ([field presence](https://protobuf.dev/programming-guides/field_presence/)), and `prost-reflect` takes it for
//! one that is not.

use prost::{
    Message as _,
    encoding::{WireType, encode_key, encode_varint},
};
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage, Value,
};

/// The bytes of a message.
#[must_use]
pub fn encode(message: &DynamicMessage) -> Vec<u8> {
    match has_any(message) {
        false => message.encode_to_vec(),
        true => with_zeros(message),
    }
}

/// The fields of a message that hold a negative zero and have no presence.
pub(crate) fn of(message: &DynamicMessage) -> impl Iterator<Item = (FieldDescriptor, Value)> {
    let descriptor = message.descriptor();
    let fields: Vec<_> = descriptor
        .fields()
        .filter(|field| matches!(field.kind(), Kind::Float | Kind::Double))
        .filter(|field| !field.is_list() && !field.supports_presence())
        .map(|field| {
            let value = message.get_field(&field).into_owned();
            (field, value)
        })
        .filter(|(_, value)| is_negative_zero(value))
        .collect();
    fields.into_iter()
}

fn is_negative_zero(value: &Value) -> bool {
    match value {
        Value::F32(value) => *value == 0.0 && value.is_sign_negative(),
        Value::F64(value) => *value == 0.0 && value.is_sign_negative(),
        _ => false,
    }
}

fn has_any(message: &DynamicMessage) -> bool {
    let inside = |value: &Value| value.as_message().is_some_and(has_any);
    of(message).next().is_some()
        || message.fields().any(|(_, value)| match value {
            Value::Message(_) => inside(value),
            Value::List(items) => items.iter().any(inside),
            Value::Map(entries) => entries
                .values()
                .any(|value| inside(value) || is_negative_zero(value)),
            _ => false,
        })
}

fn with_zeros(message: &DynamicMessage) -> Vec<u8> {
    let mut rest = message.clone();
    let mut behind = Vec::new();
    for (field, value) in message.fields() {
        match value {
            Value::Message(inner) if has_any(inner) => embed(&field, &encode(inner), &mut behind),
            Value::List(items) if field.kind().as_message().is_some() => {
                let items = items.iter().filter_map(Value::as_message);
                items.for_each(|inner| embed(&field, &encode(inner), &mut behind));
            }
            Value::Map(entries) => {
                let Kind::Message(of) = field.kind() else {
                    continue;
                };
                for (key, value) in entries {
                    embed(&field, &entry(&of, key, value), &mut behind);
                }
            }
            _ => continue,
        }
        rest.clear_field(&field);
    }
    let mut out = rest.encode_to_vec();
    out.extend(behind);
    for (field, value) in of(message) {
        match value {
            Value::F32(value) => {
                encode_key(field.number(), WireType::ThirtyTwoBit, &mut out);
                out.extend(value.to_le_bytes());
            }
            Value::F64(value) => {
                encode_key(field.number(), WireType::SixtyFourBit, &mut out);
                out.extend(value.to_le_bytes());
            }
            _ => {}
        }
    }
    out
}

/// Writes a message as one of a field.
fn embed(field: &FieldDescriptor, message: &[u8], out: &mut Vec<u8>) {
    if field.is_group() {
        encode_key(field.number(), WireType::StartGroup, out);
        out.extend_from_slice(message);
        encode_key(field.number(), WireType::EndGroup, out);
        return;
    }
    encode_key(field.number(), WireType::LengthDelimited, out);
    encode_varint(message.len() as u64, out);
    out.extend_from_slice(message);
}

/// The entry of a map.
fn entry(of: &MessageDescriptor, key: &MapKey, value: &Value) -> Vec<u8> {
    let mut entry = DynamicMessage::new(of.clone());
    entry.set_field(&of.map_entry_key_field(), key.clone().into());
    entry.set_field(&of.map_entry_value_field(), value.clone());
    encode(&entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Schema, json};

    const PROTO: &str = r#"
        syntax = "proto3"; package z;
        message M {
          double double = 1; float float = 2; optional double present = 3; M inner = 4;
          repeated M list = 5; map<string, M> map = 6; map<int32, double> doubles = 7;
          repeated double packed = 8; string text = 9; oneof one { double left = 10; }
        }
        service S { rpc Do(M) returns (M); }"#;

    #[test]
    fn a_negative_zero_is_set() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("z.proto");
        std::fs::write(&file, PROTO).unwrap();
        let method = Schema::from_proto(&[file], &[])
            .unwrap()
            .method("z.S/Do")
            .unwrap();
        for (text, bytes) in [
            (r#"{"double":-0.0}"#, &b"\x09\0\0\0\0\0\0\0\x80"[..]),
            (r#"{"float":-0.0}"#, b"\x15\0\0\0\x80"),
            (r#"{"present":-0.0}"#, b"\x19\0\0\0\0\0\0\0\x80"),
            (r#"{"inner":{"float":-0.0}}"#, b"\x22\x05\x15\0\0\0\x80"),
            (
                r#"{"list":[{"float":-0.0},{}]}"#,
                b"\x2a\x05\x15\0\0\0\x80\x2a\0",
            ),
            (r#"{"text":"a","float":-0.0}"#, b"\x4a\x01a\x15\0\0\0\x80"),
            (
                r#"{"map":{"k":{"float":-0.0}}}"#,
                b"\x32\x0a\x0a\x01k\x12\x05\x15\0\0\0\x80",
            ),
            (
                r#"{"doubles":{"1":-0.0}}"#,
                b"\x3a\x0b\x08\x01\x11\0\0\0\0\0\0\0\x80",
            ),
            (r#"{"packed":[-0.0]}"#, b"\x42\x08\0\0\0\0\0\0\0\x80"),
            (r#"{"left":-0.0}"#, b"\x51\0\0\0\0\0\0\0\x80"),
            (r#"{"double":0.0}"#, b""),
        ] {
            let [message] = &method.requests(text).unwrap()[..] else {
                panic!("one message");
            };
            let encoded = encode(message);
            assert_eq!(encoded, bytes, "{text}");
            let again = method.decode(&encoded).unwrap();
            let mut out = Vec::new();
            json::write(&again, &mut out).unwrap();
            let expected = if bytes.is_empty() { "{}" } else { text };
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
