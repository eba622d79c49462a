//! The schema of the service that `trilane load --grpc` calls.

mod reflect;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use trilane_engine::{Options, PlanError};
use trilane_grpc::{Schema, SchemaError};
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
            let schema =
                Schema::from_proto(files, includes).map_err(|error| told("--proto", &error))?;
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

fn told(flag: &str, error: &SchemaError) -> PlanError {
    PlanError::Environment(format!("{flag}: {error}"))
}
