//! The trilane command as a library: `load`, `serve`, `gateway` and `network`, for the native binary and for the Python
//! module alike.

mod answer;
mod caller;
mod cluster;
mod compat;
mod completions;
mod forwarding;
mod gateway;
mod grpc;
mod interrupt;
mod listen;
mod live;
mod load;
mod metrics;
mod network;
mod otlp;
mod output;
mod page;
mod patient;
mod progress;
mod prometheus;
mod report;
mod requests;
mod schema;
mod search;
mod serve;
mod standard;
mod websocket;

use std::ffi::OsString;
use std::io::Write as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use trilane_engine::PlanError;

pub use completions::with as completions_with;
pub use network::spec as read_network;
pub use page::Pages;
pub use search::check_goals;
pub use standard::occupy_standard_streams;
pub use trilane_engine::{PROFILE, REVISION};
pub use trilane_serve::make_cluster_identity;

/// Nothing went wrong.
pub const OK: u8 = 0;
/// The command could not do its work.
pub const FAILED: u8 = 1;
/// The command was used wrongly.
pub const USAGE: u8 = 2;
/// A `--fail-if` gate was breached.
pub const BREACHED: u8 = 3;
/// The measurement is invalid.
pub const INVALID: u8 = 4;
/// The user interrupted; the partial report was printed.
pub const INTERRUPTED: u8 = 130;

/// Race HTTP/1.1, HTTP/2 and HTTP/3 on the same track.
#[derive(Parser)]
#[command(
    name = "trilane",
    version = trilane_engine::VERSION_LINE,
    propagate_version = true,
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The commands of the Python package, which the native program alone does not have.
const OF_THE_PACKAGE: [&str; 9] = [
    "ab", "cluster", "compare", "doctor", "history", "lab", "race", "report", "runs",
];

// The display names are what `--version` prints.
#[derive(Subcommand)]
enum Command {
    /// Load a server over one HTTP version and report rate, latency, cost and validity
    #[command(display_name = "trilane")]
    Load(Box<load::LoadArgs>),
    /// Serve a target to aim at: HTTP/1.1, HTTP/2 and HTTP/3 from one handler
    #[command(display_name = "trilane")]
    Serve(Box<serve::ServeArgs>),
    /// Serve the services of a gRPC server over HTTP (JSON), gRPC and gRPC-Web
    ///
    /// The services are found by reflection, or in files. A method is under the paths of its
    /// google.api.http rules, and under POST /package.Service/Method with its message as JSON. Streams of
    /// responses are lines of JSON or server-sent events, streams of requests lines of JSON, and both also
    /// WebSockets.
    #[command(display_name = "trilane")]
    Gateway(Box<gateway::GatewayArgs>),
    /// Put programs on an emulated network
    #[command(display_name = "trilane")]
    Network(network::NetworkArgs),
    /// Print what a shell needs to complete this command's names, flags and values
    #[command(display_name = "trilane")]
    Completions(completions::CompletionsArgs),
}

/// Runs the command that `arguments` (the program's name first) name and gives its exit code.
pub fn main_from(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    main_with(arguments, None)
}

/// Does what [`main_from`] does, with something that makes pages for `load --html`.
pub fn main_with(arguments: impl IntoIterator<Item = OsString>, pages: Option<&dyn Pages>) -> u8 {
    occupy_standard_streams();
    let arguments = compat::expanded(arguments.into_iter().collect());
    match arguments.and_then(Cli::try_parse_from) {
        Ok(cli) => match cli.command {
            Command::Load(arguments) => load::run(&arguments, pages),
            Command::Serve(arguments) => serve::run(&arguments),
            Command::Gateway(arguments) => gateway::run(&arguments),
            Command::Network(arguments) => network::run(&arguments),
            Command::Completions(arguments) => completions::run(&arguments),
        },
        Err(error)
            if error.use_stderr()
                && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand =>
        {
            complain(elsewhere(&error).unwrap_or_else(|| one_line(&error.to_string())));
            USAGE
        }
        Err(help) => {
            // A closed pipe is nobody's error.
            let _ = help.print();
            u8::try_from(help.exit_code()).unwrap_or(USAGE)
        }
    }
}

/// What to say where a command was typed that is part of the Python package.
fn elsewhere(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    OF_THE_PACKAGE.contains(&typed.as_str()).then(|| {
        format!(
            "`{typed}` is part of the whole command, which the Python package brings: make build leaves it in .venv/bin/trilane"
        )
    })
}

/// The arguments of a load, of the words behind `trilane load`; an error is what is wrong with them, in one line.
fn load_of(words: Vec<String>) -> Result<Box<load::LoadArgs>, String> {
    let own = ["trilane", "load"].map(OsString::from);
    let line = own.into_iter().chain(words.into_iter().map(OsString::from));
    let parsed = compat::expanded(line.collect()).and_then(Cli::try_parse_from);
    match parsed.map(|cli| cli.command) {
        Ok(Command::Load(arguments)) => Ok(arguments),
        Ok(_) => Err("this is not a load".to_owned()),
        Err(error) => Err(one_line(&error.to_string())),
    }
}

/// The parser's message without its layout: what is wrong, how it is used, where to read on.
fn one_line(message: &str) -> String {
    let lines = message
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let mut text = String::new();
    for line in lines {
        let separator = match (text.chars().last(), line.starts_with("Usage:")) {
            (None, _) => "",
            // Indented lines complete the one above.
            (Some(':'), false) => " ",
            (Some(_), _) if line.starts_with('[') => " ",
            (Some(_), _) => "; ",
        };
        text.push_str(separator);
        let line = line.strip_prefix("error: ").unwrap_or(line);
        text.push_str(line.strip_prefix("For more information, ").unwrap_or(line));
    }
    text
}

/// The command's definition, for the manual and completions made from it.
pub fn command() -> clap::Command {
    Cli::command()
}

/// The exit code where there is no plan.
fn code_of(error: &PlanError) -> u8 {
    match error {
        PlanError::Usage(_) => USAGE,
        _ => FAILED,
    }
}

/// Prints one line on stderr in the way of the command.
fn complain(message: impl std::fmt::Display) {
    tell(format_args!("trilane: {message}"));
}

/// Prints one line on stderr, without secrets of URLs and without what a terminal would obey. Where nobody reads it that
/// is no reason to end: `eprintln` would panic.
fn tell(line: impl std::fmt::Display) {
    let line = line.to_string();
    let line = trilane_text::lines(&trilane_text::url(&line));
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_use_is_told_in_one_line() {
        let told = |arguments: &[&str]| {
            let error = Cli::try_parse_from([&["trilane", "load"], arguments].concat())
                .err()
                .unwrap();
            one_line(&error.to_string())
        };
        assert_eq!(
            told(&["http://a/", "--format", "xml"]),
            "invalid value 'xml' for '--format <FORMAT>' [possible values: text, json]; try '--help'."
        );
        let missing = told(&["https://a/", "--cert", "a.pem"]);
        assert!(missing.starts_with(
            "the following required arguments were not provided: --key <FILE>; Usage: "
        ));
        assert!(!missing.contains('\n'));
    }
}
