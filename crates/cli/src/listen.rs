//! What `trilane serve` and `trilane gateway` have in common: where they listen, and how they begin and
//! end.

use std::{
    fs,
    io::{self, Write},
    net::IpAddr,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process,
    time::Duration,
};

use clap::{Args, ValueEnum};
use serde_json::json;
use trilane_serve::{Config, SERVER_NAME, Server, Signals, Stop, StopWhen};
use trilane_units as units;

use crate::{forwarding::Reread, tell};

/// Time for requests in flight after the signal to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Permissions of users that are neither the file's owner nor in its group; some share keys with a
/// group on purpose.
const FOR_OTHERS: u32 = 0o007;

#[derive(Args, Clone, Debug)]
pub(crate) struct ListenArgs {
    /// Port for cleartext HTTP/1.1 and HTTP/2 (prior knowledge); 0 picks a free one
    #[arg(short, long, default_value_t = 8080, value_name = "PORT")]
    pub(crate) port: u16,
    /// Port for HTTP/1.1 and HTTP/2 over TLS, and HTTP/3 over UDP; 0 picks a free one
    #[arg(long, default_value_t = 8443, value_name = "PORT")]
    pub(crate) tls_port: u16,
    /// Worker threads
    #[arg(short, long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    bind: IpAddr,
    /// Folder of the local certificate authority [default: $XDG_STATE_HOME/trilane]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Use this certificate chain (PEM) instead of the local authority's
    #[arg(long, requires = "key", value_name = "FILE")]
    cert: Option<PathBuf>,
    /// The private key (PEM) of --cert
    #[arg(long, requires = "cert", value_name = "FILE")]
    key: Option<PathBuf>,
    /// A further host name or address for the certificate (repeatable)
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Vec<String>,
    /// Processors to run on, one worker each, such as 0,2-3
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub(crate) cpu: Option<Cpus>,
    /// Concurrent streams allowed on an HTTP/2 or HTTP/3 connection
    #[arg(long, default_value_t = 1000, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    h2_streams: u32,
    /// Ask clients to leave after N requests on a connection (connection: close, GOAWAY)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    keepalive_requests: Option<u64>,
    /// Connections that one caller (IP address) may have at a time; more are closed [default: half of all that there
    /// may be with --upstream, no bound without]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    connections_per_caller: Option<u32>,
    /// Let pages of this origin call and read the answers (CORS), such as https://app.example; * for all
    /// (repeatable)
    #[arg(long, value_name = "ORIGIN")]
    cors_origin: Vec<String>,
    /// Serve requests for this host name too, such as shop.example; *.shop.example for all names below it, * for
    /// all (repeatable) [default: localhost, names of the certificate, and any address]
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Form of the ready line
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Stop after this time, such as 30s or 2m
    #[arg(long = "for", value_name = "TIME", value_parser = units::time)]
    pub(crate) duration: Option<Duration>,
    /// Stop when standard input is closed; with --format json each line there is answered by what has
    /// been counted
    #[arg(long)]
    exit_with_parent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

/// A list that clap takes for one value.
#[derive(Clone, Debug)]
pub(crate) struct Cpus(pub(crate) Vec<usize>);

fn cpus(text: &str) -> Result<Cpus, String> {
    units::cpus(text).map(Cpus)
}

impl ListenArgs {
    /// A server that listens there.
    pub(crate) fn config(&self) -> Config {
        Config {
            bind: self.bind,
            port: self.port,
            tls_port: self.tls_port,
            threads: self.threads.into(),
            cpus: self.cpu.clone().map(|cpus| cpus.0).unwrap_or_default(),
            state: self.state.clone(),
            identity: self.cert.clone().zip(self.key.clone()),
            names: self.name.clone(),
            streams: self.h2_streams,
            keepalive_requests: self.keepalive_requests,
            connections_per_caller: self.connections_per_caller.map(|most| most as usize),
            cors_origins: self.cors_origin.clone(),
            allow_hosts: self.allow_host.clone(),
            ..Config::default()
        }
    }

    /// Serves until told to stop. `command` is what warnings begin with, `example` a path to try; `reread`
    /// changes what is served when upstreams change.
    pub(crate) fn serve(
        &self,
        command: &'static str,
        example: &str,
        config: Config,
        reread: Option<Reread>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let signals = Signals::catch()?;
        let threads = config.threads;
        let warnings = warnings(&config);
        let server = Server::start(config)?;
        for warning in warnings {
            tell(format_args!("{command}: warning: {warning}"));
        }
        let hangup = match reread {
            Some(reread) => Some(reread.start(command, server.switch())?),
            None => None,
        };
        let addresses = server.addresses();
        let http = addresses.http_url();
        let https = addresses.https_url();
        let (http, https) = (http.trim_end_matches('/'), https.trim_end_matches('/'));
        if let Some(authority) = server.ca_path()
            && server.made_new_ca()
        {
            let made = match server.replaced_ca() {
                true => "made a new local certificate authority; it replaces the one you may trust",
                false => "made a local certificate authority",
            };
            tell(format_args!(
                "{made}: {path}\n\
                 to trust it:  curl --cacert {path} {https}{example}",
                path = authority.display(),
            ));
        }
        match self.format {
            Format::Text => print_line(&format!("ready: {http} (h1, h2c)  {https} (h1, h2, h3)"))?,
            Format::Json => print_line(
                &json!({
                    "schema": "trilane.serve/1",
                    "ready": true,
                    "pid": process::id(),
                    "http": http,
                    "https": https,
                    "cacert": server.ca_path(),
                    "threads": threads,
                    "versions": {"http": ["h1", "h2c"], "https": ["h1", "h2", "h3"]},
                    "server": SERVER_NAME,
                    "tcp_congestion_control": server.tcp_congestion(),
                })
                .to_string(),
            )?,
        }
        let (counts, is_json) = (server.counts(), self.format == Format::Json);
        let when = StopWhen {
            after: self.duration,
            stdin_closed: self.exit_with_parent,
        };
        let stop = signals.wait_and_answer(when, hangup.as_deref(), move || {
            if is_json {
                let line = json!({
                    "schema": "trilane.serve/1",
                    "counted": true,
                    "requests": counts.requests(),
                    "connections": counts.connections(),
                });
                // Who asked has gone: the end of its standard input will follow.
                let _ = print_line(&line.to_string());
            }
        })?;
        if self.format == Format::Text && stop == Stop::Signal {
            tell(format_args!(
                "stopping; requests in flight have {} s",
                GRACE.as_secs()
            ));
        }
        let cost = server.stop(GRACE);
        if self.format == Format::Json {
            print_line(
                &json!({
                    "schema": "trilane.serve/1",
                    "stopped": true,
                    "user_s": cost.user_s,
                    "system_s": cost.system_s,
                    "requests": cost.requests,
                    "udp_receive_drops": cost.udp_receive_drops,
                })
                .to_string(),
            )?;
        }
        Ok(())
    }
}

/// What works but lets others in, one line each.
fn warnings(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    if !config.bind.is_loopback() {
        warnings.push(format!(
            "who reaches {} can use this server: it asks nobody for a password",
            config.bind
        ));
    }
    if let Some((_, key)) = &config.identity
        && let Ok(file) = fs::metadata(key)
        && file.permissions().mode() & FOR_OTHERS != 0
    {
        let key = key.display();
        warnings.push(format!(
            "every user of this machine can use the private key {key}: chmod o= {key}"
        ));
    }
    warnings
}

/// A whole line, out of the buffer; whoever waits for it may have gone, which ends nothing here.
fn print_line(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
