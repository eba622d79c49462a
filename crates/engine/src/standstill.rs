//! When a counted run is given up: its server has gone for good, or takes no requests.

use std::time::Duration;

use crate::plan::Plan;

/// What a worker has last seen of its server. Instants are nanoseconds since the run began.
#[derive(Debug)]
pub(crate) struct Standstill {
    /// How long no connection may be open, and how long none may take a request.
    patience: (Duration, Duration),
    /// When a connection was last seen open.
    last_open: u64,
    /// When requests were last seen to be taken, or not to be due.
    last_served: u64,
}

impl Standstill {
    /// `None` where something else ends the run.
    pub(crate) fn new(plan: &Plan, now: u64) -> Option<Self> {
        plan.duration.is_none().then(|| Self {
            patience: (plan.timeout.max(plan.connect_timeout), plan.patience()),
            last_open: now,
            last_served: now,
        })
    }

    /// What is seen `now`: whether any connection is open, and whether requests are due that none of
    /// them takes.
    pub(crate) fn look(&mut self, now: u64, is_open: bool, is_starved: bool) {
        if is_open {
            self.last_open = now;
        }
        if !is_open || !is_starved {
            self.last_served = now;
        }
    }

    /// Why the run is given up, if it is. Before any connection of the run has been ready, handshakes
    /// have limits of their own.
    pub(crate) fn verdict(&self, now: u64, has_connected: bool) -> Option<String> {
        let since = |instant: u64, patience: Duration| now > instant + patience.as_nanos() as u64;
        let (unconnected, unserved) = self.patience;
        if has_connected && since(self.last_open, unconnected) {
            return Some(format!("no connection could be made for {unconnected:?}"));
        }
        (self.last_open > self.last_served && since(self.last_served, unserved)).then(|| {
            format!("no connection took a request for {unserved:?}: the server allows no streams")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    const SECOND: u64 = 1_000_000_000;

    fn standstill(requests: Option<u64>) -> Option<Standstill> {
        let plan = Plan::new(&Options {
            urls: vec!["http://a/".into()],
            requests,
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            ..Options::default()
        });
        Standstill::new(&plan.unwrap(), 0)
    }

    #[test]
    fn a_run_by_time_ends_by_time() {
        assert!(standstill(None).is_none());
    }

    #[test]
    fn without_connections_it_is_given_up_once_there_was_one() {
        let mut standstill = standstill(Some(5)).unwrap();
        standstill.look(SECOND, true, false);
        standstill.look(11 * SECOND, false, true);
        assert_eq!(standstill.verdict(11 * SECOND, true), None);
        assert_eq!(standstill.verdict(12 * SECOND, false), None);
        let verdict = standstill.verdict(12 * SECOND, true);
        assert_eq!(
            verdict.as_deref(),
            Some("no connection could be made for 10s")
        );
    }

    #[test]
    fn where_no_connection_takes_a_request_it_is_given_up() {
        let mut standstill = standstill(Some(5)).unwrap();
        for second in 1..=10 {
            standstill.look(second * SECOND, true, true);
            assert_eq!(standstill.verdict(second * SECOND, true), None);
        }
        standstill.look(11 * SECOND, true, true);
        let verdict = standstill.verdict(11 * SECOND, true).unwrap();
        assert!(
            verdict.starts_with("no connection took a request for 10s"),
            "{verdict}"
        );
        standstill.look(12 * SECOND, true, false);
        assert_eq!(standstill.verdict(12 * SECOND, true), None);
    }
}
