//! The flags that say which services of others are served, and where these are.

use std::{collections::HashMap, fs, path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use trilane_engine::{Options, PlanError};
use trilane_grpc::Schema;
use trilane_serve::{Forwarding, RuleError, ServiceConfig, Upstream};
use trilane_transport::tls;
use url::Url;

use crate::schema::{self, Source, Target};

const UPSTREAM: &str = "Upstream";
/// How long a server may take to describe its services.
const REFLECTION_TIMEOUT: Duration = Duration::from_secs(20);
/// What is no service of the application's, but tells about it.
const ABOUT: [&str; 2] = ["grpc.reflection.", "grpc.health."];

#[derive(Args, Clone, Debug)]
pub(crate) struct ForwardArgs {
    /// Serve the services of this gRPC server: grpc://HOST:PORT, or grpcs://HOST:PORT over TLS; several
    /// each with services of its own
    #[arg(long, value_name = "URL", value_parser = address, help_heading = UPSTREAM)]
    upstream: Vec<Address>,
    /// Serve this service alone, and not all that there are (repeatable)
    #[arg(long, value_name = "PKG.SERVICE", requires = "upstream", help_heading = UPSTREAM)]
    service: Vec<String>,
    /// Read the services from a .proto file, instead of asking the upstream by reflection
    #[arg(long, value_name = "FILE", requires = "upstream", conflicts_with = "descriptor_set", help_heading = UPSTREAM)]
    proto: Vec<PathBuf>,
    /// Where imports of --proto are looked for [default: the folder that a file's package implies]
    #[arg(long, value_name = "DIR", requires = "proto", help_heading = UPSTREAM)]
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
    /// Trust this certificate authority (PEM) for grpcs:// beside the system's (repeatable)
    #[arg(long, value_name = "FILE", requires = "upstream", help_heading = UPSTREAM)]
    upstream_cacert: Vec<PathBuf>,
    /// Accept any certificate of grpcs:// upstreams
    #[arg(long, requires = "upstream", help_heading = UPSTREAM)]
    upstream_insecure: bool,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Address {
    /// As it was typed.
    text: String,
    host: String,
    port: u16,
    secure: bool,
}

fn address(text: &str) -> Result<Address, String> {
    const EXAMPLE: &str =
        "type for example grpc://127.0.0.1:50051, or grpcs://api.example:443 over TLS";
    let url = Url::parse(text).map_err(|error| format!("{error}: {EXAMPLE}"))?;
    let secure = match url.scheme() {
        "grpc" | "http" => false,
        "grpcs" | "https" => true,
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
        host: host.to_owned(),
        port,
        secure,
    })
}

impl ForwardArgs {
    /// The services that the flags ask for. The upstreams are asked for them where no file has them.
    pub(crate) fn forwarding(&self, alone: bool) -> Result<Option<Forwarding>, PlanError> {
        if self.upstream.is_empty() {
            return Ok(None);
        }
        let authorities = self.authorities()?;
        let config = self.config()?;
        let source = match &self.descriptor_set {
            Some(file) => Source::DescriptorSet(file.clone()),
            None if self.proto.is_empty() => Source::Reflection,
            None => Source::Proto {
                files: self.proto.clone(),
                includes: self.proto_path.clone(),
            },
        };
        if source != Source::Reflection && self.upstream.len() > 1 {
            return Err(PlanError::Usage(
                "files do not say which of several --upstream has which service: leave --proto and \
                 --descriptor-set out, so that each is asked by reflection"
                    .into(),
            ));
        }
        let schemas = self
            .upstream
            .iter()
            .map(|address| self.describe(address, &source, &authorities))
            .collect::<Result<Vec<_>, _>>()?;
        let services = self.services(&schemas)?;
        let parts = schemas.iter().zip(services.iter().map(Vec::as_slice));
        let schema = Schema::together(&parts.collect::<Vec<_>>())
            .map_err(|error| PlanError::Environment(format!("--upstream: {error}")))?;
        config.check(schema.pool()).map_err(of_config)?;
        let mut tls = None;
        let mut upstreams = Vec::new();
        for (address, services) in self.upstream.iter().zip(services) {
            if address.secure && tls.is_none() {
                tls = Some(self.client(&authorities)?);
            }
            upstreams.push(Upstream {
                host: address.host.clone(),
                port: address.port,
                tls: tls.clone().filter(|_| address.secure),
                services,
            });
        }
        Ok(Some(Forwarding {
            schema,
            upstreams,
            alone,
            config,
            ignore_unknown_query: self.ignore_unknown_query,
        }))
    }

    /// The services of each upstream.
    fn services(&self, schemas: &[Schema]) -> Result<Vec<Vec<String>>, PlanError> {
        let mut at: HashMap<String, &str> = HashMap::new();
        let mut all = Vec::new();
        for (address, schema) in self.upstream.iter().zip(schemas) {
            let mut names: Vec<String> = schema
                .pool()
                .services()
                .map(|service| service.full_name().to_owned())
                .filter(|name| !is_about(name))
                .collect();
            if !self.service.is_empty() {
                names.retain(|name| self.service.contains(name));
            }
            for name in &names {
                if let Some(other) = at.insert(name.clone(), &address.text) {
                    return Err(PlanError::Usage(format!(
                        "{name} is at {other} and at {}: name the services that you want with --service, \
                         or one --upstream",
                        address.text
                    )));
                }
            }
            all.push(names);
        }
        if let Some(missing) = self.service.iter().find(|name| !at.contains_key(*name)) {
            let known = schemas.iter().flat_map(|schema| schema.pool().services());
            let known = known.map(|service| service.full_name().to_owned());
            let mut known: Vec<_> = known.filter(|name| !is_about(name)).collect();
            known.sort_unstable();
            known.dedup();
            return Err(PlanError::Usage(format!(
                "--service: there is no {missing:?}; there are {}",
                known.join(", ")
            )));
        }
        if at.is_empty() {
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

    fn authorities(&self) -> Result<Vec<tls::File>, PlanError> {
        let read = |file: &PathBuf| {
            let name = file.display().to_string();
            let bytes = fs::read(file).map_err(|error| {
                PlanError::Environment(format!("--upstream-cacert: cannot read {name}: {error}"))
            })?;
            Ok((name, bytes))
        };
        self.upstream_cacert.iter().map(read).collect()
    }

    fn describe(
        &self,
        address: &Address,
        source: &Source,
        authorities: &[tls::File],
    ) -> Result<Schema, PlanError> {
        let Address {
            host, port, secure, ..
        } = address;
        let scheme = if *secure { "https" } else { "http" };
        let host = match host.contains(':') {
            true => format!("[{host}]"),
            false => host.clone(),
        };
        let options = Options {
            urls: vec![format!("{scheme}://{host}:{port}")],
            authorities: authorities.to_vec(),
            insecure: self.upstream_insecure,
            timeout: REFLECTION_TIMEOUT,
            ..Options::default()
        };
        let target = Target {
            options: &options,
            method: "",
        };
        let found = schema::find(source, &target);
        found
            .map(|(schema, _)| schema)
            .map_err(in_words_of_upstreams)
    }

    fn client(&self, authorities: &[tls::File]) -> Result<Arc<rustls::ClientConfig>, PlanError> {
        let config = tls::Config::new(&tls::Options {
            authorities: authorities.to_vec(),
            platform: true,
            insecure: self.upstream_insecure,
            client: None,
            password: None,
            pins: Vec::new(),
            alpn: Vec::new(),
            resumption: true,
            early_data: false,
            version: None,
            ciphers: Vec::new(),
        })
        .map_err(|error| PlanError::Environment(error.to_string()))?;
        Ok(Arc::clone(config.rustls()))
    }
}

fn of_config(error: RuleError) -> PlanError {
    PlanError::Usage(format!("--service-config: {error}"))
}

fn is_about(service: &str) -> bool {
    ABOUT.iter().any(|about| service.starts_with(about))
}

/// The same error, with the flags that go with upstreams.
fn in_words_of_upstreams(error: PlanError) -> PlanError {
    let told = |text: String| {
        text.replace("--cacert", "--upstream-cacert")
            .replace("--insecure", "--upstream-insecure")
    };
    match error {
        PlanError::Usage(text) => PlanError::Usage(told(text)),
        PlanError::Environment(text) => PlanError::Environment(told(text)),
    }
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
            assert_eq!(
                (&*read.host, read.port, read.secure),
                (host, port, secure),
                "{text}"
            );
        }
        for text in [
            "localhost:50051",
            "127.0.0.1:1",
            "grpc://a",
            "ftp://a:1",
            "grpc://a:1/b",
            "grpc://u@a:1",
        ] {
            let told = address(text).unwrap_err();
            assert!(told.contains("type for example grpc://"), "{text}: {told}");
        }
    }
}
