//! Server reflection over our own client: HTTP/2 with or without TLS, HTTP/3.

use trilane_client::FieldList;
use trilane_engine::PlanError;
use trilane_grpc::reflection::{ReflectionError, Version, Walk};
use trilane_grpc::status::{self, Code};
use trilane_grpc::{Schema, frame, gzip};

use super::Target;
use crate::caller::{Caller, ELSE, PIECE, first};

/// The largest answer, in bytes: one may have all files of a schema.
const LARGEST: usize = 64 << 20;

/// Why one version of reflection gave no schema.
enum Stop {
    /// The server does not offer it, with what it said.
    Unimplemented(String),
    /// The server has no such service.
    Unknown(PlanError),
    Failed(PlanError),
}

impl From<PlanError> for Stop {
    fn from(error: PlanError) -> Self {
        Stop::Failed(error)
    }
}

/// Asks the server, by version 1 where it offers that.
pub(super) fn schema(target: &Target<'_>) -> Result<(Schema, Version), PlanError> {
    let url = target.options.urls.first().map_or("", String::as_str);
    let caller = Caller::connect(target.options, url, target.words)?;
    let caller = Asking(caller);
    let name = target.method.strip_prefix('/').unwrap_or(target.method);
    let service = name
        .rsplit_once(['/', '.'])
        .map_or("", |(service, _)| service);
    let mut said = Vec::new();
    for version in [Version::V1, Version::V1Alpha] {
        let found = caller.walk(version, service).or_else(|stop| match stop {
            // Dots alone may be those of a service without its method, which its schema can tell.
            Stop::Unknown(_) if !name.contains('/') => caller.walk(version, ""),
            stop => Err(stop),
        });
        match found {
            Ok(schema) => return Ok((schema, version)),
            Err(Stop::Unimplemented(text)) => said.push(format!("{} {text}", version.name())),
            Err(Stop::Unknown(error) | Stop::Failed(error)) => return Err(error),
        }
    }
    Err(PlanError::Usage(format!(
        "{} offers no reflection ({}): {ELSE}",
        caller.0.url,
        said.join(", ")
    )))
}

/// A connection to ask over.
struct Asking<'a>(Caller<'a>);

impl Asking<'_> {
    fn walk(&self, version: Version, service: &str) -> Result<Schema, Stop> {
        let mut walk = Walk::new(&self.0.authority, service);
        loop {
            let requests = walk.requests();
            if requests.is_empty() {
                return walk.finish().map_err(|error| self.wrong(&error));
            }
            self.call(version, &mut walk, &requests)?;
        }
    }

    /// One call with all questions of a round.
    fn call(&self, version: Version, walk: &mut Walk, requests: &[Vec<u8>]) -> Result<(), Stop> {
        let mut content = Vec::new();
        for message in requests {
            frame::write(message, false, &mut content);
        }
        let exchange = self.0.submit(version.path(), content)?;
        let status = self
            .0
            .wait(|left, patience| exchange.head(left, patience))?;
        let head = exchange.fields();
        let coding = first(&head, b"grpc-encoding");
        if status != 200 {
            return Err(match status::of_http(status) {
                Code::Unimplemented => Stop::Unimplemented(format!("HTTP {status}")),
                _ => self.failed(format!("answers reflection with HTTP status {status}")),
            });
        }
        let kind = first(&head, b"content-type");
        if !kind.starts_with(b"application/grpc") {
            let kind = String::from_utf8_lossy(kind.get(..60).unwrap_or(kind));
            let how = match &*kind {
                "" => "without a content-type".to_owned(),
                kind => format!("with content-type {kind:?}"),
            };
            return Err(self.failed(format!(
                "answers {how}, which is not gRPC: check host, port and path"
            )));
        }
        let mut collector = frame::Collector::new(LARGEST);
        loop {
            let piece = self
                .0
                .wait(|left, patience| exchange.read_some(PIECE, left, patience))?;
            if piece.is_empty() {
                break;
            }
            let mut taken = Ok(());
            let fed = collector.feed(&piece, |compressed, message| {
                if taken.is_ok() {
                    taken = self.take(walk, compressed, coding, message);
                }
            });
            taken?;
            fed.map_err(|error| {
                self.failed(format!("sends something else than messages: {error}"))
            })?;
        }
        if !collector.is_at_boundary() {
            return Err(self.failed("ends its answer in the middle of a message".into()));
        }
        let trailers = exchange.trailers().unwrap_or_default();
        self.conclude(walk, &head, &trailers)
    }

    fn take(
        &self,
        walk: &mut Walk,
        compressed: bool,
        coding: &[u8],
        message: &[u8],
    ) -> Result<(), Stop> {
        let unpacked;
        let message = match (compressed, coding) {
            (false, _) => message,
            (true, b"gzip") => {
                unpacked = gzip::decompress(message, LARGEST)
                    .map_err(|error| self.failed(format!("answers wrongly: {error}")))?;
                &unpacked
            }
            (true, _) => {
                return Err(self.failed("compresses its answers though it was not asked to".into()));
            }
        };
        walk.response(message).map_err(|error| self.wrong(&error))
    }

    fn conclude(
        &self,
        walk: &mut Walk,
        head: &FieldList,
        trailers: &FieldList,
    ) -> Result<(), Stop> {
        let field = |name| match first(trailers, name) {
            [] => first(head, name),
            value => value,
        };
        let Some(code) = status::parse(field(b"grpc-status")) else {
            return Err(self.failed("ends its answer without a grpc-status".into()));
        };
        let text = status::message(field(b"grpc-message"));
        match code {
            Code::Ok => Ok(()),
            Code::Unimplemented => Err(Stop::Unimplemented(code.to_string())),
            Code::NotFound => walk.status(code, &text).map_err(|error| self.wrong(&error)),
            _ => {
                let text = if text.is_empty() {
                    text
                } else {
                    format!(", {text:?}")
                };
                Err(self.failed(format!("ends reflection with {code}{text}")))
            }
        }
    }

    fn failed(&self, what: String) -> Stop {
        Stop::Failed(PlanError::Environment(format!(
            "{} {what}; or {ELSE}",
            self.0.url
        )))
    }

    fn wrong(&self, error: &ReflectionError) -> Stop {
        let url = self.0.url;
        match error {
            ReflectionError::Unknown(text) => {
                Stop::Unknown(PlanError::Usage(format!("{url}: {text}")))
            }
            _ => Stop::Failed(PlanError::Environment(format!("{url}: {error}; {ELSE}"))),
        }
    }
}
