//! What a field takes, in words.

use prost_reflect::{EnumDescriptor, Kind, MessageDescriptor};
use serde_json::Value;

/// The most of a value that an error repeats, in characters.
const SHOWN: usize = 60;
/// The most values of an enumeration that an error lists.
const LISTED: usize = 20;

/// The type of which an `Any` may have `value` or not.
pub(super) const EMPTY: &str = "google.protobuf.Empty";

/// What stood there.
pub(super) fn found(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= SHOWN {
        return text;
    }
    let start: String = text.chars().take(SHOWN).collect();
    format!("{start}…")
}

/// What JSON a value of this kind has.
pub(super) fn by_kind(kind: &Kind) -> String {
    let whole =
        |low: i128, high: i128, also: &str| format!("a whole number from {low} to {high}{also}");
    match kind {
        Kind::Double | Kind::Float => {
            "a number, or \"NaN\", \"Infinity\" or \"-Infinity\"".to_owned()
        }
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => whole(i32::MIN.into(), i32::MAX.into(), ""),
        Kind::Uint32 | Kind::Fixed32 => whole(0, u32::MAX.into(), ""),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            whole(i64::MIN.into(), i64::MAX.into(), ", or a string with one")
        }
        Kind::Uint64 | Kind::Fixed64 => whole(0, u64::MAX.into(), ", or a string with one"),
        Kind::Bool => "true or false".to_owned(),
        Kind::String => "a string".to_owned(),
        Kind::Bytes => "a string in base64".to_owned(),
        Kind::Enum(descriptor) => by_enum(descriptor),
        Kind::Message(descriptor) => by_message(descriptor),
    }
}

fn by_enum(descriptor: &EnumDescriptor) -> String {
    if descriptor.full_name() == "google.protobuf.NullValue" {
        return "null".to_owned();
    }
    let names: Vec<_> = descriptor
        .values()
        .take(LISTED)
        .map(|value| value.name().to_owned())
        .collect();
    let more = match descriptor.values().len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("one of {}{more}, or its number", names.join(", "))
}

/// The JSON of the well-known types that are no objects of their fields.
pub(super) fn well_known(name: &str) -> Option<String> {
    let text = match name.strip_prefix("google.protobuf.")? {
        "Any" => "an object with \"@type\"",
        "Timestamp" => "a time as RFC 3339 writes it, such as \"2026-01-31T23:59:59.5Z\"",
        "Duration" => "a string of seconds, such as \"1.5s\"",
        "FieldMask" => "a string of fields with commas, such as \"title,edition.year\"",
        "Struct" => "an object",
        "ListValue" => "an array",
        "Value" => "any JSON",
        "Empty" => "{}",
        "DoubleValue" => return Some(by_kind(&Kind::Double)),
        "FloatValue" => return Some(by_kind(&Kind::Float)),
        "Int64Value" => return Some(by_kind(&Kind::Int64)),
        "UInt64Value" => return Some(by_kind(&Kind::Uint64)),
        "Int32Value" => return Some(by_kind(&Kind::Int32)),
        "UInt32Value" => return Some(by_kind(&Kind::Uint32)),
        "BoolValue" => return Some(by_kind(&Kind::Bool)),
        "StringValue" => return Some(by_kind(&Kind::String)),
        "BytesValue" => return Some(by_kind(&Kind::Bytes)),
        _ => return None,
    };
    Some(text.to_owned())
}

/// Whether an `Any` holds a message of this type under `value`, not its fields beside `@type`. A
/// `google.protobuf.Empty` has none: those who write it, C++, Java and Python, leave `value` out.
pub(super) fn is_in_value(name: &str) -> bool {
    name != EMPTY && well_known(name).is_some()
}

/// What JSON a message has.
pub(super) fn by_message(descriptor: &MessageDescriptor) -> String {
    let name = descriptor.full_name();
    well_known(name).unwrap_or_else(|| format!("an object, {name}"))
}
