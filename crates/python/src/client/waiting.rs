//! Waiting with the interpreter lock released, so that Ctrl-C still works.

use std::cell::Cell;
use std::time::Duration;

use pyo3::prelude::*;
use rustix::process::getpid;
use rustix::thread::gettid;
use trilane_client::{Connection, Error, Kind, Patience};

use super::errors;

/// How soon Ctrl-C is noticed by a thread that another one wakes: a signal interrupts only the wait
/// for a socket.
const SLICE: Duration = Duration::from_millis(50);
/// Timeouts from here on are none: 31 years, and far from the end of the clock.
const FOREVER: f64 = 1e9;

/// Runs Python's signal handlers during a wait, and keeps what they raise.
#[derive(Default)]
pub(super) struct Interrupt(Option<PyErr>);

impl Patience for Interrupt {
    fn exhausted(&mut self) -> bool {
        // Nobody is left to wait for when the interpreter is shutting down.
        let outcome = Python::try_attach(|py| py.check_signals());
        match outcome {
            Some(Ok(())) => false,
            Some(Err(raised)) => {
                self.0 = Some(raised);
                true
            }
            None => true,
        }
    }

    fn slice(&self) -> Option<Duration> {
        is_main().then_some(SLICE)
    }
}

/// Python runs signal handlers in its main thread alone: the one that started the process, or the one
/// that forked.
fn is_main() -> bool {
    thread_local! {
        /// Only remembered when true: then it stays so, also after a fork.
        static MAIN: Cell<bool> = const { Cell::new(false) };
    }
    MAIN.with(|main| {
        if !main.get() {
            main.set(gettid() == getpid());
        }
        main.get()
    })
}

/// Does what may wait, with the interpreter lock released.
pub(super) fn wait<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut dyn Patience) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let mut interrupt = Interrupt::default();
    let outcome = py.detach(|| work(&mut interrupt));
    outcome.map_err(|error| match interrupt.0 {
        Some(raised) if error.kind == Kind::Interrupted => raised,
        _ => errors::raised(py, &error),
    })
}

/// Does what does not wait for the socket. Releasing the interpreter lock costs more than most of it,
/// so that happens only where another thread is at work on the connection.
pub(super) fn quick<T: Send>(
    py: Python<'_>,
    connection: &Connection,
    work: impl FnOnce() -> T + Send,
) -> T {
    if connection.is_free() {
        work()
    } else {
        py.detach(work)
    }
}

/// Seconds as Python gives them.
pub(super) fn limit(py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Duration>> {
    match timeout {
        None => Ok(None),
        Some(seconds) if seconds >= FOREVER => Ok(None),
        Some(seconds) if seconds >= 0.0 => Ok(Some(Duration::from_secs_f64(seconds))),
        Some(seconds) => Err(errors::mistake(
            py,
            format!(
                "a timeout is a number of seconds from 0 on, not {seconds}: None waits for ever"
            ),
        )),
    }
}
