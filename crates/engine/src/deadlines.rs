//! When something has to be done on a link without an event: one instant for each link.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The earliest instant of each link, in nanoseconds since the run began.
///
/// An instant that has moved is left in the heap and ignored when its time comes: arming costs nothing
/// where the earliest is set already.
#[derive(Debug)]
pub(crate) struct Deadlines {
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// By link; `u64::MAX` where none is set.
    armed: Vec<u64>,
}

impl Deadlines {
    pub(crate) fn new(links: usize) -> Self {
        Self {
            heap: BinaryHeap::with_capacity(links),
            armed: vec![u64::MAX; links],
        }
    }

    /// Something has to be done on the link at `instant`, if not earlier.
    #[inline]
    pub(crate) fn arm(&mut self, link: u32, instant: u64) {
        let armed = &mut self.armed[link as usize];
        if instant < *armed {
            *armed = instant;
            self.heap.push(Reverse((instant, link)));
        }
    }

    #[inline]
    pub(crate) fn is_armed(&self, link: u32) -> bool {
        self.armed[link as usize] != u64::MAX
    }

    /// Nothing has to be done on the link any more.
    pub(crate) fn disarm(&mut self, link: u32) {
        self.armed[link as usize] = u64::MAX;
    }

    /// The earliest instant, or an earlier one that does not count any more.
    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|&Reverse((instant, _))| instant)
    }

    /// A link whose time has come; it has to be armed anew.
    pub(crate) fn expired(&mut self, now: u64) -> Option<u32> {
        while let Some(&Reverse((instant, link))) = self.heap.peek() {
            if instant > now {
                return None;
            }
            self.heap.pop();
            if self.armed[link as usize] == instant {
                self.disarm(link);
                return Some(link);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_instant_of_a_link_counts() {
        let mut deadlines = Deadlines::new(3);
        deadlines.arm(0, 50);
        deadlines.arm(0, 20);
        deadlines.arm(0, 70);
        deadlines.arm(1, 30);
        assert_eq!(deadlines.next(), Some(20));
        assert_eq!(deadlines.expired(19), None);
        assert_eq!(deadlines.expired(30), Some(0));
        assert!(!deadlines.is_armed(0));
        assert_eq!(deadlines.expired(30), Some(1));
        // Both are armed no more, and what was set before has moved.
        assert_eq!(deadlines.expired(100), None);
        assert_eq!(deadlines.next(), None);
    }

    #[test]
    fn a_link_that_is_disarmed_does_not_expire() {
        let mut deadlines = Deadlines::new(1);
        deadlines.arm(0, 10);
        deadlines.disarm(0);
        deadlines.arm(0, 40);
        assert_eq!(deadlines.expired(39), None);
        assert_eq!(deadlines.expired(40), Some(0));
    }
}
