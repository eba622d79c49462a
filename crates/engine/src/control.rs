//! The strings by which the caller holds a run, and the workers hold each other.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::run::RunError;

/// Shared by the caller and the workers of one run. Workers touch it ten times a second.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    interrupted: AtomicBool,
    established: AtomicU64,
    /// When the first connection was ready, in nanoseconds, plus one; 0 before.
    begun: AtomicU64,
    ok: AtomicU64,
    failed: AtomicU64,
    fatal: Mutex<Option<RunError>>,
}

/// Counts for a live display, of the warm-up too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Whether any connection has been ready.
    pub connected: bool,
    /// Responses that passed.
    pub ok: u64,
    /// Requests that failed.
    pub failed: u64,
}

impl Control {
    /// A handle for one run.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the run soon; its partial outcome is still reported. Safe in a signal handler's thread.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether [`Self::interrupt`] was called.
    pub fn was_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// The counts so far.
    pub fn progress(&self) -> Progress {
        Progress {
            connected: self.has_connected(),
            ok: self.ok.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Ends the run for every worker because of `error`, and hands it back.
    pub(crate) fn fail(&self, error: RunError) -> RunError {
        if let Ok(mut fatal) = self.fatal.lock() {
            fatal.get_or_insert_with(|| error.clone());
        }
        self.stop.store(true, Ordering::Relaxed);
        error
    }

    pub(crate) fn fatal(&self) -> Option<RunError> {
        self.fatal.lock().ok()?.clone()
    }

    pub(crate) fn connection_established(&self) {
        self.established.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn has_connected(&self) -> bool {
        self.established.load(Ordering::Relaxed) > 0
    }

    /// When the run began: at the first connection that was ready. `mine` is when the caller's first
    /// was.
    pub(crate) fn begun(&self, mine: Option<u64>) -> Option<u64> {
        let begun = match mine {
            None => self.begun.load(Ordering::Relaxed),
            Some(now) => {
                let (old, new) = (0, now.saturating_add(1));
                let set =
                    self.begun
                        .compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed);
                set.map_or_else(|earlier| earlier, |_| new)
            }
        };
        begun.checked_sub(1)
    }

    pub(crate) fn publish(&self, ok: u64, failed: u64) {
        self.ok.fetch_add(ok, Ordering::Relaxed);
        self.failed.fetch_add(failed, Ordering::Relaxed);
    }
}
