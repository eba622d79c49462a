//! Files that are written in an edition, as files of proto3 or proto2 that mean the same: `prost-reflect` knows
//! these alone.
//!
//! What an edition changes on the wire and in JSON are features of fields
//! ([feature settings](https://protobuf.dev/editions/features/)): their presence, whether repeated ones are
//! packed, and whether messages are delimited. A closed enumeration is read as an open one. A file becomes one of
//! proto2 where only that can say what it has: an enumeration that does not begin with 0, or a required field. There a
//! field of implicit presence has explicit presence, which is the same on the wire but for a zero that is set.

use prost::Message as _;

const EDITION_2023: i32 = 1000;
const EDITION_2024: i32 = 1001;

/// `FieldDescriptorProto.Label` and `Type`, as far as they matter here.
const REQUIRED: i32 = 2;
const REPEATED: i32 = 3;
const GROUP: i32 = 10;
const MESSAGE: i32 = 11;
const STRING: i32 = 9;
const BYTES: i32 = 12;

/// The part of `FileDescriptorProto` that is changed; the rest stays as it is encoded.
#[derive(Clone, PartialEq, prost::Message)]
struct File {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    package: Option<String>,
    #[prost(string, repeated, tag = "3")]
    dependency: Vec<String>,
    #[prost(message, repeated, tag = "4")]
    message_type: Vec<Type>,
    #[prost(bytes = "vec", repeated, tag = "5")]
    enum_type: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    service: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "7")]
    extension: Vec<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "8")]
    options: Option<Vec<u8>>,
    #[prost(int32, repeated, packed = "false", tag = "10")]
    public_dependency: Vec<i32>,
    #[prost(int32, repeated, packed = "false", tag = "11")]
    weak_dependency: Vec<i32>,
    #[prost(string, optional, tag = "12")]
    syntax: Option<String>,
    #[prost(int32, optional, tag = "14")]
    edition: Option<i32>,
}

/// The same of `DescriptorProto`.
#[derive(Clone, PartialEq, prost::Message)]
struct Type {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(message, repeated, tag = "2")]
    field: Vec<Field>,
    #[prost(message, repeated, tag = "3")]
    nested_type: Vec<Type>,
    #[prost(bytes = "vec", repeated, tag = "4")]
    enum_type: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "5")]
    extension_range: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    extension: Vec<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "7")]
    options: Option<Vec<u8>>,
    #[prost(message, repeated, tag = "8")]
    oneof_decl: Vec<Oneof>,
    #[prost(bytes = "vec", repeated, tag = "9")]
    reserved_range: Vec<Vec<u8>>,
    #[prost(string, repeated, tag = "10")]
    reserved_name: Vec<String>,
}

/// What is looked at of `EnumDescriptorProto`.
#[derive(Clone, PartialEq, prost::Message)]
struct Enumeration {
    #[prost(message, repeated, tag = "2")]
    value: Vec<EnumValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct EnumValue {
    #[prost(int32, optional, tag = "2")]
    number: Option<i32>,
}

/// The same of `OneofDescriptorProto`.
#[derive(Clone, PartialEq, prost::Message)]
struct Oneof {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(bytes = "vec", optional, tag = "2")]
    options: Option<Vec<u8>>,
}

/// The same of `FieldDescriptorProto`.
#[derive(Clone, PartialEq, prost::Message)]
struct Field {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    extendee: Option<String>,
    #[prost(int32, optional, tag = "3")]
    number: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    label: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    kind: Option<i32>,
    #[prost(string, optional, tag = "6")]
    type_name: Option<String>,
    #[prost(string, optional, tag = "7")]
    default_value: Option<String>,
    #[prost(bytes = "vec", optional, tag = "8")]
    options: Option<Vec<u8>>,
    #[prost(int32, optional, tag = "9")]
    oneof_index: Option<i32>,
    #[prost(string, optional, tag = "10")]
    json_name: Option<String>,
    #[prost(bool, optional, tag = "17")]
    proto3_optional: Option<bool>,
}

/// `FileOptions`, `MessageOptions` and `FieldOptions`: where each has its features.
#[derive(Clone, PartialEq, prost::Message)]
struct OfFile {
    #[prost(message, optional, tag = "50")]
    features: Option<FeatureSet>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OfType {
    #[prost(bool, optional, tag = "7")]
    map_entry: Option<bool>,
    #[prost(message, optional, tag = "12")]
    features: Option<FeatureSet>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OfField {
    #[prost(message, optional, tag = "21")]
    features: Option<FeatureSet>,
}

/// `FeatureSet`, as far as it matters here.
#[derive(Clone, PartialEq, prost::Message)]
struct FeatureSet {
    #[prost(int32, optional, tag = "1")]
    field_presence: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    repeated_field_encoding: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    message_encoding: Option<i32>,
}

/// The features that hold for a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Features {
    has_presence: bool,
    is_required: bool,
    is_packed: bool,
    is_delimited: bool,
}

impl Features {
    /// Those of the editions 2023 and 2024 where a file says nothing.
    const DEFAULT: Self = Self {
        has_presence: true,
        is_required: false,
        is_packed: true,
        is_delimited: false,
    };

    /// These, but for what `own` says.
    fn with(self, own: Option<&FeatureSet>) -> Self {
        let Some(own) = own else {
            return self;
        };
        // Of each the number 0 says nothing, and 1 is what is true where nothing is said.
        let said = |value: Option<i32>| value.filter(|value| *value != 0);
        Self {
            has_presence: said(own.field_presence).map_or(self.has_presence, |value| value != 2),
            is_required: said(own.field_presence).map_or(self.is_required, |value| value == 3),
            is_packed: said(own.repeated_field_encoding).map_or(self.is_packed, |value| value == 1),
            is_delimited: said(own.message_encoding).map_or(self.is_delimited, |value| value == 2),
        }
    }
}

/// An encoded `FileDescriptorProto`, in proto3 or proto2 where it was in an edition; others as they are.
pub(crate) fn lower(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let Ok(mut file) = File::decode(&*bytes) else {
        // Whoever reads it next says what is wrong.
        return Ok(bytes);
    };
    if file.syntax.as_deref() != Some("editions") {
        return Ok(bytes);
    }
    match file.edition {
        Some(EDITION_2023 | EDITION_2024) => {}
        edition => {
            let name = file.name.unwrap_or_default();
            return Err(format!(
                "{name}: it is written in an edition that is not known here (number {}): 2023 and 2024 are",
                edition.unwrap_or_default()
            ));
        }
    }
    let options = file.options.as_deref().unwrap_or_default();
    let options = OfFile::decode(options).unwrap_or_default();
    let features = Features::DEFAULT.with(options.features.as_ref());
    let needs_proto2 = begins_elsewhere(&file.enum_type)
        || file
            .message_type
            .iter()
            .any(|each| each.needs_proto2(features));
    for each in &mut file.message_type {
        each.lower(features, needs_proto2);
    }
    let syntax = if needs_proto2 { "proto2" } else { "proto3" };
    file.syntax = Some(syntax.to_owned());
    file.edition = None;
    Ok(file.encode_to_vec())
}

/// Whether an enumeration does not begin with 0: proto3 has none.
fn begins_elsewhere(enumerations: &[Vec<u8>]) -> bool {
    enumerations.iter().any(|bytes| {
        let read = Enumeration::decode(&**bytes).unwrap_or_default();
        read.value.first().is_some_and(|first| first.number() != 0)
    })
}

impl Type {
    fn features(&self, outer: Features) -> (OfType, Features) {
        let options = self.options.as_deref().unwrap_or_default();
        let options = OfType::decode(options).unwrap_or_default();
        let features = outer.with(options.features.as_ref());
        (options, features)
    }

    fn needs_proto2(&self, outer: Features) -> bool {
        let (_, features) = self.features(outer);
        let is_required =
            |field: &Field| field.is_singular() && field.features(features).is_required;
        begins_elsewhere(&self.enum_type)
            || self.field.iter().any(is_required)
            || self
                .nested_type
                .iter()
                .any(|each| each.needs_proto2(features))
    }

    fn lower(&mut self, outer: Features, to_proto2: bool) {
        let (options, features) = self.features(outer);
        // The decoder bounds the depth.
        for nested in &mut self.nested_type {
            nested.lower(features, to_proto2);
        }
        if options.map_entry() {
            return;
        }
        for at in 0..self.field.len() {
            let field = &mut self.field[at];
            let features = field.features(features);
            if field.kind() == MESSAGE && features.is_delimited {
                field.kind = Some(GROUP);
            }
            if field.label() == REPEATED {
                // `packed`, as neither takes it for granted where it is another.
                if features.is_packed == to_proto2 && field.is_packable() {
                    let options = field.options.get_or_insert_default();
                    options.extend([2 << 3, u8::from(features.is_packed)]);
                }
                continue;
            }
            if to_proto2 {
                if features.is_required && field.oneof_index.is_none() {
                    field.label = Some(REQUIRED);
                }
                continue;
            }
            let is_message = matches!(field.kind(), MESSAGE | GROUP);
            if is_message || field.oneof_index.is_some() || !features.has_presence {
                continue;
            }
            let name = self.synthetic(at);
            let field = &mut self.field[at];
            field.proto3_optional = Some(true);
            field.oneof_index = Some(self.oneof_decl.len() as i32);
            self.oneof_decl.push(Oneof {
                name: Some(name),
                options: None,
            });
        }
    }

    /// The name of a oneof for the field alone, as compilers of proto3 choose it for an optional one.
    fn synthetic(&self, at: usize) -> String {
        let mut name = format!("_{}", self.field[at].name());
        let is_taken = |name: &str| {
            self.field.iter().any(|field| field.name() == name)
                || self.oneof_decl.iter().any(|oneof| oneof.name() == name)
        };
        while is_taken(&name) {
            name.insert(0, 'X');
        }
        name
    }
}

impl Field {
    fn features(&self, outer: Features) -> Features {
        let own = self.options.as_deref().unwrap_or_default();
        let own = OfField::decode(own).unwrap_or_default();
        outer.with(own.features.as_ref())
    }

    fn is_singular(&self) -> bool {
        self.label() != REPEATED && self.oneof_index.is_none()
    }

    fn is_packable(&self) -> bool {
        !matches!(self.kind(), STRING | BYTES | MESSAGE | GROUP)
    }
}

#[cfg(test)]
mod tests {
    use prost_reflect::{Cardinality, Kind, Syntax};
    use prost_types::{EnumDescriptorProto, EnumValueDescriptorProto};

    use super::*;
    use crate::{Schema, schema::Set};

    /// `FeatureSet` with one feature.
    fn features(presence: i32, repeated: i32, encoding: i32) -> FeatureSet {
        let set = |value: i32| (value != 0).then_some(value);
        FeatureSet {
            field_presence: set(presence),
            repeated_field_encoding: set(repeated),
            message_encoding: set(encoding),
        }
    }

    fn field(name: &str, number: i32, kind: i32, label: i32, own: Option<FeatureSet>) -> Field {
        let options = own.map(|features| {
            let features = Some(features);
            OfField { features }.encode_to_vec()
        });
        Field {
            name: Some(name.to_owned()),
            number: Some(number),
            label: Some(label),
            kind: Some(kind),
            type_name: (kind == MESSAGE).then(|| ".x.T".to_owned()),
            options,
            ..Field::default()
        }
    }

    fn schema(
        fields: Vec<Field>,
        of_file: Option<FeatureSet>,
        edition: i32,
    ) -> Result<Schema, String> {
        let file = File {
            name: Some("x.proto".to_owned()),
            package: Some("x".to_owned()),
            message_type: vec![Type {
                name: Some("T".to_owned()),
                field: fields,
                ..Type::default()
            }],
            options: of_file.map(|features| {
                let features = Some(features);
                OfFile { features }.encode_to_vec()
            }),
            syntax: Some("editions".to_owned()),
            edition: Some(edition),
            ..File::default()
        };
        Schema::from_files(vec![file.encode_to_vec()])
    }

    #[test]
    fn features_become_what_proto3_has_for_them() {
        let implicit = features(2, 0, 0);
        let fields = vec![
            field("explicit", 1, 5, 1, None),
            field("implicit", 2, 5, 1, Some(implicit)),
            field("packed", 3, 5, REPEATED, None),
            field("expanded", 4, 5, REPEATED, Some(features(0, 2, 0))),
            field("message", 5, MESSAGE, 1, None),
            field("delimited", 6, MESSAGE, 1, Some(features(0, 0, 2))),
        ];
        for edition in [EDITION_2023, EDITION_2024] {
            let schema = schema(fields.clone(), None, edition).unwrap();
            let message = schema.pool().get_message_by_name("x.T").unwrap();
            assert_eq!(message.parent_file().syntax(), Syntax::Proto3);
            let get = |name: &str| message.get_field_by_name(name).unwrap();
            assert!(get("explicit").supports_presence());
            assert!(!get("implicit").supports_presence());
            assert!(get("packed").is_packed());
            assert!(!get("expanded").is_packed());
            assert!(!get("message").is_group());
            assert!(get("delimited").is_group());
            assert!(matches!(get("delimited").kind(), Kind::Message(_)));
        }
    }

    #[test]
    fn what_a_file_says_holds_where_a_field_says_nothing() {
        let fields = vec![
            field("quiet", 1, 5, 1, None),
            field("loud", 2, 5, 1, Some(features(1, 0, 0))),
        ];
        let schema = schema(fields, Some(features(2, 0, 0)), EDITION_2023).unwrap();
        let message = schema.pool().get_message_by_name("x.T").unwrap();
        let get = |name: &str| message.get_field_by_name(name).unwrap();
        assert!(!get("quiet").supports_presence());
        assert!(get("loud").supports_presence());
    }

    #[test]
    fn what_proto2_alone_has_makes_a_file_one_of_proto2() {
        let fields = vec![
            field("required", 1, 5, 1, Some(features(3, 0, 0))),
            field("optional", 2, 5, 1, None),
            field("packed", 3, 5, REPEATED, None),
            field("expanded", 4, 5, REPEATED, Some(features(0, 2, 0))),
            field("delimited", 5, MESSAGE, 1, Some(features(0, 0, 2))),
        ];
        let schema = schema(fields, None, EDITION_2023).unwrap();
        let message = schema.pool().get_message_by_name("x.T").unwrap();
        assert_eq!(message.parent_file().syntax(), Syntax::Proto2);
        let get = |name: &str| message.get_field_by_name(name).unwrap();
        assert_eq!(get("required").cardinality(), Cardinality::Required);
        assert_eq!(get("optional").cardinality(), Cardinality::Optional);
        assert!(get("packed").is_packed() && !get("expanded").is_packed());
        assert!(get("delimited").is_group());
    }

    #[test]
    fn an_enumeration_may_begin_with_another_number() {
        let value = |name: &str, number: i32| EnumValueDescriptorProto {
            name: Some(name.to_owned()),
            number: Some(number),
            ..EnumValueDescriptorProto::default()
        };
        let closed = EnumDescriptorProto {
            name: Some("E".to_owned()),
            value: vec![value("ONE", 1), value("TWO", 2)],
            ..EnumDescriptorProto::default()
        };
        let nested = Type {
            name: Some("T".to_owned()),
            enum_type: vec![closed.encode_to_vec()],
            ..Type::default()
        };
        let file = File {
            name: Some("x.proto".to_owned()),
            message_type: vec![nested],
            syntax: Some("editions".to_owned()),
            edition: Some(EDITION_2023),
            ..File::default()
        };
        let bytes = file.encode_to_vec();
        let schema = Schema::from_files(vec![bytes.clone()]).unwrap();
        let read = schema.pool().get_enum_by_name("T.E").unwrap();
        assert_eq!(read.default_value().number(), 1);
        // Whoever asks for it gets it as it was.
        let set = Set::decode(&*schema.descriptor_set()).unwrap();
        assert_eq!(set.file, [bytes]);
    }

    #[test]
    fn editions_to_come_are_refused() {
        let told = schema(Vec::new(), None, 99_999).unwrap_err();
        assert!(told.contains("x.proto") && told.contains("99999"), "{told}");
    }
}
