//! Server reflection: a schema from the server itself.
//!
//! A [`Walk`] says what to ask and takes the answers; the caller carries the messages, a call of
//! `ServerReflectionInfo` for each round. Some servers send a file with all that it imports, others
//! one file at a time, which costs a round for each level of imports.

mod messages;
mod walk;

use std::fmt;

pub use walk::Walk;

/// The version of the reflection service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// `grpc.reflection.v1`.
    V1,
    /// `grpc.reflection.v1alpha`, with the same messages.
    V1Alpha,
}

impl Version {
    /// The path of its one method.
    pub fn path(self) -> &'static str {
        match self {
            Version::V1 => "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            Version::V1Alpha => "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        }
    }

    /// `v1`, `v1alpha`.
    pub fn name(self) -> &'static str {
        match self {
            Version::V1 => "v1",
            Version::V1Alpha => "v1alpha",
        }
    }
}

/// Why reflection gave no schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReflectionError {
    /// The server has no such service; with those it has.
    Unknown(String),
    /// The server's answers are wrong, or an error.
    Answer(String),
    /// The server sends more than any schema needs.
    Limit(String),
}

impl fmt::Display for ReflectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ReflectionError::Unknown(text)
        | ReflectionError::Answer(text)
        | ReflectionError::Limit(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for ReflectionError {}

#[cfg(test)]
mod tests;
