//! The first part of a JSON value that does not fit a message.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor};
use serde::de::DeserializeSeed;
use serde_json::{Map, Value, json};

use super::{
    expected::{by_kind, by_message, found, is_in_value, well_known},
    read::{MessageSeed, map_key},
};
use crate::near;

/// Where, and what was expected.
type Misfit = (String, String);

/// Looks for the misfit of a value that is refused as a whole.
pub(super) fn find(descriptor: &MessageDescriptor, value: &Value) -> Option<Misfit> {
    if value.is_array() && well_known(descriptor.full_name()).is_none() {
        let text = format!(
            "expected {}, found an array: write several messages one after the other, without brackets",
            by_message(descriptor)
        );
        return Some((String::new(), text));
    }
    message(descriptor, value, "")
}

fn expected(path: &str, what: &str, value: &Value) -> Misfit {
    (
        path.to_owned(),
        format!("expected {what}, found {}", found(value)),
    )
}

fn refused(descriptor: &MessageDescriptor, value: &Value) -> bool {
    MessageSeed(descriptor).deserialize(value).is_err()
}

fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        _ => format!("{path}.{name}"),
    }
}

fn message(descriptor: &MessageDescriptor, value: &Value, path: &str) -> Option<Misfit> {
    match (descriptor.full_name(), value) {
        ("google.protobuf.Any", Value::Object(map)) => any(descriptor, map, path),
        (name, _) if well_known(name).is_some() => {
            refused(descriptor, value).then(|| expected(path, &by_message(descriptor), value))
        }
        (_, Value::Object(map)) => map
            .iter()
            .find_map(|(key, value)| member(descriptor, key, value, path))
            .or_else(|| both_names(descriptor, map, path))
            .or_else(|| several_of_one(descriptor, map, path)),
        _ => Some(expected(path, &by_message(descriptor), value)),
    }
}

fn field_of(descriptor: &MessageDescriptor, key: &str) -> Option<FieldDescriptor> {
    descriptor
        .get_field_by_json_name(key)
        .or_else(|| descriptor.get_field_by_name(key))
}

fn member(descriptor: &MessageDescriptor, key: &str, value: &Value, path: &str) -> Option<Misfit> {
    let here = join(path, key);
    let Some(field) = field_of(descriptor, key) else {
        return match descriptor.get_extension_by_json_name(key) {
            Some(extension) => refused(descriptor, &json!({ key: value }))
                .then(|| expected(&here, &by_kind(&extension.kind()), value)),
            None => Some((here, unknown(descriptor, key))),
        };
    };
    match value {
        Value::Null => None,
        Value::Array(items) if field.is_list() => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| single(&field, item, &format!("{here}[{index}]"))),
        _ if field.is_list() => {
            let what = format!("an array, each {}", by_kind(&field.kind()));
            Some(expected(&here, &what, value))
        }
        Value::Object(entries) if field.is_map() => {
            let kind = field.kind();
            let entry = kind.as_message()?;
            entries
                .iter()
                .find_map(|(key, value)| self::entry(entry, key, value, &here))
        }
        _ if field.is_map() => Some(expected(&here, "an object, a map", value)),
        _ => single(&field, value, &here),
    }
}

fn entry(entry: &MessageDescriptor, key: &str, value: &Value, path: &str) -> Option<Misfit> {
    let here = format!("{path}[{}]", Value::from(key));
    let kind = entry.map_entry_key_field().kind();
    if map_key(&kind, key).is_none() {
        let what = format!("a string with {} as key", by_kind(&kind));
        return Some(expected(&here, &what, &Value::from(key)));
    }
    single(&entry.map_entry_value_field(), value, &here)
}

/// A value of a field's kind: of the field, an element of its list, or a value of its map.
fn single(field: &FieldDescriptor, value: &Value, path: &str) -> Option<Misfit> {
    let kind = field.kind();
    if let Kind::Message(descriptor) = &kind {
        return message(descriptor, value, path);
    }
    // Null is no value where it cannot mean "not set".
    let inside = field.is_list() || field.parent_message().is_map_entry();
    let value_in_field = if field.is_list() {
        json!([value])
    } else {
        value.clone()
    };
    let alone = json!({ field.json_name(): value_in_field });
    let null = value.is_null() && inside && by_kind(&kind) != "null";
    if !null && !refused(field.parent_message(), &alone) {
        return None;
    }
    let (path, mut text) = expected(path, &by_kind(&kind), value);
    if let (Kind::Enum(descriptor), Value::String(name)) = (&kind, value) {
        let values: Vec<_> = descriptor.values().collect();
        if let Some(near) = near::nearest(name, values.iter().map(|value| value.name())) {
            text.push_str(&format!(": did you mean {near:?}?"));
        }
    }
    Some((path, text))
}

fn unknown(descriptor: &MessageDescriptor, key: &str) -> String {
    let name = descriptor.full_name();
    let fields: Vec<_> = descriptor.fields().collect();
    if fields.is_empty() {
        return format!("{name} has no fields");
    }
    let names = || fields.iter().map(FieldDescriptor::json_name);
    match near::nearest(key, names()) {
        Some(near) => format!("{name} has no such field: did you mean {near:?}?"),
        None => format!(
            "{name} has no such field: it has {}",
            near::list(key, names())
        ),
    }
}

/// A field under its two names, JSON's and its own.
fn both_names(
    descriptor: &MessageDescriptor,
    map: &Map<String, Value>,
    path: &str,
) -> Option<Misfit> {
    descriptor
        .fields()
        .find(|field| {
            let (one, other) = (field.json_name(), field.name());
            let is_this = |key: &str| field_of(descriptor, key).as_ref() == Some(field);
            one != other && map.contains_key(one) && map.contains_key(other) && is_this(other)
        })
        .map(|field| {
            let (one, other) = (field.json_name(), field.name());
            (
                join(path, one),
                format!("it stands there twice, as {one:?} and as {other:?}"),
            )
        })
}

fn several_of_one(
    descriptor: &MessageDescriptor,
    map: &Map<String, Value>,
    path: &str,
) -> Option<Misfit> {
    let given = |oneof: &OneofDescriptor| -> Vec<&str> {
        map.iter()
            .filter(|(_, value)| !value.is_null())
            .filter(|(key, _)| {
                field_of(descriptor, key)
                    .and_then(|field| field.containing_oneof())
                    .as_ref()
                    == Some(oneof)
            })
            .map(|(key, _)| key.as_str())
            .collect()
    };
    descriptor.oneofs().find_map(|oneof| {
        let mut given = given(&oneof);
        // The order of a map is another one where a dependency has serde_json keep it.
        given.sort_unstable();
        (given.len() > 1).then(|| {
            let text = format!(
                "expected at most one of the oneof {:?}, found {}",
                oneof.name(),
                given.join(" and ")
            );
            (path.to_owned(), text)
        })
    })
}

fn any(descriptor: &MessageDescriptor, map: &Map<String, Value>, path: &str) -> Option<Misfit> {
    const EXAMPLE: &str = "the name of a type, such as \"type.googleapis.com/pkg.Message\"";
    let here = join(path, "@type");
    if map.is_empty() {
        return None;
    }
    let Some(kind) = map.get("@type") else {
        let whole = Value::Object(map.clone());
        return Some(expected(path, &by_message(descriptor), &whole));
    };
    let name = kind.as_str().and_then(|url| url.rsplit_once('/'));
    let Some((_, name)) = name.filter(|(_, name)| !name.is_empty()) else {
        return Some(expected(&here, EXAMPLE, kind));
    };
    let Some(inner) = descriptor.parent_pool().get_message_by_name(name) else {
        return Some((here, format!("the schema has no message {name:?}")));
    };
    if well_known(name).is_none() {
        let mut rest = map.clone();
        rest.remove("@type");
        return message(&inner, &Value::Object(rest), path);
    }
    match map.get("value") {
        Some(value) => message(&inner, value, &join(path, "value")).or_else(|| {
            let other = map
                .keys()
                .find(|key| !matches!(key.as_str(), "@type" | "value"))?;
            Some((
                join(path, other),
                format!("{name} is written in \"value\" alone"),
            ))
        }),
        None if is_in_value(name) => {
            Some((path.to_owned(), format!("expected {name} in \"value\"")))
        }
        None => map.keys().find(|key| *key != "@type").map(|other| {
            (
                join(path, other),
                format!("{name} is written in \"value\" alone"),
            )
        }),
    }
}
