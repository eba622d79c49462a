//! The services of upstreams, asked again while they are served: a server that was started anew may have
//! others.

use std::{
    collections::BTreeMap,
    sync::mpsc::{Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use trilane_engine::PlanError;
use trilane_grpc::Schema;
use trilane_serve::{Error, Switch, backoff};

use super::{Files, ForwardArgs, services_of, together};
use crate::{schema::Source, tell};

/// An upstream is asked no more often than this: a server that ends each connection would be asked for
/// ever.
const REST: Duration = Duration::from_secs(1);

/// What asks the upstreams again.
pub(crate) struct Reread {
    args: ForwardArgs,
    files: Files,
    /// What each upstream said last.
    schemas: Vec<Schema>,
    /// The numbers of upstreams that have ended a connection, or are there again.
    signal: Receiver<usize>,
}

/// When an upstream is to be asked again.
#[derive(Clone, Copy)]
struct Turn {
    at: Option<Instant>,
    asked: Option<Instant>,
    failures: u32,
}

impl Reread {
    pub(super) fn new(
        args: ForwardArgs,
        files: Files,
        schemas: Vec<Schema>,
        signal: Receiver<usize>,
    ) -> Self {
        Self {
            args,
            files,
            schemas,
            signal,
        }
    }

    /// Asks from a thread of its own, until the process ends. What comes of it goes to stderr, in the name
    /// of `command`, and to the server.
    pub(crate) fn start(self, command: &'static str, switch: Switch) -> Result<(), Error> {
        thread::Builder::new()
            .name("reflection".into())
            .spawn(move || self.run(command, &switch))
            .map_err(Error::System)?;
        Ok(())
    }

    fn run(mut self, command: &str, switch: &Switch) {
        let every = self.args.reflect_every;
        let mut turns: Vec<Turn> = (self.schemas.iter())
            .map(|_| Turn {
                at: later(every),
                asked: None,
                failures: 0,
            })
            .collect();
        loop {
            let next = turns.iter().filter_map(|turn| turn.at).min();
            let signal = match next {
                Some(at) => self
                    .signal
                    .recv_timeout(at.saturating_duration_since(Instant::now())),
                None => self
                    .signal
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected),
            };
            match signal {
                Ok(number) => {
                    if let Some(turn) = turns.get_mut(number) {
                        turn.come();
                    }
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = Instant::now();
            for (number, turn) in turns.iter_mut().enumerate() {
                if turn.at.is_none_or(|at| at > now) {
                    continue;
                }
                turn.asked = Some(now);
                match self.ask(number, switch) {
                    Ok(changed) => {
                        turn.failures = 0;
                        turn.at = later(every);
                        if let Some(names) = changed {
                            let url = &self.args.upstream[number].text;
                            tell(format_args!(
                                "{command}: {url} has other services than before: {names}"
                            ));
                        }
                    }
                    Err(error) => {
                        // Once for each time that it is away.
                        if turn.failures == 0 {
                            let url = &self.args.upstream[number].text;
                            tell(format_args!(
                                "{command}: the services of {url} stay as they were, since they cannot be \
                                 asked for again: {error}"
                            ));
                        }
                        turn.failures = turn.failures.saturating_add(1);
                        turn.at = later(Some(backoff::after(turn.failures)));
                    }
                }
            }
        }
    }

    /// Asks one upstream. Where its services are not as they were, they are served as they are now, and
    /// returned.
    fn ask(&mut self, number: usize, switch: &Switch) -> Result<Option<String>, PlanError> {
        let address = &self.args.upstream[number];
        let schema = self
            .args
            .describe(address, &Source::Reflection, &self.files)?;
        if files_of(&schema) == files_of(&self.schemas[number]) {
            return Ok(None);
        }
        let own = services_of(&schema).join(", ");
        let mut schemas = self.schemas.clone();
        schemas[number] = schema;
        let names = self.args.services(&schemas)?;
        let all = together(&schemas, &names)?;
        switch
            .put(&all, &names)
            .map_err(|error| PlanError::Environment(error.to_string()))?;
        self.schemas = schemas;
        Ok(Some(own))
    }
}

impl Turn {
    /// Something has happened: it is asked at once, or when it has had its rest.
    fn come(&mut self) {
        let now = Instant::now();
        let at = self.asked.map_or(now, |asked| now.max(asked + REST));
        self.at = Some(self.at.map_or(at, |planned| planned.min(at)));
    }
}

fn later(time: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(time?)
}

/// The files of a schema by name, whatever their order.
fn files_of(schema: &Schema) -> BTreeMap<String, Vec<u8>> {
    let files = schema.pool().files();
    files
        .map(|file| (file.name().to_owned(), file.encode_to_vec()))
        .collect()
}
