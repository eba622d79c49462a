//! Windows of several parts of a run, threads or machines, added up to windows of all of it.

use std::collections::VecDeque;

use crate::latency::{Durations, Merge};
use crate::record::Window;

/// The windows that not all parts have delivered. Each part delivers its own in their order.
pub(crate) struct Sums {
    parts: usize,
    /// How many windows each of the parts had delivered that deliver no more.
    ended: Vec<usize>,
    /// Whether requests are there before they leave.
    waits: bool,
    /// The index of the first window that has not been handed over.
    next: usize,
    /// The sums from that one on, each with how many parts it has.
    open: VecDeque<(Window, usize)>,
    /// A window behind which so many have been begun is handed over without the parts that it lacks.
    most: usize,
}

impl Sums {
    /// Those of so many parts, for all of which a window waits; `waits` where requests are there before they leave.
    pub(crate) fn of(parts: usize, waits: bool) -> Self {
        Self {
            parts,
            ended: Vec::new(),
            waits,
            next: 0,
            open: VecDeque::new(),
            most: usize::MAX,
        }
    }

    /// The same, but that a window waits for no part that is so many windows behind another: memory has an end.
    pub(crate) fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// A part has delivered a window.
    pub(crate) fn add<D>(&mut self, window: &Window<D>)
    where
        Durations: Merge<D>,
    {
        // It came too late: its place has been handed over.
        let Some(at) = window.index.checked_sub(self.next) else {
            return;
        };
        while self.open.len() <= at {
            let index = self.next + self.open.len();
            self.open.push_back((Window::new(index, self.waits), 0));
        }
        let (sum, count) = &mut self.open[at];
        sum.add(window);
        *count += 1;
    }

    /// A part delivers no more, behind so many.
    pub(crate) fn end(&mut self, delivered: usize) {
        self.ended.push(delivered);
    }

    /// The next window, where all parts have delivered it that will.
    pub(crate) fn next_complete(&mut self) -> Option<Window> {
        let (sum, count) = self.open.front()?;
        let without = self.ended.iter().filter(|ended| **ended <= sum.index);
        if count + without.count() < self.parts && self.open.len() <= self.most {
            return None;
        }
        self.next += 1;
        self.open.pop_front().map(|(sum, _)| sum)
    }

    /// Those that are left at the end.
    pub(crate) fn rest(self) -> impl Iterator<Item = Window> {
        self.open.into_iter().map(|(sum, _)| sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(index: usize, ok: u64) -> Window {
        let mut window = Window::new(index, false);
        (window.ok, window.length_ns) = (ok, 100);
        window
    }

    /// Index and requests of each window that is complete.
    fn complete(sums: &mut Sums) -> Vec<(usize, u64)> {
        let each = std::iter::from_fn(|| sums.next_complete());
        each.map(|sum| (sum.index, sum.ok)).collect()
    }

    #[test]
    fn a_window_is_complete_when_all_have_delivered_it() {
        let mut sums = Sums::of(2, false);
        sums.add(&window(0, 1));
        sums.add(&window(1, 2));
        assert_eq!(complete(&mut sums), []);
        sums.add(&window(0, 10).sparse());
        assert_eq!(complete(&mut sums), [(0, 11)]);
        let rest: Vec<_> = sums.rest().map(|sum| (sum.index, sum.ok)).collect();
        assert_eq!(rest, [(1, 2)]);
    }

    #[test]
    fn nothing_waits_for_a_part_that_has_ended() {
        let mut sums = Sums::of(2, false);
        for index in 0..3 {
            sums.add(&window(index, 1));
        }
        sums.add(&window(0, 10));
        sums.end(1);
        assert_eq!(complete(&mut sums), [(0, 11), (1, 1), (2, 1)]);
    }

    #[test]
    fn a_part_that_is_far_behind_is_not_waited_for() {
        let mut sums = Sums::of(2, false).at_most(3);
        for index in 0..5 {
            sums.add(&window(index, 1));
        }
        assert_eq!(complete(&mut sums), [(0, 1), (1, 1)]);
        // Its place is taken, and the one of the next is not.
        sums.add(&window(1, 10));
        sums.add(&window(2, 10));
        assert_eq!(complete(&mut sums), [(2, 11)]);
    }
}
