//! What leaves because its time has come, or because more may be in flight.

use crate::allowance::part;
use crate::run::RunError;
use crate::turns::Turns;

use super::Worker;

impl Worker<'_> {
    /// Where runs take turns: sends while it is this one's, once connections are there, and holds while it is not.
    /// Gives when that has to be looked at again.
    pub(super) fn take_turn(&mut self, turns: Turns, now: u64) -> Result<u64, RunError> {
        let (mine, until) = turns.at(self.context.clock.instant(now));
        let ready = self.pool.ready_at();
        if !mine {
            self.context.holding = true;
        } else if self.context.holding && now >= ready {
            if let Some(rest) = &mut self.rest {
                rest.end(now);
            }
            self.begin_sending(now)?;
        }
        // What is in flight when a turn ends is the run's own time still.
        if self.context.holding
            && self.in_flight() == 0
            && let Some(rest) = &mut self.rest
        {
            rest.begin(now);
        }
        let until = self.context.clock.at(until);
        Ok(if mine && now < ready {
            until.min(ready)
        } else {
            until
        })
    }

    /// Where requests are due at a time: a link has room for one.
    pub(super) fn gain_room(&mut self, index: u32) {
        let link = &mut self.links[index as usize];
        let Some(due) = &mut self.due else {
            link.waiting = true;
            let origin = link.exchanges.origin();
            let waiting = &mut self.waiting[origin];
            if waiting.is_empty() {
                self.context.room_since[origin] = Some(self.context.now());
            }
            waiting.push_back(index);
            return;
        };
        // Before the first connections are there nothing is due; then each is looked at.
        if let Some(at) = self.context.schedule.next_due_on(index) {
            link.waiting = true;
            link.exchanges.room_since = Some(self.context.now());
            due.arm(index, at);
        }
    }

    /// What is due on connections of their own rate counts from another instant now.
    pub(super) fn arm_due(&mut self) {
        let Some(due) = &mut self.due else { return };
        for index in 0..self.links.len() as u32 {
            if self.links[index as usize].waiting
                && let Some(at) = self.context.schedule.next_due_on(index)
            {
                due.arm(index, at);
            }
        }
    }

    /// When a request is due on a connection of its own rate that has room, or another number of requests
    /// may be in flight.
    pub(super) fn next_pace(&self) -> Option<u64> {
        let due = self.due.as_ref().and_then(|due| due.next());
        let due = due.filter(|_| !self.context.holding);
        let changes = self.allowance.as_ref().and_then(|allowance| {
            let begun = self.context.schedule.begun()?;
            let is_running = !self.stage.is_connecting();
            is_running.then(|| begun.saturating_add(allowance.changes()))
        });
        due.into_iter().chain(changes).min()
    }

    /// Sends what is due, in the open model or by virtual users, on the links that have room, one after
    /// another.
    pub(super) fn send_due(&mut self, now: u64) -> Result<(), RunError> {
        // Nothing leaves, though another worker may have begun the run, and requests be due.
        if self.context.holding {
            return Ok(());
        }
        while let Some(index) = self.due.as_mut().and_then(|due| due.expired(now)) {
            let link = &mut self.links[index as usize];
            link.waiting = false;
            let outcome = link.pump(now, &mut self.context);
            link.exchanges.room_since = None;
            self.after(index, outcome)?;
        }
        if self.plan.has_several_origins() {
            return self.send_due_to_each(now);
        }
        while self.context.next_due().is_some_and(|due| due <= now)
            && let Some(index) = self.waiting[0].pop_front()
        {
            self.send_on(index, now)?;
        }
        Ok(())
    }

    /// Lets gRPC streams send the messages that are due, and end when they have lasted as long as they may.
    pub(super) fn go_on_with_streams(&mut self, now: u64) -> Result<(), RunError> {
        while let Some(index) = self.streams.as_mut().and_then(|due| due.expired(now)) {
            let outcome = self.links[index as usize].pump(now, &mut self.context);
            self.after(index, outcome)?;
        }
        Ok(())
    }

    /// Sends what is due on a link that has had room.
    pub(super) fn send_on(&mut self, index: u32, now: u64) -> Result<(), RunError> {
        let link = &mut self.links[index as usize];
        link.waiting = false;
        let origin = link.exchanges.origin();
        let outcome = link.pump(now, &mut self.context);
        if self.waiting[origin].is_empty() {
            self.context.room_since[origin] = None;
        }
        self.after(index, outcome)
    }

    /// When a request is due that a link has room for.
    pub(super) fn next_sendable(&self) -> Option<u64> {
        if self.context.holding {
            return None;
        }
        match &self.waiting[..] {
            [waiting] => self.context.next_due().filter(|_| !waiting.is_empty()),
            _ => self.next_to_each(),
        }
    }

    /// Closed model in stages: as many requests may be in flight as the stage says by now. Where there
    /// may be more they leave; where there may be fewer, nothing takes the place of those that end.
    pub(super) fn follow_stages(&mut self, now: u64) -> Result<(), RunError> {
        let (Some(allowance), false) = (&mut self.allowance, self.stage.is_connecting()) else {
            return Ok(());
        };
        let Some(begun) = self.context.schedule.begun() else {
            return Ok(());
        };
        let Some((before, allowed)) = allowance.advance(now.saturating_sub(begun)) else {
            return Ok(());
        };
        let (connections, workers) = (self.plan.connections as u64, self.plan.threads as u64);
        let (low, high) = (before.min(allowed), before.max(allowed));
        // Each request more or less is another connection's, in turn.
        for request in low..high.min(low + connections) {
            let number = request % connections;
            if number % workers != self.index as u64 {
                continue;
            }
            let place = number / workers;
            let link = &mut self.links[place as usize];
            link.exchanges.allow(part(allowed, number, connections));
            if allowed > before && link.is_open() {
                let outcome = link.pump(now, &mut self.context);
                self.after(place as u32, outcome)?;
            }
        }
        Ok(())
    }
}
