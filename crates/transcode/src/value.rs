//! Values as they stand in paths and queries: text.

use std::str::FromStr;

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, Value};
use serde::de::{
    DeserializeOwned, DeserializeSeed, IntoDeserializer,
    value::{Error, StrDeserializer},
};

use trilane_grpc::json::MessageSeed;

use crate::path::shown;

const BASE64: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, BASE64);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, BASE64);

/// Whether a message fits into a parameter: JSON writes it as a scalar.
pub(crate) fn is_text(message: &MessageDescriptor) -> bool {
    is_string(message) || is_wrapper(message)
}

fn is_string(message: &MessageDescriptor) -> bool {
    matches!(
        message.full_name(),
        "google.protobuf.Timestamp" | "google.protobuf.Duration" | "google.protobuf.FieldMask"
    )
}

fn is_wrapper(message: &MessageDescriptor) -> bool {
    message
        .full_name()
        .strip_prefix("google.protobuf.")
        .and_then(|name| name.strip_suffix("Value"))
        .is_some_and(|of| {
            matches!(
                of,
                "Bool"
                    | "Bytes"
                    | "Double"
                    | "Float"
                    | "Int32"
                    | "Int64"
                    | "String"
                    | "UInt32"
                    | "UInt64"
            )
        })
}

/// The value of one element of `field` that `text` writes. Numbers and booleans are written as in
/// JSON; strings as they are; bytes in base64 of either alphabet; enums by name or number.
///
/// # Errors
/// What was expected, and what stood there.
pub(crate) fn parse(field: &FieldDescriptor, text: &str) -> Result<Value, String> {
    if field.is_map() {
        return Err("is a map, which no parameter can write".to_owned());
    }
    of_kind(&field.kind(), text)
}

fn of_kind(kind: &Kind, text: &str) -> Result<Value, String> {
    Ok(match kind {
        Kind::Bool => Value::Bool(json(text, "true or false")?),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            Value::I32(integer(text, "a whole number of 32 bits")?)
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            Value::I64(integer(text, "a whole number of 64 bits")?)
        }
        Kind::Uint32 | Kind::Fixed32 => {
            Value::U32(integer(text, "a whole number of 32 bits without a sign")?)
        }
        Kind::Uint64 | Kind::Fixed64 => {
            Value::U64(integer(text, "a whole number of 64 bits without a sign")?)
        }
        Kind::Float => {
            let wide = double(text, "a number that fits into 32 bits")?;
            let value = wide as f32;
            if wide.is_finite() && value.is_infinite() {
                return Err(expected("a number that fits into 32 bits", text));
            }
            Value::F32(value)
        }
        Kind::Double => Value::F64(double(text, "a number")?),
        Kind::String => Value::String(text.to_owned()),
        Kind::Bytes => {
            let engine = match text.contains(['-', '_']) {
                true => URL_SAFE,
                false => STANDARD,
            };
            let bytes = engine.decode(text);
            Value::Bytes(bytes.map_err(|_| expected("base64", text))?.into())
        }
        Kind::Enum(kind) => {
            let named = kind.get_value_by_name(text).map(|value| value.number());
            let number = named.or_else(|| serde_json::from_str(text).ok());
            let null =
                || (kind.full_name() == "google.protobuf.NullValue" && text == "null").then_some(0);
            let wanted = || format!("a name or number of {}", kind.full_name());
            Value::EnumNumber(
                number
                    .or_else(null)
                    .ok_or_else(|| expected(&wanted(), text))?,
            )
        }
        Kind::Message(message) => Value::Message(of_message(message, text)?),
    })
}

fn of_message(message: &MessageDescriptor, text: &str) -> Result<DynamicMessage, String> {
    if is_string(message) {
        if message.full_name() == "google.protobuf.FieldMask" && !is_mask(text) {
            return Err(expected("field names with commas between them", text));
        }
        let text_of: StrDeserializer<'_, Error> = text.into_deserializer();
        return MessageSeed(message)
            .deserialize(text_of)
            .map_err(|_| expected(&format!("a {}", message.full_name()), text));
    }
    if is_wrapper(message)
        && let Some(field) = message.get_field(1)
    {
        let mut wrapper = DynamicMessage::new(message.clone());
        wrapper.set_field(&field, of_kind(&field.kind(), text)?);
        return Ok(wrapper);
    }
    Err(format!(
        "is a {}, whose fields are parameters of their own",
        message.full_name()
    ))
}

/// Whether `text` is field paths, as `a,b.c`, with commas between them; nothing is none of them.
fn is_mask(text: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.chars().all(|other| other.is_ascii_alphanumeric())
    };
    text.is_empty() || text.split([',', '.']).all(is_name)
}

fn double(text: &str, wanted: &str) -> Result<f64, String> {
    match text {
        "NaN" => Ok(f64::NAN),
        "Infinity" => Ok(f64::INFINITY),
        "-Infinity" => Ok(f64::NEG_INFINITY),
        _ => json(text, wanted),
    }
}

/// An integer of JSON: it starts with neither `+` nor a zero before other digits, and JSON's spaces
/// around it do not count.
fn integer<T: FromStr>(text: &str, wanted: &str) -> Result<T, String> {
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_json = digits == "0" || digits.starts_with(|first| ('1'..='9').contains(&first));
    let number = is_json.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| expected(wanted, text))
}

fn json<T: DeserializeOwned>(text: &str, wanted: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|_| expected(wanted, text))
}

fn expected(wanted: &str, found: &str) -> String {
    format!("has to be {wanted}, not {}", shown(found))
}
