//! What a file from elsewhere must be, so that nothing that uses it has to look again.
//!
//! `prost-reflect` resolves names and numbers, and panics at another syntax than it knows, and
//! at what no compiler writes: map entries without a key, and options that were left to be interpreted.

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    ServiceDescriptorProto,
};

macro_rules! is_open {
    ($part:expr) => {
        $part
            .options
            .as_ref()
            .is_some_and(|options| !options.uninterpreted_option.is_empty())
    };
}

/// What is wrong with a file.
pub(crate) fn check(file: &FileDescriptorProto) -> Result<(), String> {
    if let Some(syntax) = file.syntax.as_deref()
        && !matches!(syntax, "proto2" | "proto3")
    {
        let syntax: String = syntax.chars().take(20).collect();
        return Err(format!(
            "it is written in the syntax {syntax:?}, and only proto2 and proto3 are read"
        ));
    }
    if !file.package().is_empty() && !is_full_name(file.package()) {
        return Err(unnamed(file.package()));
    }
    interpreted(is_open!(file))?;
    file.extension.iter().try_for_each(field)?;
    file.service.iter().try_for_each(service)?;
    file.enum_type.iter().try_for_each(enumeration)?;
    file.message_type.iter().try_for_each(message)
}

/// Whether a name is identifiers with dots between them.
pub(crate) fn is_full_name(name: &str) -> bool {
    name.split('.').all(is_identifier)
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn unnamed(name: &str) -> String {
    let name: String = name.chars().take(60).collect();
    format!("{name:?} is no name of a package, type, field, service or method")
}

/// Names go into paths and messages for people.
fn named(name: &str) -> Result<(), String> {
    if is_identifier(name) {
        return Ok(());
    }
    Err(unnamed(name))
}

fn interpreted(open: bool) -> Result<(), String> {
    if open {
        return Err("it has options that were never interpreted".to_owned());
    }
    Ok(())
}

fn message(message: &DescriptorProto) -> Result<(), String> {
    named(message.name())?;
    interpreted(is_open!(message))?;
    message.field.iter().try_for_each(field)?;
    message.extension.iter().try_for_each(field)?;
    message.enum_type.iter().try_for_each(enumeration)?;
    for oneof in &message.oneof_decl {
        named(oneof.name())?;
        interpreted(is_open!(oneof))?;
    }
    interpreted(message.extension_range.iter().any(|range| is_open!(range)))?;
    let options = message.options.as_ref();
    if options.is_some_and(|options| options.map_entry()) && !is_map_entry(message) {
        let name = message.name();
        return Err(format!("{name} is a map entry without key and value"));
    }
    // The decoder bounds the depth.
    message.nested_type.iter().try_for_each(self::message)
}

fn field(field: &FieldDescriptorProto) -> Result<(), String> {
    named(field.name())?;
    if field.json_name().contains(char::is_control) {
        return Err(unnamed(field.json_name()));
    }
    interpreted(is_open!(field))
}

fn enumeration(descriptor: &EnumDescriptorProto) -> Result<(), String> {
    named(descriptor.name())?;
    interpreted(is_open!(descriptor))?;
    descriptor.value.iter().try_for_each(|value| {
        named(value.name())?;
        interpreted(is_open!(value))
    })
}

fn service(service: &ServiceDescriptorProto) -> Result<(), String> {
    named(service.name())?;
    interpreted(is_open!(service))?;
    service.method.iter().try_for_each(|method| {
        named(method.name())?;
        interpreted(is_open!(method))
    })
}

fn is_map_entry(message: &DescriptorProto) -> bool {
    let [first, second] = &message.field[..] else {
        return false;
    };
    let (key, value) = if first.number() == 1 {
        (first, second)
    } else {
        (second, first)
    };
    let is_key = !matches!(
        key.r#type(),
        Type::Double | Type::Float | Type::Bytes | Type::Message | Type::Group | Type::Enum
    );
    let single = |field: &FieldDescriptorProto| field.label() != Label::Repeated;
    (key.number(), value.number()) == (1, 2)
        && is_key
        && key.r#type.is_some()
        && key.type_name.is_none()
        && single(key)
        && single(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schema;
    use prost::Message as _;
    use prost_types::{FieldOptions, FileDescriptorSet, MessageOptions, UninterpretedOption};

    fn field(number: i32, kind: Type, label: Label) -> FieldDescriptorProto {
        FieldDescriptorProto {
            name: Some(format!("f{number}")),
            number: Some(number),
            r#type: Some(kind.into()),
            label: Some(label.into()),
            ..FieldDescriptorProto::default()
        }
    }

    /// A message with a map of such entries.
    fn map(entry: Vec<FieldDescriptorProto>) -> FileDescriptorProto {
        let mut field = field(1, Type::Message, Label::Repeated);
        field.type_name = Some(".M.E".into());
        let entry = DescriptorProto {
            name: Some("E".into()),
            field: entry,
            options: Some(MessageOptions {
                map_entry: Some(true),
                ..MessageOptions::default()
            }),
            ..DescriptorProto::default()
        };
        FileDescriptorProto {
            name: Some("a.proto".into()),
            message_type: vec![DescriptorProto {
                name: Some("M".into()),
                field: vec![field],
                nested_type: vec![entry],
                ..DescriptorProto::default()
            }],
            ..FileDescriptorProto::default()
        }
    }

    fn told(file: FileDescriptorProto) -> Result<(), String> {
        let set = FileDescriptorSet { file: vec![file] };
        let schema = Schema::from_descriptor_set("set", &set.encode_to_vec());
        schema.map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn map_entries_have_key_and_value() {
        let key = || field(1, Type::String, Label::Optional);
        let value = || field(2, Type::Bytes, Label::Optional);
        assert_eq!(told(map(vec![key(), value()])), Ok(()));
        assert_eq!(told(map(vec![value(), key()])), Ok(()));
        let error = Err("set: a.proto: E is a map entry without key and value".to_owned());
        for entry in [
            vec![],
            vec![key()],
            vec![value()],
            vec![key(), field(3, Type::Bytes, Label::Optional)],
            vec![key(), field(2, Type::Bytes, Label::Repeated)],
            vec![field(1, Type::String, Label::Repeated), value()],
            vec![field(1, Type::Double, Label::Optional), value()],
            vec![
                FieldDescriptorProto {
                    r#type: None,
                    type_name: Some(".M".into()),
                    ..key()
                },
                value(),
            ],
        ] {
            assert_eq!(told(map(entry)), error);
        }
    }

    #[test]
    fn other_syntaxes_are_refused() {
        for (syntax, expected) in [
            (None, Ok(())),
            (Some("proto2"), Ok(())),
            (Some("proto3"), Ok(())),
            (
                Some("editions"),
                Err("set: a.proto: it is written in an edition that is not known here (number 0): 2023 and 2024 are".to_owned()),
            ),
            (
                Some(""),
                Err("set: a.proto: it is written in the syntax \"\", and only proto2 and proto3 are read".to_owned()),
            ),
        ] {
            let file = FileDescriptorProto {
                name: Some("a.proto".into()),
                syntax: syntax.map(str::to_owned),
                ..FileDescriptorProto::default()
            };
            assert_eq!(told(file), expected);
        }
    }

    #[test]
    fn names_are_identifiers() {
        for name in ["", "a b", "a/b", "a.b", "1a", "\u{1b}[31m", "é"] {
            let mut file = FileDescriptorProto {
                name: Some("a.proto".into()),
                service: vec![ServiceDescriptorProto {
                    name: Some(name.into()),
                    ..ServiceDescriptorProto::default()
                }],
                ..FileDescriptorProto::default()
            };
            let error = Err(format!(
                "set: a.proto: {name:?} is no name of a package, type, field, service or method"
            ));
            assert_eq!(told(file.clone()), error);
            file.service.clear();
            assert_eq!(told(file.clone()), Ok(()));
            file.package = Some(format!("a.{name}"));
            assert_eq!(told(file).is_ok(), name == "a.b", "{name}");
        }
    }

    #[test]
    fn options_are_interpreted() {
        let mut file = map(vec![
            field(1, Type::String, Label::Optional),
            field(2, Type::Bytes, Label::Optional),
        ]);
        file.message_type[0].field[0].options = Some(FieldOptions {
            uninterpreted_option: vec![UninterpretedOption::default()],
            ..FieldOptions::default()
        });
        let error = "set: a.proto: it has options that were never interpreted";
        assert_eq!(told(file), Err(error.to_owned()));
    }
}
