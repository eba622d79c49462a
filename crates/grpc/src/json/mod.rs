//! The [JSON mapping](https://protobuf.dev/programming-guides/json/) of Protocol Buffers, both ways, and
//! errors that name the field.
//!
//! What fits is decided by [`MessageSeed`]. Its errors know no fields: where it refuses a message,
//! `misfit` looks for the part that it refuses by itself.

mod expected;
mod misfit;
mod number;
mod read;
mod scalar;
mod strict;
mod write;

use std::fmt;

use prost_reflect::{DynamicMessage, MessageDescriptor};
use serde::de::DeserializeSeed;
use serde_json::{Deserializer, Value};

pub use read::{FieldSeed, MessageSeed};
pub use write::{write, write_field};

use strict::Strict;

/// Why JSON is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// Which message, from 1, where there are several.
    pub message: Option<usize>,
    /// The field, such as `filter.authors[2]`; empty for the message itself.
    pub path: String,
    /// What was expected, and what stood there.
    pub reason: String,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.message, self.path.as_str()) {
            (None, "") => {}
            (None, path) => write!(f, "field {path}: ")?,
            (Some(number), "") => write!(f, "message {number}: ")?,
            (Some(number), path) => write!(f, "message {number}, field {path}: ")?,
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for JsonError {}

/// The messages of JSON values one after the other; of nothing, one empty message.
pub(crate) fn messages(
    descriptor: &MessageDescriptor,
    json: &str,
) -> Result<Vec<DynamicMessage>, JsonError> {
    let values = values(json)?;
    if values.is_empty() {
        return Ok(vec![DynamicMessage::new(descriptor.clone())]);
    }
    let several = values.len() > 1;
    let one = |(index, value)| {
        message(descriptor, value).map_err(|(path, reason)| JsonError {
            message: several.then_some(index + 1),
            path,
            reason,
        })
    };
    values.iter().enumerate().map(one).collect()
}

fn values(json: &str) -> Result<Vec<Value>, JsonError> {
    let mut values = Vec::new();
    for value in Deserializer::from_str(json).into_iter() {
        match value {
            Ok(Strict(value)) => values.push(value),
            Err(error) => {
                return Err(JsonError {
                    message: (!values.is_empty()).then_some(values.len() + 1),
                    path: String::new(),
                    reason: format!("this is not JSON: {error}"),
                });
            }
        }
    }
    Ok(values)
}

fn message(
    descriptor: &MessageDescriptor,
    value: &Value,
) -> Result<DynamicMessage, (String, String)> {
    MessageSeed(descriptor).deserialize(value).map_err(|error| {
        misfit::find(descriptor, value).unwrap_or_else(|| {
            (
                String::new(),
                format!("{error} in {}", expected::found(value)),
            )
        })
    })
}

#[cfg(test)]
mod tests;
