//! Messages and fields as the content of a request or a response.

use std::fmt;

use prost::Message;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage, SerializeOptions,
    Value,
};
use serde::de::{
    DeserializeSeed, Deserializer, MapAccess,
    value::{MapAccessDeserializer, StrDeserializer},
};

use crate::{format::Format, path, problem::Problem, query::DEEPEST};

/// Reads a message; nothing at all is one without fields.
pub(crate) fn read(
    descriptor: &MessageDescriptor,
    format: Format,
    content: &[u8],
) -> Result<DynamicMessage, Problem> {
    match format {
        _ if content.is_empty() => Ok(DynamicMessage::new(descriptor.clone())),
        Format::Json => json(content, || descriptor.clone()),
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
        return Ok(());
    }
    if let Some(inner) = message_of(field) {
        let inner = read(&inner, format, content)?;
        message.set_field(field, Value::Message(inner));
        return Ok(());
    }
    let descriptor = message.descriptor();
    let mut holder = match format {
        Format::Json => json(content, || Holder(&descriptor, field.json_name()))?,
        Format::Protobuf => read(&descriptor, format, content)?,
    };
    if let Some(value) = holder.take_field(field) {
        message.set_field(field, value);
    }
    match holder.fields().next() {
        None => Ok(()),
        Some((other, _)) => Err(Problem::invalid(format!(
            "the content has the field {:?}, but the rule wants nothing but {:?} there",
            other.name(),
            field.name()
        ))),
    }
}

/// Writes a message to the end of `out`.
pub(crate) fn write(
    message: &DynamicMessage,
    format: Format,
    out: &mut Vec<u8>,
) -> Result<(), Problem> {
    match format {
        Format::Json => serde_json::to_writer(out, message).map_err(unwritable),
        Format::Protobuf => message.encode(out).map_err(unwritable),
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
        (Value::Message(inner), _) => return write(inner, format, out),
        (Value::List(values), Format::Json) if message_kind(field).is_some() => {
            out.push(b'[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                if let Value::Message(inner) = value {
                    write(inner, format, out)?;
                }
            }
            out.push(b']');
            return Ok(());
        }
        _ => {}
    }
    let mut alone = DynamicMessage::new(message.descriptor());
    alone.set_field(field, value.into_owned());
    if format == Format::Protobuf {
        return write(&alone, format, out);
    }
    if !alone.has_field(field) {
        let all = SerializeOptions::new().skip_default_fields(false);
        let object = alone
            .serialize_with_options(serde_json::value::Serializer, &all)
            .map_err(unwritable)?;
        let default = object
            .get(field.json_name())
            .unwrap_or(&serde_json::Value::Null);
        return serde_json::to_writer(out, default).map_err(unwritable);
    }
    // `{"name":value}`: what stands between the colon and the last brace.
    let object = serde_json::to_vec(&alone).map_err(unwritable)?;
    let name = serde_json::to_vec(field.json_name()).map_err(unwritable)?;
    out.extend_from_slice(&object[1 + name.len() + 1..object.len() - 1]);
    Ok(())
}

fn unwritable(reason: impl fmt::Display) -> Problem {
    Problem::internal(format!("the response cannot be written: {reason}"))
}

/// The message that a field which is not repeated holds.
fn message_of(field: &FieldDescriptor) -> Option<MessageDescriptor> {
    let repeated = field.is_list() || field.is_map();
    message_kind(field).filter(|_| !repeated)
}

fn message_kind(field: &FieldDescriptor) -> Option<MessageDescriptor> {
    match field.kind() {
        Kind::Message(message) if !field.is_map() => Some(message),
        _ => None,
    }
}

/// Reads one JSON value, and says where it does not fit.
pub(crate) fn json<S>(content: &[u8], seed: impl Fn() -> S) -> Result<DynamicMessage, Problem>
where
    S: for<'de> DeserializeSeed<'de, Value = DynamicMessage>,
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

/// Reads a message whose only field, by its JSON name, is the JSON value.
struct Holder<'a>(&'a MessageDescriptor, &'a str);

impl<'de> DeserializeSeed<'de> for Holder<'_> {
    type Value = DynamicMessage;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Self::Value, D::Error> {
        let entry = Entry {
            name: Some(self.1),
            value: Some(value),
        };
        self.0
            .clone()
            .deserialize(MapAccessDeserializer::new(entry))
    }
}

/// A map of one entry, whose value is what a deserializer reads.
struct Entry<'a, D> {
    name: Option<&'a str>,
    value: Option<D>,
}

impl<'de, D: Deserializer<'de>> MapAccess<'de> for Entry<'_, D> {
    type Error = D::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Self::Error> {
        let Some(name) = self.name.take() else {
            return Ok(None);
        };
        seed.deserialize(StrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, Self::Error> {
        match self.value.take() {
            Some(value) => seed.deserialize(value),
            None => Err(serde::de::Error::custom("the value was read twice")),
        }
    }
}
