//! Server reflection over our own client: HTTP/2 with or without TLS, HTTP/3.

use std::time::{Duration, Instant};

use trilane_client::{
    ConnectOptions, Connection, Error, Exchange, FieldList, Flush, Proxy, ProxyProtocol,
    Submission, Tls, TlsOptions, Version as HttpVersion, Words,
};
use trilane_engine::{Options, PlanError, Route, Version as WireVersion};
use trilane_grpc::reflection::{ReflectionError, Version, Walk};
use trilane_grpc::status::{self, Code};
use trilane_grpc::{Schema, frame, gzip, timeout};
use trilane_wire::Content;
use url::{Position, Url};

use super::Target;
use crate::patient::Patient;

/// The largest answer, in bytes: one may have all files of a schema.
const LARGEST: usize = 64 << 20;
/// Read at once, in bytes.
const PIECE: usize = 64 * 1024;
const ELSE: &str = "give the schema with --proto FILE or --descriptor-set FILE";

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
    let caller = Caller::connect(target)?;
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
        caller.url,
        said.join(", ")
    )))
}

/// A connection to ask over.
struct Caller<'a> {
    connection: Connection,
    url: &'a str,
    /// What stands before the path of a method.
    prefix: String,
    authority: String,
    fields: Vec<(String, String)>,
    limit: Duration,
    deadline: Instant,
}

impl<'a> Caller<'a> {
    fn connect(target: &Target<'a>) -> Result<Self, PlanError> {
        let options = target.options;
        let text = options.urls.first().map_or("", String::as_str);
        let url = Url::parse(text)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| {
                PlanError::Usage(format!(
                    "{text:?} is not a URL: type http://127.0.0.1:50051 or https://127.0.0.1:50051"
                ))
            })?;
        let secure = url.scheme() == "https";
        let version = match options.version {
            None | Some(WireVersion::H2 | WireVersion::H2c) => HttpVersion::H2,
            Some(WireVersion::H3) => HttpVersion::H3,
            Some(WireVersion::H1) => {
                return Err(PlanError::Usage(
                    "--h1: gRPC needs HTTP/2 or HTTP/3: type --h2, --h2c or --h3".into(),
                ));
            }
        };
        let own = url.host_str().unwrap_or_default().to_owned();
        let bare = own.trim_matches(['[', ']']);
        let route = Route::new(options, bare, url.port_or_known_default().unwrap_or(0))?;
        let named = |host: &str, port| match route.known(host, port) {
            Some([address, ..]) => address.to_string(),
            _ => host.to_owned(),
        };
        let proxy = route.proxy.as_ref().map(|proxy| Proxy {
            host: named(&proxy.host, proxy.port),
            port: proxy.port,
            protocol: ProxyProtocol::Connect {
                fields: proxy.fields.clone(),
                secure: false,
            },
        });
        let host = match &proxy {
            Some(_) => route.host.clone(),
            None => named(&route.host, route.port),
        };
        let deadline = Instant::now()
            .checked_add(options.timeout)
            .unwrap_or_else(|| Instant::now() + Duration::from_secs(86_400));
        let connect = ConnectOptions {
            host,
            port: route.port,
            secure,
            versions: vec![version],
            tls: secure.then(|| tls(options, target.words)).transpose()?,
            server_name: Some(options.sni.clone().unwrap_or(own)),
            timeout: Some(options.connect_timeout),
            source: route.sources.first().map(|source| (*source, 0).into()),
            proxy,
            race: Duration::ZERO,
            driven: false,
            unix: route.unix.clone(),
            addresses: None,
            ech: None,
        };
        let connection =
            Connection::connect(&connect, &mut Patient).map_err(|error| lost(text, &error))?;
        Ok(Self {
            connection,
            url: text,
            prefix: url.path().trim_end_matches('/').to_owned(),
            authority: url[Position::BeforeHost..Position::AfterPort].to_owned(),
            fields: fields(options)?,
            limit: options.timeout,
            deadline,
        })
    }

    /// What is left of the time, and an error when nothing is.
    fn left(&self) -> Result<Duration, PlanError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(PlanError::Environment(format!(
                "{} did not finish reflection within {:?}: {ELSE}",
                self.url, self.limit
            )));
        }
        Ok(left)
    }

    fn wait<T>(
        &self,
        wait: impl FnOnce(Option<Duration>, &mut Patient) -> Result<T, Error>,
    ) -> Result<T, PlanError> {
        wait(Some(self.left()?), &mut Patient).or_else(|error| {
            self.left()?;
            Err(lost(self.url, &error))
        })
    }

    fn walk(&self, version: Version, service: &str) -> Result<Schema, Stop> {
        let mut walk = Walk::new(&self.authority, service);
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
        let exchange = self.submit(version, requests)?;
        let status = self.wait(|left, patience| exchange.head(left, patience))?;
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
            let piece = self.wait(|left, patience| exchange.read_some(PIECE, left, patience))?;
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

    fn submit(&self, version: Version, requests: &[Vec<u8>]) -> Result<Exchange, PlanError> {
        let mut content = Vec::new();
        for message in requests {
            frame::write(message, false, &mut content);
        }
        let time = timeout::encode(self.left()?);
        let own = [
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("grpc-timeout", time.as_str()),
            ("grpc-accept-encoding", "gzip"),
            ("user-agent", concat!("trilane/", env!("CARGO_PKG_VERSION"))),
        ];
        let given = self.fields.iter().map(|(name, value)| (&**name, &**value));
        let missing = |(name, _): &(&str, &str)| {
            !self
                .fields
                .iter()
                .any(|(given, _)| given.eq_ignore_ascii_case(name))
        };
        let fields: Vec<_> = own
            .into_iter()
            .filter(missing)
            .chain(given)
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .collect();
        let submission = Submission {
            method: "POST",
            target: &format!("{}{}", self.prefix, version.path()),
            authority: Some(&self.authority),
            fields: &fields,
            content: Content::Whole(content.into()),
            flush: Flush::Now,
            timed: false,
        };
        self.connection
            .submit(submission)
            .map_err(|error| lost(self.url, &error))
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
            self.url
        )))
    }

    fn wrong(&self, error: &ReflectionError) -> Stop {
        let url = self.url;
        match error {
            ReflectionError::Unknown(text) => {
                Stop::Unknown(PlanError::Usage(format!("{url}: {text}")))
            }
            _ => Stop::Failed(PlanError::Environment(format!("{url}: {error}; {ELSE}"))),
        }
    }
}

fn first<'a>(fields: &'a FieldList, name: &[u8]) -> &'a [u8] {
    fields.as_fields().first(name).unwrap_or_default()
}

/// An error of the client.
fn lost(url: &str, error: &Error) -> PlanError {
    let text = error
        .message
        .replace(": allow h1 too", ", which gRPC needs");
    PlanError::Environment(format!("cannot ask {url} for its schema: {text}"))
}

fn tls(options: &Options, words: Words) -> Result<Tls, PlanError> {
    Tls::new(TlsOptions {
        authorities: options.authorities.clone(),
        platform: true,
        insecure: options.insecure,
        certificate: options.client.clone(),
        words: Some(words),
        ..TlsOptions::default()
    })
    .map_err(|error| PlanError::Environment(error.message))
}

/// The fields of the user's, names in lowercase.
fn fields(options: &Options) -> Result<Vec<(String, String)>, PlanError> {
    let split = |text: &String| match text.split_once(':') {
        Some((name, value)) => Ok((name.trim().to_ascii_lowercase(), value.trim().to_owned())),
        None => Err(PlanError::Usage(format!(
            "{text:?} is not a header: type -H 'Name: value'"
        ))),
    };
    options.fields.iter().map(split).collect()
}
