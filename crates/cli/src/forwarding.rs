//! The flags that say which services of others are served, and where these are.

mod reread;

use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    sync::{Arc, mpsc},
    time::Duration,
};

use clap::Args;
use percent_encoding::percent_decode_str;
use trilane_engine::{Options, PlanError, bare_ipv6};
use trilane_grpc::{LeftOut, Schema};
use trilane_serve::{Forwarding, Limits, Place, RuleError, ServiceConfig, Upstream};
use trilane_transport::tls;
use trilane_units as units;
use url::Url;

use crate::{
    complain,
    schema::{self, Source, Target},
};
pub(crate) use reread::Reread;

const UPSTREAM: &str = "Upstream";
/// How long a server may take to describe its services.
const REFLECTION_TIMEOUT: Duration = Duration::from_secs(20);
/// The flags of TLS that go with upstreams.
const WORDS: tls::Words = tls::Words {
    authority: "--upstream-cacert FILE",
    unchecked: Some("--upstream-insecure"),
    one_of_its_names: "give one of its names with --upstream-server-name NAME",
    served_name: "give the name it serves with --upstream-server-name NAME",
    a_name: "give one with --upstream-server-name NAME",
    name: " (--upstream-server-name NAME)",
    certificate: "--upstream-cert FILE --upstream-key FILE",
    given_certificate: "--upstream-cert and --upstream-key",
    password: None,
};
/// What is no service of the application's, but tells about it.
const ABOUT: [&str; 2] = ["grpc.reflection.", "grpc.health."];

#[derive(Args, Clone, Debug)]
pub(crate) struct ForwardArgs {
    /// Serve the services of this gRPC server: grpc://HOST:PORT, grpcs://HOST:PORT over TLS, or
    /// grpc+unix:///PATH; several share the calls of the services that they have in common
    #[arg(long, value_name = "URL", value_parser = address, help_heading = UPSTREAM)]
    upstream: Vec<Address>,
    /// Serve this service alone, and not all that there are (repeatable)
    #[arg(long, value_name = "PKG.SERVICE", requires = "upstream", help_heading = UPSTREAM)]
    service: Vec<String>,
    /// Read the services from a .proto file, instead of asking the upstream by reflection
    #[arg(long, value_name = "FILE", requires = "upstream", conflicts_with = "descriptor_set", help_heading = UPSTREAM)]
    proto: Vec<PathBuf>,
    /// Where imports of --proto are looked for [default: the folder that a file's package implies]
    #[arg(long, value_name = "DIR", requires = "proto", conflicts_with_all = ["descriptor_set", "reflect_every"], help_heading = UPSTREAM)]
    proto_path: Vec<PathBuf>,
    /// Read them from a FileDescriptorSet, as protoc --descriptor_set_out and buf build write it
    #[arg(long, value_name = "FILE", requires = "upstream", help_heading = UPSTREAM)]
    descriptor_set: Option<PathBuf>,
    /// Read google.api.http rules from a service configuration (google.api.Service in YAML or JSON): they
    /// override those of the methods that they select (repeatable)
    #[arg(long, value_name = "FILE", requires = "upstream", help_heading = UPSTREAM)]
    service_config: Vec<PathBuf>,
    /// Ignore query parameters that are no fields of the request, instead of answering 400
    #[arg(long, requires = "upstream", help_heading = UPSTREAM)]
    ignore_unknown_query: bool,
    /// Ask upstreams for their services again this often, and not only when a connection was made anew
    #[arg(long, value_name = "TIME", requires = "upstream", conflicts_with_all = ["proto", "descriptor_set"],
          value_parser = units::time, help_heading = UPSTREAM)]
    reflect_every: Option<Duration>,
    /// Trust this certificate authority (PEM) for grpcs:// beside the system's (repeatable)
    #[arg(long, value_name = "FILE", requires = "upstream", help_heading = UPSTREAM)]
    upstream_cacert: Vec<PathBuf>,
    /// Accept any certificate of grpcs:// upstreams
    #[arg(long, requires = "upstream", help_heading = UPSTREAM)]
    upstream_insecure: bool,
    /// Show this certificate chain (PEM) to grpcs:// upstreams that ask for one
    #[arg(long, value_name = "FILE", requires = "upstream_key", help_heading = UPSTREAM)]
    upstream_cert: Option<PathBuf>,
    /// The private key (PEM) of --upstream-cert
    #[arg(long, value_name = "FILE", requires = "upstream_cert", help_heading = UPSTREAM)]
    upstream_key: Option<PathBuf>,
    /// What upstreams are called in requests (:authority) and in their certificates, instead of the host
    /// of --upstream
    #[arg(long, value_name = "NAME", requires = "upstream", value_parser = server_name, help_heading = UPSTREAM)]
    upstream_server_name: Option<String>,
    /// Ask upstreams for their health (grpc.health.v1), and leave those out that do not serve
    #[arg(long, requires = "upstream", help_heading = UPSTREAM)]
    upstream_health: bool,
    /// The time that a call has which brings no deadline (grpc-timeout), a stream as well [default: 5m for calls of
    /// one message each way, no end for streams]
    #[arg(long, value_name = "TIME", requires = "upstream", value_parser = units::time, help_heading = UPSTREAM)]
    upstream_timeout: Option<Duration>,
    /// Most bytes of a message in either direction, such as 16m; longer ones end their calls with
    /// RESOURCE_EXHAUSTED [default: what servers and callers allow; 4m in JSON and Connect]
    #[arg(long, value_name = "BYTES", requires = "upstream", value_parser = message_size, help_heading = UPSTREAM)]
    max_message: Option<u32>,
    /// Connections of each worker to one server; each has the streams that the server allows
    #[arg(long, value_name = "N", default_value_t = 32, requires = "upstream", help_heading = UPSTREAM,
          value_parser = clap::value_parser!(u16).range(1..=10_000))]
    upstream_connections: u16,
    /// Calls of each worker that may wait for a stream to one server; more end with RESOURCE_EXHAUSTED
    #[arg(long, value_name = "N", default_value_t = 1024, requires = "upstream", help_heading = UPSTREAM,
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    upstream_waiting: u32,
    /// Calls that one caller (IP address) may have under way at a time on each worker; more end with
    /// RESOURCE_EXHAUSTED
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "upstream", help_heading = UPSTREAM,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    calls_per_caller: u32,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Address {
    /// As it was typed.
    text: String,
    at: At,
    secure: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum At {
    Host { host: String, port: u16 },
    Unix(PathBuf),
}

impl Address {
    fn place(&self) -> Place {
        match &self.at {
            At::Host { host, port } => Place::Host {
                host: host.clone(),
                port: *port,
            },
            At::Unix(path) => Place::Unix(path.clone()),
        }
    }
}

/// What is served, and what keeps it so while the upstreams change.
pub(crate) struct Forwarded {
    pub(crate) forwarding: Forwarding,
    pub(crate) reread: Reread,
}

fn address(text: &str) -> Result<Address, String> {
    const EXAMPLE: &str =
        "type for example grpc://127.0.0.1:50051, or grpcs://api.example:443 over TLS";
    let url = Url::parse(text).map_err(|error| match bare_ipv6(text) {
        Some(_) => "an IPv6 address needs brackets: type for example grpc://[::1]:50051".to_owned(),
        None => format!("{error}: {EXAMPLE}"),
    })?;
    let secure = match url.scheme() {
        "grpc" | "http" => false,
        "grpcs" | "https" => true,
        "grpc+unix" => return socket(text, &url),
        other => return Err(format!("{other}:// is not known here: {EXAMPLE}")),
    };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let Some(port) = url.port_or_known_default().filter(|_| !host.is_empty()) else {
        return Err(format!("it names no host and port: {EXAMPLE}"));
    };
    let is_bare = matches!(url.path(), "" | "/")
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    if !is_bare {
        return Err(format!("only host and port belong into it: {EXAMPLE}"));
    }
    Ok(Address {
        text: text.to_owned(),
        at: At::Host {
            host: host.to_owned(),
            port,
        },
        secure,
    })
}

/// A URL of a Unix domain socket.
fn socket(text: &str, url: &Url) -> Result<Address, String> {
    const EXAMPLE: &str = "type for example grpc+unix:///run/shop.sock";
    if url.has_host() || url.query().is_some() || url.fragment().is_some() {
        return Err(format!("only a path belongs into it: {EXAMPLE}"));
    }
    let path = percent_decode_str(url.path()).decode_utf8();
    let path = path.map_err(|_| format!("its path is not UTF-8: {EXAMPLE}"))?;
    if path.len() < 2 {
        return Err(format!("it names no socket: {EXAMPLE}"));
    }
    Ok(Address {
        text: text.to_owned(),
        at: At::Unix(PathBuf::from(&*path)),
        secure: false,
    })
}

fn message_size(text: &str) -> Result<u32, String> {
    let size = units::size(text)?;
    u32::try_from(size).map_err(|_| "a message of gRPC has less than 4 GiB".to_owned())
}

fn server_name(text: &str) -> Result<String, String> {
    match url::Host::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("{error}: type a host name, such as api.example")),
    }
}

impl ForwardArgs {
    /// Whether any certificate of the upstream is accepted.
    pub(crate) fn is_unverified(&self) -> bool {
        self.upstream_insecure
    }

    /// The services that the flags ask for. The upstreams are asked for them where no file has them.
    pub(crate) fn forwarding(&self, alone: bool) -> Result<Option<Forwarded>, PlanError> {
        if self.upstream.is_empty() {
            return Ok(None);
        }
        let files = self.files()?;
        let config = self.config()?;
        let source = self.source();
        let schemas = self
            .upstream
            .iter()
            .map(|address| self.describe(address, &source, &files))
            .collect::<Result<Vec<_>, _>>()?;
        for (address, schema) in self.upstream.iter().zip(&schemas) {
            for LeftOut { service, reason } in schema.left_out() {
                let upstream = &address.text;
                complain(format!("{service} of {upstream} is not served: {reason}"));
            }
        }
        let names = self.services(&schemas)?;
        let schema = together(&schemas, &names)?;
        config.check(schema.pool()).map_err(of_config)?;
        let mut tls = None;
        let mut upstreams = Vec::new();
        for (address, services) in self.upstream.iter().zip(names) {
            if address.secure && tls.is_none() {
                tls = Some(self.client(&files)?);
            }
            upstreams.push(Upstream {
                place: address.place(),
                tls: tls.clone().filter(|_| address.secure),
                name: self.upstream_server_name.clone(),
                services,
            });
        }
        let (ended, signal) = mpsc::channel();
        let told = (ended.clone(), signal);
        let reread = Reread::new(self.clone(), files, schemas, config.clone(), told);
        Ok(Some(Forwarded {
            forwarding: Forwarding {
                schema,
                upstreams,
                limits: Limits {
                    connections: self.upstream_connections.into(),
                    waiting: self.upstream_waiting as usize,
                    caller: self.calls_per_caller as usize,
                    message: self.max_message,
                    timeout: self.upstream_timeout,
                    health: self.upstream_health,
                },
                ended: (source == Source::Reflection).then_some(ended),
                alone,
                config,
                ignore_unknown_query: self.ignore_unknown_query,
            },
            reread,
        }))
    }

    fn source(&self) -> Source {
        Source::of(
            &self.proto,
            &self.proto_path,
            self.descriptor_set.as_deref(),
        )
    }

    /// The services of each upstream.
    fn services(&self, schemas: &[Schema]) -> Result<Vec<Vec<String>>, PlanError> {
        let mut all: Vec<_> = schemas.iter().map(services_of).collect();
        if let Some(missing) = self
            .service
            .iter()
            .find(|name| !all.iter().flatten().any(|known| known == *name))
        {
            let mut known = all.concat();
            known.sort_unstable();
            known.dedup();
            return Err(PlanError::Usage(format!(
                "--service: there is no {missing:?}; there are {}",
                known.join(", ")
            )));
        }
        if !self.service.is_empty() {
            for names in &mut all {
                names.retain(|name| self.service.contains(name));
            }
        }
        if all.iter().all(Vec::is_empty) {
            return Err(PlanError::Usage(
                "--upstream: there is no service but reflection and health".into(),
            ));
        }
        Ok(all)
    }

    /// The rules of all service configuration files.
    fn config(&self) -> Result<ServiceConfig, PlanError> {
        let mut all = ServiceConfig::default();
        for file in &self.service_config {
            let name = file.display().to_string();
            let text = fs::read_to_string(file).map_err(|error| {
                PlanError::Environment(format!("--service-config: cannot read {name}: {error}"))
            })?;
            all.extend(ServiceConfig::parse(&name, &text).map_err(of_config)?);
        }
        Ok(all)
    }

    fn files(&self) -> Result<Files, PlanError> {
        let read = |file: &PathBuf, flag: &str| {
            let name = file.display().to_string();
            let bytes = fs::read(file).map_err(|error| {
                PlanError::Environment(format!("{flag}: cannot read {name}: {error}"))
            })?;
            Ok((name, bytes))
        };
        let authorities = self
            .upstream_cacert
            .iter()
            .map(|file| read(file, "--upstream-cacert"))
            .collect::<Result<_, _>>()?;
        let client = match self.upstream_cert.as_ref().zip(self.upstream_key.as_ref()) {
            None => None,
            Some((cert, key)) => {
                Some((read(cert, "--upstream-cert")?, read(key, "--upstream-key")?))
            }
        };
        Ok(Files {
            authorities,
            client,
        })
    }

    fn describe(
        &self,
        address: &Address,
        source: &Source,
        files: &Files,
    ) -> Result<Schema, PlanError> {
        let scheme = if address.secure { "https" } else { "http" };
        let bracketed = |host: &str| match host.contains(':') {
            true => format!("[{host}]"),
            false => host.to_owned(),
        };
        // Under the name, and where it is, as its calls go.
        let (url, connect_to) = match (&address.at, &self.upstream_server_name) {
            (At::Host { host, port }, None) => (format!("{}:{port}", bracketed(host)), None),
            (At::Host { host, port }, Some(name)) => (
                format!("{name}:{port}"),
                Some(format!("{}:{port}", bracketed(host))),
            ),
            (At::Unix(path), name) => (
                name.clone().unwrap_or_else(|| "localhost".into()),
                Some(format!("unix:{}", path.display())),
            ),
        };
        let options = Options {
            urls: vec![format!("{scheme}://{url}")],
            authorities: files.authorities.clone(),
            client: files.client.clone(),
            insecure: self.upstream_insecure,
            connect_to,
            timeout: REFLECTION_TIMEOUT,
            ..Options::default()
        };
        let target = Target {
            options: &options,
            method: "",
            words: WORDS,
        };
        let found = schema::find(source, &target);
        found.map(|(schema, _)| schema)
    }

    fn client(&self, files: &Files) -> Result<Arc<rustls::ClientConfig>, PlanError> {
        let config = tls::Config::new(&tls::Options {
            authorities: files.authorities.clone(),
            insecure: self.upstream_insecure,
            client: files.client.clone(),
            words: WORDS,
            ..tls::Options::default()
        })
        .map_err(|error| PlanError::Environment(error.to_string()))?;
        Ok(Arc::clone(config.rustls()))
    }
}

fn of_config(error: RuleError) -> PlanError {
    PlanError::Usage(format!("--service-config: {error}"))
}

/// What the flags name for TLS.
struct Files {
    authorities: Vec<tls::File>,
    client: Option<(tls::File, tls::File)>,
}

/// The services of the application's.
fn services_of(schema: &Schema) -> Vec<String> {
    let services = schema.pool().services();
    let names = services.map(|service| service.full_name().to_owned());
    let is_about = |service: &str| ABOUT.iter().any(|about| service.starts_with(about));
    names.filter(|name| !is_about(name)).collect()
}

/// The services of all upstreams. One that several have is described by the first: while they change to
/// another version one after the other, their descriptions may differ.
fn together(schemas: &[Schema], names: &[Vec<String>]) -> Result<Schema, PlanError> {
    let mut first: HashMap<&str, usize> = HashMap::new();
    for (number, names) in names.iter().enumerate() {
        for name in names {
            first.entry(name).or_insert(number);
        }
    }
    let described: Vec<Vec<String>> = names
        .iter()
        .enumerate()
        .map(|(number, names)| {
            let own = names.iter().filter(|name| first[name.as_str()] == number);
            own.cloned().collect()
        })
        .collect();
    let parts = schemas.iter().zip(described.iter().map(Vec::as_slice));
    Schema::together(&parts.collect::<Vec<_>>())
        .map_err(|error| PlanError::Environment(format!("--upstream: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstreams_are_hosts_and_ports() {
        for (text, host, port, secure) in [
            ("grpc://127.0.0.1:50051", "127.0.0.1", 50051, false),
            ("grpc://[::1]:1/", "::1", 1, false),
            ("grpcs://api.example:443", "api.example", 443, true),
            ("https://api.example", "api.example", 443, true),
            ("http://a", "a", 80, false),
        ] {
            let read = address(text).unwrap();
            let at = At::Host {
                host: host.into(),
                port,
            };
            assert_eq!((read.at, read.secure), (at, secure), "{text}");
        }
        for text in [
            "localhost:50051",
            "127.0.0.1:1",
            "grpc://a",
            "ftp://a:1",
            "grpc://a:1/b",
            "grpc://u@a:1",
            "grpc://::1:80",
        ] {
            let told = address(text).unwrap_err();
            assert!(told.contains("type for example grpc://"), "{text}: {told}");
        }
        let read = address("grpc+unix:///run/a%20b.sock").unwrap();
        assert_eq!(read.at, At::Unix("/run/a b.sock".into()));
        for text in ["grpc+unix://host/x", "grpc+unix:///", "grpc+unix:///x?y"] {
            let told = address(text).unwrap_err();
            assert!(told.contains("grpc+unix:///run"), "{text}: {told}");
        }
    }

    #[test]
    fn folders_of_imports_go_with_proto_files_alone() {
        #[derive(Debug, clap::Parser)]
        struct Typed {
            #[command(flatten)]
            _forward: ForwardArgs,
        }
        for source in [["--descriptor-set", "a"], ["--reflect-every", "1s"]] {
            let words = ["gateway", "--upstream", "grpc://a:1", "--proto-path", "b"];
            let told = <Typed as clap::Parser>::try_parse_from(words.into_iter().chain(source));
            let told = told.unwrap_err().to_string();
            assert!(told.contains("--proto-path"), "{told}");
        }
    }
}
