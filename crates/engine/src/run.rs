//! One run from plan to outcome.

use std::fmt;
use std::ops::Range;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::assemble::Machine;
use crate::context::Clock;
use crate::control::Control;
use crate::cost::{MachineTime, peak_rss_bytes};
use crate::failure::FailureKind;
use crate::io;
use crate::neighbours::Neighbours;
use crate::outcome::{Outcome, WindowOut};
use crate::plan::{Model, Plan};
use crate::record::Window;
use crate::second::{Seconds, Watch};
use crate::shared::sockets;
use crate::sums::Sums;
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
    run_watched(plan, control, None)
}

/// As [`run`], and tells `watch` of each second.
pub fn run_watched(
    plan: &Plan,
    control: &Control,
    watch: Option<Watch<'_>>,
) -> Result<Outcome, RunError> {
    let mut rows = Rows::new(plan, watch);
    let whole = 0..plan.threads;
    let brought = carry_out(plan, control, whole, || Ok(()), |window| rows.add(&window))?;
    let Brought { reports, machine } = brought;
    Ok(Outcome::new(plan, reports, rows.finish(), &machine))
}

/// What the threads of one machine bring home.
#[derive(Debug)]
pub(crate) struct Brought {
    /// Of each thread, in their order.
    pub(crate) reports: Vec<Report>,
    pub(crate) machine: Machine,
}

/// Carries out what falls to the threads `share` of those of `plan`, when all is ready and `begin` returns. `each` is
/// handed each window when the last of the threads has delivered it, and the others at the end.
pub(crate) fn carry_out(
    plan: &Plan,
    control: &Control,
    share: Range<usize>,
    begin: impl FnOnce() -> Result<(), RunError>,
    mut each: impl FnMut(Window),
) -> Result<Brought, RunError> {
    let connections = share.clone().map(|index| places(plan, index)).sum();
    raise_file_limit(plan, connections)?;
    let began = Instant::now();
    let patience = plan.connect_timeout.max(Duration::from_millis(100));
    let addresses = plan.origins.iter();
    let addresses = addresses.map(|origin| origin.route.resolve(patience));
    let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
    let dns = began.elapsed();
    begin()?;
    let started_at = SystemTime::now();
    let machine_before = MachineTime::now();
    let neighbours = Neighbours::new(plan, &addresses);

    let clock = Clock(Instant::now());
    let (sender, receiver) = mpsc::channel();
    let reports = thread::scope(|scope| {
        let workers: Vec<_> = share
            .clone()
            .map(|index| {
                let (sender, addresses) = (sender.clone(), &addresses);
                let of_machine = index - share.start;
                thread::Builder::new()
                    .name(format!("worker-{index}"))
                    .spawn_scoped(scope, move || {
                        let system = pin(plan, of_machine).and_then(|()| {
                            let sockets = sockets(plan, addresses);
                            let places = places(plan, index) + sockets;
                            io::open(places).map_err(RunError::new)
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
        let mut sums = Sums::of(share.len(), plan.has_waiting_requests());
        for window in receiver {
            sums.add(&window);
            while let Some(sum) = sums.next_complete() {
                each(sum);
            }
        }
        // Threads of a counted run end at different times.
        sums.rest().for_each(each);
        workers
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
            .collect::<Vec<Result<Report, RunError>>>()
    });
    let reports = match reports.into_iter().collect::<Result<Vec<_>, _>>() {
        Ok(reports) => reports,
        // The first error is the cause; the others' is that they were stopped.
        Err(error) => return Err(control.fatal().unwrap_or(error)),
    };
    let taken = neighbours.and_then(|neighbours| neighbours.taken());
    let machine = Machine {
        started_at,
        dns,
        steal: machine_before
            .and_then(|before| Some(MachineTime::now()?.steal_since(before)))
            .unwrap_or(0.0),
        others: taken.map(|taken| taken.others),
        server_is_full: taken.is_some_and(|taken| taken.server_is_full),
        interrupted: control.was_interrupted(),
        peak_rss_bytes: peak_rss_bytes(),
    };
    Ok(Brought { reports, machine })
}

/// The rows of a result, and what whoever watches is told, made of the windows of all threads as these are complete.
pub(crate) struct Rows<'a> {
    is_open_model: bool,
    rows: Vec<WindowOut>,
    seconds: Option<Seconds<'a>>,
}

impl<'a> Rows<'a> {
    pub(crate) fn new<'w: 'a>(plan: &'a Plan, watch: Option<Watch<'w>>) -> Self {
        Self {
            is_open_model: plan.model != Model::Closed,
            rows: Vec::new(),
            seconds: watch.map(|watch| Seconds::new(plan, watch)),
        }
    }

    /// Adds a window. They come in order, and none is left out.
    pub(crate) fn add(&mut self, window: &Window) {
        self.rows.push(WindowOut::new(window, self.is_open_model));
        if let Some(seconds) = &mut self.seconds {
            seconds.add(window);
        }
    }

    /// The rows, when there are no more windows.
    pub(crate) fn finish(mut self) -> Vec<WindowOut> {
        if let Some(seconds) = &mut self.seconds {
            seconds.end();
        }
        let mut rows = self.rows;
        rows.retain(|row| row.length_s >= 0.01 || row.ok + row.failed > 0);
        rows
    }
}

/// Puts a thread on its processor, where it has one: `index` counts those of this machine.
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
fn raise_file_limit(plan: &Plan, connections: usize) -> Result<(), RunError> {
    let origins = plan.origins.len();
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
    let each = if origins > 1 {
        format!(" to each of {origins} origins")
    } else {
        String::new()
    };
    Err(RunError::new(format!(
        "-c {}{each} needs {needed} file descriptors and this process may have {hard}: raise it with 'ulimit -n {needed}' or lower -c",
        connections / origins
    )))
}
