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
use crate::outcome::{Outcome, WindowOut};
use crate::plan::{Model, Plan};
use crate::record::Window;
use crate::second::{Seconds, Watch};
use crate::shared::sockets;
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
    raise_file_limit(plan)?;
    let began = Instant::now();
    let patience = plan.connect_timeout.max(Duration::from_millis(100));
    let addresses = plan.origins.iter();
    let addresses = addresses.map(|origin| origin.route.resolve(patience));
    let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
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
                            let sockets = sockets(plan, addresses);
                            let places = places(plan, index) + sockets;
                            io::open(plan.io, places).map_err(RunError::new)
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
        let windows = gather_windows(&receiver, plan, watch);
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
    plan: &Plan,
    watch: Option<Watch<'_>>,
) -> Vec<WindowOut> {
    let is_open_model = plan.model != Model::Closed;
    let mut rows = Vec::new();
    let mut open: Vec<(Window, usize)> = Vec::new();
    let mut seconds = watch.map(|watch| Seconds::new(plan, watch));
    for window in receiver {
        match open.iter_mut().find(|(sum, _)| sum.index == window.index) {
            Some((sum, count)) => {
                sum.add(&window);
                *count += 1;
            }
            None => open.push((window, 1)),
        }
        open.retain(|(sum, count)| {
            let complete = *count == plan.threads;
            if complete {
                rows.push(WindowOut::new(sum, is_open_model));
                if let Some(seconds) = &mut seconds {
                    seconds.add(sum);
                }
            }
            !complete
        });
    }
    // Workers of a counted run end at different times.
    open.sort_by_key(|(sum, _)| sum.index);
    for (sum, _) in &open {
        rows.push(WindowOut::new(sum, is_open_model));
        if let Some(seconds) = &mut seconds {
            seconds.add(sum);
        }
    }
    if let Some(seconds) = &mut seconds {
        seconds.end();
    }
    rows.retain(|row| row.length_s >= 0.01 || row.ok + row.failed > 0);
    rows.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    rows
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
fn raise_file_limit(plan: &Plan) -> Result<(), RunError> {
    let (connections, origins) = (plan.connections, plan.origins.len());
    let needed = (connections * origins) as u64 + 64;
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
        "-c {connections}{each} needs {needed} file descriptors and this process may have {hard}: raise it with 'ulimit -n {needed}' or lower -c"
    )))
}
