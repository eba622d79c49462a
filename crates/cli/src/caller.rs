//! A gRPC call by our own client, as reflection needs them: HTTP/2 with or without TLS, HTTP/3.

use std::time::{Duration, Instant};

use trilane_client::{
    ConnectOptions, Connection, Error, Exchange, FieldList, Flush, Proxy, ProxyProtocol,
    Submission, Tls, TlsOptions, Version as HttpVersion, Words,
};
use trilane_engine::{Options, PlanError, Route, Version as WireVersion};
use trilane_grpc::timeout;
use trilane_wire::Content;
use url::{Position, Url};

use crate::patient::Patient;

/// Read at once, in bytes.
pub(crate) const PIECE: usize = 64 * 1024;

/// What to do where a server does not tell its schema.
pub(crate) const ELSE: &str = "give the schema with --proto FILE or --descriptor-set FILE";

/// A connection to call over.
pub(crate) struct Caller<'a> {
    connection: Connection,
    pub(crate) url: &'a str,
    /// What stands before the path of a method.
    prefix: String,
    pub(crate) authority: String,
    fields: Vec<(String, String)>,
    limit: Duration,
    deadline: Instant,
}

impl<'a> Caller<'a> {
    /// Connects to the server of `text` in the way of `options`, whose timeout is for all that is asked.
    /// Errors call the ways out by `words`.
    pub(crate) fn connect(
        options: &Options,
        text: &'a str,
        words: Words,
    ) -> Result<Self, PlanError> {
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
            tls: secure.then(|| tls(options, words)).transpose()?,
            server_name: Some(options.sni.clone().unwrap_or(own)),
            timeout: Some(options.connect_timeout),
            source: route.sources.first().map(|source| (*source, 0).into()),
            proxy,
            race: Duration::ZERO,
            driven: false,
            unix: route.unix.clone(),
            addresses: None,
            ech: None,
            streams: None,
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
            let (url, limit) = (self.url, self.limit);
            return Err(PlanError::Environment(format!(
                "{url} did not finish reflection within {limit:?}: {ELSE}"
            )));
        }
        Ok(left)
    }

    /// Waits for what `wait` does, as long as there is time.
    pub(crate) fn wait<T>(
        &self,
        wait: impl FnOnce(Option<Duration>, &mut Patient) -> Result<T, Error>,
    ) -> Result<T, PlanError> {
        wait(Some(self.left()?), &mut Patient).or_else(|error| {
            self.left()?;
            Err(lost(self.url, &error))
        })
    }

    /// Sends a call of the method at `path`: framed messages.
    pub(crate) fn submit(&self, path: &str, content: Vec<u8>) -> Result<Exchange, PlanError> {
        let time = timeout::encode(self.left()?);
        let own = [
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("grpc-timeout", time.as_str()),
            ("grpc-accept-encoding", "gzip"),
            ("user-agent", concat!("trilane/", env!("CARGO_PKG_VERSION"))),
        ];
        let given = || {
            let given = self.fields.iter();
            given.map(|(name, value)| (&**name, &**value))
        };
        let missing =
            |(name, _): &(&str, &str)| !given().any(|(given, _)| given.eq_ignore_ascii_case(name));
        let fields: Vec<_> = own
            .into_iter()
            .filter(missing)
            .chain(given())
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .collect();
        let submission = Submission {
            method: "POST",
            target: &format!("{}{path}", self.prefix),
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
}

/// The first value of a field; empty where there is none.
pub(crate) fn first<'a>(fields: &'a FieldList, name: &[u8]) -> &'a [u8] {
    fields.as_fields().first(name).unwrap_or_default()
}

/// An error of the client. Its words are for Python; here arguments become flags.
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
