//! `.proto` files in an edition, compiled by `protoc` where it is installed: no compiler in Rust reads them.

use std::io::{ErrorKind, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The compiler, to be found on PATH.
const PROGRAM: &str = "protoc";
/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Why there is no descriptor set.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It is not installed.
    Absent,
    /// What it said, or how it failed.
    Failed(String),
}

/// The `FileDescriptorSet` of files and their imports, which are looked for in `roots`, then among those that
/// are `known`.
pub(super) fn compile(
    files: &[PathBuf],
    roots: &[PathBuf],
    known: Vec<u8>,
) -> Result<Vec<u8>, Failure> {
    let mut command = Command::new(PROGRAM);
    for root in roots {
        command.arg("-I").arg(root);
    }
    command
        .args(["--include_imports", "--include_source_info"])
        .args(["--descriptor_set_in=/dev/stdin", "-o", "/dev/stdout"])
        .args(files)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::Absent,
        _ => Failure::Failed(format!("{PROGRAM} cannot be started: {error}")),
    })?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let fed = thread::spawn(move || {
        // One that fails before it has read them says why.
        let _ = stdin.map(|mut stdin| stdin.write_all(&known));
    });
    let set = thread::spawn(move || {
        let mut set = Vec::new();
        let read = stdout.map(|mut stdout| stdout.read_to_end(&mut set));
        read.is_some_and(|read| read.is_ok()).then_some(set)
    });
    let said = thread::spawn(move || {
        let mut said = String::new();
        let _ = stderr.map(|mut stderr| stderr.read_to_string(&mut said));
        said
    });
    let is_good = wait(&mut child);
    let _ = fed.join();
    let (set, said) = (set.join().ok().flatten(), said.join().unwrap_or_default());
    match (is_good?, set) {
        (true, Some(set)) => Ok(set),
        _ => {
            let words: Vec<_> = said.split_whitespace().collect();
            Err(Failure::Failed(format!(
                "{PROGRAM} said: {}",
                words.join(" ")
            )))
        }
    }
}

/// Waits for its end, and says whether it is a good one.
fn wait(child: &mut Child) -> Result<bool, Failure> {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.success()),
            Ok(None) if begun.elapsed() < PATIENCE => thread::sleep(LOOK),
            Ok(None) => {
                // It may have ended meanwhile.
                let _ = child.kill();
                let _ = child.wait();
                let text = format!("{PROGRAM} did not end within {} s", PATIENCE.as_secs());
                return Err(Failure::Failed(text));
            }
            Err(error) => return Err(Failure::Failed(format!("{PROGRAM}: {error}"))),
        }
    }
}
