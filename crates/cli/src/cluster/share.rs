//! `--cluster-share`: one machine's share of a run. The first line of its stdin says which, and of what: no secret of the
//! run stands on a command line there. Its messages go to stdout in frames; the end of its stdin is the end of the run, as
//! whoever started it is gone then, or wants it to end.

use std::collections::HashMap;
use std::io::{self, BufRead as _, Read as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::json;
use trilane_engine::{Control, Options, Plan, Share, run_share};

use super::check;
use super::frames::{self, Frames};
use crate::interrupt::Interrupt;
use crate::{FAILED, INTERRUPTED, OK, USAGE, code_of, complain, load_of};

/// A run begins within this time, or a clock is wrong.
const SOON: Duration = Duration::from_secs(600);
/// Bytes of the line that says what to do.
const MOST: u64 = 16 << 20;
/// How often it is looked whether the run is to end before it begins.
const LOOK: Duration = Duration::from_millis(50);

/// Which share it is, and when it begins.
#[derive(Debug, Deserialize)]
struct Asked {
    first: usize,
    count: usize,
    /// Threads of all machines together.
    total: usize,
    /// By this machine's clock, in nanoseconds since 1970.
    start_at_unix_ns: u64,
    /// Where copies of the files of the command line are, by the names that these have there.
    #[serde(default)]
    files: HashMap<String, PathBuf>,
    /// Variables of the environment that the command line names, as they are there.
    #[serde(default)]
    variables: HashMap<String, String>,
    /// What follows `trilane load` there.
    arguments: Vec<String>,
}

/// An exit code, and what went wrong.
type Failed = (u8, String);

/// Carries out a share and gives the exit code.
pub(crate) fn share() -> u8 {
    let frames = match Frames::start() {
        Ok(frames) => frames,
        Err(error) => {
            complain(error);
            return FAILED;
        }
    };
    let (code, kind, rest) = match asked().and_then(|asked| carry_out(asked, &frames)) {
        Ok(reports) => (OK, frames::REPORTS, reports),
        Err((code, message)) => {
            complain(&message);
            let told = json!({"message": message, "exit_code": code});
            (code, frames::ERROR, told.to_string().into_bytes())
        }
    };
    match frames.finish(kind, rest) {
        Ok(()) => code,
        Err(error) => {
            complain(error);
            FAILED
        }
    }
}

/// Reads what to do.
fn asked() -> Result<Asked, Failed> {
    let mut line = String::new();
    io::stdin()
        .lock()
        .take(MOST)
        .read_line(&mut line)
        .map_err(|error| {
            (
                FAILED,
                format!("--cluster-share: cannot read stdin: {error}"),
            )
        })?;
    // What it holds may be secret: it is not repeated.
    serde_json::from_str(&line).map_err(|error| {
        (
            USAGE,
            format!("--cluster-share: the first line of stdin is not a share: {error}"),
        )
    })
}

/// Runs, and gives the reports of all threads.
fn carry_out(asked: Asked, frames: &Frames) -> Result<Vec<u8>, Failed> {
    let arguments = load_of(asked.arguments).map_err(|error| (USAGE, error))?;
    check(&arguments).map_err(|error| (code_of(&error), error.to_string()))?;
    let plan = trilane_files::with_copies(asked.files, asked.variables, || {
        let options = arguments.options()?;
        Plan::new(&Options {
            threads: asked.total,
            ..options
        })
    });
    let plan = plan.map_err(|error| (code_of(&error), error.to_string()))?;
    if plan.threads() != asked.total {
        let (has, total) = (plan.threads(), asked.total);
        let text = format!(
            "--cluster-share: {total} threads, and the plan has {has}: its threads are dealt"
        );
        return Err((USAGE, text));
    }
    let share = Share::new(asked.first, asked.count, &plan)
        .map_err(|error| (USAGE, format!("--cluster-share: {error}")))?;
    let control = Interrupt::catch().next();
    end_with_stdin(Arc::clone(&control)).map_err(|error| (FAILED, error))?;
    let start = UNIX_EPOCH + Duration::from_nanos(asked.start_at_unix_ns);
    let mut unsent = None;
    let begin = || {
        wait_for(start, &control)?;
        let now = SystemTime::now();
        let since = |earlier| now.duration_since(earlier).unwrap_or_default();
        let told = json!({
            "pid": std::process::id(),
            "unix_ns": since(UNIX_EPOCH).as_nanos() as u64,
            "late_s": since(start).as_secs_f64(),
        });
        frames.send(frames::STARTED, told.to_string().into_bytes())
    };
    let second = |windows| {
        if let Err(error) = frames.send(frames::WINDOWS, windows) {
            // There is nobody to measure for.
            unsent.get_or_insert(error);
            control.interrupt();
        }
    };
    let reports = run_share(&plan, &control, &share, begin, second);
    match (unsent, reports) {
        (Some(error), _) => Err((FAILED, error)),
        (None, Ok(reports)) => Ok(reports),
        (None, Err(error)) if control.was_interrupted() => Err((INTERRUPTED, error.to_string())),
        (None, Err(error)) => Err((FAILED, error.to_string())),
    }
}

/// Returns at `start`, and not later than it can; an error where that has passed, or the run is to end.
fn wait_for(start: SystemTime, control: &Control) -> Result<(), String> {
    let left = match start.duration_since(SystemTime::now()) {
        Ok(left) if left <= SOON => left,
        Ok(left) => {
            return Err(format!(
                "the run is to begin in {} s by this machine's clock, which is too long to wait: is the clock right?",
                left.as_secs()
            ));
        }
        Err(passed) => {
            return Err(format!(
                "the run was to begin {:.3} s ago by this machine's clock, and is not begun late",
                passed.duration().as_secs_f64()
            ));
        }
    };
    let mut left = Some(left);
    while let Some(rest) = left.filter(|rest| !rest.is_zero()) {
        if control.was_interrupted() {
            return Err("the run was interrupted before it began".to_owned());
        }
        thread::sleep(rest.min(LOOK));
        left = start.duration_since(SystemTime::now()).ok();
    }
    Ok(())
}

/// Has the end of stdin end the run, with its reports.
fn end_with_stdin(control: Arc<Control>) -> Result<(), String> {
    let wait = move || {
        let mut stdin = io::stdin().lock();
        let mut unread = [0; 1024];
        while let Ok(1..) = stdin.read(&mut unread) {}
        control.interrupt();
    };
    let thread = thread::Builder::new().name("stdin".into()).spawn(wait);
    thread
        .map(drop)
        .map_err(|error| format!("cannot start a thread: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_begins_at_its_time_or_not_at_all() {
        let (control, now) = (Control::new(), SystemTime::now());
        let told = wait_for(now - Duration::from_millis(1500), &control).unwrap_err();
        assert!(told.contains("1.5") && told.contains("ago"), "{told}");
        let told = wait_for(now + Duration::from_secs(86_400), &control).unwrap_err();
        assert!(told.contains("clock right"), "{told}");
        let start = SystemTime::now() + Duration::from_millis(120);
        wait_for(start, &control).unwrap();
        assert!(SystemTime::now() >= start);
        control.interrupt();
        let start = SystemTime::now() + Duration::from_secs(60);
        let told = wait_for(start, &control).unwrap_err();
        assert!(told.contains("interrupted before"), "{told}");
    }
}
