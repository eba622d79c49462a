//! `trilane network run`: a server and a client at the two ends of a network.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use trilane_network::{End, Proof, Spec, Tcp};
use trilane_units as units;

use super::document::{document, late, told, write};
use super::{Made, make, spec};
use crate::tell;

/// How often a server is asked whether it listens, and a program whether it has ended.
const LOOK: Duration = Duration::from_millis(10);
/// What a server has to end in.
const GRACE: Duration = Duration::from_secs(5);

/// Run a server and a client at the two ends of a network, and say what became of their packets.
///
/// Both are lines for a shell. The client reaches the server at 127.0.0.1, as on one machine, and at
/// 10.0.0.1; the client has the address 10.0.0.2. Nothing else can be reached. The client begins once
/// the server listens on --port; when it has ended, the server is ended, and the command exits as the
/// client did. What the server prints goes to stderr.
#[derive(Args, Clone, Debug)]
pub(super) struct RunArgs {
    /// The network, such as 4g or rtt=40ms,rate=20mbit,loss=1%,burst=3,queue=1bdp,jitter=5ms,seed=7
    ///
    /// With jitter packets keep their order: they wait for those before them, so that their mean delay is
    /// more than the rtt asks for, the more so the more packets there are. Reorder lets them overtake.
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
    #[command(flatten)]
    tcp: super::TcpArgs,
    /// Write what became of the packets to this file, as JSON
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the packets that arrive at either end to this file, which Wireshark and tcpdump read
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
}

pub(super) fn run(args: &RunArgs) -> Result<u8, Box<dyn std::error::Error>> {
    // Before anything is measured or started.
    let recording = match &args.pcap {
        Some(file) => {
            Some(fs::File::create(file).map_err(|error| format!("{}: {error}", file.display()))?)
        }
        None => None,
    };
    let tcp = Tcp::from(&args.tcp);
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
    if let Some(file) = recording {
        network.record(file)?;
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
