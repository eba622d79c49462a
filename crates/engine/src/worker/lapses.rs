//! When a worker stood still: it was stopped or starved, its machine was, or one turn of its loop had too much to
//! do. What came meanwhile waited for it, and not for the server.

/// The longest time of the measured part in which a worker did not come round, by its own clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lapses {
    longest: u64,
    last: u64,
}

impl Lapses {
    /// The worker has looked at the clock at `now`; it should have been back from the kernel at `due` at the
    /// latest, so that what it waited on purpose is no part of it. While it is `holding`, nothing waits for it.
    #[inline]
    pub(super) fn turn(&mut self, due: u64, now: u64, holding: bool) {
        self.last = if holding { 0 } else { now.saturating_sub(due) };
        self.longest = self.longest.max(self.last);
    }

    /// What is behind it is not measured, but for the turn that has just ended: its requests may be.
    pub(super) fn begin_measuring(&mut self) {
        self.longest = self.last;
    }

    /// In nanoseconds.
    pub(super) fn longest(&self) -> u64 {
        self.longest
    }
}
