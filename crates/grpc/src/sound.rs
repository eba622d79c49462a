//! What a file from elsewhere must be, so that nothing that uses it has to look again.
//!
//! `prost-reflect` resolves names and numbers, and panics at what no compiler writes: map entries
//! without a key, and options that were left to be interpreted.

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
    let open = is_open!(file)
        || file.extension.iter().any(|field| is_open!(field))
        || file.service.iter().any(is_service_open)
        || file.enum_type.iter().any(is_enum_open);
    if open {
        return Err(uninterpreted());
    }
    file.message_type.iter().try_for_each(message)
}

fn uninterpreted() -> String {
    "it has options that were never interpreted".to_owned()
}

fn message(message: &DescriptorProto) -> Result<(), String> {
    let open = is_open!(message)
        || message.field.iter().any(|field| is_open!(field))
        || message.extension.iter().any(|field| is_open!(field))
        || message.enum_type.iter().any(is_enum_open)
        || message.oneof_decl.iter().any(|oneof| is_open!(oneof))
        || message.extension_range.iter().any(|range| is_open!(range));
    if open {
        return Err(uninterpreted());
    }
    let options = message.options.as_ref();
    if options.is_some_and(|options| options.map_entry()) && !is_map_entry(message) {
        let name = message.name();
        return Err(format!("{name} is a map entry without key and value"));
    }
    // The decoder bounds the depth.
    message.nested_type.iter().try_for_each(self::message)
}

fn is_enum_open(descriptor: &EnumDescriptorProto) -> bool {
    is_open!(descriptor) || descriptor.value.iter().any(|value| is_open!(value))
}

fn is_service_open(service: &ServiceDescriptorProto) -> bool {
    is_open!(service) || service.method.iter().any(|method| is_open!(method))
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
