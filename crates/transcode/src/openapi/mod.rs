//! What a router serves, as OpenAPI 3.1.
//!
//! Every binding of every method is an operation, but those over WebSocket and those that stream in
//! both directions, for which OpenAPI has no words. Schemas are those of the JSON that is written;
//! readers take more (numbers as strings, original names of fields).

mod comments;
mod operation;
mod path;
mod schema;

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use self::{
    path::Shape,
    schema::{Schemas, described},
};
use crate::{binding::Binding, router::Router, template::Template};

/// What the document says about itself.
#[derive(Debug, Clone, Copy)]
pub struct Info<'a> {
    /// Name of the API.
    pub title: &'a str,
    /// Its version.
    pub version: &'a str,
}

/// The operations of one path.
struct Item {
    names: Vec<String>,
    operations: Map<String, Value>,
}

/// The OpenAPI document of a router's bindings.
#[must_use]
pub fn document(router: &Router, info: &Info<'_>) -> Value {
    let mut schemas = Schemas::default();
    let mut items: BTreeMap<Shape, Item> = BTreeMap::new();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut tags = BTreeMap::new();
    // Rules for one method of HTTP go before those for all of them.
    let (open, named): (Vec<&Binding>, Vec<&Binding>) = router
        .bindings()
        .filter(is_described)
        .partition(|binding| binding.http_method() == "*");
    for binding in named.into_iter().chain(open) {
        let Ok(template) = Template::parse(binding.template()) else {
            continue; // the router has parsed it
        };
        let (shape, wildcards) = path::read(binding, &template);
        let own = wildcards.iter().map(|wildcard| wildcard.name.clone());
        let item = items.entry(shape).or_insert_with(|| Item {
            names: own.collect(),
            operations: Map::new(),
        });
        let service = binding.method().parent_service();
        let name = service.full_name().to_owned();
        tags.entry(name)
            .or_insert_with(|| schemas.comment(&service.parent_file(), service.path()));
        for &method in methods(binding.http_method()) {
            if let Some(other) = item.operations.get_mut(method) {
                mention(other, binding);
                continue;
            }
            let full_name = binding.method().full_name();
            let number = numbers.entry(full_name.to_owned()).or_default();
            *number += 1;
            let id = match *number {
                1 => full_name.to_owned(),
                number => format!("{full_name}.{number}"),
            };
            let operation =
                operation::operation(binding, &wildcards, &item.names, id, &mut schemas);
            item.operations.insert(method.to_owned(), operation);
        }
    }
    let paths: Map<String, Value> = items
        .into_iter()
        .map(|(shape, item)| (shape.key(&item.names), Value::Object(item.operations)))
        .collect();
    let tags: Vec<Value> = tags
        .into_iter()
        .map(|(name, comment)| described(json!({ "name": name }), comment))
        .collect();
    let mut found = schemas.finish();
    found.insert("google.rpc.Status".to_owned(), status());
    json!({
        "openapi": "3.1.0",
        "info": { "title": info.title, "version": info.version },
        "servers": [{ "url": "/" }],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": found,
            "responses": { "Error": {
                "description": "An error: the HTTP status goes with its code (google/rpc/code.proto).",
                "content": {
                    "application/json": { "schema": { "$ref": operation::STATUS } },
                    "application/protobuf": {},
                },
            } },
        },
    })
}

fn is_described(binding: &&Binding) -> bool {
    // What tells about the services is none of them.
    if binding.method().parent_service().full_name() == "grpc.health.v1.Health" {
        return false;
    }
    let method = binding.method();
    let both = method.is_client_streaming() && method.is_server_streaming();
    !binding.is_websocket() && !both
}

/// The methods of HTTP that OpenAPI has a word for.
fn methods(http_method: &str) -> &'static [&'static str] {
    match http_method {
        "GET" => &["get"],
        "PUT" => &["put"],
        "POST" => &["post"],
        "DELETE" => &["delete"],
        "PATCH" => &["patch"],
        "HEAD" => &["head"],
        "OPTIONS" => &["options"],
        "TRACE" => &["trace"],
        "*" => &["get", "put", "post", "delete", "patch"],
        _ => &[],
    }
}

/// Two templates that match different paths may be one path for OpenAPI, such as `/v1/{a}` and
/// `/v1/{a=**}`: the second one is told in the description of the first.
fn mention(operation: &mut Value, binding: &Binding) {
    if binding.http_method() == "*" {
        return; // where another rule goes before
    }
    let more = format!(
        "Other paths of this form lead to {}: `{}`.",
        binding.method().full_name(),
        binding.template()
    );
    let text = match operation.get("description").and_then(Value::as_str) {
        Some(text) => format!("{text}\n\n{more}"),
        None => more,
    };
    operation["description"] = text.into();
}

/// `google.rpc.Status` in JSON.
fn status() -> Value {
    json!({
        "type": "object",
        "description": "An error, as google/rpc/status.proto has it.",
        "properties": {
            "code": { "type": "integer", "format": "int32",
                "description": "The code of gRPC (google/rpc/code.proto)." },
            "message": { "type": "string" },
            "details": { "type": "array", "items": {
                "type": "object",
                "properties": { "@type": { "type": "string" } },
                "additionalProperties": true,
            } },
        },
        "required": ["code", "message"],
    })
}
