//! The flags of `trilane load` that make its requests gRPC calls.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use trilane_engine::{Call, CallMode, Options, PlanError};
use trilane_transport::tls::Words;
use trilane_units as units;

use crate::schema::{self, Source, Target};

const GRPC: &str = "gRPC";

#[derive(Args)]
pub(crate) struct GrpcArgs {
    /// Call a gRPC method; -b is its message as JSON, several one after the other for a stream
    #[arg(long, value_name = "PKG.SERVICE/METHOD", help_heading = GRPC)]
    grpc: Option<String>,
    /// Read the method's messages from a .proto file, instead of asking the server by reflection
    #[arg(long, value_name = "FILE", requires = "grpc", conflicts_with = "descriptor_set", help_heading = GRPC)]
    proto: Vec<PathBuf>,
    /// Where imports of --proto are looked for [default: the folder that a file's package implies]
    #[arg(long, value_name = "DIR", requires = "proto", help_heading = GRPC)]
    proto_path: Vec<PathBuf>,
    /// Read them from a FileDescriptorSet, as protoc --descriptor_set_out and buf build write it
    #[arg(long, value_name = "FILE", requires = "grpc", help_heading = GRPC)]
    descriptor_set: Option<PathBuf>,
    /// Messages that each client or bidirectional stream sends, those of -b in turn [default: each
    /// once]
    #[arg(long, value_name = "N", requires = "grpc", value_parser = units::count, help_heading = GRPC)]
    messages: Option<u64>,
    /// wire: messages are encoded once, and responses counted; codec: encoded and decoded in each call
    #[arg(long, value_enum, default_value_t = Mode::Wire, requires = "grpc", help_heading = GRPC)]
    grpc_mode: Mode,
    /// The time that the server is given (grpc-timeout)
    #[arg(long, value_name = "TIME", requires = "grpc", value_parser = units::time, help_heading = GRPC)]
    deadline: Option<Duration>,
    /// Compress messages with gzip, and accept compressed ones
    #[arg(long, requires = "grpc", help_heading = GRPC)]
    gzip: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Encoded once
    Wire,
    /// Encoded and decoded in each call
    Codec,
}

impl GrpcArgs {
    /// The call that the flags ask for; the server is asked for its description where no file has it.
    pub(crate) fn call(&self, options: &Options) -> Result<Option<Call>, PlanError> {
        let Some(name) = &self.grpc else {
            return Ok(None);
        };
        let source = match &self.descriptor_set {
            Some(file) => Source::DescriptorSet(file.clone()),
            None if self.proto.is_empty() => Source::Reflection,
            None => Source::Proto {
                files: self.proto.clone(),
                includes: self.proto_path.clone(),
            },
        };
        let (schema, found_by) = schema::find(
            &source,
            &Target {
                options,
                method: name,
                words: Words::LOAD,
            },
        )?;
        let usage = |text: String| PlanError::Usage(text);
        let method = schema
            .method(name)
            .map_err(|error| usage(format!("--grpc: {error}")))?;
        let json = std::str::from_utf8(&options.body)
            .map_err(|_| usage("--body: the message is not text: give JSON".to_owned()))?;
        let messages = method
            .requests(json)
            .map_err(|error| usage(format!("--body: {error}")))?;
        Ok(Some(Call {
            method,
            schema: found_by,
            messages,
            count: self.messages.map(|count| count as usize),
            mode: match self.grpc_mode {
                Mode::Wire => CallMode::Wire,
                Mode::Codec => CallMode::Codec,
            },
            deadline: self.deadline,
            gzip: self.gzip,
        }))
    }
}
