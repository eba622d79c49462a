//! Who looks after a connection while nobody waits for it.
//!
//! A caller may send requests and turn to something else. Their bytes must leave all the same, the
//! peer's PINGs want answers and QUIC has timers. One thread for all connections of the process does
//! this, a moment after the last caller has left, and sleeps while every connection is attended to.

use std::process;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::shared::Shared;

/// Requests that are sent one after the other leave together: the first waits this long.
const FLUSH_AFTER: Duration = Duration::from_millis(1);
/// How often a connection is looked after on which a response is due.
const VISIT_EVERY: Duration = Duration::from_millis(20);

/// Forks of forks that have a keeper; in those beyond, requests leave at once.
const GENERATIONS: usize = 32;

/// One for each process from the first that had one down to this: a fork inherits the list without
/// the thread, and perhaps its lock without the one who holds it.
static KEEPERS: [Keeper; GENERATIONS] = [const { Keeper::new() }; GENERATIONS];

struct Keeper {
    /// Whose thread serves the list; 0 where nobody's does.
    process: AtomicU32,
    /// Whether there can be no thread.
    absent: AtomicBool,
    visits: Mutex<Vec<Visit>>,
    news: Condvar,
}

struct Visit {
    connection: Weak<Shared>,
    due: Instant,
}

/// Has the connection visited soon, and as long as responses are due. False where there can be no
/// thread for it.
pub(crate) fn look_after(connection: &Arc<Shared>) -> bool {
    let Some(keeper) = keeper() else {
        return false;
    };
    keeper.lock().push(Visit {
        connection: Arc::downgrade(connection),
        due: Instant::now() + FLUSH_AFTER,
    });
    keeper.news.notify_one();
    true
}

/// The keeper of this process, with its thread.
fn keeper() -> Option<&'static Keeper> {
    let process = process::id();
    let keeper = KEEPERS.iter().find(|keeper| keeper.claim(process))?;
    (!keeper.absent.load(Relaxed)).then_some(keeper)
}

impl Keeper {
    const fn new() -> Self {
        Self {
            process: AtomicU32::new(0),
            absent: AtomicBool::new(false),
            visits: Mutex::new(Vec::new()),
            news: Condvar::new(),
        }
    }

    /// Whether this is the process's, which takes it where nobody has. No lock: there may be a fork
    /// at any moment.
    fn claim(&'static self, process: u32) -> bool {
        match self.process.compare_exchange(0, process, Relaxed, Relaxed) {
            Ok(_) => {
                let thread = thread::Builder::new().name("trilane-keeper".into());
                let started = thread.spawn(|| self.serve());
                self.absent.store(started.is_err(), Relaxed);
                true
            }
            Err(owner) => owner == process,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Visit>> {
        self.visits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut visits = self.lock();
        loop {
            let now = Instant::now();
            let (due, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut *visits)
                .into_iter()
                .partition(|visit| visit.due <= now);
            *visits = rest;
            if due.is_empty() {
                visits = match visits.iter().map(|visit| visit.due).min() {
                    None => self
                        .news
                        .wait(visits)
                        .unwrap_or_else(PoisonError::into_inner),
                    Some(next) => {
                        let rest = next.saturating_duration_since(now);
                        let woken = self.news.wait_timeout(visits, rest);
                        woken.unwrap_or_else(PoisonError::into_inner).0
                    }
                };
                continue;
            }
            drop(visits);
            let again: Vec<_> = due
                .into_iter()
                .filter(|visit| visit.connection.upgrade().is_some_and(|c| c.visit()))
                .map(|visit| Visit {
                    due: Instant::now() + VISIT_EVERY,
                    ..visit
                })
                .collect();
            visits = self.lock();
            visits.extend(again);
        }
    }
}
