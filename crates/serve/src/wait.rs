//! When a command has to end.

use std::{
    fs, future,
    io::{self, Read},
    process,
    task::Poll,
    thread,
    time::Duration,
};

use tokio::{
    runtime,
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
    time,
};

use crate::Error;

/// What ends it, besides a signal.
#[derive(Clone, Copy, Debug, Default)]
pub struct StopWhen {
    /// After this time.
    pub after: Option<Duration>,
    /// When standard input ends, as it does when the parent process dies.
    pub stdin_closed: bool,
}

/// What ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// SIGINT, SIGTERM or SIGHUP. From now on, a second signal ends the process at once.
    Signal,
    /// The time was over.
    Time,
    /// Standard input was closed.
    Stdin,
}

/// Catches SIGINT, SIGTERM and, unless whoever started the process has it ignored as `nohup` does,
/// SIGHUP, from the moment it is made.
pub struct Signals {
    runtime: runtime::Runtime,
    signals: Vec<Signal>,
    hangup: Option<Signal>,
    /// Whether there was a terminal when they were caught.
    had_terminal: bool,
}

impl Signals {
    /// To be called before anybody is told that the server is ready.
    pub fn catch() -> Result<Self, Error> {
        Self::catch_also(Some(SignalKind::interrupt()))
    }

    /// SIGTERM and SIGHUP alone. Where the process has handlers of its own, they are called too:
    /// Python's would end a load at SIGINT before its report is printed.
    pub fn catch_but_interrupt() -> Result<Self, Error> {
        Self::catch_also(None)
    }

    fn catch_also(interrupt: Option<SignalKind>) -> Result<Self, Error> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Error::System)?;
        let kinds = [interrupt, Some(SignalKind::terminate())];
        let (signals, hangup) = {
            let _inside = runtime.enter();
            let caught = kinds.into_iter().flatten().map(signal);
            let hangup = (!ignores_hangup()).then(|| signal(SignalKind::hangup()));
            let caught = caught.collect::<Result<_, _>>().map_err(Error::System)?;
            (caught, hangup.transpose().map_err(Error::System)?)
        };
        Ok(Self {
            runtime,
            signals,
            hangup,
            had_terminal: has_terminal(),
        })
    }

    /// Calls `tell` at each signal, from a thread of its own.
    pub fn tell_each(mut self, tell: impl Fn() + Send + 'static) -> Result<(), Error> {
        let waiting = move || {
            loop {
                let next = next(&mut self.signals, &mut self.hangup);
                self.runtime.block_on(next);
                tell();
            }
        };
        let thread = thread::Builder::new().name("signals".into());
        thread.spawn(waiting).map_err(Error::System)?;
        Ok(())
    }

    /// Blocks until there is a reason to stop. A signal after that ends the process. Where `reread` is given,
    /// SIGHUP calls it and is no reason, unless the terminal has gone that the process was started at.
    pub fn wait(self, when: StopWhen, reread: Option<&dyn Fn()>) -> Result<Stop, Error> {
        self.wait_and_answer(when, reread, || {})
    }

    /// As [`Signals::wait`]; where the end of standard input is a reason to stop, calls `answer` for
    /// each line that comes there, from a thread of its own.
    pub fn wait_and_answer(
        mut self,
        when: StopWhen,
        reread: Option<&dyn Fn()>,
        answer: impl FnMut() + Send + 'static,
    ) -> Result<Stop, Error> {
        let (closed, is_closed) = oneshot::channel();
        if when.stdin_closed {
            thread::Builder::new()
                .name("serve-stdin".into())
                .spawn(move || {
                    read_to_end(answer);
                    // The server may have stopped for another reason.
                    let _ = closed.send(());
                })
                .map_err(Error::System)?;
        }
        let (signals, hangup) = (&mut self.signals, &mut self.hangup);
        let had_terminal = self.had_terminal;
        let signal = async {
            while next(signals, hangup).await {
                match reread {
                    Some(reread) if !had_terminal || has_terminal() => reread(),
                    _ => return,
                }
            }
        };
        let stop = self.runtime.block_on(async {
            tokio::select! {
                () = signal => Stop::Signal,
                () = time::sleep(when.after.unwrap_or_default()), if when.after.is_some() => Stop::Time,
                _ = is_closed, if when.stdin_closed => Stop::Stdin,
            }
        });
        // Stopping may take a while; who signals again does not want to wait.
        thread::Builder::new()
            .name("serve-signals".into())
            .spawn(move || {
                let next = next(&mut self.signals, &mut self.hangup);
                self.runtime.block_on(next);
                process::exit(EXIT_INTERRUPTED);
            })
            .map_err(Error::System)?;
        Ok(stop)
    }
}

/// Waits for the next signal, and says whether it is SIGHUP.
async fn next(signals: &mut [Signal], hangup: &mut Option<Signal>) -> bool {
    future::poll_fn(|context| {
        let mut came = |signal: &mut Signal| signal.poll_recv(context).is_ready();
        if signals.iter_mut().any(&mut came) {
            Poll::Ready(false)
        } else if hangup.as_mut().is_some_and(came) {
            Poll::Ready(true)
        } else {
            Poll::Pending
        }
    })
    .await
}

/// Whether the process has a terminal: the kernel takes it away when it hangs up.
fn has_terminal() -> bool {
    fs::File::open("/dev/tty").is_ok()
}

/// Whether the process was started with SIGHUP ignored: the lowest bit of the mask in `status`.
fn ignores_hangup() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 != 0)
}

/// What a shell reports for a program ended by SIGINT.
const EXIT_INTERRUPTED: i32 = 130;

fn read_to_end(mut line: impl FnMut()) {
    let mut input = io::stdin().lock();
    let mut bytes = [0; 256];
    loop {
        match input.read(&mut bytes) {
            Ok(0) => return,
            Ok(length) => {
                let ends = bytes[..length].iter().filter(|byte| **byte == b'\n');
                ends.for_each(|_| line());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
