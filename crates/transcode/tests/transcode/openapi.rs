//! OpenAPI of the rules. That it is OpenAPI, and that what it documents is what is served, is tested with
//! a validator and a server of others (`tests/lab/servers/test_openapi.py`).

use prost_reflect::DescriptorPool;
use serde_json::{Value, json};
use trilane_transcode::{Info, Router, openapi};

use crate::support;

fn of(source: &str) -> Value {
    let source = format!(
        r#"syntax = "proto3"; package t;
        import "google/api/annotations.proto";
        import "google/api/httpbody.proto";
        import "google/protobuf/any.proto";
        import "google/protobuf/struct.proto";
        import "google/protobuf/timestamp.proto";
        import "google/protobuf/wrappers.proto";
        {source}"#
    );
    let pool = DescriptorPool::decode(support::compile("test.proto", &source).as_slice()).unwrap();
    let service = pool.get_service_by_name("t.S").unwrap();
    let mut router = Router::of_services([service.clone()]).unwrap();
    router.add_implicit(service.methods()).unwrap();
    let info = Info {
        title: "T",
        version: "1",
    };
    openapi(&router, &info)
}

fn names(parameters: &Value) -> Vec<String> {
    let parameters = parameters.as_array().unwrap().iter();
    parameters
        .map(|parameter| {
            format!(
                "{}:{}",
                parameter["in"].as_str().unwrap(),
                parameter["name"].as_str().unwrap()
            )
        })
        .collect()
}

#[test]
fn templates_have_a_parameter_for_each_wildcard() {
    let document = of(r#"
        message M { string name = 1; int64 number = 2; M inner = 3; repeated string tags = 4; }
        service S {
          rpc A(M) returns (M) { option (google.api.http) = {get: "/v1/{name=a/*/b/*}/{number}:go"}; }
          rpc B(M) returns (M) { option (google.api.http) = {get: "/v1/%7Bx%7D/*/{inner.name=**}"}; }
          rpc C(M) returns (M) { option (google.api.http) = {put: "/v1/{inner.name}" body: "inner"}; }
          rpc D(M) returns (M) { option (google.api.http) = {delete: "/v1/{name}"}; }
        }"#);
    let a = &document["paths"]["/v1/a/{name-1}/b/{name-2}/{number}:go"]["get"];
    assert_eq!(
        names(&a["parameters"]),
        [
            "path:name-1",
            "path:name-2",
            "path:number",
            "query:inner.name",
            "query:inner.number",
            "query:inner.tags",
            "query:tags"
        ]
    );
    assert_eq!(a["parameters"][2]["schema"]["format"], "int64");
    assert_eq!(a["operationId"], "t.S.A");
    let b = &document["paths"]["/v1/%7Bx%7D/{segment-3}/{inner.name}"]["get"];
    assert_eq!(
        names(&b["parameters"])[..2],
        ["path:segment-3", "path:inner.name"]
    );
    // One path has one name for a parameter, whatever the fields are called.
    let both = &document["paths"]["/v1/{inner.name}"];
    assert_eq!(
        names(&both["put"]["parameters"]),
        [
            "path:inner.name",
            "query:name",
            "query:number",
            "query:tags"
        ]
    );
    assert_eq!(names(&both["delete"]["parameters"])[0], "path:inner.name");
    assert_eq!(
        both["put"]["requestBody"]["content"]["application/json"]["schema"]["$ref"],
        "#/components/schemas/t.M"
    );
    let implicit = &document["paths"]["/t.S/A"]["post"];
    assert_eq!(
        (
            implicit["operationId"].clone(),
            names(&implicit["parameters"]).len()
        ),
        (json!("t.S.A.2"), 0)
    );
    assert!(
        document["paths"].as_object().unwrap().len() == 7,
        "{document}"
    );
}

#[test]
fn schemas_are_those_of_the_json_that_is_written() {
    let document = of(r#"
        // What a thing is.
        message M {
          // Its size.
          int64 size = 1;
          uint32 small = 2;
          float ratio = 3;
          bytes raw = 4;
          Color color = 5;
          map<string, M> parts = 6;
          repeated M more = 7;
          google.protobuf.Timestamp at = 8;
          google.protobuf.Any any = 9;
          google.protobuf.Value value = 10;
          google.protobuf.DoubleValue maybe_double = 11;
          google.protobuf.NullValue nothing = 12;
          optional string given = 13;
          oneof one { string left = 14; int32 right = 15; }
          string old = 16 [deprecated = true];
        }
        enum Color { NONE = 0; RED = 1; }
        service S { rpc A(M) returns (M) { option (google.api.http) = {get: "/a"}; } }"#);
    let schema = &document["components"]["schemas"]["t.M"];
    let properties = &schema["properties"];
    assert_eq!(properties["size"]["type"], "string");
    assert_eq!(properties["small"]["maximum"], 4_294_967_295_u32);
    assert_eq!(properties["ratio"]["anyOf"][1]["enum"][0], "NaN");
    assert_eq!(properties["raw"]["contentEncoding"], "base64");
    assert_eq!(properties["color"]["enum"], json!(["NONE", "RED"]));
    let this = json!({"$ref": "#/components/schemas/t.M"});
    assert_eq!(properties["parts"]["additionalProperties"], this);
    assert_eq!(properties["more"]["items"], this);
    assert_eq!(properties["at"]["format"], "date-time");
    assert_eq!(
        properties["maybeDouble"],
        properties["ratio"]
            .to_string()
            .replace("float", "double")
            .parse::<Value>()
            .unwrap()
    );
    assert_eq!(properties["nothing"]["type"], "null");
    assert_eq!(properties["old"]["deprecated"], true);
    let choices = schema["allOf"].as_array().unwrap();
    assert_eq!(
        choices.len(),
        1,
        "one oneof that is none of an optional field"
    );
    assert_eq!(choices[0]["oneOf"][1], json!({"required": ["right"]}));
    let query = names(&document["paths"]["/a"]["get"]["parameters"]);
    assert!(
        query.contains(&"query:maybeDouble".to_owned())
            && query.contains(&"query:color".to_owned())
    );
    let no = ["parts", "more", "any", "value"].map(|name| format!("query:{name}"));
    assert!(!query.iter().any(|name| no.contains(name)), "{query:?}");
}

#[test]
fn streams_and_raw_content_are_told() {
    let document = of(r#"
        message M { string name = 1; google.api.HttpBody file = 2; }
        service S {
          rpc Watch(M) returns (stream M) { option (google.api.http) = {get: "/watch"}; }
          rpc Send(stream M) returns (M) { option (google.api.http) = {post: "/send" body: "*"}; }
          rpc Talk(stream M) returns (stream M) {
            option (google.api.http) = {custom: {kind: "WEBSOCKET" path: "/talk"}};
          }
          rpc Get(M) returns (stream google.api.HttpBody) { option (google.api.http) = {get: "/f/{name}"}; }
          rpc Put(stream M) returns (M) {
            option (google.api.http) = {put: "/f/{name}" body: "file" response_body: "file"};
          }
        }"#);
    let paths = &document["paths"];
    let ok = |path: &str, method: &str| paths[path][method]["responses"]["200"]["content"].clone();
    let watch = ok("/watch", "get");
    assert!(watch["application/x-ndjson"].is_object() && watch["text/event-stream"].is_object());
    assert!(paths["/send"]["post"]["requestBody"]["content"]["application/x-ndjson"].is_object());
    assert_eq!(ok("/f/{name}", "get"), json!({"*/*": {}}));
    assert_eq!(ok("/f/{name}", "put"), json!({"*/*": {}}));
    assert_eq!(
        paths["/f/{name}"]["put"]["requestBody"]["content"],
        json!({"*/*": {}})
    );
    for missing in ["/talk", "/t.S/Talk"] {
        assert!(paths[missing].is_null(), "{missing}");
    }
}

#[test]
fn comments_are_descriptions_where_the_descriptors_have_them() {
    let source = r#"syntax = "proto3"; package t; import "google/api/annotations.proto";
        // A thing.
        message M { string name = 1; // Its name.
        }
        // Does things.
        service S {
          // Does one.
          //
          // Twice.
          rpc A(M) returns (M) { option (google.api.http) = {get: "/a/{name}"}; }
        }"#;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.proto");
    std::fs::write(&file, source).unwrap();
    let schema = trilane_grpc::Schema::from_proto(&[file], &[]).unwrap();
    let router = Router::new(schema.pool()).unwrap();
    let info = Info {
        title: "T",
        version: "1",
    };
    let document = openapi(&router, &info);
    assert_eq!(
        document["tags"][0],
        json!({"name": "t.S", "description": "Does things."})
    );
    let operation = &document["paths"]["/a/{name}"]["get"];
    assert_eq!(operation["description"], "Does one.\n\nTwice.");
    assert_eq!(operation["parameters"][0]["description"], "Its name.");
    assert_eq!(
        document["components"]["schemas"]["t.M"]["description"],
        "A thing."
    );
}

#[test]
fn paths_that_openapi_cannot_tell_apart_are_mentioned() {
    let document = of(r#"
        message M { string name = 1; }
        service S {
          rpc One(M) returns (M) { option (google.api.http) = {get: "/v1/{name}"}; }
          rpc Rest(M) returns (M) { option (google.api.http) = {get: "/v1/{name=**}"}; }
          rpc All(M) returns (M) { option (google.api.http) = {custom: {kind: "*" path: "/v1/{name}"}}; }
        }"#);
    let item = &document["paths"]["/v1/{name}"];
    assert_eq!(item["get"]["operationId"], "t.S.One");
    let told = item["get"]["description"].as_str().unwrap();
    assert!(
        told.contains("t.S.Rest") && told.contains("/v1/{name=**}"),
        "{told}"
    );
    for method in ["put", "post", "delete", "patch"] {
        let found = item[method]["operationId"].as_str().unwrap();
        assert!(found.starts_with("t.S.All"), "{method} {found}");
    }
}
