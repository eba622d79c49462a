//! The trilane command: load and serve.

use std::ffi::OsString;

/// Runs the command with these arguments, the program's name first, and returns its exit code.
pub fn main_from(args: impl IntoIterator<Item = OsString>) -> u8 {
    let known = args.into_iter().nth(1).is_some();
    eprintln!("trilane: this build has no engine");
    if known { 1 } else { 2 }
}
