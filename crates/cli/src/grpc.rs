//! The flags of `trilane load` that make its requests gRPC calls.

mod messages;
pub(crate) mod show;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use trilane_engine::{
    Answers, Call, CallMode, CallOptions, HalfClose, Listed, Options, PlanError, Protocol, Version,
    check_metadata,
};
use trilane_grpc::status::Code;
use trilane_grpc::{Method, Schema};
use trilane_transport::tls::Words;
use trilane_units as units;

pub(crate) use self::messages::Encoding;
use crate::requests::{Called, CalledBody};
use crate::schema::{self, Source, Target};

const GRPC: &str = "gRPC";

#[derive(Args)]
pub(crate) struct GrpcArgs {
    /// Call a gRPC method; -b is its message as JSON: several one after the other are those of one call where
    /// it sends a stream, else of one call each, in turn; {seq} and its like stand for another text each time
    #[arg(long, value_name = "PKG.SERVICE/METHOD", help_heading = GRPC)]
    grpc: Option<String>,
    /// How calls are written: as gRPC, as gRPC-Web, or by the protocol of Connect; the latter two go over
    /// HTTP/1.1 too [default: grpc]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "grpc|grpc-web|connect", help_heading = GRPC)]
    grpc_protocol: Option<Written>,
    /// Read the method's messages from a .proto file, instead of asking the server by reflection; one in an edition
    /// is compiled by protoc, where that is installed
    #[arg(long, value_name = "FILE", conflicts_with = "descriptor_set", help_heading = GRPC)]
    proto: Vec<PathBuf>,
    /// Where imports of --proto are looked for [default: the folder that a file's package implies]
    #[arg(long, value_name = "DIR", requires = "proto", conflicts_with = "descriptor_set", help_heading = GRPC)]
    proto_path: Vec<PathBuf>,
    /// Read them from a FileDescriptorSet, as protoc --descriptor_set_out and buf build write it
    #[arg(long, value_name = "FILE", help_heading = GRPC)]
    descriptor_set: Option<PathBuf>,
    /// What -b is: JSON; one encoded message; or encoded ones, each behind its length as a varint
    /// [default: json]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "json|binary|delimited", help_heading = GRPC)]
    message_format: Option<Encoding>,
    /// Print one response, its metadata and its messages as JSON, and end: nothing is measured; with --format json
    /// all of it is one object
    #[arg(long, conflicts_with_all = ["search", "live", "ndjson", "prometheus", "otlp", "hgrm", "html"], help_heading = GRPC)]
    pub(crate) show: bool,
    /// Messages that each client or bidirectional stream sends, those of -b in turn; 0 sends none [default: each
    /// once, or with --stream-duration as many as there is time for]
    #[arg(long, value_name = "N", value_parser = units::count, help_heading = GRPC)]
    messages: Option<u64>,
    /// Messages of a bidirectional call that may be without an answer at a time [default: 1, or as many as
    /// have one answer]
    #[arg(long, value_name = "N", value_parser = units::count, help_heading = GRPC)]
    messages_in_flight: Option<u64>,
    /// Messages per second that each stream sends [default: as soon as they may]
    #[arg(long, value_name = "PER_SECOND", value_parser = units::rate, help_heading = GRPC)]
    message_rate: Option<f64>,
    /// Answers that the server of a bidirectional call gives to each message: 3, one to ten messages as 1/10, or
    /// any, which awaits none [default: 1]
    #[arg(long, value_name = "N|1/N|any", value_parser = Answers::parse, help_heading = GRPC)]
    answers: Option<Answers>,
    /// End each stream after this time: ours by ending our direction, one of the server's by giving the call up,
    /// which then is ok and counts as CANCELLED
    #[arg(long, value_name = "TIME", value_parser = units::time, help_heading = GRPC)]
    stream_duration: Option<Duration>,
    /// When our direction of a stream ends: with the last message, when that has been answered, or never, so
    /// that the server ends the call [default: sent]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "sent|answered|never", help_heading = GRPC)]
    half_close: Option<Closing>,
    /// wire: messages are encoded once, and responses counted; codec: encoded and decoded in each call
    /// [default: wire]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "wire|codec", help_heading = GRPC)]
    grpc_mode: Option<Mode>,
    /// The time that the server is given (grpc-timeout)
    #[arg(long, value_name = "TIME", value_parser = units::time, help_heading = GRPC)]
    deadline: Option<Duration>,
    /// Compress messages with gzip, and accept compressed ones
    #[arg(long, help_heading = GRPC)]
    gzip: bool,
    /// The largest message that is taken; a call with a larger one fails, as RESOURCE_EXHAUSTED
    /// [default: 64m]
    #[arg(long, value_name = "SIZE", value_parser = units::size, help_heading = GRPC)]
    max_message: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Encoded once
    Wire,
    /// Encoded and decoded in each call
    Codec,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Written {
    Grpc,
    GrpcWeb,
    Connect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Closing {
    Sent,
    Answered,
    Never,
}

/// Descriptions of services, each found once.
struct Schemas<'a> {
    source: Source,
    options: &'a Options,
    /// By the name of the service where the server is asked, else the one that there is.
    found: HashMap<String, (Schema, String)>,
}

impl Schemas<'_> {
    /// The method of this name, and how its description was found.
    fn method(&mut self, name: &str) -> Result<(Method, String), PlanError> {
        let bare = name.strip_prefix('/').unwrap_or(name);
        let service = match (&self.source, bare.rsplit_once(['/', '.'])) {
            (Source::Reflection, Some((service, _))) => service,
            _ => "",
        };
        if !self.found.contains_key(service) {
            let target = Target {
                options: self.options,
                method: name,
                words: Words::LOAD,
            };
            let found = schema::find(&self.source, &target)?;
            self.found.insert(service.to_owned(), found);
        }
        let (schema, found_by) = &self.found[service];
        let method = schema
            .method(name)
            .map_err(|error| PlanError::Usage(format!("--grpc: {error}")))?;
        Ok((method, found_by.clone()))
    }
}

impl GrpcArgs {
    /// Whether a method was given for all requests.
    pub(crate) fn is_given(&self) -> bool {
        self.grpc.is_some()
    }

    /// Makes the requests of `options` calls, where that was asked for: by flags, or by the lines of a file,
    /// for each of which `called` says what is called. `expected` are the statuses that count as ok. The
    /// server is asked for its descriptions where no file has them.
    pub(crate) fn fill(
        &self,
        options: &mut Options,
        called: Vec<Called>,
        expected: Vec<Code>,
    ) -> Result<(), PlanError> {
        if self.grpc.is_none() && called.is_empty() {
            return self.refuse_alone();
        }
        check_metadata(options)?;
        let given = [
            ("--check-body", options.check_body),
            ("--discard-bodies", options.discard_bodies),
            ("-X", options.method.is_some()),
        ];
        if let Some((flag, _)) = given.iter().find(|(_, given)| *given) {
            return Err(PlanError::Usage(format!(
                "{flag} is about requests, and these are gRPC calls: leave {flag} out"
            )));
        }
        options.calls = self.options(expected);
        let mut asked = options.clone();
        if options.calls.protocol != Protocol::Grpc {
            // Reflection is a call of gRPC.
            asked.version = asked.version.filter(|version| *version != Version::H1);
        }
        if asked.urls.is_empty() {
            asked.urls = options
                .listed
                .iter()
                .take(1)
                .map(|each| each.url.clone())
                .collect();
        }
        let mut schemas = Schemas {
            source: self.source(),
            options: &asked,
            found: HashMap::new(),
        };
        if called.is_empty() {
            return self.fill_one(options, &mut schemas);
        }
        for (each, called) in options.listed.iter_mut().zip(called) {
            let place = |error| match error {
                PlanError::Usage(text) => PlanError::Usage(format!("{}: {text}", each.place)),
                other => other,
            };
            let Some(name) = called.method.as_deref().or(self.grpc.as_deref()) else {
                return Err(place(PlanError::Usage(
                    "no \"grpc\" says which method is called, and others of the file have one: write for example {\"grpc\": \"pkg.Service/Method\"}, or type --grpc".into(),
                )));
            };
            let (method, found_by) = schemas.method(name).map_err(place)?;
            let messages = match &called.body {
                CalledBody::Json(text) => Encoding::Json.messages(&method, text.as_bytes()),
                CalledBody::Encoded(bytes) => Encoding::Binary.messages(&method, bytes),
                CalledBody::Run => self.encoding().messages(&method, &asked.body),
            };
            options.calls.schema = found_by;
            each.call = Some(Call {
                method,
                messages: messages.map_err(place)?,
                expected: called.expected,
            });
        }
        Ok(())
    }

    /// The calls of one method.
    fn fill_one(&self, options: &mut Options, schemas: &mut Schemas<'_>) -> Result<(), PlanError> {
        let name = self.grpc.as_deref().unwrap_or_default();
        let (method, found_by) = schemas.method(name)?;
        options.calls.schema = found_by;
        let messages = self.encoding().messages(&method, &options.body)?;
        if method.kind().streams_requests() || messages.len() < 2 {
            options.call = Some(Call {
                method,
                messages,
                expected: Vec::new(),
            });
            return Ok(());
        }
        // Each is a call of its own.
        if !options.weights.is_empty() {
            return Err(PlanError::Usage(format!(
                "--weights: {} messages take turns by themselves: for weights of messages type --requests FILE.jsonl",
                messages.len()
            )));
        }
        let call = |message| Call {
            method: method.clone(),
            messages: vec![message],
            expected: Vec::new(),
        };
        let mut listed = Vec::with_capacity(options.urls.len() * messages.len());
        for url in &options.urls {
            for (at, message) in (1..).zip(&messages) {
                listed.push(Listed {
                    call: Some(call(message.clone())),
                    ..Listed::new(format!("message {at}"), url)
                });
            }
        }
        options.listed = listed;
        Ok(())
    }

    fn encoding(&self) -> Encoding {
        self.message_format.unwrap_or(Encoding::Json)
    }

    fn source(&self) -> Source {
        Source::of(
            &self.proto,
            &self.proto_path,
            self.descriptor_set.as_deref(),
        )
    }

    fn options(&self, expected: Vec<Code>) -> CallOptions {
        let default = CallOptions::default();
        CallOptions {
            count: self.messages,
            mode: match self.grpc_mode {
                None | Some(Mode::Wire) => CallMode::Wire,
                Some(Mode::Codec) => CallMode::Codec,
            },
            deadline: self.deadline,
            gzip: self.gzip,
            expected,
            max_message: self
                .max_message
                .map_or(default.max_message, |size| size as usize),
            answers: self.answers.unwrap_or_default(),
            in_flight: self.messages_in_flight,
            message_rate: self.message_rate,
            stream_duration: self.stream_duration,
            half_close: match self.half_close {
                None | Some(Closing::Sent) => HalfClose::Sent,
                Some(Closing::Answered) => HalfClose::Answered,
                Some(Closing::Never) => HalfClose::Never,
            },
            protocol: match self.grpc_protocol {
                None | Some(Written::Grpc) => Protocol::Grpc,
                Some(Written::GrpcWeb) => Protocol::GrpcWeb,
                Some(Written::Connect) => Protocol::Connect,
            },
            ..default
        }
    }

    /// Refuses what is about calls where there are none.
    fn refuse_alone(&self) -> Result<(), PlanError> {
        let given = [
            ("--proto", !self.proto.is_empty()),
            ("--descriptor-set", self.descriptor_set.is_some()),
            ("--grpc-protocol", self.grpc_protocol.is_some()),
            ("--message-format", self.message_format.is_some()),
            ("--show", self.show),
            ("--messages", self.messages.is_some()),
            ("--messages-in-flight", self.messages_in_flight.is_some()),
            ("--message-rate", self.message_rate.is_some()),
            ("--answers", self.answers.is_some()),
            ("--stream-duration", self.stream_duration.is_some()),
            ("--half-close", self.half_close.is_some()),
            ("--grpc-mode", self.grpc_mode.is_some()),
            ("--deadline", self.deadline.is_some()),
            ("--gzip", self.gzip),
            ("--max-message", self.max_message.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(PlanError::Usage(format!(
                "{flag} is about gRPC calls: type it with --grpc PKG.SERVICE/METHOD"
            ))),
            None => Ok(()),
        }
    }
}
