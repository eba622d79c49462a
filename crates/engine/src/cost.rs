//! What a thread, the process, the server and the machine spent.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use nix::time::ClockId;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::sys::clock_ticks_per_s;

/// What one thread has used since it began.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ThreadUse {
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
    /// Seconds that the thread was ready to run and had no processor.
    pub(crate) run_delay_s: f64,
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
}

impl ThreadUse {
    /// Reads the counters of the calling thread.
    pub(crate) fn now() -> Self {
        let mut used = Self::default();
        if let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) {
            used.user_s = usage.user_time().num_microseconds() as f64 / 1e6;
            used.system_s = usage.system_time().num_microseconds() as f64 / 1e6;
            used.voluntary = usage.voluntary_context_switches().max(0) as u64;
            used.involuntary = usage.involuntary_context_switches().max(0) as u64;
        }
        // Documentation/scheduler/sched-stats.rst: time on the processor, time waiting for one.
        let delay = std::fs::read_to_string("/proc/thread-self/schedstat")
            .ok()
            .and_then(|text| text.split_whitespace().nth(1)?.parse::<f64>().ok());
        used.run_delay_s = delay.unwrap_or(0.0) / 1e9;
        used
    }

    /// What was used since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            user_s: self.user_s - earlier.user_s,
            system_s: self.system_s - earlier.system_s,
            // A process without a descriptor left cannot read it.
            run_delay_s: (self.run_delay_s - earlier.run_delay_s).max(0.0),
            voluntary: self.voluntary - earlier.voluntary,
            involuntary: self.involuntary - earlier.involuntary,
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.user_s += other.user_s;
        self.system_s += other.system_s;
        self.run_delay_s += other.run_delay_s;
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
    }

    pub(crate) fn cpu_s(self) -> f64 {
        self.user_s + self.system_s
    }
}

/// The processor time of the server's processes, by the kernel's clock of each
/// (`clock_getcpuclockid(3)`): all threads, ended ones included.
#[derive(Clone, Debug)]
pub(crate) struct ServerClocks(Vec<ClockId>);

impl ServerClocks {
    /// The clocks of `pids`; the first that is no process is the error.
    pub(crate) fn new(pids: &[u32]) -> Result<Self, u32> {
        let clock = |&pid: &u32| {
            let id = i32::try_from(pid).ok().filter(|&id| id > 0).ok_or(pid)?;
            let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(id)).map_err(|_| pid)?;
            clock.now().map(|_| clock).map_err(|_| pid)
        };
        pids.iter().map(clock).collect::<Result<_, _>>().map(Self)
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Seconds since they began; `None` where there are none, or one has ended.
    pub(crate) fn now(&self) -> Option<f64> {
        let times = self.0.iter().map(|clock| {
            let time = clock.now().ok()?;
            Some(Duration::from(time).as_secs_f64())
        });
        times.sum::<Option<f64>>().filter(|_| !self.0.is_empty())
    }
}

/// What a worker and the server have used.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Spent {
    pub(crate) worker: ThreadUse,
    /// Processor time of the server's processes, in seconds, where they are known.
    pub(crate) server_s: Option<f64>,
}

impl Spent {
    /// Reads the counters of the calling thread, and the server's clocks.
    pub(crate) fn now(server: Option<&ServerClocks>) -> Self {
        Self {
            worker: ThreadUse::now(),
            server_s: server.and_then(ServerClocks::now),
        }
    }

    /// What was used since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        let server = self.server_s.zip(earlier.server_s);
        Self {
            worker: self.worker.since(earlier.worker),
            server_s: server.map(|(now, before)| now - before),
        }
    }

    /// Adds what another worker has used: one of them at most watches the server.
    pub(crate) fn add(&mut self, other: Self) {
        self.worker.add(other.worker);
        self.server_s = self.server_s.or(other.server_s);
    }
}

/// Processor time of this process, in seconds.
pub(crate) fn process_cpu_s() -> Option<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let both = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Some(both as f64 / 1e6)
}

/// Most resident memory of the process, in bytes.
pub(crate) fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim()
        .trim_end_matches("kB")
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kib| kib * 1024)
}

/// Time of all processors since the machine started, in clock ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MachineTime {
    total: u64,
    /// In programs, in user and system mode: time for interrupts belongs to none.
    programs: u64,
    idle: u64,
    steal: u64,
}

impl MachineTime {
    pub(crate) fn now() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        let ticks: Vec<u64> = stat
            .lines()
            .next()?
            .split_whitespace()
            .skip(1)
            .filter_map(|n| n.parse().ok())
            .collect();
        // user nice system idle iowait irq softirq steal; guest time is within user.
        Some(Self {
            total: ticks.iter().take(8).sum(),
            programs: ticks.iter().take(3).sum(),
            idle: ticks.iter().skip(3).take(2).sum(),
            steal: *ticks.get(7)?,
        })
    }

    /// The share of processor time that programs took since `earlier`, but for those that took `ours_s`
    /// seconds; `None` where no time has passed.
    pub(crate) fn others_since(self, earlier: Self, ours_s: f64) -> Option<f64> {
        let ticks_per_s = clock_ticks_per_s()?;
        let total = self.total.checked_sub(earlier.total).filter(|&n| n > 0)?;
        let programs = self.programs.saturating_sub(earlier.programs);
        let others = (programs as f64 - ours_s * ticks_per_s) / total as f64;
        Some(others.clamp(0.0, 1.0))
    }

    /// The share of processor time that nobody used since `earlier`; `None` where no time has passed.
    pub(crate) fn idle_since(self, earlier: Self) -> Option<f64> {
        let total = self.total.checked_sub(earlier.total).filter(|&n| n > 0)?;
        Some(self.idle.saturating_sub(earlier.idle) as f64 / total as f64)
    }

    /// The share of processor time that other machines of the host took since `earlier`.
    pub(crate) fn steal_since(self, earlier: Self) -> f64 {
        let total = self.total.saturating_sub(earlier.total);
        if total == 0 {
            0.0
        } else {
            self.steal.saturating_sub(earlier.steal) as f64 / total as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_uses_processor_time() {
        let before = ThreadUse::now();
        let mut sum = 0u64;
        while ThreadUse::now().since(before).cpu_s() < 0.01 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(ThreadUse::now().since(before).cpu_s() >= 0.01);
        assert!(peak_rss_bytes().unwrap() > 1 << 20);
    }

    #[test]
    fn a_delay_that_cannot_be_read_any_more_is_none() {
        let delayed = |run_delay_s| ThreadUse {
            run_delay_s,
            ..ThreadUse::default()
        };
        assert_eq!(delayed(0.5).since(delayed(0.2)).run_delay_s, 0.3);
        assert_eq!(delayed(0.0).since(delayed(0.2)).run_delay_s, 0.0);
    }

    #[test]
    fn what_is_not_ours_is_others() {
        let ticks_per_s = clock_ticks_per_s().unwrap() as u64;
        let at = |total_s, programs_s| MachineTime {
            total: total_s * ticks_per_s,
            programs: programs_s * ticks_per_s,
            idle: (total_s - programs_s) * ticks_per_s,
            steal: 0,
        };
        let others = |ours_s| at(20, 10).others_since(at(10, 4), ours_s);
        assert_eq!(others(2.0), Some(0.4));
        // The kernel counts the time of a process more finely than that of all.
        assert_eq!(others(6.5), Some(0.0));
        assert_eq!(at(10, 4).others_since(at(10, 4), 0.0), None);
        assert_eq!(at(20, 13).idle_since(at(10, 4)), Some(0.1));
        assert_eq!(at(10, 4).idle_since(at(10, 4)), None);
    }

    #[test]
    fn the_clocks_of_processes_are_added_up_until_one_has_ended() {
        let own = std::process::id();
        let twice = ServerClocks::new(&[own, own]).unwrap();
        let once = ServerClocks::new(&[own]).unwrap();
        let before = Spent::now(Some(&twice));
        let mut sum = 0u64;
        while ThreadUse::now().since(before.worker).cpu_s() < 0.02 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let spent = Spent::now(Some(&twice)).since(before);
        assert!(spent.server_s.unwrap() >= 0.04, "{spent:?}");
        assert!(once.now().unwrap() < twice.now().unwrap());

        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let both = ServerClocks::new(&[own, child.id()]).unwrap();
        assert!(both.now().is_some());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(both.now(), None, "one has ended");
        assert_eq!(Spent::now(Some(&both)).since(before).server_s, None);
        let gone = child.id();
        assert_eq!(ServerClocks::new(&[own, gone]).unwrap_err(), gone);
        assert_eq!(ServerClocks::new(&[0]).unwrap_err(), 0);
        assert_eq!(ServerClocks::new(&[]).unwrap().now(), None);
    }
}
