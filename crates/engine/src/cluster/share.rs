//! One machine's part of a run.

use std::mem;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::assemble::{Machine, measured_since};
use crate::control::Control;
use crate::plan::Plan;
use crate::record::{Window, Windows};
use crate::run::{Brought, RunError, carry_out};
use crate::second::SecondOut;
use crate::worker::Report;

/// Which of the threads of a plan one machine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share(pub(super) Range<usize>);

impl Share {
    /// `count` threads from the one with the number `first` on, of those of `plan`.
    pub fn new(first: usize, count: usize, plan: &Plan) -> Result<Self, RunError> {
        match first.checked_add(count) {
            Some(end) if count > 0 && end <= plan.threads => Ok(Self(first..end)),
            _ => Err(RunError::new(format!(
                "a share of {count} threads from {first} on is none of a plan with {} threads (0 to {})",
                plan.threads,
                plan.threads - 1
            ))),
        }
    }

    /// How many threads it has.
    pub fn threads(&self) -> usize {
        self.0.len()
    }
}

/// What stands before the reports of a machine's threads.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) machine: Machine,
    /// When the measured part began, on the clock of the reports.
    pub(super) measured_since: u64,
}

/// Carries out a share of `plan` on this machine: what there is to prepare, then, when `begin` returns, the run.
/// `second` is handed the windows of each second of the measured part, of all threads of the share together, and the
/// reports of the threads are returned; both are for [`super::Gather`].
pub fn run_share(
    plan: &Plan,
    control: &Control,
    share: &Share,
    begin: impl FnOnce() -> Result<(), String>,
    mut second: impl FnMut(Vec<u8>),
) -> Result<Vec<u8>, RunError> {
    let mut windows = Windows::new();
    let mut failed = None;
    let mut hand_over = |windows: Windows| match postcard::to_stdvec(&windows) {
        Ok(bytes) => second(bytes),
        Err(error) => {
            failed = Some(control.fail(unwritten(error)));
        }
    };
    let each = |window: Window| {
        windows.push(window.sparse());
        if (window.index as u64 + 1).is_multiple_of(SecondOut::WINDOWS) {
            hand_over(mem::take(&mut windows));
        }
    };
    let begin = || begin().map_err(RunError::new);
    let brought = carry_out(plan, control, share.0.clone(), begin, each)?;
    if !windows.is_empty() {
        hand_over(windows);
    }
    match failed {
        Some(error) => Err(error),
        None => encode(share, brought),
    }
}

/// What a machine sends at the end.
pub(super) fn encode(share: &Share, brought: Brought) -> Result<Vec<u8>, RunError> {
    let Brought { reports, machine } = brought;
    let head = Head {
        first: share.0.start,
        count: share.threads(),
        machine,
        measured_since: measured_since(&reports),
    };
    let mut bytes = postcard::to_stdvec(&head).map_err(unwritten)?;
    for report in reports {
        bytes = postcard::to_extend::<Report, _>(&report, bytes).map_err(unwritten)?;
    }
    Ok(bytes)
}

fn unwritten(error: postcard::Error) -> RunError {
    RunError::new(format!(
        "what was measured cannot be written for another machine: {error}"
    ))
}
