//! Messages and fields as the content of a request or a response.

use prost_reflect::{
    Cardinality, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage, Syntax,
    Value,
};
use serde::de::DeserializeSeed;
use trilane_grpc::json::{self, FieldSeed, MessageSeed};

use crate::{format::Format, path, problem::Problem, query::DEEPEST};

/// Reads a message; nothing at all is one without fields.
pub(crate) fn read(
    descriptor: &MessageDescriptor,
    format: Format,
    content: &[u8],
) -> Result<DynamicMessage, Problem> {
    match format {
        _ if content.is_empty() => Ok(DynamicMessage::new(descriptor.clone())),
        Format::Json => json(content, || MessageSeed(descriptor)),
        Format::Protobuf => DynamicMessage::decode(descriptor.clone(), content)
            .map_err(|reason| Problem::invalid(format!("the content is not a message: {reason}"))),
    }
}

/// Reads `field` of `message` from content that is nothing but this field.
pub(crate) fn read_field(
    message: &mut DynamicMessage,
    field: &FieldDescriptor,
    format: Format,
    content: &[u8],
) -> Result<(), Problem> {
    if content.is_empty() {
        // A message of which nothing is said is one without fields; of a number nothing says nothing.
        return match message_of(field) {
            None if format == Format::Json && !field.is_list() && !field.is_map() => {
                Err(Problem::invalid(format!(
                    "the content is empty, and the rule wants the field {:?} there",
                    field.name()
                )))
            }
            _ => Ok(()),
        };
    }
    let value = match (format, message_of(field)) {
        (_, Some(inner)) => Some(Value::Message(read(&inner, format, content)?)),
        (Format::Json, None) => json(content, || FieldSeed(field))?,
        (Format::Protobuf, None) => {
            let mut holder = read(&message.descriptor(), format, content)?;
            let value = holder.take_field(field);
            if let Some((other, _)) = holder.fields().next() {
                return Err(Problem::invalid(format!(
                    "the content has the field {:?}, but the rule wants nothing but {:?} there",
                    other.name(),
                    field.name()
                )));
            }
            value
        }
    };
    if let Some(value) = value {
        message.set_field(field, value);
    }
    Ok(())
}

/// Writes a message to the end of `out`.
pub(crate) fn write(
    message: &DynamicMessage,
    format: Format,
    out: &mut Vec<u8>,
) -> Result<(), Problem> {
    match format {
        Format::Json => json::write(message, out).map_err(unwritable),
        Format::Protobuf => {
            out.extend(trilane_grpc::encode(message));
            Ok(())
        }
    }
}

/// Writes `field` of `message` to the end of `out`, with its default value where it is not set.
pub(crate) fn write_field(
    message: &DynamicMessage,
    field: &FieldDescriptor,
    format: Format,
    out: &mut Vec<u8>,
) -> Result<(), Problem> {
    let value = message.get_field(field);
    match (value.as_ref(), format) {
        (value, Format::Json) => json::write_field(value, field, out).map_err(unwritable),
        (Value::Message(inner), Format::Protobuf) => write(inner, format, out),
        (_, Format::Protobuf) => {
            let mut alone = DynamicMessage::new(message.descriptor());
            alone.set_field(field, value.into_owned());
            write(&alone, format, out)
        }
    }
}

fn unwritable(reason: String) -> Problem {
    Problem::internal(format!("the response cannot be written: {reason}"))
}

/// The message that a field which is not repeated holds.
fn message_of(field: &FieldDescriptor) -> Option<MessageDescriptor> {
    let repeated = field.is_list() || field.is_map();
    match field.kind() {
        Kind::Message(message) if !repeated => Some(message),
        _ => None,
    }
}

/// Whether a message, and those in it, have the fields that proto2 calls required.
///
/// # Errors
/// INVALID_ARGUMENT with the first that is missing.
pub(crate) fn has_required(message: &DynamicMessage) -> Result<(), Problem> {
    match missing(message, 0) {
        None => Ok(()),
        Some(path) => Err(Problem::invalid(format!(
            "the required field {path} of {} is missing",
            message.descriptor().full_name()
        ))),
    }
}

/// The path of a required field that is not set.
fn missing(message: &DynamicMessage, depth: usize) -> Option<String> {
    let descriptor = message.descriptor();
    let is_missing = |field: &FieldDescriptor| {
        field.cardinality() == Cardinality::Required && !message.has_field(field)
    };
    if descriptor.parent_file().syntax() == Syntax::Proto2
        && let Some(field) = descriptor.fields().find(is_missing)
    {
        return Some(field.name().to_owned());
    }
    if depth > DEEPEST {
        return None;
    }
    message.fields().find_map(|(field, value)| {
        let inner = |value: &Value| missing(value.as_message()?, depth + 1);
        let found = match value {
            Value::Message(_) => inner(value),
            Value::List(items) => items.iter().find_map(inner),
            Value::Map(entries) => entries.values().find_map(inner),
            _ => None,
        };
        found.map(|path| format!("{}.{path}", field.name()))
    })
}

/// Reads one JSON value, and says where it does not fit.
pub(crate) fn json<T, S>(content: &[u8], seed: impl Fn() -> S) -> Result<T, Problem>
where
    S: for<'de> DeserializeSeed<'de, Value = T>,
{
    if is_deeper_than(content, DEEPEST) {
        return Err(Problem::invalid(format!(
            "the content is nested deeper than {DEEPEST} levels"
        )));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(content);
    let read = seed().deserialize(&mut deserializer);
    let reason = match read.and_then(|message| deserializer.end().map(|()| message)) {
        Ok(message) => return Ok(message),
        Err(reason) => reason,
    };
    // Where it is costs time, so it is looked for only now.
    let mut track = serde_path_to_error::Track::new();
    let mut deserializer = serde_json::Deserializer::from_slice(content);
    let tracked = serde_path_to_error::Deserializer::new(&mut deserializer, &mut track);
    let place = match seed().deserialize(tracked) {
        Err(_) => track.path().to_string(),
        Ok(_) => ".".to_owned(),
    };
    let (place, reason) = (short(&place), short(&reason.to_string()));
    Err(Problem::invalid(match place.as_str() {
        "." => format!("the content is not the JSON that is wanted: {reason}"),
        place => format!("the content's field {place} is not what is wanted: {reason}"),
    }))
}

/// What holds words of the caller's, cut where it is long.
fn short(text: &str) -> String {
    match path::cut(text, 160) {
        Some(start) => format!("{start}…"),
        None => text.to_owned(),
    }
}

/// Whether brackets stand in brackets more than `deepest` times.
fn is_deeper_than(content: &[u8], deepest: usize) -> bool {
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    for &byte in content {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > deepest {
            return true;
        }
    }
    false
}
