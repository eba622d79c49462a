//! The machine that adds up what the others send.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::assemble::{Machine, Totals};
use crate::control::Control;
use crate::latency::{Sparse, with_room_for};
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::record::{Window, Windows};
use crate::run::{Rows, RunError};
use crate::second::Watch;
use crate::sums::Sums;
use crate::worker::Report;

use super::lost;
use super::share::Head;
use super::workers::{Done, Member, WorkerOut};

/// Windows that wait for the slowest machine: half a minute. They take memory, and a machine that is so far behind has
/// its requests in the result all the same, but for the rows over time.
const MOST_OPEN: usize = 300;
/// Windows that a machine may send in one message.
const MOST_WINDOWS: usize = 1000;
/// Distributions in the report of a thread, beside those of each method, origin and step.
const DISTRIBUTIONS: usize = 200;

/// Adds up what the machines of a run send. A machine whose messages cannot be read, or which says that it has failed,
/// is lost: what it had told by then is kept.
pub struct Gather<'p> {
    plan: &'p Plan,
    control: &'p Control,
    totals: Totals<'p>,
    sums: Sums,
    rows: Rows<'p>,
    machine: Option<Machine>,
    workers: Vec<Worker>,
    /// What the first said that was lost.
    first_lost: Option<String>,
}

impl fmt::Debug for Gather<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gather")
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Worker {
    member: Member,
    out: WorkerOut,
    /// Windows that it has delivered, and their sum: of it is told what is, where the machine is lost.
    delivered: usize,
    so_far: Option<Window<Sparse>>,
    has_ended: bool,
}

impl<'p> Gather<'p> {
    /// Expects the machines `members`, which share the threads of `plan` among them. `control` shows how far they
    /// are, and `watch` is told of each second of all together.
    pub fn new(
        plan: &'p Plan,
        control: &'p Control,
        members: Vec<Member>,
        watch: Option<Watch<'p>>,
    ) -> Result<Self, RunError> {
        let mut threads: Vec<_> = members.iter().map(Member::threads).collect();
        threads.sort_by_key(|threads| threads.start);
        let mut next = 0;
        for each in threads {
            if each.start != next || each.is_empty() {
                return Err(RunError::new(format!(
                    "the workers do not share the {} threads of the plan among them: one has {} to {}, and the one before it ends at {next}",
                    plan.threads, each.start, each.end
                )));
            }
            next = each.end;
        }
        if next != plan.threads {
            return Err(RunError::new(format!(
                "the workers have {next} threads, and the plan {}",
                plan.threads
            )));
        }
        let sums = Sums::of(members.len(), plan.has_waiting_requests()).at_most(MOST_OPEN);
        Ok(Self {
            plan,
            control,
            totals: Totals::new(plan),
            sums,
            rows: Rows::new(plan, watch),
            machine: None,
            first_lost: None,
            workers: members
                .into_iter()
                .map(|member| Worker {
                    out: WorkerOut::new(&member),
                    member,
                    delivered: 0,
                    so_far: None,
                    has_ended: false,
                })
                .collect(),
        })
    }

    /// How many machines there are.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Whether none of them is awaited any more.
    pub fn is_over(&self) -> bool {
        self.workers.iter().all(|worker| worker.has_ended)
    }

    /// The threads of a machine have begun, so many seconds after they should have.
    pub fn begun(&mut self, worker: usize, late_s: f64) {
        if let Some(worker) = self.running(worker) {
            worker.out.start_late_s = Some(late_s).filter(|late_s| late_s.is_finite());
            self.control.connection_established();
        }
    }

    /// A machine has sent windows, as [`super::run_share`] hands them over.
    pub fn windows(&mut self, worker: usize, bytes: &[u8]) {
        let read = postcard::from_bytes::<Windows>(bytes);
        let Some(it) = self.running(worker) else {
            return;
        };
        let expected = it.delivered;
        let windows = match read {
            Ok(windows) if windows.len() > MOST_WINDOWS => {
                return self.lost(
                    worker,
                    &format!("it sent {} windows at once", windows.len()),
                );
            }
            Ok(windows) if !windows.iter().all(Window::is_plausible) => {
                return self.lost(worker, "it sent windows with counts that cannot be");
            }
            Ok(windows) => windows,
            Err(error) => return self.lost(worker, &unreadable("windows", error)),
        };
        let indices = windows.iter().map(|window| window.index);
        if !indices.eq(expected..expected + windows.len()) {
            return self.lost(worker, "it sent windows that do not follow those before");
        }
        for window in &windows {
            self.control.publish(window.ok, window.failed);
            self.sums.add(window);
        }
        if let Some(it) = self.running(worker) {
            it.delivered += windows.len();
            for window in windows {
                match &mut it.so_far {
                    Some(sum) => sum.append(&window),
                    None => it.so_far = Some(window),
                }
            }
        }
        self.hand_over();
    }

    /// A machine has sent the reports of its threads, as [`super::run_share`] returns them: it has ended.
    pub fn reports(&mut self, worker: usize, bytes: &[u8]) {
        let Some(it) = self.running(worker) else {
            return;
        };
        let threads = it.member.threads();
        // Read twice, so that nothing is added of what ends in the middle, and no more is kept than one report.
        let plan = self.plan;
        let mut is_plausible = true;
        let look = |_: &Head, _, report: Report| is_plausible &= report.is_plausible(plan);
        let head = match read(plan, bytes, look) {
            Ok(_) if !is_plausible => {
                return self.lost(worker, "it sent reports with counts that cannot be");
            }
            Ok(head) => head,
            Err(error) => return self.lost(worker, &unreadable("reports", error)),
        };
        if head.first != threads.start || head.count != threads.len() {
            let text = format!(
                "it reported of {} threads from {} on, and has {} from {} on",
                head.count,
                head.first,
                threads.len(),
                threads.start
            );
            return self.lost(worker, &text);
        }
        let mut done = Done::new();
        let (waits, totals) = (plan.has_waiting_requests(), &mut self.totals);
        let added = read(plan, bytes, |head, index, report| {
            done.add(&report, waits);
            totals.add(head.first + index, report, head.measured_since);
        });
        debug_assert!(added.is_ok(), "it was read before");
        match &mut self.machine {
            Some(sum) => sum.merge(&head.machine),
            None => self.machine = Some(head.machine),
        }
        if let Some(it) = self.running(worker) {
            done.tell(&mut it.out);
        }
        self.end(worker);
    }

    /// A machine is lost, or has failed, and sends no more.
    pub fn lost(&mut self, worker: usize, why: &str) {
        let waits = self.plan.has_waiting_requests();
        let Some(it) = self.running(worker) else {
            return;
        };
        it.out.lost = Some(trilane_text::line(why));
        let WorkerOut { name, host, .. } = &it.out;
        let first = format!("worker {name} on {host}: {}", trilane_text::line(why));
        if let Some(all) = it.so_far.take() {
            let (threads, report) = (it.member.threads(), lost::report(&all));
            let mut done = Done::new();
            done.add(&report, waits);
            done.tell(&mut it.out);
            // Its processor time is that of all its threads.
            let each = report.used.worker.cpu_s() / threads.len() as f64;
            let busy = (each / (report.measured.max(1) as f64 / 1e9)).min(1.0);
            it.out.busy = busy;
            self.totals.add(threads.start, report, u64::MAX);
            self.totals.set_busy(threads, busy);
        }
        self.first_lost.get_or_insert(first);
        self.end(worker);
    }

    /// The outcome, when there is no more to come; machines that are still awaited are lost. An error where none of
    /// them has told anything, which is what the first of them said.
    pub fn finish(mut self) -> Result<Outcome, RunError> {
        for worker in 0..self.workers.len() {
            self.lost(worker, "it was not heard of any more");
        }
        let machine = match self.machine {
            Some(machine) => machine,
            None if self.workers.iter().all(|worker| worker.delivered == 0) => {
                let first = self.first_lost;
                return Err(RunError::new(
                    first.unwrap_or_else(|| "no worker took part".into()),
                ));
            }
            None => Machine {
                started_at: SystemTime::now(),
                dns: Duration::ZERO,
                steal: 0.0,
                others: None,
                server_is_full: false,
                interrupted: false,
                peak_rss_bytes: None,
            },
        };
        for window in self.sums.rest() {
            self.rows.add(&window);
        }
        let workers = self.workers.into_iter().map(|worker| worker.out).collect();
        Ok(self
            .totals
            .outcome(self.rows.finish(), &machine, Some(workers)))
    }

    /// The machine of this number, where it has not ended.
    fn running(&mut self, worker: usize) -> Option<&mut Worker> {
        let worker = self.workers.get_mut(worker)?;
        (!worker.has_ended).then_some(worker)
    }

    fn end(&mut self, worker: usize) {
        if let Some(it) = self.running(worker) {
            it.has_ended = true;
            it.so_far = None;
            let delivered = it.delivered;
            self.sums.end(delivered);
            self.hand_over();
        }
    }

    /// Hands over the windows that are complete.
    fn hand_over(&mut self) {
        while let Some(window) = self.sums.next_complete() {
            self.rows.add(&window);
        }
    }
}

/// Reads the reports of a run by `plan`, one after the other; each comes with its place among those of its machine.
pub(super) fn read(
    plan: &Plan,
    bytes: &[u8],
    mut each: impl FnMut(&Head, usize, Report),
) -> Result<Head, postcard::Error> {
    let (head, mut rest) = postcard::take_from_bytes::<Head>(bytes)?;
    let methods = plan.calls.as_ref().map_or(0, |calls| calls.methods.len());
    let steps = plan.scenario.as_ref().map_or(0, |plan| plan.steps.len());
    let most = DISTRIBUTIONS + methods + steps + plan.origins.len();
    for index in 0..head.count {
        let (report, behind) = with_room_for(most, || postcard::take_from_bytes::<Report>(rest))?;
        rest = behind;
        each(&head, index, report);
    }
    if rest.is_empty() {
        Ok(head)
    } else {
        Err(postcard::Error::DeserializeBadEncoding)
    }
}

fn unreadable(what: &str, error: postcard::Error) -> String {
    format!("it sent {what} that cannot be read ({error}): is it another build of trilane?")
}
