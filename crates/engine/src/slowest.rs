//! The slowest requests of a run, one by one.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use crate::record::Instants;

/// Which request of the run one is, and where it went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Of {
    /// Which of the plan's.
    pub(crate) request: u32,
    /// The place of its connection among those of the worker.
    pub(crate) place: u32,
    /// Its number among all of the run.
    pub(crate) number: u64,
    /// Its stream: of HTTP/1.1 the number of the request on the connection.
    pub(crate) stream: u64,
}

/// One of the slowest requests.
#[derive(Clone, Debug, Serialize)]
pub struct Slow {
    /// From when it was due, or from its first byte where nothing is due, to the end, in seconds.
    pub latency_s: f64,
    /// When that began, in seconds since the measured part did; below 0 for one of the warm-up.
    pub at_s: f64,
    /// Of that until its first byte was handed to the kernel, in seconds.
    pub waited_s: f64,
    /// From there to the head of the response, in seconds; none where none came.
    pub first_byte_s: Option<f64>,
    /// From there to the end, in seconds.
    pub body_s: Option<f64>,
    /// Whether it was given up then: it would have taken longer.
    pub timed_out: bool,
    /// Which of the URLs or listed requests it was for, from 0.
    pub request: u32,
    /// Its number among all requests of the run, from 0: what `{seq}` says.
    pub number: u64,
    /// Which worker sent it, from 0.
    pub worker: usize,
    /// On which of that worker's connections, from 0; one that is replaced has the number of the one before.
    pub connection: u32,
    /// On which stream; over HTTP/1.1 how many requests the connection had carried before.
    pub stream: u64,
}

/// A request that has ended, by how long it took.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Ended {
    took: u64,
    at: Instants,
    timed_out: bool,
    worker: usize,
    /// When the measured part began, on the clock of that worker's machine.
    measured_since: u64,
}

impl PartialEq for Ended {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ended {}

impl PartialOrd for Ended {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ended {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |ended: &Self| (ended.took, Reverse(ended.at.of.number));
        key(self).cmp(&key(other))
    }
}

/// The slowest requests of a worker, or of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Slowest {
    most: usize,
    /// The quickest of them on top.
    kept: BinaryHeap<Reverse<Ended>>,
    /// What took longer than this belongs to them.
    floor: u64,
}

impl Slowest {
    /// Keeps so many.
    pub(crate) fn new(most: usize) -> Self {
        let mut slowest = Self {
            most,
            kept: BinaryHeap::with_capacity(most + 1),
            floor: 0,
        };
        slowest.clear();
        slowest
    }

    pub(crate) fn clear(&mut self) {
        self.kept.clear();
        self.floor = if self.most == 0 { u64::MAX } else { 0 };
    }

    /// A request has ended that took so long.
    #[inline]
    pub(crate) fn consider(&mut self, took: u64, at: Instants, timed_out: bool) {
        if took > self.floor {
            self.keep(Ended {
                took,
                at,
                timed_out,
                worker: 0,
                measured_since: 0,
            });
        }
    }

    #[cold]
    fn keep(&mut self, ended: Ended) {
        self.kept.push(Reverse(ended));
        if self.kept.len() > self.most {
            self.kept.pop();
        }
        if self.kept.len() == self.most
            && let Some(Reverse(quickest)) = self.kept.peek()
        {
            self.floor = quickest.took;
        }
    }

    /// They are those of this worker, on whose clock the measured part began at `measured_since`.
    pub(crate) fn of_worker(&mut self, worker: usize, measured_since: u64) {
        let kept = std::mem::take(&mut self.kept).into_iter();
        self.kept = kept
            .map(|Reverse(ended)| {
                Reverse(Ended {
                    worker,
                    measured_since,
                    ..ended
                })
            })
            .collect();
    }

    /// Adds another worker's.
    pub(crate) fn merge(&mut self, other: Self) {
        self.most = self.most.max(other.most);
        for Reverse(ended) in other.kept {
            self.keep(ended);
        }
    }

    /// The slowest first.
    pub(crate) fn told(&self) -> Vec<Slow> {
        let mut ended: Vec<_> = self.kept.iter().map(|Reverse(ended)| *ended).collect();
        ended.sort_by_key(|&ended| Reverse(ended));
        ended.iter().map(Ended::told).collect()
    }
}

impl Ended {
    fn told(&self) -> Slow {
        let Instants {
            intended,
            start,
            head,
            cold: _,
            of,
        } = self.at;
        let seconds = |ns: u64| ns as f64 / 1e9;
        // Where nothing is due, it began with its first byte.
        let began = intended.min(start);
        let end = began.saturating_add(self.took);
        let headed = (head != 0).then_some(head);
        Slow {
            latency_s: seconds(self.took),
            at_s: (began as f64 - self.measured_since as f64) / 1e9,
            waited_s: seconds(start - began),
            first_byte_s: headed.map(|head| seconds(head.saturating_sub(start))),
            body_s: headed.map(|head| seconds(end.saturating_sub(head))),
            timed_out: self.timed_out,
            request: of.request,
            number: of.number,
            worker: self.worker,
            connection: of.place,
            stream: of.stream,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: u64, number: u64) -> Instants {
        Instants {
            intended: start - 10,
            start,
            head: start + 5,
            cold: false,
            of: Of {
                number,
                ..Of::default()
            },
        }
    }

    #[test]
    fn the_slowest_are_kept_and_told_in_order() {
        let mut all = Slowest::new(0);
        for worker in 0..2 {
            let mut slowest = Slowest::new(3);
            for number in 0..100 {
                let took = 20 + (number * 37 + worker) % 100;
                slowest.consider(took, at(1_000 + number, number), false);
            }
            slowest.of_worker(worker as usize, 1_000);
            all.merge(slowest);
        }
        let told = all.told();
        let latencies: Vec<_> = told
            .iter()
            .map(|slow| (slow.latency_s * 1e9).round())
            .collect();
        assert_eq!(latencies, [119.0, 119.0, 118.0]);
        let slow = &told[0];
        let sum = slow.waited_s + slow.first_byte_s.unwrap() + slow.body_s.unwrap();
        assert!((sum - slow.latency_s).abs() < 1e-12);
        assert_eq!((slow.number * 37 + slow.worker as u64) % 100, 99);
    }

    #[test]
    fn none_are_kept_where_none_are_asked_for() {
        let mut slowest = Slowest::new(0);
        slowest.consider(7, at(10, 0), true);
        assert!(slowest.told().is_empty());
    }
}
