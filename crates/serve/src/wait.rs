//! When a server that runs as a command has to end.

use std::{
    io::{self, Read},
    process, thread,
    time::Duration,
};

use tokio::{
    runtime,
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
    time,
};

use crate::Error;

/// What ends it, besides SIGINT and SIGTERM.
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
    /// SIGINT or SIGTERM. From now on, a second one ends the process at once.
    Signal,
    /// The time was over.
    Time,
    /// Standard input was closed.
    Stdin,
}

/// Catches SIGINT and SIGTERM from the moment it is made.
pub struct Signals {
    runtime: runtime::Runtime,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// To be called before anybody is told that the server is ready.
    pub fn catch() -> Result<Self, Error> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Error::System)?;
        let (interrupt, terminate) = {
            let _inside = runtime.enter();
            (
                signal(SignalKind::interrupt()).map_err(Error::System)?,
                signal(SignalKind::terminate()).map_err(Error::System)?,
            )
        };
        Ok(Self {
            runtime,
            interrupt,
            terminate,
        })
    }

    /// Blocks until there is a reason to stop. A signal after that ends the process.
    pub fn wait(mut self, when: StopWhen) -> Result<Stop, Error> {
        let (closed, is_closed) = oneshot::channel();
        if when.stdin_closed {
            thread::Builder::new()
                .name("serve-stdin".into())
                .spawn(move || {
                    read_to_end();
                    // The server may have stopped for another reason.
                    let _ = closed.send(());
                })
                .map_err(Error::System)?;
        }
        let stop = self.runtime.block_on(async {
            tokio::select! {
                () = next(&mut self.interrupt, &mut self.terminate) => Stop::Signal,
                () = time::sleep(when.after.unwrap_or_default()), if when.after.is_some() => Stop::Time,
                _ = is_closed, if when.stdin_closed => Stop::Stdin,
            }
        });
        // Stopping may take a while; who signals again does not want to wait.
        thread::Builder::new()
            .name("serve-signals".into())
            .spawn(move || {
                self.runtime
                    .block_on(next(&mut self.interrupt, &mut self.terminate));
                process::exit(EXIT_INTERRUPTED);
            })
            .map_err(Error::System)?;
        Ok(stop)
    }
}

async fn next(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// What a shell reports for a program ended by SIGINT.
const EXIT_INTERRUPTED: i32 = 130;

fn read_to_end() {
    let mut input = io::stdin().lock();
    let mut bytes = [0; 256];
    loop {
        match input.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
