//! Files that are known by themselves: `google/protobuf/*.proto` and the rules of transcoding.

use std::sync::OnceLock;

use prost_reflect::DescriptorPool;
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};

const API: [(&str, &str); 3] = [
    (
        "google/api/annotations.proto",
        include_str!("../../../proto/google/api/annotations.proto"),
    ),
    (
        "google/api/http.proto",
        include_str!("../../../proto/google/api/http.proto"),
    ),
    (
        "google/api/httpbody.proto",
        include_str!("../../../proto/google/api/httpbody.proto"),
    ),
];

/// Finds the files of [`API`].
struct Api;

impl FileResolver for Api {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match API.iter().find(|(known, _)| *known == name) {
            Some((_, source)) => File::from_source(name, source),
            None => Err(protox::Error::file_not_found(name)),
        }
    }
}

/// Adds what is known after what is in `resolver`.
pub(crate) fn add(resolver: &mut ChainFileResolver) {
    resolver.add(GoogleFileResolver::new());
    resolver.add(Api);
}

fn api() -> &'static DescriptorPool {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    POOL.get_or_init(|| {
        let mut resolver = ChainFileResolver::new();
        add(&mut resolver);
        let mut compiler = protox::Compiler::with_file_resolver(resolver);
        compiler
            .open_files(API.map(|(name, _)| name))
            .map(|compiler| compiler.descriptor_pool())
            .expect("the files of this crate compile")
    })
}

/// A known file as an encoded `FileDescriptorProto`.
pub(crate) fn file(name: &str) -> Option<Vec<u8>> {
    let pool = if name.starts_with("google/api/") {
        api().clone()
    } else {
        DescriptorPool::global()
    };
    // The global pool may hold files of whoever else uses it.
    if !name.starts_with("google/") {
        return None;
    }
    pool.get_file_by_name(name).map(|file| file.encode_to_vec())
}

/// The files of [`API`] and what they import, as encoded `FileDescriptorProto`s.
pub(crate) fn all() -> Vec<Vec<u8>> {
    api().files().map(|file| file.encode_to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn googles_files_are_known() {
        for name in [
            "google/protobuf/duration.proto",
            "google/protobuf/descriptor.proto",
            "google/api/http.proto",
            "google/api/annotations.proto",
            "google/api/httpbody.proto",
        ] {
            assert!(file(name).is_some(), "{name}");
        }
        assert_eq!(file("google/api/other.proto"), None);
        assert_eq!(file("other.proto"), None);
    }
}
