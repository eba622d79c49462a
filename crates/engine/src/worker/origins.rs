//! Requests to several origins: each origin has connections of its own, and what is due to one waits for these.

use crate::origin::OriginReport;
use crate::run::RunError;

use super::Worker;

impl Worker<'_> {
    /// Sends what is due on the links to its origin that have room, one after another. In the closed model
    /// the next request in order is due as soon as another may be in flight.
    pub(super) fn send_due_to_each(&mut self, now: u64) -> Result<(), RunError> {
        self.context.go_on(now);
        for origin in 0..self.waiting.len() {
            self.send_due_to(origin, now)?;
        }
        // No more in one turn, as those that fail at once make room for others for ever.
        for _ in 0..self.context.schedule.most_assigned() {
            let Some(origin) = self.context.assign(now) else {
                break;
            };
            self.send_due_to(origin, now)?;
        }
        Ok(())
    }

    fn send_due_to(&mut self, origin: usize, now: u64) -> Result<(), RunError> {
        while self
            .context
            .next_due_to(origin)
            .is_some_and(|due| due <= now)
            && let Some(index) = self.waiting[origin].pop_front()
        {
            self.send_on(index, now)?;
        }
        Ok(())
    }

    /// When a request is due that a link to its origin has room for, or another one is to be chosen.
    pub(super) fn next_to_each(&self) -> Option<u64> {
        let waiting = self.waiting.iter().enumerate();
        let with_room = waiting.filter(|(_, links)| !links.is_empty());
        let due = with_room.filter_map(|(origin, _)| self.context.next_due_to(origin));
        due.chain(self.context.next_assigned()).min()
    }

    /// What is known of each origin as the run ends.
    pub(super) fn origin_reports(&self) -> Vec<OriginReport> {
        let counts = self.pool.counts();
        let reports = counts.map(|connections| OriginReport {
            abandoned: 0,
            connections: connections.clone(),
        });
        let mut reports: Vec<_> = reports.collect();
        for link in &self.links {
            let exchanges = &link.exchanges;
            reports[exchanges.origin()].abandoned += exchanges.in_flight();
        }
        let started = |pending: &&crate::tally::Pending| pending.start != 0;
        for pending in self.context.tally.retries.iter().filter(started) {
            reports[self.plan.origin_of(pending.request)].abandoned += 1;
        }
        reports
    }
}
