//! Messages from JSON, by any deserializer of serde.
//!
//! `prost-reflect` reads JSON too, and reads here what this module leaves to it. What differs is where it
//! departs from the [mapping](https://protobuf.dev/programming-guides/json/): an object that names a
//! field twice, a 60th second and a tenth digit of a fraction are refused here, and `3.4028235e38` for a
//! float, `"1e2"` for an integer and `{}` for a `google.protobuf.Any` are taken.

use std::{borrow::Cow, collections::HashMap, fmt};

use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey, MessageDescriptor,
    ReflectMessage, Value,
};
use serde::de::{
    DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor,
    value::{MapDeserializer, StrDeserializer},
};
use serde_json::Value as Json;

use crate::zero;

use super::{
    expected, number,
    scalar::Scalar,
    strict::{Strict, twice},
};

/// Reads a message of this type.
#[derive(Debug, Clone, Copy)]
pub struct MessageSeed<'a>(pub &'a MessageDescriptor);

/// Reads what a field holds: its list or its map, where it is one. `None` is `null`, which is no value.
#[derive(Debug, Clone, Copy)]
pub struct FieldSeed<'a>(pub &'a FieldDescriptor);

impl<'de> DeserializeSeed<'de> for MessageSeed<'_> {
    type Value = DynamicMessage;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<DynamicMessage, D::Error> {
        let descriptor = self.0;
        let known = descriptor.full_name().strip_prefix("google.protobuf.");
        match known.unwrap_or_default() {
            "Any" => json.deserialize_map(AnyVisitor(descriptor)),
            "Timestamp" | "Duration" => json.deserialize_str(TimeVisitor(descriptor)),
            "FloatValue" | "DoubleValue" | "Int32Value" | "Int64Value" | "UInt32Value"
            | "UInt64Value" => {
                let mut message = DynamicMessage::new(descriptor.clone());
                if let Some(field) = descriptor.get_field(1) {
                    let value = Scalar(&field.kind()).deserialize(json)?;
                    message.set_field(&field, value);
                }
                Ok(message)
            }
            "Struct" | "Value" | "ListValue" => {
                let Strict(value) = serde::Deserialize::deserialize(json)?;
                let read = descriptor.clone().deserialize(value);
                read.map_err(D::Error::custom)
            }
            "BoolValue" | "StringValue" | "BytesValue" | "FieldMask" | "Empty" => {
                descriptor.clone().deserialize(json)
            }
            _ => json.deserialize_map(MessageVisitor(descriptor)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Option<Value>, D::Error> {
        json.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for FieldSeed<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "what the field {} holds", self.0.name())
    }

    fn visit_unit<E: Error>(self) -> Result<Option<Value>, E> {
        if self.0.is_list() || self.0.is_map() {
            return Ok(None);
        }
        null(&self.0.kind())
    }

    fn visit_none<E: Error>(self) -> Result<Option<Value>, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, json: D) -> Result<Option<Value>, D::Error> {
        let field = self.0;
        let kind = field.kind();
        let value = if field.is_list() {
            Value::List(json.deserialize_seq(ListVisitor(&kind))?)
        } else if field.is_map() {
            Value::Map(json.deserialize_map(EntriesVisitor(&kind))?)
        } else {
            Single(&kind).deserialize(json)?
        };
        Ok(Some(value))
    }
}

/// What `null` is for a field of this kind: nothing, unless the kind has a value that is written so.
fn null<E: Error>(kind: &Kind) -> Result<Option<Value>, E> {
    match kind {
        Kind::Message(message) if message.full_name() == "google.protobuf.Value" => {
            let read = MessageSeed(message).deserialize(Json::Null);
            read.map(|value| Some(Value::Message(value)))
                .map_err(E::custom)
        }
        Kind::Enum(of) if of.full_name() == "google.protobuf.NullValue" => {
            Ok(Some(Value::EnumNumber(0)))
        }
        _ => Ok(None),
    }
}

/// Reads one value of a kind.
struct Single<'a>(&'a Kind);

impl<'de> DeserializeSeed<'de> for Single<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        match self.0 {
            Kind::Message(message) => MessageSeed(message).deserialize(json).map(Value::Message),
            Kind::Enum(of) => json.deserialize_any(EnumVisitor(of)).map(Value::EnumNumber),
            kind => Scalar(kind).deserialize(json),
        }
    }
}

struct EnumVisitor<'a>(&'a EnumDescriptor);

impl Visitor<'_> for EnumVisitor<'_> {
    type Value = i32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&expected::by_kind(&Kind::Enum(self.0.clone())))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<i32, E> {
        match self.0.get_value_by_name(name) {
            Some(value) => Ok(value.number()),
            None => Err(E::custom(format!(
                "{} has no value {:?}",
                self.0.full_name(),
                name.chars().take(60).collect::<String>()
            ))),
        }
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<i32, E> {
        number.try_into().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<i32, E> {
        number.try_into().map_err(E::custom)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<i32, E> {
        let whole = number::whole_of(number).and_then(|whole| whole.try_into().ok());
        whole.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Float(number), &self))
    }

    fn visit_unit<E: Error>(self) -> Result<i32, E> {
        match self.0.full_name() {
            "google.protobuf.NullValue" => Ok(0),
            _ => Err(E::invalid_type(serde::de::Unexpected::Unit, &self)),
        }
    }
}

struct ListVisitor<'a>(&'a Kind);

impl<'de> Visitor<'de> for ListVisitor<'_> {
    type Value = Vec<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<Value>, A::Error> {
        let mut all = Vec::new();
        while let Some(value) = items.next_element_seed(Single(self.0))? {
            all.push(value);
        }
        Ok(all)
    }
}

/// Reads the entries of a map; the kind is that of an entry.
struct EntriesVisitor<'a>(&'a Kind);

impl<'de> Visitor<'de> for EntriesVisitor<'_> {
    type Value = HashMap<MapKey, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object, a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut all = HashMap::new();
        let Kind::Message(entry) = self.0 else {
            return Ok(all);
        };
        let key_kind = entry.map_entry_key_field().kind();
        let value_kind = entry.map_entry_value_field().kind();
        while let Some(text) = entries.next_key::<Cow<'_, str>>()? {
            let key = map_key(&key_kind, &text).ok_or_else(|| {
                A::Error::custom(format!(
                    "a key has to be a string with {}",
                    expected::by_kind(&key_kind)
                ))
            })?;
            if all.contains_key(&key) {
                return Err(A::Error::custom(twice(&text)));
            }
            let value = entries.next_value_seed(Single(&value_kind))?;
            all.insert(key, value);
        }
        Ok(all)
    }
}

/// A key of a map, from the text that it has in JSON.
pub(super) fn map_key(kind: &Kind, text: &str) -> Option<MapKey> {
    // Zeros before a number are taken, as others take them: a key that is there twice so is refused.
    let is_plain = || !text.starts_with('+');
    match kind {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 if is_plain() => {
            text.parse().ok().map(MapKey::I32)
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 if is_plain() => {
            text.parse().ok().map(MapKey::I64)
        }
        Kind::Uint32 | Kind::Fixed32 if is_plain() => text.parse().ok().map(MapKey::U32),
        Kind::Uint64 | Kind::Fixed64 if is_plain() => text.parse().ok().map(MapKey::U64),
        Kind::Bool => text.parse().ok().map(MapKey::Bool),
        Kind::String => Some(MapKey::String(text.to_owned())),
        _ => None,
    }
}

/// Reads the fields of a message.
struct MessageVisitor<'a>(&'a MessageDescriptor);

impl<'de> Visitor<'de> for MessageVisitor<'_> {
    type Value = DynamicMessage;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object, {}", self.0.full_name())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<DynamicMessage, A::Error> {
        let descriptor = self.0;
        let mut message = DynamicMessage::new(descriptor.clone());
        // Numbers of those that have been named, `null` or not.
        let mut seen: Vec<u32> = Vec::new();
        while let Some(key) = fields.next_key::<Cow<'_, str>>()? {
            let field = descriptor
                .get_field_by_json_name(&key)
                .or_else(|| descriptor.get_field_by_name(&key));
            let Some(field) = field else {
                let Strict(value) = fields.next_value()?;
                extend(&mut message, &key, value).map_err(A::Error::custom)?;
                continue;
            };
            if seen.contains(&field.number()) {
                return Err(A::Error::custom(twice(&key)));
            }
            seen.push(field.number());
            let Some(value) = fields.next_value_seed(FieldSeed(&field))? else {
                continue;
            };
            if let Some(oneof) = field.containing_oneof()
                && oneof.fields().any(|other| message.has_field(&other))
            {
                return Err(A::Error::custom(format!(
                    "more than one field of the oneof {:?} is there",
                    oneof.name()
                )));
            }
            message.set_field(&field, value);
        }
        Ok(message)
    }
}

/// Sets an extension, `[pkg.name]`, which `prost-reflect` reads.
fn extend(message: &mut DynamicMessage, key: &str, value: Json) -> Result<(), String> {
    let descriptor = message.descriptor();
    let Some(extension) = descriptor.get_extension_by_json_name(key) else {
        let shown: String = key.chars().take(60).collect();
        return Err(format!("{} has no field {shown:?}", descriptor.full_name()));
    };
    if message.has_extension(&extension) {
        return Err(twice(key));
    }
    let alone = serde_json::json!({ key: value });
    let mut read = descriptor
        .deserialize(alone)
        .map_err(|reason: serde_json::Error| reason.to_string())?;
    if let Some(value) = read.take_extension(&extension) {
        message.set_extension(&extension, value);
    }
    Ok(())
}

/// Reads a `google.protobuf.Any`.
struct AnyVisitor<'a>(&'a MessageDescriptor);

impl<'de> Visitor<'de> for AnyVisitor<'_> {
    type Value = DynamicMessage;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with \"@type\"")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<DynamicMessage, A::Error> {
        // The type may stand behind the fields that it has.
        let mut entries = serde_json::Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            if entries.contains_key(&key) {
                return Err(A::Error::custom(twice(&key)));
            }
            let Strict(value) = fields.next_value()?;
            entries.insert(key, value);
        }
        let mut any = DynamicMessage::new(self.0.clone());
        if entries.is_empty() {
            return Ok(any);
        }
        let (url, value) = payload(self.0, entries).map_err(A::Error::custom)?;
        for (number, value) in [(1, Value::String(url)), (2, Value::Bytes(value.into()))] {
            if let Some(field) = self.0.get_field(number) {
                any.set_field(&field, value);
            }
        }
        Ok(any)
    }
}

/// The type of an `Any` and its message, encoded.
fn payload(
    any: &MessageDescriptor,
    mut entries: serde_json::Map<String, Json>,
) -> Result<(String, Vec<u8>), String> {
    let Some(Json::String(url)) = entries.remove("@type") else {
        return Err("\"@type\" with the name of a message is missing".to_owned());
    };
    let name = match url.rsplit_once('/') {
        Some((_, name)) if !name.is_empty() => name,
        _ => {
            return Err("\"@type\" is no type's name such as type.googleapis.com/pkg.M".to_owned());
        }
    };
    let descriptor = any
        .parent_pool()
        .get_message_by_name(name)
        .ok_or_else(|| format!("the schema has no message {name:?}"))?;
    if name == expected::EMPTY {
        // Go writes it.
        entries
            .entry("value")
            .or_insert_with(|| Json::Object(serde_json::Map::new()));
    }
    let read = match expected::well_known(name) {
        None => {
            let fields = MapDeserializer::new(entries.into_iter());
            MessageVisitor(&descriptor).visit_map(fields)
        }
        Some(_) => {
            let value = entries
                .remove("value")
                .ok_or_else(|| format!("expected {name} in \"value\""))?;
            if !entries.is_empty() {
                return Err(format!("{name} is written in \"value\" alone"));
            }
            MessageSeed(&descriptor).deserialize(value)
        }
    };
    let message = read.map_err(|reason: serde_json::Error| reason.to_string())?;
    Ok((url, zero::encode(&message)))
}

/// Reads a `google.protobuf.Timestamp` or `Duration`.
struct TimeVisitor<'a>(&'a MessageDescriptor);

impl Visitor<'_> for TimeVisitor<'_> {
    type Value = DynamicMessage;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&expected::by_message(self.0))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<DynamicMessage, E> {
        let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 9 {
            return Err(E::custom(
                "a second has nine digits behind the point at most",
            ));
        }
        // Behind the date and the letter T: hh:mm:ss.
        if self.0.name() == "Timestamp" && text.get(17..19) == Some("60") {
            return Err(E::custom("a minute has no 60th second"));
        }
        let text: StrDeserializer<'_, E> = text.into_deserializer();
        self.0.clone().deserialize(text)
    }
}
