//! The trilane command.

mod sys;

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(trilane_cli::main_from(std::env::args_os()))
}
