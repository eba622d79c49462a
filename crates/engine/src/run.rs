//! One run from plan to outcome.

use std::fmt;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::assemble::Machine;
use crate::context::Clock;
use crate::control::Control;
use crate::cost::MachineTime;
use crate::failure::FailureKind;
use crate::io;
use crate::outcome::{Outcome, SecondOut, WindowOut};
use crate::plan::{Model, Plan};
use crate::record::Window;
use crate::worker::{Report, Worker, places};

/// Why a run could not be made. Nothing was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunError {
    /// The kind of failure, where it was one of the network's.
    pub kind: Option<FailureKind>,
    message: String,
}

impl RunError {
    pub(crate) fn new(message: String) -> Self {
        Self {
            kind: None,
            message,
        }
    }

    pub(crate) fn from_connection(kind: FailureKind, message: String) -> Self {
        Self {
            kind: Some(kind),
            message,
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RunError {}

/// Carries out `plan` on as many threads as it names. Blocks until it has ended, by itself or by
/// [`Control::interrupt`].
pub fn run(plan: &Plan, control: &Control) -> Result<Outcome, RunError> {
    run_watched(plan, control, &mut |_| ())
}

/// As [`run`], and hands each second of the measurement to `watch` when it is over.
pub fn run_watched(
    plan: &Plan,
    control: &Control,
    watch: &mut dyn FnMut(&SecondOut),
) -> Result<Outcome, RunError> {
    raise_file_limit(plan.connections)?;
    let began = Instant::now();
    let addresses = plan
        .route
        .resolve(plan.connect_timeout.max(Duration::from_millis(100)))?;
    let dns = began.elapsed();
    let started_at = SystemTime::now();
    let machine_before = MachineTime::now();

    let clock = Clock(Instant::now());
    let (sender, receiver) = mpsc::channel();
    let (reports, windows) = thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.threads)
            .map(|index| {
                let (sender, addresses) = (sender.clone(), &addresses);
                thread::Builder::new()
                    .name(format!("worker-{index}"))
                    .spawn_scoped(scope, move || {
                        let system = pin(plan, index).and_then(|()| {
                            io::open(plan.io, places(plan, index)).map_err(RunError::new)
                        });
                        let report = system.and_then(|system| {
                            Worker::new(index, plan, control, addresses, clock, system, sender)
                                .run()
                        });
                        report.map_err(|error| control.fail(error))
                    })
            })
            .collect();
        drop(sender);
        let is_open_model = plan.model != Model::Closed;
        let windows = gather_windows(&receiver, plan.threads, is_open_model, watch);
        let reports: Vec<Result<Report, RunError>> = workers
            .into_iter()
            .map(|worker| match worker.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(report)) => report,
                Ok(Err(_)) => Err(RunError::new(
                    "a worker thread panicked: this is a defect of trilane, please report it"
                        .into(),
                )),
                Err(error) => Err(RunError::new(format!(
                    "cannot start a worker thread: {error}"
                ))),
            })
            .collect();
        (reports, windows)
    });
    let reports = match reports.into_iter().collect::<Result<Vec<_>, _>>() {
        Ok(reports) => reports,
        // The first error is the cause; the others' is that they were stopped.
        Err(error) => return Err(control.fatal().unwrap_or(error)),
    };
    let machine = Machine {
        started_at,
        dns,
        steal: machine_before
            .and_then(|before| Some(MachineTime::now()?.steal_since(before)))
            .unwrap_or(0.0),
        interrupted: control.was_interrupted(),
    };
    Ok(Outcome::new(plan, reports, windows, &machine))
}

/// Adds up the workers' windows as they are handed over, so that memory does not grow with the
/// length of the run: a window is reduced to a row when the last worker has delivered it.
fn gather_windows(
    receiver: &mpsc::Receiver<Window>,
    workers: usize,
    is_open_model: bool,
    watch: &mut dyn FnMut(&SecondOut),
) -> Vec<WindowOut> {
    let mut rows = Vec::new();
    let mut open: Vec<(Window, usize)> = Vec::new();
    let mut second = Second::default();
    for window in receiver {
        match open.iter_mut().find(|(sum, _)| sum.index == window.index) {
            Some((sum, count)) => {
                sum.add(&window);
                *count += 1;
            }
            None => open.push((window, 1)),
        }
        open.retain(|(sum, count)| {
            let complete = *count == workers;
            if complete {
                rows.push(WindowOut::new(sum, is_open_model));
                second.add(sum, watch);
            }
            !complete
        });
    }
    // Workers of a counted run end at different times.
    open.sort_by_key(|(sum, _)| sum.index);
    for (sum, _) in &open {
        rows.push(WindowOut::new(sum, is_open_model));
        second.add(sum, watch);
    }
    second.end(watch);
    rows.retain(|row| row.length_s >= 0.01 || row.ok + row.failed > 0);
    rows.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    rows
}

/// The windows of the present second, added up.
#[derive(Default)]
struct Second(Option<Window>);

impl Second {
    /// Adds a window; the first of the next second ends this one.
    fn add(&mut self, window: &Window, watch: &mut dyn FnMut(&SecondOut)) {
        let place = |window: &Window| window.index as u64 / SecondOut::WINDOWS;
        if self
            .0
            .as_ref()
            .is_some_and(|sum| place(sum) != place(window))
        {
            self.end(watch);
        }
        let sum = self.0.get_or_insert_with(|| Window::new(window.index));
        let length = sum.length_ns + window.length_ns;
        sum.add(window);
        sum.length_ns = length;
        // Not a sum over time: what it is at the end.
        (sum.open, sum.in_flight, sum.backlog) = (window.open, window.in_flight, window.backlog);
    }

    fn end(&mut self, watch: &mut dyn FnMut(&SecondOut)) {
        if let Some(sum) = self.0.take() {
            watch(&SecondOut::new(&sum));
        }
    }
}

fn pin(plan: &Plan, index: usize) -> Result<(), RunError> {
    // Pacing below a millisecond: the default slack of 50 µs would be added to every sleep.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    if plan.cpus.is_empty() {
        return Ok(());
    }
    let cpu = plan.cpus[index % plan.cpus.len()];
    let mut set = nix::sched::CpuSet::new();
    set.set(cpu)
        .and_then(|()| nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set))
        .map_err(|error| {
            RunError::new(format!(
                "--cpu {cpu}: this machine or container does not offer that processor: {error}"
            ))
        })
}

/// Makes room for the connections' sockets, as far as the hard limit goes.
fn raise_file_limit(connections: usize) -> Result<(), RunError> {
    let needed = connections as u64 + 64;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return Ok(());
    };
    if soft >= needed {
        return Ok(());
    }
    if hard >= needed && setrlimit(Resource::RLIMIT_NOFILE, needed, hard).is_ok() {
        return Ok(());
    }
    Err(RunError::new(format!(
        "-c {connections} needs {needed} file descriptors and this process may have {hard}: raise it with 'ulimit -n {needed}' or lower -c"
    )))
}
