//! `--cluster-gather`: adds up what the machines of a run send. Frames come on stdin, from the Python command, which
//! has them of the machines.

use std::io::{self, BufReader, Read, StdinLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::getppid;
use serde::Deserialize;
use trilane_engine::{Control, Gather, Member, Outcome, Plan, Watch};
use trilane_serve::Signals;

use super::frames::{self, Frame};
use crate::{FAILED, INVALID, complain};

/// How often it is looked whether a key has ended the run.
const LOOK: Duration = Duration::from_millis(50);

/// The machines of a run, and what they send.
pub(crate) struct Members {
    members: Vec<Member>,
    frames: BufReader<StdinLock<'static>>,
}

#[derive(Debug, Deserialize)]
struct Beginning {
    workers: Vec<Member>,
}

#[derive(Debug, Deserialize)]
struct Started {
    late_s: f64,
}

#[derive(Debug, Deserialize)]
struct Error {
    message: String,
    exit_code: u8,
}

#[derive(Debug, Deserialize)]
struct Lost {
    reason: String,
}

impl Members {
    /// Threads of all of them.
    pub(crate) fn threads(&self) -> usize {
        let each = self.members.iter().map(|member| member.count);
        each.fold(0, usize::saturating_add)
    }
}

/// Waits for the first frame, which says who takes part.
pub(crate) fn members() -> Result<Members, String> {
    let mut frames = BufReader::new(io::stdin().lock());
    let members = beginning(&mut frames)?;
    Ok(Members { members, frames })
}

fn beginning(frames: &mut impl Read) -> Result<Vec<Member>, String> {
    let frame = frames::read(frames)?;
    let Some(frame) = frame.filter(|frame| frame.kind == frames::MEMBERS) else {
        return Err("--cluster-gather: who takes part has to come first".to_owned());
    };
    let Beginning { workers } = serde_json::from_slice(&frame.rest)
        .map_err(|error| format!("--cluster-gather: who takes part cannot be read: {error}"))?;
    if workers.is_empty() {
        return Err("--cluster-gather: nobody takes part".to_owned());
    }
    Ok(workers)
}

/// From now on no signal ends this process: its frames do, whatever the terminal sends to all that run in it.
pub(crate) fn ignore_signals() {
    let caught = Signals::catch_but_interrupt().and_then(|signals| signals.tell_each(|| ()));
    let interrupt = ctrlc::set_handler(|| ());
    if let Some(error) = caught.err() {
        complain(format!(
            "SIGTERM and SIGHUP will end the command without a report: {error}"
        ));
    }
    if let Err(error) = interrupt {
        complain(format!(
            "Ctrl-C will end the command without a report: {error}"
        ));
    }
}

/// Adds up what the machines send until each has ended, or there is no more; where nothing came of the run, its exit
/// code and why.
pub(crate) fn gather<'p>(
    plan: &'p Plan,
    control: &'p Arc<Control>,
    members: Members,
    watch: Watch<'p>,
) -> Result<Outcome, (u8, String)> {
    let Members {
        members,
        mut frames,
    } = members;
    let gather = Gather::new(plan, control, members, Some(watch))
        .map_err(|error| (FAILED, format!("--cluster-gather: {error}")))?;
    let over = Arc::new(AtomicBool::new(false));
    let passed_on = pass_on_key(control, &over);
    let outcome = add_up(gather, &mut frames);
    over.store(true, Ordering::Relaxed);
    if let Ok(thread) = passed_on {
        // One that panicked is no reason to lose the result.
        let _ = thread.join();
    }
    outcome
}

/// Takes frames until all machines have ended, or there are no more.
fn add_up(mut gather: Gather<'_>, frames: &mut impl Read) -> Result<Outcome, (u8, String)> {
    let mut code = None;
    while !gather.is_over() {
        let frame = match frames::read(frames) {
            Ok(Some(frame)) if frame.worker < gather.workers() => frame,
            Ok(None) => break,
            other => {
                let why = match other {
                    Err(why) => why,
                    Ok(_) => "a message came from a worker that takes no part".to_owned(),
                };
                complain(&why);
                (0..gather.workers()).for_each(|worker| gather.lost(worker, &why));
                break;
            }
        };
        if let Some(failed) = take(&mut gather, frame) {
            code.get_or_insert(failed);
        }
    }
    gather
        .finish()
        .map_err(|error| (code.unwrap_or(FAILED), error.to_string()))
}

/// Takes one frame; the exit code of a machine that has failed with it.
fn take(gather: &mut Gather<'_>, frame: Frame) -> Option<u8> {
    let Frame { worker, kind, rest } = frame;
    match kind {
        frames::WINDOWS => gather.windows(worker, &rest),
        frames::REPORTS => gather.reports(worker, &rest),
        frames::STARTED => match serde_json::from_slice(&rest) {
            Ok(Started { late_s }) => gather.begun(worker, late_s),
            Err(error) => gather.lost(worker, &unreadable("when it began", &error)),
        },
        frames::ERROR => match serde_json::from_slice(&rest) {
            Ok(Error { message, exit_code }) => {
                gather.lost(worker, &message);
                return Some(exit_code);
            }
            Err(error) => gather.lost(worker, &unreadable("an error", &error)),
        },
        frames::LOST => match serde_json::from_slice(&rest) {
            Ok(Lost { reason }) => {
                gather.lost(worker, &reason);
                // Where nothing had come of it, the run is as invalid as one of which something had.
                return Some(INVALID);
            }
            Err(error) => gather.lost(worker, &unreadable("why it was lost", &error)),
        },
        other => gather.lost(
            worker,
            &format!("it sent a message of unknown kind {other}"),
        ),
    }
    None
}

fn unreadable(what: &str, error: &serde_json::Error) -> String {
    format!("it sent {what} that cannot be read: {error}")
}

/// Where a key of `--live` ends the run, whoever started this process is told by SIGINT: it ends the machines.
fn pass_on_key(
    control: &Arc<Control>,
    over: &Arc<AtomicBool>,
) -> io::Result<thread::JoinHandle<()>> {
    let (control, over, parent) = (Arc::clone(control), Arc::clone(over), getppid());
    thread::Builder::new().name("key".into()).spawn(move || {
        while !over.load(Ordering::Relaxed) {
            if control.was_interrupted() {
                // Another parent is whoever took this process over.
                if getppid() == parent {
                    let _ = kill(parent, Signal::SIGINT);
                }
                return;
            }
            thread::sleep(LOOK);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, rest: &str) -> Vec<u8> {
        let length = (3 + rest.len()) as u32;
        [&length.to_le_bytes()[..], &[0, 0, kind], rest.as_bytes()].concat()
    }

    #[test]
    fn a_run_whose_machines_are_lost_before_they_told_anything_is_invalid() {
        let plan = Plan::new(&trilane_engine::Options {
            urls: vec!["http://a.example".into()],
            ..trilane_engine::Options::default()
        })
        .unwrap();
        let ended = |last: &[u8]| {
            let control = Control::new();
            let one = serde_json::json!({"name": "w", "host": "h", "first": 0, "count": 1});
            let members = vec![serde_json::from_value(one).unwrap()];
            let gather = Gather::new(&plan, &control, members, None).unwrap();
            add_up(gather, &mut &last[..]).unwrap_err().0
        };
        assert_eq!(
            ended(&frame(
                frames::LOST,
                r#"{"reason": "the scheduler was lost"}"#
            )),
            INVALID
        );
        let failed = r#"{"message": "no route", "exit_code": 1}"#;
        assert_eq!(ended(&frame(frames::ERROR, failed)), FAILED);
    }

    #[test]
    fn who_takes_part_comes_first() {
        let told = |bytes: &[u8]| beginning(&mut &bytes[..]).map(|members| members.len());
        let one =
            r#"{"workers": [{"name": "w0", "host": "a", "first": 0, "count": 2, "more": 1}]}"#;
        assert_eq!(told(&frame(frames::MEMBERS, one)), Ok(1));
        for (bytes, why) in [
            (frame(frames::STARTED, "{}"), "has to come first"),
            (Vec::new(), "has to come first"),
            (frame(frames::MEMBERS, "{"), "cannot be read"),
            (frame(frames::MEMBERS, r#"{"workers": []}"#), "nobody"),
        ] {
            let told = told(&bytes).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }
}
