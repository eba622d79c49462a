//! The schema of the service that `trilane load --grpc` calls.

mod protoc;
mod reflect;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use trilane_engine::{Options, PlanError};
use trilane_grpc::{Schema, SchemaError, known_files};
use trilane_transport::tls::Words;

/// Where a schema comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// `--proto` and `--proto-path`.
    Proto {
        /// The files to compile.
        files: Vec<PathBuf>,
        /// The folders that imports are relative to.
        includes: Vec<PathBuf>,
    },
    /// `--descriptor-set`: a `FileDescriptorSet`.
    DescriptorSet(PathBuf),
    /// The server itself.
    Reflection,
}

impl Source {
    /// What `--proto`, `--proto-path` and `--descriptor-set` say; reflection where they say nothing.
    pub(crate) fn of(proto: &[PathBuf], proto_path: &[PathBuf], set: Option<&Path>) -> Self {
        match set {
            Some(file) => Self::DescriptorSet(file.to_owned()),
            None if proto.is_empty() => Self::Reflection,
            None => Self::Proto {
                files: proto.to_vec(),
                includes: proto_path.to_vec(),
            },
        }
    }
}

/// Whom reflection asks, and for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    /// URL (the first), version, TLS, fields, and timeouts: `timeout` is for reflection as a whole.
    pub(crate) options: &'a Options,
    /// The method as typed, `pkg.Service/Method`.
    pub(crate) method: &'a str,
    /// What messages call the flags of TLS.
    pub(crate) words: Words,
}

/// Finds the schema, and says how: `--proto`, `--descriptor-set`, `reflection v1` or
/// `reflection v1alpha`.
pub(crate) fn find(source: &Source, target: &Target<'_>) -> Result<(Schema, String), PlanError> {
    let schema = match source {
        Source::Proto { files, includes } => {
            let schema = compiled(files, includes).map_err(|error| told("--proto", &error))?;
            (schema, "--proto".to_owned())
        }
        Source::DescriptorSet(file) => {
            let name = file.display().to_string();
            let bytes = trilane_files::read(file).map_err(|error| {
                PlanError::Environment(format!("--descriptor-set: cannot read {name}: {error}"))
            })?;
            let schema = Schema::from_descriptor_set(&name, &bytes)
                .map_err(|error| told("--descriptor-set", &error))?;
            (schema, "--descriptor-set".to_owned())
        }
        Source::Reflection => {
            let (schema, version) = reflect::schema(target)?;
            (schema, format!("reflection {}", version.name()))
        }
    };
    Ok(schema)
}

/// The schema of `.proto` files; of those in an edition by `protoc`.
fn compiled(files: &[PathBuf], includes: &[PathBuf]) -> Result<Schema, SchemaError> {
    let (text, roots) = match Schema::from_proto(files, includes) {
        Err(SchemaError::Edition { text, roots }) => (text, roots),
        found => return found,
    };
    if trilane_files::are_shared() {
        return Err(SchemaError::Unreadable(format!(
            "{text}; on a cluster only a descriptor set or reflection does"
        )));
    }
    match protoc::compile(files, &roots, known_files()) {
        Ok(set) => Schema::from_descriptor_set("what protoc made", &set),
        Err(protoc::Failure::Absent) => Err(SchemaError::Edition { text, roots }),
        Err(protoc::Failure::Failed(said)) => Err(SchemaError::Invalid(said)),
    }
}

fn told(flag: &str, error: &SchemaError) -> PlanError {
    PlanError::Environment(format!("{flag}: {error}"))
}
