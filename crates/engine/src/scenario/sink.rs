//! The sink of a scenario's requests: looks into responses and lets their users go on.

use trilane_wire::{Events, Fields, Head, StreamError, StreamId};

use crate::exchanges::Exchanges;
use crate::failure::FailureKind;
use crate::tally::Tally;

use super::{ScenarioPlan, StepPlan};

/// The sink of one call of `receive` where requests are those of a scenario.
pub(crate) struct StepSink<'a, 'p> {
    pub(crate) now: u64,
    pub(crate) plan: &'p ScenarioPlan,
    pub(crate) exchanges: &'a mut Exchanges,
    pub(crate) tally: &'a mut Tally<'p>,
    /// What the transport said when it failed, for messages.
    pub(crate) cause: Option<&'a str>,
}

impl<'p> StepSink<'_, 'p> {
    fn step(&self, id: StreamId) -> &'p StepPlan {
        &self.plan.steps[self.exchanges.request(id) as usize]
    }
}

impl Events for StepSink<'_, '_> {
    const FIELDS: bool = true;

    fn head(&mut self, id: StreamId, head: Head<'_>) {
        self.exchanges.head(id, self.now, &head, self.tally);
        self.tally.know_server(head.fields);
        let step = self.step(id);
        let visit = self.exchanges.visits.get_mut(id.slot);
        visit.head(step, head.fields, self.plan.cookies);
    }

    fn data(&mut self, id: StreamId, bytes: &[u8]) {
        self.exchanges.data(id, bytes.len(), self.tally);
        let step = self.step(id);
        self.exchanges.visits.get_mut(id.slot).data(step, bytes);
    }

    fn unsent(&mut self, id: StreamId, bytes: u64) {
        self.exchanges.unsent(id, bytes);
    }

    fn surplus(&mut self, id: StreamId, bytes: u64) {
        self.exchanges.surplus(id, bytes);
    }

    fn end(&mut self, id: StreamId, _trailers: Option<Fields<'_>>) {
        let step = self.step(id);
        let (status, content) = self.exchanges.answered(id);
        let (at, unsent) = self.exchanges.complete(id);
        if unsent > 0 {
            self.tally.recorder.early.add(content, unsent);
        }
        let request = at.of.request;
        let is_accepted = self.tally.plan.accepts(request, status);
        let user = self.exchanges.visits.user(id.slot);
        let broken = self.exchanges.broken(id);
        let visit = self.exchanges.visits.get_mut(id.slot);
        let Some(users) = &mut self.tally.users else {
            return;
        };
        users.keep_cookies(user, visit.set_cookies());
        let judged = if let Some(text) = broken {
            Err((FailureKind::Protocol, text))
        } else if is_accepted {
            let judged = users.judge(user, visit, step);
            judged.map_err(|text| (FailureKind::Check, text))
        } else {
            let text = format!("the server answered with status {status}");
            Err((FailureKind::Status, text))
        };
        match judged {
            Ok(()) => {
                users.succeeded(user, at, self.now);
                self.tally.recorder.ok(self.now, at);
            }
            Err((kind, text)) => {
                let name = &step.name;
                self.tally.failed(kind, self.now, Some(at), user, || {
                    format!("the step {name:?}: {text}")
                });
            }
        }
    }

    fn goaway(&mut self, code: u64, debug: &[u8]) {
        self.tally.know_goaway(code, debug);
    }

    fn fail(&mut self, id: StreamId, error: StreamError) {
        self.exchanges
            .fail(id, error, self.now, self.cause, self.tally);
    }
}
