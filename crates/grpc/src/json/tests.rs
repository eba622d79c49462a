use proptest::prelude::*;
use prost_reflect::Value as Field;

use super::*;
use crate::Schema;

const PROTO: &str = r#"
syntax = "proto3";
package t.v1;
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/empty.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";

service S {
  rpc Do(Whole) returns (Inner);
  rpc Say(google.protobuf.StringValue) returns (google.protobuf.Empty);
}

message Whole {
  string name = 1;
  int32 page_size = 2;
  int64 large = 3;
  uint32 positive = 4;
  double ratio = 5;
  bool read = 6;
  bytes raw = 7;
  Color color = 8;
  Inner inner = 9;
  repeated string labels = 10;
  repeated Inner inners = 11;
  map<string, int32> counts = 12;
  map<int32, Inner> numbered = 13;
  oneof choice {
    string text = 14;
    int32 number = 15;
  }
  google.protobuf.Timestamp at = 16;
  google.protobuf.Duration interval = 17;
  google.protobuf.FieldMask mask = 18;
  google.protobuf.Any any = 19;
  google.protobuf.Value value = 20;
  google.protobuf.Struct struct = 21;
  google.protobuf.Int32Value wrapped = 22;
  google.protobuf.Empty empty = 23;
  repeated Color colors = 24;
  map<bool, string> flags = 25;
  float narrow = 26;
  google.protobuf.DoubleValue wrapped_double = 27;
  google.protobuf.FloatValue wrapped_float = 28;
}

message Inner {
  repeated string authors = 1;
  optional Inner inner = 2;
}

enum Color {
  COLOR_UNSPECIFIED = 0;
  RED = 1;
  GREEN = 2;
}
"#;

fn schema() -> Schema {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.proto");
    std::fs::write(&file, PROTO).unwrap();
    Schema::from_proto(&[file], &[]).unwrap()
}

fn told(json: &str) -> String {
    let method = schema().method("t.v1.S/Do").unwrap();
    method.requests(json).unwrap_err().to_string()
}

fn read(json: &str) -> Vec<DynamicMessage> {
    schema()
        .method("t.v1.S/Do")
        .unwrap()
        .requests(json)
        .unwrap()
}

#[test]
fn nothing_is_one_empty_message() {
    for json in ["", "  \n"] {
        let messages = read(json);
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0].fields().count(), 0);
    }
}

#[test]
fn values_follow_one_another() {
    let messages = read("{\"name\":\"a\"} {\"name\":\"b\"}\n{}");
    let names: Vec<_> = messages
        .iter()
        .map(|message| message.get_field_by_name("name").unwrap().into_owned())
        .collect();
    let expected = ["a", "b", ""].map(|name| Field::String(name.into()));
    assert_eq!(names, expected);
}

#[test]
fn both_names_of_a_field_and_all_forms_of_values_are_taken() {
    let [message] = &read(
        r#"{"page_size": 7, "large": "-9223372036854775808", "ratio": "NaN", "raw": "_-8",
            "color": 2, "colors": ["RED", 7], "interval": "1.5s", "at": "2026-01-31T23:59:59.5Z",
            "mask": "name,pageSize", "value": null, "inner": null, "wrapped": 3, "empty": {},
            "numbered": {"-1": {}}, "flags": {"true": "x"}, "struct": {"a": [1, null]},
            "any": {"@type": "type.googleapis.com/t.v1.Inner", "authors": ["x"]}}"#,
    )[..] else {
        panic!("one message");
    };
    let field = |name: &str| message.get_field_by_name(name).unwrap().into_owned();
    assert_eq!(field("page_size"), Field::I32(7));
    assert_eq!(field("large"), Field::I64(i64::MIN));
    assert_eq!(field("raw"), Field::Bytes(vec![0xff, 0xef].into()));
    assert!(!message.has_field_by_name("inner"));
    assert!(message.has_field_by_name("value"));
}

#[test]
fn errors_name_the_field_and_what_stood_there() {
    for (json, text) in [
        (r#"{"name": 3}"#, "field name: expected a string, found 3"),
        (
            r#"{"inner": {"authors": ["a", "b", 7]}}"#,
            "field inner.authors[2]: expected a string, found 7",
        ),
        (
            r#"{"inners": [{}, {"inner": {"authors": "a"}}]}"#,
            "field inners[1].inner.authors: expected an array, each a string, found \"a\"",
        ),
        (
            r#"{"pageSize": 3000000000}"#,
            "field pageSize: expected a whole number from -2147483648 to 2147483647, found 3000000000",
        ),
        (
            r#"{"page_size": 1.5}"#,
            "field page_size: expected a whole number from -2147483648 to 2147483647, found 1.5",
        ),
        (
            r#"{"positive": -1}"#,
            "field positive: expected a whole number from 0 to 4294967295, found -1",
        ),
        (
            r#"{"large": "x"}"#,
            "field large: expected a whole number from -9223372036854775808 to 9223372036854775807, or a string with one, found \"x\"",
        ),
        (
            r#"{"ratio": true}"#,
            "field ratio: expected a number, or \"NaN\", \"Infinity\" or \"-Infinity\", found true",
        ),
        (
            r#"{"read": "yes"}"#,
            "field read: expected true or false, found \"yes\"",
        ),
        (
            r#"{"raw": "a$"}"#,
            "field raw: expected a string in base64, found \"a$\"",
        ),
        (
            r#"{"color": "REDD"}"#,
            "field color: expected one of COLOR_UNSPECIFIED, RED, GREEN, or its number, found \"REDD\": did you mean \"RED\"?",
        ),
        (
            r#"{"colors": ["RED", null]}"#,
            "field colors[1]: expected one of COLOR_UNSPECIFIED, RED, GREEN, or its number, found null",
        ),
        (
            r#"{"inner": [1]}"#,
            "field inner: expected an object, t.v1.Inner, found [1]",
        ),
        (
            r#"{"counts": {"a b": "x"}}"#,
            "field counts[\"a b\"]: expected a whole number from -2147483648 to 2147483647, found \"x\"",
        ),
        (
            r#"{"counts": {"a": null}}"#,
            "field counts[\"a\"]: expected a whole number from -2147483648 to 2147483647, found null",
        ),
        (
            r#"{"numbered": {"x": {}}}"#,
            "field numbered[\"x\"]: expected a string with a whole number from -2147483648 to 2147483647 as key, found \"x\"",
        ),
        (
            r#"{"flags": {"1": ""}}"#,
            "field flags[\"1\"]: expected a string with true or false as key, found \"1\"",
        ),
        (
            r#"{"counts": []}"#,
            "field counts: expected an object, a map, found []",
        ),
        (
            r#"{"numbered": {"1": {"authors": [null]}}}"#,
            "field numbered[\"1\"].authors[0]: expected a string, found null",
        ),
        (
            r#"{"at": "2026-02-30"}"#,
            "field at: expected a time as RFC 3339 writes it, such as \"2026-01-31T23:59:59.5Z\", found \"2026-02-30\"",
        ),
        (
            r#"{"interval": 5}"#,
            "field interval: expected a string of seconds, such as \"1.5s\", found 5",
        ),
        (
            r#"{"mask": "page_size"}"#,
            "field mask: expected a string of fields with commas, such as \"title,edition.year\", found \"page_size\"",
        ),
        (
            r#"{"wrapped": "x"}"#,
            "field wrapped: expected a whole number from -2147483648 to 2147483647, found \"x\"",
        ),
        (
            r#"{"struct": 1}"#,
            "field struct: expected an object, found 1",
        ),
        (
            r#"{"empty": {"a": 1}}"#,
            "field empty: expected {}, found {\"a\":1}",
        ),
        (
            r#"{"text": "a", "number": 1}"#,
            "expected at most one of the oneof \"choice\", found number and text",
        ),
    ] {
        assert_eq!(told(json), text);
    }
}

#[test]
fn numbers_are_read_as_the_mapping_has_them() {
    let [message] = &read(
        r#"{"pageSize": "1e2", "large": "-1.50e1", "positive": 1.0, "narrow": 3.4028235e38,
            "wrapped": "3e0", "wrappedFloat": "-3.4028235e38", "ratio": "1e3", "any": {}}"#,
    )[..] else {
        panic!("one message");
    };
    let field = |name: &str| message.get_field_by_name(name).unwrap().into_owned();
    assert_eq!(field("page_size"), Field::I32(100));
    assert_eq!(field("large"), Field::I64(-15));
    assert_eq!(field("positive"), Field::U32(1));
    assert_eq!(field("narrow"), Field::F32(f32::MAX));
    assert_eq!(field("ratio"), Field::F64(1000.0));
    assert!(message.has_field_by_name("any"));
    assert_eq!(
        written(message),
        r#"{"pageSize":100,"large":"-15","positive":1,"ratio":1000.0,"any":{},"wrapped":3,"narrow":3.4028235e+38,"wrappedFloat":-3.4028235e+38}"#
    );
}

#[test]
fn what_others_write_is_read() {
    let [message] = &read(
        r#"{"color": 1.0, "colors": [2e0], "large": 9.223372036854775807e18,
            "numbered": {"05": {}, "-06": {}}}"#,
    )[..] else {
        panic!("one message");
    };
    assert_eq!(
        serde_json::from_str::<Value>(&written(message)).unwrap(),
        serde_json::json!({
            "color": "RED", "colors": ["GREEN"], "large": "9223372036854775807",
            "numbered": {"5": {}, "-6": {}},
        })
    );
    // C++, Java and Python leave out what Go writes.
    let short = r#"{"any":{"@type":"x/google.protobuf.Empty"}}"#;
    let long = r#"{"any":{"@type":"x/google.protobuf.Empty","value":{}}}"#;
    for json in [short, long] {
        assert_eq!(written(&read(json)[0]), short);
    }
    let error = told(r#"{"any":{"@type":"x/google.protobuf.Empty","name":"a"}}"#);
    assert_eq!(
        error,
        "field any.name: google.protobuf.Empty is written in \"value\" alone"
    );
    for json in [r#"{"color": 1.5}"#, r#"{"large": 9.3e18}"#] {
        assert!(told(json).starts_with("field "), "{json}");
    }
    let twice = told(r#"{"numbered": {"5": {}, "05": {}}}"#);
    assert!(twice.contains("stands there twice"), "{twice}");
}

#[test]
fn what_the_mapping_does_not_have_is_refused() {
    for (json, text) in [
        (
            r#"{"name": "a", "name": "b"}"#,
            "this is not JSON: the key \"name\" stands there twice",
        ),
        (
            r#"{"struct": {"a": [{"b": 1, "b": 2}]}}"#,
            "this is not JSON: the key \"b\" stands there twice",
        ),
        (
            r#"{"pageSize": 1, "page_size": 2}"#,
            "field pageSize: it stands there twice, as \"pageSize\" and as \"page_size\"",
        ),
        (
            r#"{"at": "2016-12-31T23:59:60Z"}"#,
            "field at: expected a time",
        ),
        (
            r#"{"at": "2016-12-31T23:59:59.1234567890Z"}"#,
            "field at: expected a time",
        ),
        (
            r#"{"interval": "1.1234567890s"}"#,
            "field interval: expected a string of seconds",
        ),
        (r#"{"narrow": 3.5e38}"#, "field narrow: expected a number"),
        (r#"{"ratio": "inf"}"#, "field ratio: expected a number"),
        (r#"{"ratio": " 1"}"#, "field ratio: expected a number"),
        (
            r#"{"pageSize": "1e-1"}"#,
            "field pageSize: expected a whole number",
        ),
        (
            r#"{"pageSize": "+1"}"#,
            "field pageSize: expected a whole number",
        ),
        (
            r#"{"large": 9223372036854775808}"#,
            "field large: expected a whole number",
        ),
        (
            r#"{"numbered": {"+1": {}}}"#,
            "field numbered[\"+1\"]: expected a string with",
        ),
    ] {
        let told = told(json);
        assert!(told.starts_with(text), "{json}: {told}");
    }
}

#[test]
fn numbers_that_are_not_finite_are_strings() {
    for name in ["ratio", "narrow", "wrappedDouble", "wrappedFloat"] {
        for value in ["NaN", "Infinity", "-Infinity"] {
            let json = format!("{{\"{name}\":\"{value}\"}}");
            assert_eq!(written(&read(&json)[0]), json);
        }
    }
    let any = r#"{"any":{"@type":"x/google.protobuf.DoubleValue","value":"NaN"}}"#;
    assert_eq!(written(&read(any)[0]), any);
}

fn written(message: &DynamicMessage) -> String {
    let mut out = Vec::new();
    write(message, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn unknown_fields_are_told_with_the_nearest() {
    assert_eq!(
        told(r#"{"pageSise": 1}"#),
        "field pageSise: t.v1.Whole has no such field: did you mean \"pageSize\"?"
    );
    assert_eq!(
        told(r#"{"inner": {"qqq": 1}}"#),
        "field inner.qqq: t.v1.Inner has no such field: it has authors, inner"
    );
}

#[test]
fn errors_inside_any_are_found() {
    let any = |json: &str| told(&format!("{{\"any\": {json}}}"));
    assert!(any(r#"{"a": 1}"#).starts_with("field any: expected an object with \"@type\""));
    assert!(any(r#"{"@type": "t.v1.Inner"}"#).starts_with("field any.@type: expected the name"));
    assert_eq!(
        any(r#"{"@type": "x/t.v1.Other"}"#),
        "field any.@type: the schema has no message \"t.v1.Other\""
    );
    assert_eq!(
        any(r#"{"@type": "x/t.v1.Inner", "authors": [1]}"#),
        "field any.authors[0]: expected a string, found 1"
    );
    let duration = r#"{"@type": "x/google.protobuf.Duration", "value": "1m"}"#;
    assert!(any(duration).starts_with("field any.value: expected a string of seconds"));
}

#[test]
fn the_message_is_numbered_where_there_are_several() {
    assert_eq!(
        told("{} {\"name\": 1}"),
        "message 2, field name: expected a string, found 1"
    );
    assert_eq!(
        told("{} 7"),
        "message 2: expected an object, t.v1.Whole, found 7"
    );
    assert_eq!(
        told("{} {"),
        "message 2: this is not JSON: EOF while parsing an object at line 1 column 4"
    );
    assert!(told("{name: 1}").starts_with("this is not JSON: key must be a string"));
    assert!(told("[{}]").ends_with("write several messages one after the other, without brackets"));
}

#[test]
fn long_values_are_cut() {
    let text = told(&format!("{{\"read\": \"{}\"}}", "é".repeat(200)));
    assert!(text.ends_with('…') && text.chars().count() < 120, "{text}");
}

#[test]
fn depth_is_bounded() {
    let deep = format!("{}{{}}{}", "{\"inner\":".repeat(5000), "}".repeat(5000));
    assert!(told(&deep).starts_with("this is not JSON: recursion limit exceeded"));
}

#[test]
fn a_method_may_take_a_well_known_type() {
    let method = schema().method("t.v1.S/Say").unwrap();
    assert_eq!(method.requests("\"hello\"").unwrap().len(), 1);
    assert_eq!(
        method.requests("[1]").unwrap_err().to_string(),
        "expected a string, found [1]"
    );
}

/// Names of fields and maps' keys, known and not.
const NAMES: [&str; 37] = [
    "narrow",
    "wrappedDouble",
    "wrappedFloat",
    "name",
    "pageSize",
    "page_size",
    "large",
    "positive",
    "ratio",
    "read",
    "raw",
    "color",
    "inner",
    "labels",
    "inners",
    "counts",
    "numbered",
    "text",
    "number",
    "at",
    "interval",
    "mask",
    "any",
    "value",
    "struct",
    "wrapped",
    "empty",
    "colors",
    "flags",
    "authors",
    "other",
    "@type",
    "1",
    "-1",
    "true",
    "",
    "[t.v1.x]",
];

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-3..3).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "x",
            "7",
            "RED",
            "1.5s",
            "NaN",
            "a,b_c",
            "_-8",
            "2026-01-31T23:59:59Z",
            "x/t.v1.Inner",
            "x/google.protobuf.Duration",
            "x/google.protobuf.Any",
            "true",
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 6, |inner| {
        let entry = (prop::sample::select(&NAMES[..]), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            prop::collection::vec(entry, 0..6).prop_map(|entries| {
                let entries = entries.into_iter();
                entries
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect()
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_misfit_is_found_wherever_there_is_one(value in json()) {
        static SCHEMA: std::sync::OnceLock<Schema> = std::sync::OnceLock::new();
        let schema = SCHEMA.get_or_init(schema);
        let descriptor = schema.pool().get_message_by_name("t.v1.Whole").unwrap();
        let taken = MessageSeed(&descriptor).deserialize(&value);
        prop_assert_eq!(taken.is_err(), misfit::find(&descriptor, &value).is_some(), "{:?}", taken);
    }

    #[test]
    fn what_is_written_is_what_prost_reflect_writes_and_is_read_again(value in json()) {
        static SCHEMA: std::sync::OnceLock<Schema> = std::sync::OnceLock::new();
        let schema = SCHEMA.get_or_init(schema);
        let descriptor = schema.pool().get_message_by_name("t.v1.Whole").unwrap();
        let Ok(message) = MessageSeed(&descriptor).deserialize(&value) else {
            return Ok(());
        };
        let ours = written(&message);
        let parsed: Value = serde_json::from_str(&ours).unwrap();
        // It cannot write an empty Any, and not these numbers.
        let told = value.to_string();
        if !["any", "wrappedDouble", "wrappedFloat"].iter().any(|name| told.contains(name)) {
            let theirs = serde_json::to_string(&message).unwrap();
            prop_assert_eq!(&parsed, &serde_json::from_str::<Value>(&theirs).unwrap());
        }
        let again = MessageSeed(&descriptor).deserialize(&parsed).unwrap();
        // Entries of a map have no order.
        let again: Value = serde_json::from_str(&written(&again)).unwrap();
        prop_assert_eq!(again, parsed);
    }
}
