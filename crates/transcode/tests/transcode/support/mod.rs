//! Descriptor pools for the tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use prost_reflect::DescriptorPool;
use protox::{
    Compiler,
    file::{ChainFileResolver, File, FileResolver, GoogleFileResolver, IncludeFileResolver},
};
use trilane_transcode::{Router, RuleError};

/// What schemas import is parsed once.
static PARSED: Mutex<BTreeMap<String, File>> = Mutex::new(BTreeMap::new());

struct Imported(ChainFileResolver);

impl FileResolver for Imported {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let mut parsed = PARSED.lock().unwrap();
        if !parsed.contains_key(name) {
            parsed.insert(name.to_owned(), self.0.open_file(name)?);
        }
        Ok(parsed[name].clone())
    }
}

struct Source(String);

impl FileResolver for Source {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match name {
            "test.proto" => File::from_source(name, &self.0),
            _ => Err(protox::Error::file_not_found(name)),
        }
    }
}

/// The file descriptor set of `file`, which may import those of the repository and of these tests.
pub(crate) fn compile(file: &str, source: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut imported = ChainFileResolver::new();
    for folder in ["tests", "../../proto"] {
        let folder: PathBuf = root.join(folder);
        imported.add(IncludeFileResolver::new(folder));
    }
    imported.add(GoogleFileResolver::new());
    let mut files = ChainFileResolver::new();
    files.add(Source(source.to_owned()));
    files.add(Imported(imported));
    let mut compiler = Compiler::with_file_resolver(files);
    compiler.include_imports(true).open_file(file).unwrap();
    compiler.encode_file_descriptor_set()
}

/// The pool of `bindings.proto`.
pub(crate) fn bindings() -> DescriptorPool {
    DescriptorPool::decode(compile("bindings.proto", "").as_slice()).unwrap()
}

/// A router for methods `M0`, `M1`… that take and give a `Shape`, each with one rule as it is written
/// between the braces of `option (google.api.http) = {…}`.
pub(crate) fn router(rules: &[&str]) -> Result<Router, RuleError> {
    let mut source = String::from(
        r#"syntax = "proto3"; package test; import "bindings.proto";
        import "google/api/annotations.proto"; service Test {"#,
    );
    for (number, rule) in rules.iter().enumerate() {
        source += &format!(
            "rpc M{number}(trilane.bindings.v1.Shape) returns (trilane.bindings.v1.Shape) {{ \
             option (google.api.http) = {{ {rule} }}; }}\n"
        );
    }
    source += "}";
    let pool = DescriptorPool::decode(compile("test.proto", &source).as_slice()).unwrap();
    let service = pool.get_service_by_name("test.Test").unwrap();
    assert_eq!(service.methods().len(), rules.len());
    // Without the rules of `bindings.proto` itself: its service must not be among them.
    Router::of_services([service])
}
