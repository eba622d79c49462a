//! What a thread, the process and the machine spent.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

/// What one thread has used since it began.
#[derive(Clone, Copy, Debug, Default)]
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
            run_delay_s: self.run_delay_s - earlier.run_delay_s,
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
            steal: *ticks.get(7)?,
        })
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
}
