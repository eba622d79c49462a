//! `trilane completions`: what shells need to complete names, flags and values, made of the parser.
//!
//! The whole command has commands in Python besides: it tells them as JSON ([`Also`]), so that one script
//! knows all of them.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Args};
use clap_complete::Shell;
use serde::Deserialize;

use crate::output::write_result;
use crate::{FAILED, OK, command, complain};

const NAME: &str = "trilane";

#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

const AFTER_HELP: &str = "\
Examples:
  source <(trilane completions bash)
  trilane completions zsh > \"${fpath[1]}/_trilane\"
  trilane completions fish > ~/.config/fish/completions/trilane.fish";

/// A command that is none of the native ones.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Also {
    name: String,
    /// What it does, in a sentence.
    about: String,
    flags: Vec<AlsoFlag>,
    /// Its arguments that have known values, in order.
    arguments: Vec<AlsoArgument>,
    /// The commands below it.
    commands: Vec<Also>,
}

/// A flag of such a command.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AlsoFlag {
    /// Such as `-c` and `--connections`.
    names: Vec<String>,
    /// What it does, in a sentence.
    help: String,
    /// Whether a value follows it.
    takes_value: bool,
    /// What a shell offers for it; empty: nothing.
    values: Vec<String>,
}

/// An argument of such a command, without a flag.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AlsoArgument {
    name: String,
    /// What a shell offers for it.
    values: Vec<String>,
}

/// Prints the script and gives the exit code.
pub(crate) fn run(arguments: &CompletionsArgs) -> u8 {
    match write_result(script(command(), arguments.shell), None) {
        Ok(()) => OK,
        Err(error) => {
            complain(error);
            FAILED
        }
    }
}

/// The script for a shell (`bash`, `zsh`, `fish`, `elvish` or `powershell`) that knows the native commands
/// and others: `also` has them as a list in JSON, each with `name`, `about`, `flags` (`names`, `help`,
/// `takes_value`, `values`), `arguments` (`name`, `values`) and `commands`. An error where there is no such shell, or no such list.
pub fn with(shell: &str, also: &str) -> Result<String, String> {
    let shell: Shell = shell.parse()?;
    let also: Vec<Also> = serde_json::from_str(also).map_err(|error| error.to_string())?;
    let all = also
        .iter()
        .fold(command(), |all, also| all.subcommand(also.command()));
    Ok(script(all, shell))
}

fn script(mut command: clap::Command, shell: Shell) -> String {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut command, NAME, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

impl Also {
    fn command(&self) -> clap::Command {
        clap::Command::new(self.name.clone())
            .about(self.about.clone())
            .args(self.flags.iter().map(AlsoFlag::arg))
            .args(self.arguments.iter().map(AlsoArgument::arg))
            .subcommands(self.commands.iter().map(Also::command))
    }
}

impl AlsoArgument {
    fn arg(&self) -> Arg {
        Arg::new(self.name.clone()).value_parser(PossibleValuesParser::new(&self.values))
    }
}

impl AlsoFlag {
    fn arg(&self) -> Arg {
        let action = if self.takes_value {
            ArgAction::Append
        } else {
            ArgAction::SetTrue
        };
        let mut arg = Arg::new(self.names.join(" "))
            .help(self.help.clone())
            .action(action);
        if self.takes_value && !self.values.is_empty() {
            arg = arg.value_parser(PossibleValuesParser::new(&self.values));
        }
        for name in &self.names {
            arg = match (name.strip_prefix("--"), name.chars().nth(1)) {
                (Some(long), _) if arg.get_long().is_none() => arg.long(long.to_owned()),
                (Some(long), _) => arg.visible_alias(long.to_owned()),
                (None, Some(short)) if arg.get_short().is_none() => arg.short(short),
                (None, Some(short)) => arg.visible_short_alias(short),
                (None, None) => arg,
            };
        }
        arg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_learns_commands_and_flags() {
        let also = r#"[{"name": "lab", "about": "Run experiments", "flags": [], "arguments": [], "commands": [
            {"name": "run", "about": "Run one", "commands": [], "flags": [
                {"names": ["-f", "--format", "-g"], "help": "How", "takes_value": true, "values": ["wide"]},
                {"names": ["--new", "--anew"], "help": "Anew", "takes_value": false, "values": []}],
             "arguments": [{"name": "NAME", "values": ["bookstore"]}]}]}]"#;
        for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
            let script = with(shell, also).unwrap();
            let words = ["scenario", "network", "lab", "format", "anew"];
            // The generators for elvish and powershell have no values.
            let values = ["wide", "bookstore"];
            let values = match shell {
                "elvish" | "powershell" => &values[..0],
                // That of fish offers none for arguments without a flag.
                "fish" => &values[..1],
                _ => &values[..],
            };
            for word in words.iter().chain(values) {
                assert!(script.contains(*word), "{shell}: {word}");
            }
        }
        assert!(with("csh", "[]").is_err());
    }
}
