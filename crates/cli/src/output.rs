//! Where the result of a run goes: stdout and files.

use std::fs::{self, File};
use std::io::{self, IsTerminal as _, LineWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use trilane_engine::Outcome;

use crate::standard::is_stdout_closed;

/// What is wrong with a stdout that nobody gave.
pub(crate) const STDOUT_CLOSED: &str = "stdout is closed";

/// Refuses a `file` of `flag` that cannot be written since its folder does not exist, before hours are measured.
pub(crate) fn check_place(flag: &str, file: Option<&Path>) -> Result<(), String> {
    let Some(file) = file else { return Ok(()) };
    if file.is_dir() {
        return Err(format!(
            "{flag}: cannot write {}: it is a folder",
            file.display()
        ));
    }
    let folder = match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => return Ok(()),
    };
    if folder.is_dir() {
        return Ok(());
    }
    Err(format!(
        "{flag}: cannot write {}: the folder {} does not exist",
        file.display(),
        folder.display()
    ))
}

/// How wide the terminal is that a result goes to; `None` where it goes to a file, or to another program.
pub(crate) fn width(file: Option<&Path>) -> Option<usize> {
    if file.is_some() || is_stdout_closed() || !io::stdout().is_terminal() {
        return None;
    }
    let (columns, _) = ratatui::crossterm::terminal::size().ok()?;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}

/// Writes the text of a result to `file`, or to stdout.
pub(crate) fn write_result(mut text: String, file: Option<&Path>) -> Result<(), String> {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let Some(file) = file else {
        return write_to_stdout(&text);
    };
    write_atomically(file, text.as_bytes()).map_err(|error| {
        // The run may have taken hours: what it found is not thrown away.
        let instead = match write_to_stdout(&text) {
            Ok(()) => "the result is on stdout instead".to_owned(),
            Err(error) => error,
        };
        format!("-o: cannot write {}: {error}: {instead}", file.display())
    })
}

/// Writes the percentiles of the latency that users had, as HdrHistogram's plotters read them.
pub(crate) fn write_percentiles(outcome: &Outcome, file: &Path) -> Result<(), String> {
    let latency = &outcome.latency;
    let waited = latency.response.as_ref().unwrap_or(&latency.service);
    let text = waited
        .hgrm()
        .ok_or("--hgrm: the distribution of the latency cannot be read")?;
    write_atomically(file, text.as_bytes())
        .map_err(|error| format!("--hgrm: cannot write {}: {error}", file.display()))
}

/// A file that gets one line of JSON after the other, each when it is known.
pub(crate) struct Lines {
    name: PathBuf,
    file: LineWriter<File>,
    failed: Option<io::Error>,
}

impl Lines {
    /// Begins the file anew.
    pub(crate) fn create(name: &Path) -> Result<Self, String> {
        let file = File::create(name)
            .map_err(|error| format!("--ndjson: cannot write {}: {error}", name.display()))?;
        Ok(Self {
            name: name.to_owned(),
            file: LineWriter::new(file),
            failed: None,
        })
    }

    /// What to type instead, where they would stand on a terminal among what `--live` draws.
    pub(crate) fn drawn_over(&self) -> Option<String> {
        let name = self.name.display();
        self.file.get_ref().is_terminal().then(|| {
            format!(
                "--ndjson {name} is the terminal that --live draws on: give it the name of a file"
            )
        })
    }

    /// Writes a line. What goes wrong ends no run: [`Self::finish`] tells.
    pub(crate) fn write(&mut self, row: &impl Serialize) {
        if self.failed.is_none() {
            let written = serde_json::to_writer(&mut self.file, row)
                .map_err(io::Error::from)
                .and_then(|()| self.file.write_all(b"\n"));
            self.failed = written.err();
        }
    }

    /// Whether all lines are in the file.
    pub(crate) fn finish(mut self) -> Result<(), String> {
        let flushed = self.file.flush().err();
        self.failed.take().or(flushed).map_or(Ok(()), |error| {
            Err(format!(
                "--ndjson: cannot write all of {}: {error}",
                self.name.display()
            ))
        })
    }
}

fn write_to_stdout(text: &str) -> Result<(), String> {
    if is_stdout_closed() {
        return Err(STDOUT_CLOSED.to_owned());
    }
    match io::stdout().lock().write_all(text.as_bytes()) {
        // The reader had enough, as `head` has.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|error| format!("cannot write the result: {error}")),
    }
}

/// Writes a file so that it is there whole or not at all. Devices and pipes are written as they are.
fn write_atomically(file: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::metadata(file).is_ok_and(|metadata| !metadata.is_file()) {
        return fs::write(file, bytes);
    }
    let mut name = file
        .file_name()
        .ok_or(io::ErrorKind::InvalidInput)?
        .to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = file.with_file_name(name);
    let written = File::create(&temporary)
        .and_then(|mut handle| handle.write_all(bytes).and_then(|()| handle.sync_all()))
        .and_then(|()| fs::rename(&temporary, file));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&temporary);
    }
    written
}
