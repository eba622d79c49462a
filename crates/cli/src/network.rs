//! `trilane network`: any two programs over an emulated network.

mod bench;
mod check;
mod document;
mod open;
mod profiles;
mod run;

use std::fs;

use clap::{Args, Subcommand};
use trilane_network::{End, Running, Side, Spec, Tcp};

use self::bench::BenchArgs;
use self::check::CheckArgs;
use self::open::OpenArgs;
use self::profiles::ProfilesArgs;
use self::run::RunArgs;
use crate::tell;

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
    /// Measure what networks reach on this machine
    Bench(BenchArgs),
    /// Show kinds of networks, such as 4g, and where their numbers are from
    Profiles(ProfilesArgs),
    #[command(hide = true)]
    Open(OpenArgs),
}

/// How TCP sends at both ends.
#[derive(Args, Clone, Debug)]
struct TcpArgs {
    /// How TCP sends at both ends: cubic, bbr, reno or what else the kernel has
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    congestion_control: String,
    /// Segments that TCP sends before the first acknowledgement
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), default_value_t = 10)]
    initial_window: u32,
}

impl From<&TcpArgs> for Tcp {
    fn from(args: &TcpArgs) -> Self {
        Self {
            congestion_control: args.congestion_control.clone(),
            initial_window: args.initial_window,
        }
    }
}

/// Reads a network, and the files that it names.
pub fn spec(text: &str) -> Result<Box<Spec>, String> {
    Spec::read(text, file).map(Box::new)
}

fn file(name: &str) -> Result<String, String> {
    fs::read_to_string(name).map_err(|error| error.to_string())
}

/// Runs the command; returns the exit code.
pub(crate) fn run(args: &NetworkArgs) -> u8 {
    let done = match &args.command {
        NetworkCommand::Run(args) => run::run(args),
        NetworkCommand::Check(args) => check::check(args),
        NetworkCommand::Bench(args) => bench::bench(args),
        NetworkCommand::Open(args) => open::run(args),
        NetworkCommand::Profiles(args) => Ok(profiles::run(args)),
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
