use std::fs;

use super::*;
use crate::RpcKind;

fn proto() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto")
}

fn library() -> Schema {
    let file = proto().join("trilane/library/v1/library.proto");
    Schema::from_proto(&[file], &[]).unwrap()
}

/// The set of the library's files, with those that `keep` takes.
fn set(keep: impl Fn(&str) -> bool) -> Vec<u8> {
    let schema = library();
    let files = schema.pool().files();
    let kept = files.filter(|file| keep(file.name()));
    Set {
        file: kept.map(|file| file.encode_to_vec()).collect(),
    }
    .encode_to_vec()
}

fn check(schema: &Schema) {
    let method = schema.method("trilane.library.v1.Library/GetBook").unwrap();
    assert_eq!(method.path(), "/trilane.library.v1.Library/GetBook");
    assert_eq!(method.full_name(), "trilane.library.v1.Library/GetBook");
    assert_eq!(
        method.input().full_name(),
        "trilane.library.v1.GetBookRequest"
    );
    assert_eq!(method.output().full_name(), "trilane.library.v1.Book");
    let kinds: Vec<_> = ["GetBook", "WatchBooks", "ImportBooks", "LookUpBooks"]
        .iter()
        .map(|name| {
            let name = format!("trilane.library.v1.Library.{name}");
            schema.method(&name).unwrap().kind()
        })
        .collect();
    assert_eq!(
        kinds,
        [
            RpcKind::Unary,
            RpcKind::ServerStreaming,
            RpcKind::ClientStreaming,
            RpcKind::Bidirectional
        ]
    );
    // The rules of transcoding are options of the methods.
    let rule = schema
        .pool()
        .get_extension_by_name("google.api.http")
        .unwrap();
    let service = schema
        .pool()
        .get_service_by_name("trilane.library.v1.Library")
        .unwrap();
    assert!(
        service
            .methods()
            .all(|method| method.options().has_extension(&rule))
    );
}

#[test]
fn proto_files_need_no_include_where_the_package_tells_it() {
    check(&library());
}

#[test]
fn proto_files_may_be_named_by_their_include() {
    let name = PathBuf::from("trilane/library/v1/library.proto");
    check(&Schema::from_proto(&[name], &[proto()]).unwrap());
    let whole = proto().join("trilane/library/v1/library.proto");
    check(&Schema::from_proto(&[whole], &[proto()]).unwrap());
}

#[test]
fn several_files_share_their_imports() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        file
    };
    write(
        "a/v1/types.proto",
        "syntax = \"proto3\"; package a.v1; message T {}",
    );
    let first = write(
        "a/v1/one.proto",
        "syntax = \"proto3\"; package a.v1; import \"a/v1/types.proto\"; service One { rpc Do(T) returns (T); }",
    );
    let second = write(
        "b/two.proto",
        "syntax = \"proto3\"; package b; import \"a/v1/types.proto\"; service Two { rpc Do(a.v1.T) returns (a.v1.T); }",
    );
    let schema = Schema::from_proto(&[first, second], &[]).unwrap();
    assert!(schema.method("a.v1.One/Do").is_ok());
    assert!(schema.method("b.Two/Do").is_ok());
}

#[test]
fn wrong_files_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.proto");
    let told = |text: &str| {
        fs::write(&file, text).unwrap();
        Schema::from_proto(std::slice::from_ref(&file), &[])
            .unwrap_err()
            .to_string()
    };
    let text = told("// A comment.\n/* Another. */ edition = \"2023\";\nmessage X {}");
    assert!(
        text.contains("x.proto is written in edition 2023") && text.contains("--descriptor-set"),
        "{text}"
    );
    let text = told("syntax = \"proto3\";\nmesage X {}");
    assert!(
        text.contains("x.proto:2:1: expected") && !text.contains('\n'),
        "{text}"
    );
    let text = told("syntax = \"proto3\";\nmessage X { Y y = 1; }");
    assert!(
        text.contains("x.proto:2:") && text.contains("'Y'"),
        "{text}"
    );
    let text = told("syntax = \"proto3\";\nimport \"nowhere.proto\";");
    assert!(
        text.contains("import 'nowhere.proto' not found") && text.contains("--proto-path"),
        "{text}"
    );
    let missing = folder.path().join("missing.proto");
    let error = Schema::from_proto(&[missing], &[]).unwrap_err();
    assert!(
        matches!(&error, SchemaError::Unreadable(text) if text.contains("missing.proto: No such file"))
    );
    let error = Schema::from_proto(&[], &[folder.path().join("none")]).unwrap_err();
    assert!(error.to_string().ends_with("none is not a folder"));
}

#[test]
fn descriptor_sets_may_lack_googles_files_and_order() {
    check(&Schema::from_descriptor_set("x", &set(|_| true)).unwrap());
    let own = |name: &str| !name.starts_with("google/");
    check(&Schema::from_descriptor_set("x", &set(own)).unwrap());

    let mut whole = Set::decode(&*set(|_| true)).unwrap();
    whole.file.reverse();
    check(&Schema::from_descriptor_set("x", &whole.encode_to_vec()).unwrap());
    // A set may have a file twice, as one glued together from two has.
    whole.file.extend(whole.file.clone());
    check(&Schema::from_descriptor_set("x", &whole.encode_to_vec()).unwrap());
}

#[test]
fn a_file_with_comments_goes_with_the_same_without() {
    let commented = library();
    let files = commented.pool().files();
    let plain = files.map(|file| without_comments(&file.encode_to_vec()).unwrap());
    let plain = Schema::from_files(plain.collect()).unwrap();
    let file = |schema: &Schema| {
        let file = schema
            .pool()
            .get_file_by_name("trilane/library/v1/library.proto");
        file.unwrap().encode_to_vec()
    };
    assert_ne!(file(&commented), file(&plain));
    let names = ["trilane.library.v1.Library".to_owned()];
    let both = Schema::together(&[(&commented, &names), (&plain, &names)]).unwrap();
    assert_eq!(file(&both), file(&commented));
}

#[test]
fn a_service_that_cannot_be_read_is_left_out_by_name() {
    let wrong = FileDescriptorProto {
        name: Some("wrong.proto".into()),
        package: Some("w".into()),
        dependency: vec!["google/protobuf/empty.proto".into()],
        service: vec![prost_types::ServiceDescriptorProto {
            name: Some("S".into()),
            method: vec![prost_types::MethodDescriptorProto {
                name: Some("Do".into()),
                input_type: Some(".nothing.Here".into()),
                output_type: Some(".google.protobuf.Empty".into()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..FileDescriptorProto::default()
    };
    let mut both = Set::decode(&*set(|_| true)).unwrap();
    both.file.push(wrong.encode_to_vec());
    let schema = Schema::from_descriptor_set("x", &both.encode_to_vec()).unwrap();
    check(&schema);
    let [LeftOut { service, reason }] = schema.left_out() else {
        panic!("{:?}", schema.left_out());
    };
    assert!(
        service == "w.S" && reason.contains("nothing.Here"),
        "{reason}"
    );
    let told = schema.method("w.S/Do").unwrap_err().to_string();
    assert!(
        told.contains("w.S cannot be read") && told.contains("nothing.Here"),
        "{told}"
    );
    // Without another there is nothing to serve.
    let alone = Set {
        file: vec![wrong.encode_to_vec()],
    };
    assert!(Schema::from_descriptor_set("x", &alone.encode_to_vec()).is_err());
}

fn described(files: &[(&str, &[&str])]) -> Vec<u8> {
    let file = files
        .iter()
        .map(|(name, imports)| {
            Imports {
                name: (*name).to_owned(),
                dependency: imports.iter().map(|&name| name.to_owned()).collect(),
            }
            .encode_to_vec()
        })
        .collect();
    Set { file }.encode_to_vec()
}

#[test]
fn wrong_descriptor_sets_are_told() {
    let told = |bytes: &[u8]| {
        Schema::from_descriptor_set("set.binpb", bytes)
            .unwrap_err()
            .to_string()
    };
    assert!(told(b"syntax").starts_with("set.binpb: this is no FileDescriptorSet"));
    assert_eq!(told(b""), "set.binpb: this FileDescriptorSet has no files");
    assert_eq!(
        told(&described(&[("a.proto", &["b.proto"])])),
        "set.binpb: a.proto imports b.proto, which is not there: make the set with its imports"
    );
    assert_eq!(
        told(&described(&[
            ("a.proto", &["b.proto"]),
            ("b.proto", &["a.proto"]),
            ("c.proto", &[])
        ])),
        "set.binpb: a.proto imports itself"
    );
    assert_eq!(
        told(&described(&[("a.proto", &["a.proto"])])),
        "set.binpb: a.proto imports itself"
    );
}

#[test]
fn methods_that_are_not_there_are_told_with_those_that_are() {
    let schema = library();
    let told = |name: &str| schema.method(name).unwrap_err().to_string();
    assert_eq!(
        told("trilane.library.v1.Library/GetBok"),
        "service trilane.library.v1.Library has no method \"GetBok\": it has GetBook, CreateBook, \
         DeleteBook, UpdateBook, ListBooks, WatchBooks, ImportBooks, LookUpBooks"
    );
    assert_eq!(
        told("trilane.Library/GetBook"),
        "there is no service \"trilane.Library\": the schema has trilane.library.v1.Library"
    );
    assert_eq!(
        told("GetBook"),
        "\"GetBook\" does not name a service and a method: type trilane.library.v1.Library/GetBook"
    );
    assert!(
        told("trilane.library.v1.Library")
            .starts_with("trilane.library.v1.Library is a service: name one of its methods, ")
    );
    assert!(told("").contains("does not name a service and a method"));
    assert!(schema.method("/trilane.library.v1.Library/GetBook").is_ok());
    let empty = Schema::from_descriptor_set("x", &described(&[("a.proto", &[])])).unwrap();
    assert_eq!(
        empty.method("a.B/C").unwrap_err().to_string(),
        "there is no service \"a.B\", nor any other in the schema"
    );
}

#[test]
fn responses_are_decoded() {
    let method = library()
        .method("trilane.library.v1.Library/GetBook")
        .unwrap();
    let [request] = &method.requests(r#"{"name": "shelves/1/books/1"}"#).unwrap()[..] else {
        panic!("one message");
    };
    let bytes = prost::Message::encode_to_vec(request);
    assert_eq!(bytes, b"\x0a\x11shelves/1/books/1");
    let book = method.decode(&bytes).unwrap();
    assert_eq!(
        book.get_field_by_name("name").unwrap().as_str(),
        Some("shelves/1/books/1")
    );
    assert!(
        method
            .decode(b"\x0a\xff")
            .unwrap_err()
            .to_string()
            .starts_with("the bytes are no trilane.library.v1.Book: ")
    );
}

#[test]
fn a_schema_is_compiled_from_copies_of_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let (typed, copies) = (folder.path().join("typed"), folder.path().join("copies"));
    fs::create_dir_all(typed.join("a/more")).unwrap();
    fs::create_dir_all(&copies).unwrap();
    let main =
        "syntax = \"proto3\"; package a; import \"more/b.proto\"; message M { more.B b = 1; }";
    fs::write(typed.join("a/m.proto"), main).unwrap();
    let other = "syntax = \"proto3\"; package more; message B {}";
    fs::write(typed.join("a/more/b.proto"), other).unwrap();
    let (files, includes) = ([typed.join("a/m.proto")], [typed.join("a")]);
    let compile = || Schema::from_proto(&files, &includes);
    let (schema, names) = trilane_files::recorded(compile);
    assert!(
        schema
            .unwrap()
            .pool()
            .get_message_by_name("more.B")
            .is_some()
    );
    assert_eq!(names.files.len(), 2, "{names:?}");
    let placed = names.files.iter().enumerate().map(|(number, name)| {
        let copy = copies.join(number.to_string());
        fs::rename(name, &copy).unwrap();
        (name.clone(), copy)
    });
    let placed = placed.collect();
    fs::remove_dir_all(&typed).unwrap();
    let schema =
        trilane_files::with_copies(placed, trilane_files::Variables::new(), compile).unwrap();
    assert!(schema.pool().get_message_by_name("a.M").is_some());
    assert!(compile().is_err());
}
