//! What a worker does because a time has come: it ends what takes too long, and runs QUIC's timers.

use std::time::Duration;

use crate::context::Gone;
use crate::failure::FailureKind;
use crate::run::RunError;

use super::Worker;

impl Worker<'_> {
    /// Ends requests and handshakes that took too long.
    pub(super) fn enforce_limits(&mut self, now: u64) -> Result<(), RunError> {
        let request_limit = self.plan.patience().as_nanos() as u64;
        while let Some(index) = self.limits.expired(now) {
            let link = &mut self.links[index as usize];
            match link.limit(self.plan, self.context.clock) {
                Some(limit) if limit <= now => (),
                // The request that it was set for has ended, and others have not.
                Some(later) => {
                    self.limits.arm(index, later);
                    continue;
                }
                None => continue,
            }
            if let Some(waiting_for) = link.handshake() {
                let message = format!(
                    "{waiting_for} to {} was not ready within {}",
                    self.pool.address(index),
                    show(self.plan.connect_timeout)
                );
                self.gone(index, Gone::Failed(FailureKind::HandshakeTimeout, message))?;
                continue;
            }
            if link.exchanges.staying_until().is_some() {
                let outcome = link.pump(now, &mut self.context);
                self.after(index, outcome)?;
                continue;
            }
            let Some(deadline) = now.checked_sub(request_limit) else {
                continue;
            };
            let outcome = match link.give_up_overdue(deadline, now, &mut self.context) {
                Ok(false) => continue,
                Ok(true) => {
                    let now = self.context.now();
                    link.pump(now, &mut self.context)
                }
                Err(gone) => Err(gone),
            };
            self.after(index, outcome)?;
        }
        Ok(())
    }

    /// Has connections whose time it is ask whether the server is there; one whose last PING has not been answered
    /// by now is lost.
    pub(super) fn ping_due(&mut self, now: u64) -> Result<(), RunError> {
        while let Some(index) = self.keepalives.as_mut().and_then(|due| due.expired(now)) {
            let link = &mut self.links[index as usize];
            let outcome = link.ping(now, &mut self.context);
            let is_there = outcome.is_ok();
            self.after(index, outcome)?;
            if let (true, Some(keepalives), Some(every)) =
                (is_there, &mut self.keepalives, self.plan.keepalive)
            {
                keepalives.arm(index, now + every.as_nanos() as u64);
            }
        }
        Ok(())
    }

    /// Lets QUIC connections whose timer has passed do what they have to.
    pub(super) fn fire_timers(&mut self, now: u64) -> Result<(), RunError> {
        while let Some(index) = self.timers.expired(now) {
            let outcome = self.links[index as usize].on_timer(now, &mut self.context);
            self.after(index, outcome)?;
        }
        Ok(())
    }
}

/// A duration as people read it.
fn show(duration: Duration) -> String {
    format!("{duration:?}")
}
