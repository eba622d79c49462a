//! The services of upstreams, asked for again while they are served: a server that was started anew may have
//! others, and at SIGHUP they are read again from wherever they came.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use trilane_engine::PlanError;
use trilane_grpc::Schema;
use trilane_serve::{Error, ServiceConfig, Switch, backoff};

use super::{Files, ForwardArgs, services_of, together};
use crate::tell;

/// An upstream is asked no more often than this: a server that ends each connection would be asked for
/// ever.
const REST: Duration = Duration::from_secs(1);
/// How many times other services are read until they are read alike twice in a row.
const READS: usize = 5;

/// What asks the upstreams again.
pub(crate) struct Reread {
    args: ForwardArgs,
    files: Files,
    /// What each upstream said last.
    schemas: Vec<Schema>,
    /// The rules of service configuration files.
    config: ServiceConfig,
    /// The numbers of upstreams that have ended a connection, or are there again, or are to be asked at SIGHUP.
    signal: Receiver<usize>,
    asked: Sender<usize>,
    /// Whether SIGHUP has come: the files are to be read again, too.
    hung_up: Arc<AtomicBool>,
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
        config: ServiceConfig,
        (asked, signal): (Sender<usize>, Receiver<usize>),
    ) -> Self {
        Self {
            args,
            files,
            schemas,
            config,
            signal,
            asked,
            hung_up: Arc::default(),
        }
    }

    /// Asks from a thread of its own, until the process ends. What comes of it goes to stderr, in the name
    /// of `command`, and to the server. What is returned has all of them asked again.
    pub(crate) fn start(
        self,
        command: &'static str,
        switch: Switch,
    ) -> Result<Box<dyn Fn()>, Error> {
        let (asked, hung_up) = (self.asked.clone(), Arc::clone(&self.hung_up));
        let upstreams = self.schemas.len();
        thread::Builder::new()
            .name("reflection".into())
            .spawn(move || self.run(command, &switch))
            .map_err(Error::System)?;
        Ok(Box::new(move || {
            hung_up.store(true, SeqCst);
            for number in 0..upstreams {
                // The thread lives as long as the process.
                let _ = asked.send(number);
            }
        }))
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
                let hung_up = self.hung_up.swap(false, SeqCst);
                match self.ask(number, switch, hung_up) {
                    Ok(changed) => {
                        turn.failures = 0;
                        turn.at = later(every);
                        let url = &self.args.upstream[number].text;
                        match changed {
                            Some(names) if hung_up => tell(format_args!(
                                "{command}: SIGHUP: the services were read again; {url} has {names}"
                            )),
                            Some(names) => tell(format_args!(
                                "{command}: {url} has other services than before: {names}"
                            )),
                            None => (),
                        }
                    }
                    Err(error) => {
                        if hung_up {
                            self.hung_up.store(true, SeqCst);
                        }
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

    /// Asks one upstream, or the files that stand for it. Where its services are not as they were, and where SIGHUP
    /// has come, they are served as they are now, and returned.
    fn ask(
        &mut self,
        number: usize,
        switch: &Switch,
        hung_up: bool,
    ) -> Result<Option<String>, PlanError> {
        let address = &self.args.upstream[number];
        let describe = || {
            let source = self.args.source();
            self.args.describe(address, &source, &self.files)
        };
        let schema = settled(&self.schemas[number], describe)?;
        let config = match hung_up {
            true => self.args.config()?,
            false => self.config.clone(),
        };
        if !hung_up && files_of(&schema) == files_of(&self.schemas[number]) {
            return Ok(None);
        }
        let own = services_of(&schema).join(", ");
        let mut schemas = self.schemas.clone();
        schemas[number] = schema;
        let names = self.args.services(&schemas)?;
        let all = together(&schemas, &names)?;
        switch
            .put(&all, &names, &config)
            .map_err(|error| PlanError::Environment(error.to_string()))?;
        (self.schemas, self.config) = (schemas, config);
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

/// What `describe` reads: as before, or the same twice in a row. Reflection is several calls, and a server whose
/// services change between them answers some as it was and some as it is.
fn settled(
    before: &Schema,
    mut describe: impl FnMut() -> Result<Schema, PlanError>,
) -> Result<Schema, PlanError> {
    let mut known = files_of(before);
    for _ in 0..READS {
        let schema = describe()?;
        let files = files_of(&schema);
        if files == known {
            return Ok(schema);
        }
        known = files;
    }
    Err(PlanError::Environment(format!(
        "they were read {READS} times, and were others each time"
    )))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(services: &[&str]) -> Schema {
        let folder = tempfile::tempdir().unwrap();
        let paths = services.iter().map(|name| {
            let path = folder.path().join(format!("{name}.proto"));
            let text = format!(
                r#"syntax = "proto3"; package {name}; message M {{}} service S {{ rpc R(M) returns (M); }}"#
            );
            std::fs::write(&path, text).unwrap();
            path
        });
        Schema::from_proto(&paths.collect::<Vec<_>>(), &[]).unwrap()
    }

    #[test]
    fn services_that_change_while_they_are_read_are_read_again() {
        let before = of(&["old", "both"]);
        // Listed as it was, described as it is.
        let reads = [of(&["both"]), of(&["both", "new"]), of(&["both", "new"])];
        let mut left = reads.iter();
        let read = settled(&before, || Ok(left.next().unwrap().clone())).unwrap();
        assert_eq!(services_of(&read), ["both.S", "new.S"]);
        assert!(left.next().is_none());

        let mut left = [before.clone()].into_iter();
        let read = settled(&before, || Ok(left.next().unwrap())).unwrap();
        assert_eq!(files_of(&read), files_of(&before));

        let mut turns = [of(&["both"]), of(&["new"])].into_iter().cycle();
        let error = settled(&before, || Ok(turns.next().unwrap())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "they were read 5 times, and were others each time"
        );
    }
}
