//! JSON Schemas (2020-12) of the JSON mapping of Protocol Buffers, as it is written.

use prost_reflect::{EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use super::comments::Comments;

/// The schemas of the messages that operations refer to.
#[derive(Debug, Default)]
pub(super) struct Schemas {
    found: Map<String, Value>,
    /// Referred to, and not yet written.
    pending: Vec<MessageDescriptor>,
    comments: Comments,
}

impl Schemas {
    /// All schemas, by the full names of the messages.
    pub(super) fn finish(mut self) -> Map<String, Value> {
        while let Some(message) = self.pending.pop() {
            let schema = self.object(&message);
            self.found.insert(message.full_name().to_owned(), schema);
        }
        self.found
    }

    /// The comment of a descriptor.
    pub(super) fn comment(&mut self, file: &FileDescriptor, path: &[i32]) -> Option<String> {
        self.comments.of(file, path).map(str::to_owned)
    }

    /// The comment of a field.
    pub(super) fn comment_of(&mut self, field: &FieldDescriptor) -> Option<String> {
        self.comment(&field.parent_file(), field.path())
    }

    /// The schema of a message.
    pub(super) fn message(&mut self, message: &MessageDescriptor) -> Value {
        let name = message.full_name();
        if let Some(schema) = well_known(name) {
            return schema;
        }
        if !self.found.contains_key(name) {
            // Its place is taken before its fields are seen: they may be of its own kind.
            self.found.insert(name.to_owned(), Value::Null);
            self.pending.push(message.clone());
        }
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }

    /// The schema of a field: of its list or its map, where it is one.
    pub(super) fn field(&mut self, field: &FieldDescriptor) -> Value {
        let kind = field.kind();
        if field.is_map() {
            let value = match &kind {
                Kind::Message(entry) => self.kind(&entry.map_entry_value_field().kind()),
                _ => json!({}),
            };
            return json!({ "type": "object", "additionalProperties": value });
        }
        let one = self.kind(&kind);
        match field.is_list() {
            true => json!({ "type": "array", "items": one }),
            false => one,
        }
    }

    /// The schema of one value.
    pub(super) fn kind(&mut self, kind: &Kind) -> Value {
        match kind {
            Kind::Message(message) => self.message(message),
            Kind::Enum(kind) => self.of_enum(kind),
            _ => scalar(kind),
        }
    }

    fn of_enum(&mut self, kind: &EnumDescriptor) -> Value {
        if kind.full_name() == "google.protobuf.NullValue" {
            return json!({ "type": "null" });
        }
        let names: Vec<_> = kind.values().map(|value| value.name().to_owned()).collect();
        described(
            json!({ "type": "string", "enum": names }),
            self.comment(&kind.parent_file(), kind.path()),
        )
    }

    fn object(&mut self, message: &MessageDescriptor) -> Value {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for field in message.fields() {
            let mut schema = described(self.field(&field), self.comment_of(&field));
            if is_deprecated(&field) {
                schema["deprecated"] = true.into();
            }
            if field.cardinality() == prost_reflect::Cardinality::Required {
                required.push(field.json_name().to_owned());
            }
            properties.insert(field.json_name().to_owned(), schema);
        }
        let mut object = json!({ "type": "object", "properties": properties });
        if !required.is_empty() {
            object["required"] = required.into();
        }
        let choices: Vec<Value> = message
            .oneofs()
            .filter(|oneof| !oneof.is_synthetic() && oneof.fields().len() > 1)
            .map(|oneof| at_most_one(oneof.fields()))
            .collect();
        if !choices.is_empty() {
            object["allOf"] = choices.into();
        }
        described(object, self.comment(&message.parent_file(), message.path()))
    }
}

/// One of the fields, or none.
fn at_most_one(fields: impl Iterator<Item = FieldDescriptor>) -> Value {
    let each: Vec<Value> = fields
        .map(|field| json!({ "required": [field.json_name()] }))
        .collect();
    let none = json!({ "not": { "anyOf": each } });
    let choices: Vec<Value> = each.into_iter().chain([none]).collect();
    json!({ "oneOf": choices })
}

pub(super) fn is_deprecated(field: &FieldDescriptor) -> bool {
    let options = field.field_descriptor_proto().options.as_ref();
    options.is_some_and(|options| options.deprecated())
}

/// A schema with a description, where there is one.
pub(super) fn described(mut schema: Value, comment: Option<String>) -> Value {
    if let (Some(comment), Some(schema)) = (comment, schema.as_object_mut()) {
        schema.entry("description").or_insert(comment.into());
    }
    schema
}

fn scalar(kind: &Kind) -> Value {
    match kind {
        Kind::Double => number("double"),
        Kind::Float => number("float"),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => json!({
            "type": "integer", "format": "int32", "minimum": i32::MIN, "maximum": i32::MAX,
        }),
        Kind::Uint32 | Kind::Fixed32 => json!({
            "type": "integer", "format": "uint32", "minimum": 0, "maximum": u32::MAX,
        }),
        // Numbers that JavaScript cannot hold are strings.
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            json!({ "type": "string", "format": "int64", "pattern": "^-?[0-9]{1,19}$" })
        }
        Kind::Uint64 | Kind::Fixed64 => {
            json!({ "type": "string", "format": "uint64", "pattern": "^[0-9]{1,20}$" })
        }
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
        Kind::String | Kind::Message(_) | Kind::Enum(_) => json!({ "type": "string" }),
    }
}

fn number(format: &str) -> Value {
    json!({
        "anyOf": [
            { "type": "number", "format": format },
            { "type": "string", "enum": ["NaN", "Infinity", "-Infinity"] },
        ],
    })
}

/// The types that JSON writes in a form of their own.
fn well_known(name: &str) -> Option<Value> {
    let kind = match name.strip_prefix("google.protobuf.")? {
        "Timestamp" => return Some(json!({ "type": "string", "format": "date-time" })),
        "Duration" => {
            let pattern = r"^-?[0-9]{1,12}(\.[0-9]{1,9})?s$";
            return Some(json!({ "type": "string", "pattern": pattern }));
        }
        "FieldMask" => {
            let text = "Names of fields with commas between them, such as title,edition.year";
            let pattern = "^([a-zA-Z][a-zA-Z0-9]*([.,][a-zA-Z][a-zA-Z0-9]*)*)?$";
            return Some(json!({ "type": "string", "pattern": pattern, "description": text }));
        }
        "Struct" => return Some(json!({ "type": "object" })),
        "ListValue" => return Some(json!({ "type": "array" })),
        "Value" => return Some(json!({ "description": "Any JSON" })),
        "Empty" => return Some(json!({ "type": "object", "maxProperties": 0 })),
        "Any" => {
            return Some(json!({
                "type": "object",
                "properties": { "@type": {
                    "type": "string",
                    "description": "The name of the message, such as type.googleapis.com/pkg.Message",
                } },
                "additionalProperties": true,
            }));
        }
        "DoubleValue" => Kind::Double,
        "FloatValue" => Kind::Float,
        "Int64Value" => Kind::Int64,
        "UInt64Value" => Kind::Uint64,
        "Int32Value" => Kind::Int32,
        "UInt32Value" => Kind::Uint32,
        "BoolValue" => Kind::Bool,
        "StringValue" => Kind::String,
        "BytesValue" => Kind::Bytes,
        _ => return None,
    };
    Some(scalar(&kind))
}
