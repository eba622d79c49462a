//! Query parameters: field paths and the text of their values.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use prost_reflect::{DynamicMessage, FieldDescriptor, MessageDescriptor, ReflectMessage, Value};

use crate::{
    binding::Binding,
    path::{check_escapes, shown},
    problem::Problem,
    value,
};

/// How deep messages may be nested in messages: what other decoders of Protocol Buffers accept.
pub(crate) const DEEPEST: usize = 100;

/// Sets all fields that `query` (without `?`) names. A field that is not repeated holds the last of
/// several values.
///
/// # Errors
/// INVALID_ARGUMENT, with the parameter's name, for a name that is no field, unless these are ignored;
/// for one that the path or the content holds already; for one of a oneof of which another is set; and
/// for a value that does not fit.
pub(crate) fn apply(
    message: &mut DynamicMessage,
    query: &str,
    binding: &Binding,
    ignores_unknown: bool,
) -> Result<(), Problem> {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, text) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decode(name).map_err(Problem::invalid)?;
        let problem =
            |reason: String| Problem::invalid(format!("query parameter {} {reason}", shown(&name)));
        let fields = match resolve(&message.descriptor(), &name) {
            Ok(fields) => fields,
            Err(_) if ignores_unknown => continue,
            Err(reason) => return Err(problem(format!("is not a field: {reason}"))),
        };
        let text = decode(text).map_err(|reason| problem(format!("cannot be read: {reason}")))?;
        if let Some(reason) = binding.taken(&fields) {
            return Err(problem(reason.to_owned()));
        }
        let leaf = &fields[fields.len() - 1];
        let value = value::parse(leaf, &text).map_err(problem)?;
        set(message, &fields, value).map_err(problem)?;
    }
    Ok(())
}

/// Decodes `application/x-www-form-urlencoded`.
fn decode(text: &str) -> Result<Cow<'_, str>, String> {
    check_escapes(text)?;
    let not_text = || format!("{} is not UTF-8 after percent-decoding", shown(text));
    if !text.contains('+') {
        return percent_decode_str(text)
            .decode_utf8()
            .map_err(|_| not_text());
    }
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    Ok(Cow::Owned(decoded.map_err(|_| not_text())?.into_owned()))
}

/// The fields on the way of a path such as `a.b.c`, by their JSON or their original names.
///
/// # Errors
/// Which name is not a field, or is one that has no fields.
pub(crate) fn resolve(
    message: &MessageDescriptor,
    field_path: &str,
) -> Result<Vec<FieldDescriptor>, String> {
    let mut fields: Vec<FieldDescriptor> = Vec::new();
    let mut inside = message.clone();
    for name in field_path.split('.') {
        if let Some(field) = fields.last() {
            inside = match field.kind().as_message() {
                Some(message) if !field.is_list() && !field.is_map() => message.clone(),
                _ => return Err(format!("{:?} has no fields", field.name())),
            };
        }
        if fields.len() == DEEPEST {
            return Err(format!("it is nested deeper than {DEEPEST} messages"));
        }
        let field = inside
            .get_field_by_json_name(name)
            .or_else(|| inside.get_field_by_name(name));
        fields.push(
            field.ok_or_else(|| format!("{} has no field {}", inside.full_name(), shown(name)))?,
        );
    }
    Ok(fields)
}

/// Sets the last of `fields`, each in the message that the one before holds; a repeated one grows.
///
/// # Errors
/// Which field of the same oneof is set already.
pub(crate) fn set(
    message: &mut DynamicMessage,
    fields: &[FieldDescriptor],
    value: Value,
) -> Result<(), String> {
    let Some((leaf, way)) = fields.split_last() else {
        return Ok(());
    };
    let mut holder = message;
    for field in way {
        alone(holder, field)?;
        // `resolve` has seen that it is a message.
        let Some(next) = holder.get_field_mut(field).as_message_mut() else {
            return Ok(());
        };
        holder = next;
    }
    alone(holder, leaf)?;
    if !leaf.is_list() {
        holder.set_field(leaf, value);
    } else if let Some(list) = holder.get_field_mut(leaf).as_list_mut() {
        list.push(value);
    }
    Ok(())
}

/// Whether no other field of its oneof is set.
fn alone(holder: &DynamicMessage, field: &FieldDescriptor) -> Result<(), String> {
    let Some(oneof) = field.containing_oneof() else {
        return Ok(());
    };
    let mut others = oneof.fields().filter(|other| other != field);
    match others.find(|other| holder.has_field(other)) {
        None => Ok(()),
        Some(other) => Err(format!(
            "cannot be set beside {:?}: the oneof {:?} holds one field",
            other.name(),
            oneof.name()
        )),
    }
}
