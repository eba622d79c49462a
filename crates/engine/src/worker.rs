//! One thread: its connections, its schedule, its counts. Nothing is shared with other workers but
//! a few counters that are touched ten times a second.

mod lapses;
mod limits;
mod origins;
mod pacing;
mod report;
mod sharing;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::mpsc::Sender;

use trilane_socket::Moved;

use crate::allowance::Allowance;
use crate::connections::Connections;
use crate::context::{Clock, Context, Gone};
use crate::control::Control;
use crate::cost::Spent;
use crate::deadlines::Deadlines;
use crate::failure::FailureKind;
use crate::io::{Completion, System};
use crate::link::Link;
use crate::origin::OriginCounts;
use crate::plan::Plan;
use crate::pools::Pools;
use crate::ramp::Ramp;
use crate::record::{Recorder, Traffic, Window};
use crate::route::Address;
use crate::run::RunError;
use crate::scenario::Users;
use crate::schedule::Schedule;
use crate::shared::Shared;
use crate::slowest::Slowest;
use crate::stage::{Change, Stage};
use crate::standstill::Standstill;
use crate::tally::Tally;
use crate::turns::Rest;

use lapses::Lapses;
pub(crate) use report::Report;

/// How often reconnections and the stop signal are looked at.
const TICK: u64 = 20_000_000;
/// How often the counts for the live display are published.
const PUBLISH: u64 = 100_000_000;

pub(crate) struct Worker<'p> {
    /// Which of the run's workers it is.
    index: usize,
    plan: &'p Plan,
    control: &'p Control,
    windows: Sender<Window>,
    pool: Pools<'p>,
    context: Context<'p>,
    links: Vec<Link>,
    /// Where requests are due at a time, for each origin: links that have room for one.
    waiting: Vec<VecDeque<u32>>,
    /// Open model, where each connection has a rate of its own: when a link that has room has a request
    /// to send.
    due: Option<Deadlines>,
    /// Closed model in stages: how many requests may be in flight.
    allowance: Option<Allowance>,
    /// Timers of QUIC connections.
    timers: Deadlines,
    /// When a handshake or a request has taken too long.
    limits: Deadlines,
    /// When gRPC streams have something to do, where they have times of their own.
    streams: Option<Deadlines>,
    /// When connections ask whether the server is there, where they do.
    keepalives: Option<Deadlines>,
    stage: Stage,
    /// When the last request of a counted run had been sent.
    sent_all_at: Option<u64>,
    /// The place whose datagrams have been taken and not yet been answered.
    unanswered: Option<u32>,
    lapses: Lapses,
    /// Where runs take turns: when this one had nothing to do.
    rest: Option<Rest>,
    used_before: Spent,
    /// As the present window began.
    used_in_window: Spent,
    traffic_before: Traffic,
    published: (u64, u64),
    standstill: Option<Standstill>,
    /// Connections that had been made when it was last looked for one.
    established: u64,
}

impl<'p> Worker<'p> {
    pub(crate) fn new(
        index: usize,
        plan: &'p Plan,
        control: &'p Control,
        addresses: &'p [Vec<Address>],
        clock: Clock,
        system: Box<dyn System + 'p>,
        windows: Sender<Window>,
    ) -> Self {
        let origins = plan.origins.len();
        let parallel = plan
            .connect_parallel
            .map(|total| (total / origins).max(1))
            // Where connections are replaced all the time, handshakes are what is measured.
            .or_else(|| plan.requests_per_connection.map(|_| plan.connections))
            .map(|total| share(total, plan, index).max(1));
        let interval = plan
            .connect_rate
            .map_or(0.0, |rate| (plan.threads * origins) as f64 / rate * 1e9);
        let connections = places(plan, index);
        let ramp = || Ramp::new(parallel, interval as u64);
        let spread = plan.spread.then_some((index, plan.threads));
        let pool = Pools::new(addresses, connections / origins, ramp, spread);
        let mut recorder = Recorder::new(plan.has_waiting_requests());
        recorder.slowest = Slowest::new(plan.slowest);
        recorder.origins = OriginCounts::new(plan);
        let mut tally = Tally::new(plan, recorder);
        tally.users = plan.scenario.as_ref().map(|scenario| {
            let count = share(scenario.users, plan, index);
            Box::new(Users::new(scenario, count))
        });
        let mut context = Context::new(plan, clock, system, tally, Schedule::new(plan, index));
        context.announced = index;
        context.shared = Shared::new(plan, connections);
        let now = context.now();
        Self {
            index,
            plan,
            control,
            windows,
            pool,
            context,
            links: (0..connections as u32)
                .map(|place| Link::new(plan, place))
                .collect(),
            waiting: vec![VecDeque::with_capacity(connections / origins); origins],
            due: plan
                .rate_per_connection
                .map(|_| Deadlines::new(connections)),
            allowance: (!plan.stages_in_flight.is_empty())
                .then(|| Allowance::new(&plan.stages_in_flight)),
            timers: Deadlines::new(connections),
            limits: Deadlines::new(connections),
            streams: plan
                .calls
                .as_ref()
                .filter(|calls| calls.has_timers())
                .map(|_| Deadlines::new(connections)),
            keepalives: plan.keepalive.map(|_| Deadlines::new(connections)),
            stage: Stage::new(plan),
            sent_all_at: None,
            unanswered: None,
            lapses: Lapses::default(),
            rest: plan.in_turn.map(|_| Rest::default()),
            used_before: Spent::default(),
            used_in_window: Spent::default(),
            traffic_before: Traffic::default(),
            published: (0, 0),
            standstill: Standstill::new(plan, now),
            established: 0,
        }
    }

    /// Runs the plan to its end.
    pub(crate) fn run(mut self) -> Result<Report, RunError> {
        let ended = self.take_turns();
        if ended.is_err() {
            self.say_goodbye();
        }
        let (now, cut_short) = ended?;
        Ok(self.finish(now, cut_short))
    }

    /// Turn after turn until the run is over; says when that was, and why where it came early.
    fn take_turns(&mut self) -> Result<(u64, Option<String>), RunError> {
        let mut now = self.context.now();
        self.begin_measuring_resources();
        self.context.holding = self.plan.in_turn.is_some() || self.pool.ready_at() > now;
        let mut next_tick = now;
        let mut next_publish = now;
        loop {
            let cut_short = self.boundaries(&mut now)?;
            if let Some(reason) = cut_short {
                return Ok((now, reason));
            }
            // After the boundaries: a request that is due as the run ends does not belong to it, and one
            // that is due as the warm-up ends is measured.
            self.send_what_is_due(now, &mut next_tick)?;
            self.connect_due(now)?;
            let mut wake = next_tick;
            if let Some(turns) = self.plan.in_turn {
                wake = wake.min(self.take_turn(turns, now)?);
            } else if self.context.holding && now >= self.pool.ready_at() {
                self.begin_sending(now)?;
            }
            let wake = self.next_wake(wake);
            self.context.tally.recorder.traffic.syscalls += 1;
            self.context
                .system
                .poll(self.context.clock.instant(wake))
                .map_err(|error| RunError::new(format!("waiting for sockets failed: {error}")))?;
            while let Some((place, completion)) = self.next() {
                self.turn(place, completion)?;
            }
            self.answer()?;
            self.answer_several()?;
            // Nobody wanted to wait for longer.
            let due = wake.max(now);
            now = self.context.now();
            self.lapses.turn(due, now, self.context.holding);
            self.fire_timers(now)?;
            self.ping_due(now)?;
            self.enforce_limits(now)?;
            if now >= next_publish {
                next_publish = now + PUBLISH;
                self.publish();
            }
        }
    }

    /// Sends what is due, and looks for what has waited too long for it.
    fn send_what_is_due(&mut self, now: u64, next_tick: &mut u64) -> Result<(), RunError> {
        self.follow_stages(now)?;
        self.send_due(now)?;
        self.go_on_with_streams(now)?;
        if self.sent_all_at.is_none() && self.context.schedule.is_exhausted() {
            self.sent_all_at = Some(now);
        }
        if now >= *next_tick {
            *next_tick = now + TICK;
            self.context.give_up_waiting(now);
            self.look_for_a_standstill(now);
        }
        Ok(())
    }

    /// Ends the warm-up, a window or the run; says why where the run is over.
    fn boundaries(&mut self, now: &mut u64) -> Result<Option<Option<String>>, RunError> {
        if self.control.is_stopped() {
            if let Some(error) = self.control.fatal() {
                return Err(error);
            }
            return Ok(Some(None));
        }
        if self.stage.is_connecting()
            && let Some(begun) = self.control.begun(self.context.schedule.begun())
        {
            self.context.schedule.align(begun);
            self.arm_due();
            self.stage.begin(begun);
            self.begin_counting_connections(begun);
        }
        if self.stage.ends_warmup(*now) {
            // Takes a system call for each connection, which is no time of the measurement's.
            self.begin_measuring_resources();
            *now = self.context.now();
        }
        loop {
            match self.stage.advance(*now) {
                Change::Nothing => break,
                Change::Over => return Ok(Some(None)),
                Change::WindowEnded(length) => self.hand_over_window(*now, length),
                Change::WarmupEnded => {
                    self.begin_counting_connections(*now);
                    self.finish_warmup();
                }
            }
        }
        if self.context.is_exhausted() && self.in_flight() == 0 {
            return Ok(Some(None));
        }
        let has_connected = self.control.has_connected();
        let standstill = self.standstill.as_ref();
        Ok(standstill
            .and_then(|standstill| standstill.verdict(*now, has_connected))
            .map(Some))
    }

    /// What connections do from now on is measured, unless a warm-up ends later.
    fn begin_counting_connections(&mut self, now: u64) {
        self.pool.begin_measuring();
        self.lapses.begin_measuring();
        self.context.tally.recorder.begin_measuring(now);
        if let Some(rest) = &mut self.rest {
            rest.begin_measuring(now);
        }
    }

    /// What is counted is counted anew, but for what is under way.
    fn finish_warmup(&mut self) {
        let in_flight = self.in_flight();
        let tally = &mut self.context.tally;
        tally.recorder.finish_warmup(in_flight);
        let under_way = tally.users.as_mut().map(|users| {
            let under_way = users.under_way();
            users.counts.finish_warmup(under_way);
            under_way
        });
        let schedule = &mut self.context.schedule;
        schedule.finish_warmup(under_way.unwrap_or(in_flight));
    }

    /// Requests that are on a connection.
    fn sent(&self) -> u64 {
        let each = self.links.iter().map(|link| link.exchanges.in_flight());
        each.sum()
    }

    /// Requests that have been started and have not ended: those that wait to be sent again, too.
    fn in_flight(&self) -> u64 {
        let retries = self.context.tally.retries.iter();
        self.sent() + retries.filter(|pending| pending.start != 0).count() as u64
    }

    /// When something has to be done though no event comes, `tick` at the latest.
    fn next_wake(&self, tick: u64) -> u64 {
        let mut wake = self.stage.next().map_or(tick, |next| next.min(tick));
        // Whose turn it is was looked up before.
        let waits = self.context.holding && self.plan.in_turn.is_none();
        let ready = waits.then(|| self.pool.ready_at());
        for deadline in [
            self.timers.next(),
            self.limits.next(),
            self.next_sendable(),
            self.next_pace(),
            self.streams.as_ref().and_then(Deadlines::next),
            self.keepalives.as_ref().and_then(Deadlines::next),
            self.pool.next_due().filter(|_| self.needs_connections()),
            ready,
        ] {
            wake = deadline.map_or(wake, |deadline| deadline.min(wake));
        }
        wake
    }

    /// The next of what has happened on the sockets.
    #[inline]
    fn next(&mut self) -> Option<(u32, Completion)> {
        let mut moved = Moved::default();
        let next = self.context.system.next(&mut moved);
        self.context.tally.recorder.traffic.add_received(moved);
        next
    }

    /// Lets the link in a place take what has happened on its socket.
    fn turn(&mut self, place: u32, completion: Completion) -> Result<(), RunError> {
        if self.unanswered.is_some_and(|other| other != place) {
            self.answer()?;
        }
        if self.is_shared(place) {
            return self.turn_of_several(place, completion);
        }
        if let Completion::Datagrams = completion {
            self.unanswered = Some(place);
        }
        let link = &mut self.links[place as usize];
        let outcome = link.on_completion(completion, &mut self.context);
        self.after(place, outcome)
    }

    /// Answers the datagrams that were read from one socket, all at once: each answer would have an
    /// acknowledgement of its own.
    fn answer(&mut self) -> Result<(), RunError> {
        let Some(place) = self.unanswered.take() else {
            return Ok(());
        };
        let now = self.context.now();
        let outcome = self.links[place as usize].pump(now, &mut self.context);
        self.after(place, outcome)
    }

    /// Keeps the books of a link that had its turn.
    fn after(&mut self, index: u32, outcome: Result<(), Gone>) -> Result<(), RunError> {
        let link = &mut self.links[index as usize];
        match outcome {
            Ok(()) => {
                if let Some(timer) = link.timer() {
                    self.timers.arm(index, timer);
                }
                if let Some(streams) = &mut self.streams
                    && let Some(at) = link.exchanges.calls.next_timer()
                {
                    streams.arm(index, at);
                }
                if !link.limits_requests && link.is_open() {
                    link.limits_requests = true;
                    let now = self.context.now();
                    if let (Some(keepalives), Some(every)) =
                        (&mut self.keepalives, self.plan.keepalive)
                    {
                        keepalives.arm(index, now + every.as_nanos() as u64);
                    }
                    self.pool.opened(index, now);
                    self.limits.disarm(index);
                }
                if (!self.limits.is_armed(index) || link.exchanges.staying_until().is_some())
                    && let Some(limit) = link.limit(self.plan, self.context.clock)
                {
                    self.limits.arm(index, limit);
                }
                if self.plan.sends_when_due() && !link.waiting && link.has_room(&self.context) {
                    self.gain_room(index);
                }
                let link = &mut self.links[index as usize];
                if !link.established && link.is_ready(self.plan) {
                    link.established = true;
                    self.control.connection_established();
                }
                Ok(())
            }
            Err(gone) => self.gone(index, gone),
        }
    }

    fn gone(&mut self, index: u32, gone: Gone) -> Result<(), RunError> {
        let now = self.context.now();
        let link = &mut self.links[index as usize];
        let gone = match gone {
            // It had carried what it may, and the ticket that it stayed for does not come.
            Gone::Closed(_) if link.exchanges.staying_until().is_some() => Gone::Spent,
            gone => gone,
        };
        let kind = match &gone {
            Gone::Failed(kind, _) | Gone::Closed(kind) => Some(*kind),
            Gone::Exhausted(_) => Some(FailureKind::Connect),
            Gone::Spent => None,
        };
        if link.is_open() {
            // Perhaps it came and goes within one turn.
            self.pool.opened(index, now);
        }
        // In early data requests leave before their connection is ready, and fail with it.
        let carried = link.exchanges.in_flight() > 0;
        let reason = match &gone {
            Gone::Failed(kind, message) => Some((*kind, message.as_str())),
            Gone::Exhausted(_) | Gone::Closed(_) | Gone::Spent => None,
        };
        let served = link.close(reason, &mut self.context);
        if served && !link.established && matches!(gone, Gone::Closed(_) | Gone::Spent) {
            // It came, served and went within one turn.
            self.control.connection_established();
        }
        self.timers.disarm(index);
        self.limits.disarm(index);
        for deadlines in [&mut self.streams, &mut self.keepalives]
            .into_iter()
            .flatten()
        {
            deadlines.disarm(index);
        }
        let Some(kind) = kind else {
            self.pool.spent(index);
            return Ok(());
        };
        self.pool.ended(index, kind, served, now);
        let message = match gone {
            Gone::Closed(_) | Gone::Spent => return Ok(()),
            Gone::Failed(_, message) => message,
            Gone::Exhausted(message) => {
                self.pool.exhaust(index);
                message
            }
        };
        if !self.control.has_connected() {
            return self.never_connected(index, kind, message);
        }
        if !carried {
            let exchanges = &self.links[index as usize].exchanges;
            self.context.fail_one(kind, now, &message, exchanges);
        }
        Ok(())
    }

    /// No connection of the run has been ready yet: another address, patience, or the end.
    fn never_connected(
        &mut self,
        index: u32,
        kind: FailureKind,
        message: String,
    ) -> Result<(), RunError> {
        if self.pool.tries_another_address(index) {
            return Ok(());
        }
        let definite = matches!(
            kind,
            FailureKind::Refused | FailureKind::Tls | FailureKind::Protocol | FailureKind::Limit
        );
        if self.pool.is_hopeless(index, definite) {
            return Err(self.control.fail(RunError::from_connection(kind, message)));
        }
        Ok(())
    }

    /// Whether a connection that is begun may have something to carry: those that are replaced on
    /// purpose are not when every request of a counted run has been sent.
    fn needs_connections(&self) -> bool {
        self.plan.requests_per_connection.is_none() || !self.context.is_exhausted()
    }

    /// Begins the connections that are due.
    fn connect_due(&mut self, now: u64) -> Result<(), RunError> {
        while self.needs_connections()
            && let Some((index, address)) = self.pool.connect(now)
        {
            self.connect(index, address)?;
        }
        Ok(())
    }

    /// The first connections are there: requests leave on all of them.
    fn begin_sending(&mut self, now: u64) -> Result<(), RunError> {
        self.context.holding = false;
        self.context.opened(now);
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            if link.is_open() {
                let outcome = link.pump(now, &mut self.context);
                self.after(index as u32, outcome)?;
            }
        }
        Ok(())
    }

    fn connect(&mut self, index: u32, address: &Address) -> Result<(), RunError> {
        let link = &mut self.links[index as usize];
        let number = index as usize * self.plan.threads + self.index;
        let source = self.plan.origins[link.exchanges.origin()]
            .route
            .source(number);
        let opened = link.open(address, source, &mut self.context);
        self.after(index, opened)
    }

    /// Looks for what ends a counted run whose server has gone for good, or takes no requests.
    fn look_for_a_standstill(&mut self, now: u64) {
        if self.standstill.is_none() {
            return;
        }
        let established = self.pool.counts().map(Connections::established).sum();
        // Those of a server that sends its clients away may come and go between two looks.
        let came = std::mem::replace(&mut self.established, established) != established;
        let is_open = came || self.pool.open() > 0;
        let is_starved = self.is_starved(now);
        if let Some(standstill) = &mut self.standstill {
            standstill.look(now, is_open, is_starved);
        }
    }

    /// Whether requests are due, and no connection has taken any.
    fn is_starved(&self, now: u64) -> bool {
        self.context.is_due(now) && self.sent() == 0
    }

    fn say_goodbye(&mut self) {
        for link in &mut self.links {
            link.say_goodbye(&mut self.context);
        }
        self.context.system.finish();
    }
}

/// How many of `total` fall to worker `index`.
pub(crate) fn share(total: usize, plan: &Plan, index: usize) -> usize {
    total / plan.threads + usize::from(index < total % plan.threads)
}

/// How many places for connections worker `index` has.
pub(crate) fn places(plan: &Plan, index: usize) -> usize {
    share(plan.connections, plan, index) * plan.origins.len()
}
