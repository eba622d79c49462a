//! How many handshakes are under way at a time.

/// Handshakes under way at the beginning, and at least.
const LEAST: usize = 8;

/// The least time in which something comes of handshakes under way, if anything does, in nanoseconds.
const LEAST_PATIENCE: u64 = 250_000_000;

/// The bound on handshakes of one worker.
///
/// Handshakes that are begun all at once measure each other: five hundred with TLS took 57 ms each
/// where one takes 0.4 ms. A fixed bound would make a thousand connections over a slow network take
/// minutes. So the bound begins low and rises by one with each handshake that took no more than
/// twice the fastest, as it does where the time goes by on the network and not in a processor.
#[derive(Debug)]
pub(crate) struct Ramp {
    bound: usize,
    fixed: bool,
    /// The shortest handshake, in nanoseconds.
    fastest: u64,
    /// Time between the beginnings of two, in nanoseconds.
    interval: u64,
    /// When the next may begin.
    next: u64,
}

impl Ramp {
    /// At most `parallel` where that is given; one each `interval` nanoseconds.
    pub(crate) fn new(parallel: Option<usize>, interval: u64) -> Self {
        Self {
            bound: parallel.unwrap_or(LEAST),
            fixed: parallel.is_some(),
            fastest: u64::MAX,
            interval,
            next: 0,
        }
    }

    /// Whether another may begin beside those under way, as far as their number says.
    pub(crate) fn has_room(&self, under_way: usize) -> bool {
        under_way < self.bound
    }

    /// How many may be under way.
    pub(crate) fn bound(&self) -> usize {
        self.bound
    }

    /// When the next may begin, as far as the rate says.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether a rate says when connections begin.
    pub(crate) fn is_paced(&self) -> bool {
        self.interval > 0
    }

    /// How long handshakes under way are worth waiting for, in nanoseconds. None before the first is
    /// done.
    pub(crate) fn patience(&self) -> Option<u64> {
        let known = self.fastest < u64::MAX;
        known.then(|| self.fastest.saturating_mul(3).max(LEAST_PATIENCE))
    }

    /// A handshake begins.
    pub(crate) fn begin(&mut self, now: u64) {
        // One that is late does not make the next ones come closer together for more than a moment.
        let due = self.next.max(now.saturating_sub(self.interval));
        self.next = due.saturating_add(self.interval);
    }

    /// A handshake is done that took so many nanoseconds.
    pub(crate) fn done(&mut self, took: u64) {
        self.fastest = self.fastest.min(took);
        if !self.fixed && took <= self.fastest.saturating_mul(2) {
            self.bound += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_that_wait_for_the_network_make_room_for_more() {
        let mut ramp = Ramp::new(None, 0);
        for _ in 0..100 {
            ramp.done(50_000_000);
        }
        assert_eq!(ramp.bound(), LEAST + 100);
    }

    #[test]
    fn handshakes_that_wait_for_each_other_do_not() {
        let mut ramp = Ramp::new(None, 0);
        for turn in 1..=8 {
            ramp.done(turn * 400_000);
        }
        assert_eq!(ramp.bound(), LEAST + 2, "the first two took no longer");
    }

    #[test]
    fn a_bound_that_is_asked_for_stays() {
        let mut ramp = Ramp::new(Some(3), 0);
        for _ in 0..10 {
            ramp.done(1);
        }
        assert!(ramp.has_room(2) && !ramp.has_room(3));
    }

    #[test]
    fn a_rate_spaces_the_beginnings() {
        let mut ramp = Ramp::new(None, 10);
        let mut begun = Vec::new();
        for now in 0..100 {
            if now >= ramp.next() {
                ramp.begin(now);
                begun.push(now);
            }
        }
        assert_eq!(begun, (0..10).map(|n| n * 10).collect::<Vec<_>>());
        // After a pause there is no burst of more than one.
        let mut burst = 0;
        while 500 >= ramp.next() {
            ramp.begin(500);
            burst += 1;
        }
        assert_eq!(burst, 2);
    }
}
