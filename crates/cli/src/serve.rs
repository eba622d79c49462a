//! `trilane serve`: the embedded server as a command.

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
use trilane_serve::{Config, Congestion, SERVER_NAME, Server, Signals, Stop, StopWhen};
use trilane_units as units;

use crate::tell;

/// Time for requests in flight after the signal to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Permissions of users that are neither the file's owner nor in its group; some share keys with a
/// group on purpose.
const FOR_OTHERS: u32 = 0o007;

/// Serve HTTP/1.1, HTTP/2 and HTTP/3 from one handler.
///
/// GET a path that is not there, and the answer lists what is: bytes, delays, echo, books, linked
/// pages, and the library service over gRPC, gRPC-Web, REST by transcoding (/v1/...), server-sent
/// events and WebSocket.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServeArgs {
    /// Port for cleartext HTTP/1.1 and HTTP/2 (prior knowledge); 0 picks a free one
    #[arg(short, long, default_value_t = 8080, value_name = "PORT")]
    port: u16,
    /// Port for HTTP/1.1 and HTTP/2 over TLS, and HTTP/3 over UDP; 0 picks a free one
    #[arg(long, default_value_t = 8443, value_name = "PORT")]
    tls_port: u16,
    /// Worker threads
    #[arg(short, long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
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
    name: Vec<String>,
    /// Processors to run on, one worker each, such as 0,2-3
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    cpu: Option<Cpus>,
    /// Concurrent streams allowed on an HTTP/2 or HTTP/3 connection
    #[arg(long, default_value_t = 1000, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    h2_streams: u32,
    /// Ask clients to leave after N requests on a connection (connection: close, GOAWAY)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    keepalive_requests: Option<u64>,
    /// Take early data (0-RTT): safe methods are answered before the handshake is done, others with 425
    /// (RFC 8470), as early data can be replayed
    #[arg(long)]
    early_data: bool,
    /// Congestion control of our side over HTTP/3; that of TCP is the kernel's
    #[arg(long, value_enum, default_value_t = Controller::Cubic, value_name = "cubic|reno|bbr", hide_possible_values = true)]
    quic_congestion: Controller,
    /// Have each client of HTTP/3 prove its address by a Retry packet first
    #[arg(long)]
    retry: bool,
    /// Send a chain of certificates of so many bytes, made up by one that clients do not need: shows
    /// what a long chain costs, of which QUIC may send three times what has come in
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    chain_size: Option<u32>,
    /// Form of the ready line
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Stop after this time, such as 30s or 2m
    #[arg(long = "for", value_name = "TIME", value_parser = units::time)]
    duration: Option<Duration>,
    /// Stop when standard input is closed
    #[arg(long)]
    exit_with_parent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Controller {
    Cubic,
    Reno,
    Bbr,
}

/// A list that clap takes for one value.
#[derive(Clone, Debug)]
struct Cpus(Vec<usize>);

fn cpus(text: &str) -> Result<Cpus, String> {
    units::cpus(text).map(Cpus)
}

/// Runs the command until it is told to stop; returns the exit code.
pub(crate) fn run(args: ServeArgs) -> u8 {
    match serve(args) {
        Ok(()) => 0,
        Err(error) => {
            tell(format_args!("trilane serve: {error}"));
            1
        }
    }
}

fn serve(args: ServeArgs) -> Result<(), Box<dyn std::error::Error>> {
    let config = Config {
        bind: args.bind,
        port: args.port,
        tls_port: args.tls_port,
        threads: args.threads.into(),
        cpus: args.cpu.map(|cpus| cpus.0).unwrap_or_default(),
        state: args.state,
        identity: args.cert.zip(args.key),
        names: args.name,
        streams: args.h2_streams,
        keepalive_requests: args.keepalive_requests,
        early_data: args.early_data,
        quic_congestion: match args.quic_congestion {
            Controller::Cubic => Congestion::Cubic,
            Controller::Reno => Congestion::Reno,
            Controller::Bbr => Congestion::Bbr,
        },
        retry: args.retry,
        chain_size: args.chain_size.map(|size| size as usize),
    };
    let signals = Signals::catch()?;
    let threads = config.threads;
    let warnings = warnings(&config);
    let server = Server::start(config)?;
    for warning in warnings {
        tell(format_args!("trilane serve: warning: {warning}"));
    }
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
             to trust it:  curl --cacert {path} {https}/hello",
            path = authority.display(),
        ));
    }
    match args.format {
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
            })
            .to_string(),
        )?,
    }
    let stop = signals.wait(StopWhen {
        after: args.duration,
        stdin_closed: args.exit_with_parent,
    })?;
    if args.format == Format::Text && stop == Stop::Signal {
        tell(format_args!(
            "stopping; requests in flight have {} s",
            GRACE.as_secs()
        ));
    }
    let cost = server.stop(GRACE);
    if args.format == Format::Json {
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: ServeArgs,
    }

    fn parse(flags: &[&str]) -> Result<ServeArgs, clap::Error> {
        Command::try_parse_from([&["serve"], flags].concat()).map(|command| command.args)
    }

    #[test]
    fn flags_are_read() {
        let args = parse(&[
            "-t",
            "2",
            "--port",
            "0",
            "--tls-port",
            "9443",
            "--cpu",
            "0,2-3",
            "--for",
            "1.5s",
            "--name",
            "a.example",
            "--name",
            "b.example",
            "--format",
            "json",
        ])
        .unwrap();
        assert_eq!((args.threads, args.port, args.tls_port), (2, 0, 9443));
        assert_eq!(args.cpu.unwrap().0, [0, 2, 3]);
        assert_eq!(args.duration, Some(Duration::from_millis(1500)));
        assert_eq!(args.name, ["a.example", "b.example"]);
        assert_eq!(args.format, Format::Json);
    }

    #[test]
    fn wrong_use_exits_with_2() {
        for wrong in [
            &["--port", "70000"][..],
            &["-t", "0"],
            &["--cpu", "x"],
            &["--for", "soon"],
            &["--cert", "a.pem"],
            &["--key", "a.pem"],
            &["--bind", "localhost"],
            &["--h2-streams", "0"],
            &["--keepalive-requests", "0"],
            &["--quic-congestion", "vegas"],
            &["--chain-size", "0"],
            &["--format", "xml"],
            &["--unknown"],
        ] {
            let error = parse(wrong).err().unwrap();
            assert_eq!(error.exit_code(), 2, "{wrong:?}");
        }
    }

    #[test]
    fn a_port_in_use_is_a_plain_failure() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port().to_string();
        assert_eq!(run(parse(&["--port", &port]).unwrap()), 1);
    }
}
