//! `trilane network`: any two programs over an emulated network.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use trilane_network::{Counted, Counters, End, Outcome, Proof, Running, Side, Spec, Tcp};
use trilane_units as units;

use crate::tell;

/// How often a server is asked whether it listens, and a program whether it has ended.
const LOOK: Duration = Duration::from_millis(10);
/// What a server has to end in.
const GRACE: Duration = Duration::from_secs(5);

/// Put programs on an emulated network
#[derive(Args, Clone, Debug)]
pub(crate) struct NetworkArgs {
    #[command(subcommand)]
    command: NetworkCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum NetworkCommand {
    /// Run a server and a client at the two ends of a network
    Run(RunArgs),
    /// Make a network and measure whether it is what was asked for
    Check(CheckArgs),
}

/// Make a network and measure whether it is what was asked for.
///
/// Trains of datagrams find delay, spread, rate, loss, bursts and order, each held against what the
/// clock and chance explain. The exit code is 4 where one of them is outside of that. `run` does the
/// same first.
#[derive(Args, Clone, Debug)]
struct CheckArgs {
    /// The network, such as rtt=40ms,rate=20mbit,loss=1%,burst=3,queue=1bdp,jitter=5ms,seed=7
    #[arg(value_name = "SPEC", value_parser = spec)]
    spec: Box<Spec>,
    /// Write what was found to this file, as JSON
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Run a server and a client at the two ends of a network, and say what became of their packets.
///
/// Both are lines for a shell. The client reaches the server at 127.0.0.1, as on one machine, and at
/// 10.0.0.1; the client has the address 10.0.0.2. Nothing else can be reached. The client begins once
/// the server listens on --port; when it has ended, the server is ended, and the command exits as the
/// client did. What the server prints goes to stderr.
#[derive(Args, Clone, Debug)]
struct RunArgs {
    /// The network, such as rtt=40ms,rate=20mbit,loss=1%,burst=3,queue=1bdp,jitter=5ms,seed=7
    #[arg(value_name = "SPEC", value_parser = spec)]
    spec: Box<Spec>,
    /// What to run at the server's end
    #[arg(long, value_name = "COMMAND")]
    server: String,
    /// What to run at the client's end
    #[arg(long, value_name = "COMMAND")]
    client: String,
    /// TCP port on which the server listens once it is ready
    #[arg(short, long, value_name = "PORT")]
    port: Option<u16>,
    /// Time for the server to be ready, such as 30s
    #[arg(long, value_name = "TIME", value_parser = units::time, default_value = "30s")]
    ready: Duration,
    /// How TCP sends at both ends: cubic, bbr, reno or what else the kernel has
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    congestion_control: String,
    /// Segments that TCP sends before the first acknowledgement
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), default_value_t = 10)]
    initial_window: u32,
    /// Write what became of the packets to this file, as JSON
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the packets that arrive at either end to this file, which Wireshark and tcpdump read
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
}

fn spec(text: &str) -> Result<Box<Spec>, String> {
    Spec::read(text, |name| {
        fs::read_to_string(name).map_err(|error| error.to_string())
    })
    .map(Box::new)
}

/// Runs the command; returns the exit code.
pub(crate) fn run(args: &NetworkArgs) -> u8 {
    let done = match &args.command {
        NetworkCommand::Run(args) => on_network(args),
        NetworkCommand::Check(args) => check(args),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            tell(format_args!("trilane network: {error}"));
            crate::FAILED
        }
    }
}

/// A network and its two ends.
struct Made {
    server: End,
    client: End,
    network: Running,
}

fn make(spec: &Spec, tcp: &Tcp) -> Result<Made, Box<dyn std::error::Error>> {
    trilane_network::prepare()?;
    let (server, server_interface) = End::new(Side::Server, tcp)?;
    let (client, client_interface) = End::new(Side::Client, tcp)?;
    let network = Running::start(spec, client_interface, server_interface)?;
    Ok(Made {
        server,
        client,
        network,
    })
}

fn check(args: &CheckArgs) -> Result<u8, Box<dyn std::error::Error>> {
    let made = make(&args.spec, &Tcp::default())?;
    let proof = Proof::of(&args.spec, &made.network, &made.client, &made.server)?;
    for check in &proof.checks {
        let holds = if check.holds() { "ok" } else { "invalid" };
        println!("{holds:<8}{check}");
    }
    if let Some(late) = late(&proof) {
        println!("suspect {late}");
    }
    if let Some(file) = &args.output {
        let document = json!({
            "schema": "trilane.network/1",
            "network": args.spec.to_string(),
            "check": checked(&proof),
        });
        write(file, &document)?;
    }
    Ok(if proof.broken().next().is_some() {
        crate::INVALID
    } else {
        0
    })
}

fn on_network(args: &RunArgs) -> Result<u8, Box<dyn std::error::Error>> {
    let tcp = Tcp {
        congestion_control: args.congestion_control.clone(),
        initial_window: args.initial_window,
    };
    let Made {
        server: server_end,
        client: client_end,
        network,
    } = make(&args.spec, &tcp)?;
    let proof = Proof::of(&args.spec, &network, &client_end, &server_end)?;
    for check in proof.broken() {
        tell(format_args!("trilane network: invalid: {check}"));
    }
    if let Some(late) = late(&proof) {
        tell(format_args!("trilane network: suspect: {late}"));
    }
    if let Some(file) = &args.pcap {
        let opened = fs::File::create(file);
        network.record(opened.map_err(|error| format!("{}: {error}", file.display()))?)?;
    }
    let mut server = shell(&args.server);
    // What is written to stdout is the client's alone.
    server.stdout(std::io::stderr());
    let mut server = Ended(server_end.spawn(server)?);
    if let Some(port) = args.port {
        wait_until_ready(&server_end, &mut server.0, port, args.ready)?;
    }
    let mut client = Ended(client_end.spawn(shell(&args.client))?);
    let status = wait(&mut client.0)?;
    drop(server);
    let outcome = network.stop()?;
    tell(format_args!("{}", told(&outcome)));
    if let (Some(file), Some(why)) = (&args.pcap, &outcome.unrecorded) {
        return Err(format!("{}: {why}: packets are missing there", file.display()).into());
    }
    if let Some(file) = &args.output {
        write(file, &document(&args.spec, &tcp, &outcome, &proof))?;
    }
    Ok(exit_code(status))
}

fn write(file: &Path, document: &Value) -> Result<(), Box<dyn std::error::Error>> {
    let mut text = serde_json::to_string_pretty(document)?;
    text.push('\n');
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(())
}

/// What is to be said where packets went out late while the network was checked.
fn late(proof: &Proof) -> Option<String> {
    proof.is_late().then(|| {
        format!(
            "packets went out late by {} µs (p99) while it was checked: other programs take the \
             processors",
            proof.outcome.lateness.value_at_quantile(0.99) / 1000
        )
    })
}

fn shell(line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", line]);
    command
}

/// A program that is ended with its owner.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.0.id().cast_signed());
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        }
        let begun = Instant::now();
        while begun.elapsed() < GRACE && matches!(self.0.try_wait(), Ok(None)) {
            thread::sleep(LOOK);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until_ready(
    end: &End,
    server: &mut Child,
    port: u16,
    patience: Duration,
) -> Result<(), String> {
    let begun = Instant::now();
    while !end.listens(port).map_err(|error| error.to_string())? {
        if let Ok(Some(status)) = server.try_wait() {
            return Err(format!("the server ended before it was ready: {status}"));
        }
        if begun.elapsed() > patience {
            return Err(format!(
                "the server does not listen on port {port} after {patience:?}: --ready gives it \
                 more time"
            ));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Waits for the client. Ctrl-C, which a terminal sends to the programs as well, does not end this
/// before it has said what became of the packets; a second one ends the client.
fn wait(client: &mut Child) -> Result<ExitStatus, Box<dyn std::error::Error>> {
    static AGAIN: AtomicBool = AtomicBool::new(false);
    let mut first = true;
    ctrlc::set_handler(move || {
        AGAIN.store(!std::mem::take(&mut first), Ordering::Relaxed);
    })?;
    loop {
        if let Some(status) = client.try_wait()? {
            return Ok(status);
        }
        if AGAIN.load(Ordering::Relaxed) {
            client.kill()?;
        }
        thread::sleep(LOOK);
    }
}

/// As a shell says it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    u8::try_from(code).unwrap_or(crate::FAILED)
}

fn document(spec: &Spec, tcp: &Tcp, outcome: &Outcome, proof: &Proof) -> Value {
    json!({
        "schema": "trilane.network/1",
        "network": spec.to_string(),
        "tcp": {
            "congestion_control": tcp.congestion_control,
            "initial_window": tcp.initial_window,
        },
        "mtu": trilane_network::MTU,
        "up": direction(&outcome.up),
        "down": direction(&outcome.down),
        "cpu_s": outcome.cpu.as_secs_f64(),
        "lateness_s": lateness(outcome),
        "check": checked(proof),
    })
}

fn lateness(outcome: &Outcome) -> Value {
    let at = |quantile| outcome.lateness.value_at_quantile(quantile) as f64 / 1e9;
    let histogram = outcome.lateness.iter_log(1000, 2.0).filter_map(|step| {
        let count = step.count_since_last_iteration();
        (count > 0).then(|| json!([step.value_iterated_to() as f64 / 1e9, count]))
    });
    json!({
        "p50": at(0.5),
        "p99": at(0.99),
        "max": outcome.lateness.max() as f64 / 1e9,
        "histogram": histogram.collect::<Vec<_>>(),
    })
}

/// What was measured before the use, in the units of `Property`.
fn checked(proof: &Proof) -> Value {
    let checks = proof.checks.iter().map(|check| {
        json!({
            "way": check.way.to_string(),
            "property": check.what.name(),
            "asked": check.asked,
            "seen": check.seen,
            "tolerance": check.tolerance,
            "holds": check.holds(),
        })
    });
    let verdict = if proof.broken().next().is_some() {
        "invalid"
    } else if proof.is_late() {
        "suspect"
    } else {
        "valid"
    };
    json!({
        "verdict": verdict,
        "properties": checks.collect::<Vec<_>>(),
        "lateness_s": lateness(&proof.outcome),
    })
}

fn direction(counters: &Counters) -> Value {
    let counted = |counted: Counted| json!({"packets": counted.packets, "bytes": counted.bytes});
    json!({
        "received": counted(counters.received),
        "lost": counted(counters.lost),
        "dropped": counted(counters.dropped),
        "forwarded": counted(counters.forwarded),
        "duplicated": counters.duplicated,
        "corrupted": counters.corrupted,
        "reordered": counters.reordered,
    })
}

/// What became of the packets, for people.
fn told(outcome: &Outcome) -> String {
    let line = |way: &str, counters: &Counters| {
        format!(
            "{way}: {} packets ({} bytes) in, {} lost, {} dropped by the queue, {} forwarded, {} \
             of them out of order\n",
            counters.received.packets,
            counters.received.bytes,
            counters.lost.packets,
            counters.dropped.packets,
            counters.forwarded.packets,
            counters.reordered,
        )
    };
    let packets = outcome.up.received.packets + outcome.down.received.packets;
    let each = outcome.cpu.as_secs_f64() * 1e6 / packets.max(1) as f64;
    format!(
        "{}{}network: {each:.1} µs of CPU per packet; packets went out late by {} µs (p50), {} µs \
         (p99)",
        line("client to server", &outcome.up),
        line("server to client", &outcome.down),
        outcome.lateness.value_at_quantile(0.5) / 1000,
        outcome.lateness.value_at_quantile(0.99) / 1000,
    )
}
