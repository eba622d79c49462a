//! One binding as an operation.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use super::{
    path::Wildcard,
    schema::{Schemas, described, is_deprecated},
};
use crate::{
    binding::{Binding, Body},
    value::is_text,
};

/// More query parameters than this are not listed: messages in messages have many.
const MOST_PARAMETERS: usize = 500;
/// How deep messages in messages are looked into for query parameters.
const DEEPEST: usize = 6;

/// What the operation of a binding is, under these names of the wildcards in its path.
pub(super) fn operation(
    binding: &Binding,
    wildcards: &[Wildcard<'_>],
    names: &[String],
    id: String,
    schemas: &mut Schemas,
) -> Value {
    let method = binding.method();
    let mut parameters: Vec<Value> = wildcards
        .iter()
        .zip(names)
        .map(|(wildcard, name)| of_path(wildcard, name, schemas))
        .collect();
    let mut query = Query {
        binding,
        found: Vec::new(),
        is_cut: false,
    };
    query.search(binding.input(), &mut Vec::new(), &mut Vec::new(), schemas);
    let is_cut = query.is_cut;
    parameters.extend(query.found);
    let mut operation = json!({
        "operationId": id,
        "tags": [method.parent_service().full_name()],
        "parameters": parameters,
        "responses": {
            "200": response(binding, schemas),
            "default": { "$ref": "#/components/responses/Error" },
        },
    });
    if let Some(content) = request(binding, schemas) {
        operation["requestBody"] = content;
    }
    let mut description = schemas.comment(&method.parent_file(), method.path());
    if is_cut {
        let more = format!("There are more query parameters than the {MOST_PARAMETERS} listed.");
        description = Some(match description {
            Some(text) => format!("{text}\n\n{more}"),
            None => more,
        });
    }
    let options = method.method_descriptor_proto().options.as_ref();
    if options.is_some_and(|options| options.deprecated()) {
        operation["deprecated"] = true.into();
    }
    described(operation, description)
}

fn of_path(wildcard: &Wildcard<'_>, name: &str, schemas: &mut Schemas) -> Value {
    let mut text = None;
    let mut schema = json!({ "type": "string" });
    if let Some(parameter) = wildcard.variable {
        let leaf = &parameter.fields[parameter.fields.len() - 1];
        text = schemas.comment_of(leaf);
        if wildcard.is_whole {
            schema = in_text(leaf, schemas);
        } else {
            let part = format!("A part of `{}`.", parameter.variable.field_path);
            text = Some(match text {
                Some(text) => format!("{part} {text}"),
                None => part,
            });
        }
    }
    if wildcard.is_rest {
        let rest = "Any number of segments, with slashes between them, or none.";
        text = Some(match text {
            Some(text) => format!("{rest} {text}"),
            None => rest.to_owned(),
        });
    }
    let parameter = json!({ "name": name, "in": "path", "required": true, "schema": schema });
    described(parameter, text)
}

/// The schema of one value of a field where it stands in a path or a query.
fn in_text(field: &FieldDescriptor, schemas: &mut Schemas) -> Value {
    match field.kind() {
        Kind::Enum(kind) if kind.full_name() == "google.protobuf.NullValue" => {
            json!({ "type": "string", "enum": ["NULL_VALUE"] })
        }
        kind => schemas.kind(&kind),
    }
}

/// The fields that query parameters may set.
struct Query<'b> {
    binding: &'b Binding,
    found: Vec<Value>,
    is_cut: bool,
}

impl Query<'_> {
    /// Looks for them in `message`, which `way` leads to, over messages of the types in `inside`.
    fn search(
        &mut self,
        message: &MessageDescriptor,
        way: &mut Vec<FieldDescriptor>,
        inside: &mut Vec<String>,
        schemas: &mut Schemas,
    ) {
        for field in message.fields() {
            if self.found.len() == MOST_PARAMETERS {
                self.is_cut = true;
                return;
            }
            way.push(field.clone());
            if !field.is_map() && self.binding.taken(way).is_none() {
                match field.kind() {
                    Kind::Message(inner) if !is_text(&inner) => {
                        let name = inner.full_name().to_owned();
                        // Those that JSON writes in a form of their own have no fields to name.
                        let has_fields = !field.is_list() && !name.starts_with("google.protobuf.");
                        if has_fields && inside.len() < DEEPEST && !inside.contains(&name) {
                            inside.push(name);
                            self.search(&inner, way, inside, schemas);
                            inside.pop();
                        }
                    }
                    _ => self.add(way, &field, schemas),
                }
            }
            way.pop();
        }
    }

    fn add(&mut self, way: &[FieldDescriptor], field: &FieldDescriptor, schemas: &mut Schemas) {
        let names: Vec<&str> = way.iter().map(FieldDescriptor::json_name).collect();
        let one = in_text(field, schemas);
        let schema = match field.is_list() {
            true => json!({ "type": "array", "items": one }),
            false => one,
        };
        let mut parameter = json!({ "name": names.join("."), "in": "query", "schema": schema });
        if is_deprecated(field) {
            parameter["deprecated"] = true.into();
        }
        self.found
            .push(described(parameter, schemas.comment_of(field)));
    }
}

/// Content in each of the formats, by the schema of its JSON.
fn formats(schema: Value) -> Value {
    json!({
        "application/json": { "schema": schema },
        "application/protobuf": {},
    })
}

fn request(binding: &Binding, schemas: &mut Schemas) -> Option<Value> {
    if binding.takes_raw() {
        return Some(json!({ "content": { "*/*": {} } }));
    }
    let schema = match binding.body() {
        Body::None => return None,
        Body::Whole => schemas.message(binding.input()),
        Body::Field(field) => schemas.field(field),
    };
    if !binding.method().is_client_streaming() {
        return Some(json!({ "content": formats(schema) }));
    }
    Some(json!({
        "description": "A message in each line, or one message.",
        "content": {
            "application/x-ndjson": { "schema": schema },
            "application/json": { "schema": schema },
        },
    }))
}

fn response(binding: &Binding, schemas: &mut Schemas) -> Value {
    if binding.gives_raw() {
        return json!({ "description": "The content, of the type that the service says.",
            "content": { "*/*": {} } });
    }
    let schema = match binding.response_body() {
        None => schemas.message(&binding.method().output()),
        Some(field) => schemas.field(field),
    };
    if !binding.method().is_server_streaming() {
        return json!({ "description": "The response.", "content": formats(schema) });
    }
    let mut error = Map::new();
    error.insert("error".to_owned(), json!({ "$ref": STATUS }));
    let line = json!({ "anyOf": [schema, {
        "type": "object", "properties": error, "required": ["error"],
    }] });
    json!({
        "description": "A stream of messages: one in each line, or in each event. An error that ends it \
            is the last line, or an event of type `error`.",
        "content": {
            "application/x-ndjson": { "schema": line },
            "text/event-stream": { "schema": { "type": "string" } },
        },
    })
}

/// The schema of errors.
pub(super) const STATUS: &str = "#/components/schemas/google.rpc.Status";
