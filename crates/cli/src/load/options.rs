//! What the flags ask of the engine.

use std::io::Read as _;
use std::path::Path;

use trilane_engine::{
    Arrivals, EventFormat, EventsAsked, Listed, Options, PemFile, PlanError, ProxyProtocol,
    Scenario, TlsVersion, Version,
};

use super::values::{Announcing, Expected, Framed, Spread, Switch, Tls};
use super::{LoadArgs, fields};
use crate::requests::{self, Called};

/// The requests of a file, what virtual users do with them, and what they call where they are gRPC calls.
type OfFile = (Vec<Listed>, Option<Scenario>, Vec<Called>);

impl LoadArgs {
    pub(crate) fn options(&self) -> Result<Options, PlanError> {
        let flags = [
            (self.h1, Version::H1),
            (self.h2, Version::H2),
            (self.h2c, Version::H2c),
            (self.h3, Version::H3),
        ];
        let body = match self
            .body
            .as_deref()
            .map(|body| (body, body.strip_prefix('@')))
        {
            None => Vec::new(),
            Some((_, Some("-"))) => from_stdin()?,
            Some((_, Some(file))) => read(Path::new(file), "--body")?.1,
            Some((text, None)) => text.as_bytes().to_vec(),
        };
        let client = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some((read(cert, "--cert")?, read(key, "--key")?)),
            _ => None,
        };
        let (listed, scenario, called) = self.listed()?;
        let fields = fields::read(&self.headers)?;
        let (statuses, codes) = match &self.expect_status {
            None => (vec![(200, 399)], Vec::new()),
            Some(Expected::Http(ranges)) => (ranges.clone(), Vec::new()),
            Some(Expected::Calls(codes)) => (vec![(200, 399)], codes.clone()),
        };
        let are_calls = self.grpc.is_given() || !called.is_empty();
        match &self.expect_status {
            Some(Expected::Http(_)) if are_calls => {
                return Err(PlanError::Usage(
                    "--expect-status: of gRPC calls the status of gRPC is expected: type for example --expect-status OK,NOT_FOUND".into(),
                ));
            }
            Some(Expected::Calls(_)) if !are_calls => {
                return Err(PlanError::Usage(
                    "--expect-status: these are statuses of gRPC: write 200 or 200-299,404, or type --grpc PKG.SERVICE/METHOD".into(),
                ));
            }
            _ => (),
        }
        let mut options = Options {
            listed,
            scenario,
            urls: self.urls.clone(),
            weights: self.weights.clone(),
            version: flags
                .iter()
                .find(|(set, _)| *set)
                .map(|(_, version)| *version),
            connections: self.connections,
            streams: self.streams,
            threads: self.threads.unwrap_or(1),
            requests: self.count,
            duration: self.duration,
            warmup: self.warmup,
            rate: self.rate,
            shed_after: self.shed_after,
            arrivals: match self.arrivals {
                Spread::Constant => Arrivals::Constant,
                Spread::Poisson => Arrivals::Poisson,
            },
            stages: self.stages.clone().map_or_else(Vec::new, |stages| stages.0),
            rate_per_connection: self.rate_per_connection,
            stages_in_flight: self
                .stages_in_flight
                .clone()
                .map_or_else(Vec::new, |stages| stages.0),
            method: self.method.clone(),
            fields: fields.all,
            hidden_fields: fields.hidden,
            body,
            websocket: self.websocket.asked(),
            events: self.framed()?.map(|framed| EventsAsked {
                format: match framed {
                    Framed::Sse => EventFormat::Sse,
                    Framed::Ndjson => EventFormat::Ndjson,
                    Framed::Messages => EventFormat::Messages,
                },
                first: self.first_event.clone(),
                stall: self.stall,
            }),
            statuses,
            check_body: self.check_body,
            discard_bodies: self.discard_bodies,
            timeout: self.timeout,
            connect_timeout: self.connect_timeout,
            connect_parallel: self.connect_parallel,
            connect_rate: self.connect_rate,
            keepalive: self.keepalive,
            requests_per_connection: self
                .requests_per_connection
                .or(self.new_connections.then_some(1)),
            insecure: self.insecure,
            authorities: self
                .cacert
                .iter()
                .map(|file| read(file, "--cacert"))
                .collect::<Result<_, _>>()?,
            client,
            resumption: self.resume == Switch::On,
            early_data: self.early_data,
            tls_version: self.tls.map(|version| match version {
                Tls::V1_2 => TlsVersion::V1_2,
                Tls::V1_3 => TlsVersion::V1_3,
            }),
            ciphers: self.ciphers.clone(),
            sni: self.sni.clone(),
            connect_to: self.connect_to.clone(),
            resolve: self.resolve.clone(),
            spread: self.spread,
            bind: self.bind.clone(),
            proxy: self.proxy.clone(),
            proxy_protocol: self.proxy_protocol.map(|version| match version {
                Announcing::V1 => ProxyProtocol::V1,
                Announcing::V2 => ProxyProtocol::V2,
            }),
            proxy_source: self.proxy_source.clone(),
            congestion_control: self.congestion_control.clone(),
            quic_initial_packet_size: self.quic_initial_packet_size,
            quic_ack_frequency: self.quic_ack_frequency,
            quic_mtu_discovery: self.quic_mtu_discovery == Switch::On,
            quic_shared_socket: self.quic_shared_socket,
            cpus: self.cpus.clone().map_or_else(Vec::new, |cpus| cpus.0),
            server_pids: self.server_pids.clone(),
            in_turn: self.in_turn,
            slowest: self.slowest.unwrap_or(5),
            stream_window: self.stream_window,
            connection_window: self.connection_window,
            max_frame_size: self.max_frame_size,
            ..Options::default()
        };
        self.grpc.fill(&mut options, called, codes)?;
        Ok(options)
    }

    /// How events are told apart, where they are measured.
    fn framed(&self) -> Result<Option<Framed>, PlanError> {
        let framed = match self.events {
            None if self.websocket.subscribes() => Some(Framed::Messages),
            given => given,
        };
        match (framed, &self.first_event) {
            (None, Some(_)) => Err(PlanError::Usage(
                "--first-event is about streams of events: type it with --events sse, --events ndjson or --ws subscribe".into(),
            )),
            _ => Ok(framed),
        }
    }

    /// What a file has, where one was given.
    fn listed(&self) -> Result<OfFile, PlanError> {
        let base = self.urls.first().map(String::as_str);
        let flag = if self.scenario.is_some() {
            "--scenario"
        } else {
            "--requests"
        };
        if let (Some(_), [_, other, ..]) = (
            self.requests.as_ref().or(self.scenario.as_ref()),
            &*self.urls,
        ) {
            return Err(PlanError::Usage(format!(
                "{other}: with {flag} one URL is enough: those of the file are relative to it"
            )));
        }
        match (&self.requests, &self.har, &self.scenario) {
            (Some(file), ..) => {
                let (listed, called) = requests::read(file, base, self.grpc.is_given())?;
                Ok((listed, None, called))
            }
            (None, Some(file), _) => {
                let listed = requests::read_har(file, &self.har_host)?;
                Ok((listed, None, Vec::new()))
            }
            (None, None, Some(file)) => {
                let (listed, scenario) = requests::read_scenario(file, base)?;
                let users = self.users;
                Ok((listed, Some(Scenario { users, ..scenario }), Vec::new()))
            }
            (None, None, None) => Ok((Vec::new(), None, Vec::new())),
        }
    }
}

fn from_stdin() -> Result<Vec<u8>, PlanError> {
    let mut body = Vec::new();
    match std::io::stdin().lock().read_to_end(&mut body) {
        Ok(_) => Ok(body),
        Err(error) => Err(PlanError::Environment(format!(
            "--body: cannot read stdin: {error}"
        ))),
    }
}

fn read(file: &Path, flag: &str) -> Result<PemFile, PlanError> {
    let name = file.display().to_string();
    match trilane_files::read(file) {
        Ok(contents) => Ok((name, contents)),
        Err(error) => Err(PlanError::Environment(format!(
            "{flag}: cannot read {name}: {error}"
        ))),
    }
}
