//! Who looks after a connection while nobody waits for it.
//!
//! A caller may send requests and turn to something else. Their bytes must leave all the same, the
//! peer's PINGs want answers and QUIC has timers. One thread for all connections of the process does
//! this, a moment after the last caller has left, and sleeps while every connection is attended to.

use std::process;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::connection::Shared;

/// Requests that are sent one after the other leave together: the first waits this long.
const FLUSH_AFTER: Duration = Duration::from_millis(1);
/// How often a connection is looked after on which a response is due.
const VISIT_EVERY: Duration = Duration::from_millis(20);

static KEEPER: Keeper = Keeper {
    list: Mutex::new(List {
        visits: Vec::new(),
        process: 0,
    }),
    news: Condvar::new(),
};

struct Keeper {
    list: Mutex<List>,
    news: Condvar,
}

struct List {
    visits: Vec<Visit>,
    /// The process whose thread serves the list: a fork inherits the list without the thread.
    process: u32,
}

struct Visit {
    connection: Weak<Shared>,
    due: Instant,
}

/// Has the connection visited soon, and as long as responses are due. False where there can be no
/// thread for it.
pub(crate) fn look_after(connection: &Arc<Shared>) -> bool {
    let mut list = KEEPER.list.lock().unwrap_or_else(PoisonError::into_inner);
    if list.process != process::id() {
        list.visits.clear();
        let started = thread::Builder::new()
            .name("trilane-keeper".into())
            .spawn(serve);
        if started.is_err() {
            return false;
        }
        list.process = process::id();
    }
    list.visits.push(Visit {
        connection: Arc::downgrade(connection),
        due: Instant::now() + FLUSH_AFTER,
    });
    drop(list);
    KEEPER.news.notify_one();
    true
}

fn serve() {
    let mut list = KEEPER.list.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let now = Instant::now();
        let (due, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut list.visits)
            .into_iter()
            .partition(|visit| visit.due <= now);
        list.visits = rest;
        if due.is_empty() {
            let next = list.visits.iter().map(|visit| visit.due).min();
            list = match next {
                None => KEEPER
                    .news
                    .wait(list)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(next) => {
                    let rest = next.saturating_duration_since(now);
                    let (list, _) = KEEPER
                        .news
                        .wait_timeout(list, rest)
                        .unwrap_or_else(PoisonError::into_inner);
                    list
                }
            };
            continue;
        }
        drop(list);
        let again: Vec<_> = due
            .into_iter()
            .filter(|visit| visit.connection.upgrade().is_some_and(|c| c.visit()))
            .map(|visit| Visit {
                due: Instant::now() + VISIT_EVERY,
                ..visit
            })
            .collect();
        list = KEEPER.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.visits.extend(again);
    }
}
