//! The virtual users of one worker: what each does next, and when.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;

use url::Url;

use crate::record::Instants;
use crate::schedule::Schedule;
use crate::tally::Pending;

use super::cookies::Cookies;
use super::program::{Cursor, Next};
use super::{Iterations, ScenarioPlan, StepPlan, Values, Visit};

/// The virtual users of one worker.
#[derive(Debug)]
pub(crate) struct Users<'p> {
    plan: &'p ScenarioPlan,
    all: Vec<User>,
    /// Those that do nothing, and since when there has been one.
    idle: Vec<u32>,
    idle_since: u64,
    /// For each origin those that have a request to send there, and since when, the first first.
    ready: Vec<VecDeque<(u64, u32)>>,
    /// Those that pause, and until when.
    pausing: BinaryHeap<Reverse<(u64, u32)>>,
    pub(crate) counts: Iterations,
}

/// A virtual user.
struct User {
    /// The number of its iteration among all of the run.
    number: u64,
    /// When that should have begun.
    began: u64,
    /// Since when it could have: it had done nothing.
    idle_since: u64,
    cursor: Cursor,
    /// The request that it sends, or awaits the response to.
    step: u32,
    /// What it has taken from responses, by variable.
    variables: Vec<String>,
    cookies: Cookies,
    /// The field that was last sent with them.
    cookie: String,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What it has taken may be secret.
        f.debug_struct("User")
            .field("number", &self.number)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

impl<'p> Users<'p> {
    /// `count` users of a scenario.
    pub(crate) fn new(plan: &'p ScenarioPlan, count: usize) -> Self {
        let user = || User {
            number: 0,
            began: 0,
            idle_since: 0,
            cursor: plan.program.begin(),
            step: 0,
            variables: vec![String::new(); plan.variables.len()],
            cookies: Cookies::default(),
            cookie: String::new(),
        };
        Self {
            plan,
            all: (0..count).map(|_| user()).collect(),
            idle: (0..count as u32).rev().collect(),
            idle_since: 0,
            ready: vec![VecDeque::with_capacity(count); plan.origins()],
            pausing: BinaryHeap::with_capacity(count),
            counts: Iterations::new(plan.steps.len()),
        }
    }

    /// The next request that a user has to send to an origin now, the one first that has waited longest.
    /// Users that do nothing begin iterations as `schedule` says.
    pub(crate) fn take(
        &mut self,
        now: u64,
        origin: u32,
        schedule: &mut Schedule,
    ) -> Option<Pending> {
        self.go_on(now, schedule);
        let (intended, user) = self.ready[origin as usize].pop_front()?;
        let User { number, step, .. } = self.all[user as usize];
        Some(Pending {
            request: step,
            number,
            attempts: 0,
            intended,
            start: 0,
            user,
        })
    }

    /// Users whose pause is over, or whose iteration is due, have a request to send.
    pub(crate) fn go_on(&mut self, now: u64, schedule: &mut Schedule) {
        self.wake(now);
        self.begin(now, schedule);
    }

    /// Begins the iterations that are due, as long as there are users for them.
    fn begin(&mut self, now: u64, schedule: &mut Schedule) {
        while let Some(&user) = self.idle.last()
            // Users share the connections, so that no place has a clock of its own.
            && let Some(begun) = schedule.take(now, 0)
        {
            self.idle.pop();
            self.counts.started += 1;
            self.counts.begun += 1;
            let idle_since = self.idle_since;
            let it = &mut self.all[user as usize];
            it.number = begun.number;
            it.began = begun.intended;
            it.idle_since = idle_since;
            it.cursor = self.plan.program.begin();
            it.variables.iter_mut().for_each(String::clear);
            it.cookies.clear();
            self.step(user, begun.intended, now);
        }
    }

    /// Those whose pause is over have something to do.
    fn wake(&mut self, now: u64) {
        while let Some(&Reverse((until, user))) = self.pausing.peek()
            && until <= now
        {
            self.pausing.pop();
            self.step(user, until, now);
        }
    }

    /// What `user` does next could be done `from` this instant.
    fn step(&mut self, user: u32, from: u64, now: u64) {
        let it = &mut self.all[user as usize];
        match self.plan.program.next(&mut it.cursor, it.number) {
            Next::Send(step) => {
                it.step = step;
                let origin = self.plan.steps[step as usize].origin;
                self.ready[origin].push_back((from, user));
            }
            Next::Pause(time) => self
                .pausing
                .push(Reverse((from.saturating_add(time), user))),
            Next::End => {
                let took = now.saturating_sub(it.began);
                self.counts.ok += 1;
                self.counts.duration.record(took);
                self.rest(user, now);
            }
        }
    }

    fn rest(&mut self, user: u32, now: u64) {
        if self.idle.is_empty() {
            self.idle_since = now;
        }
        self.idle.push(user);
    }

    /// Takes what the step of `user` takes from a response, or says what is wrong with that.
    pub(crate) fn judge(
        &mut self,
        user: u32,
        visit: &Visit,
        step: &StepPlan,
    ) -> Result<(), String> {
        visit.judge(step, &mut self.all[user as usize].variables)
    }

    /// The request of `user` has been answered as expected.
    pub(crate) fn succeeded(&mut self, user: u32, at: Instants, now: u64) {
        let step = &mut self.counts.steps[at.of.request as usize];
        step.ok += 1;
        step.service.record(now.saturating_sub(at.start));
        self.step(user, now, now);
    }

    /// The request of `user` has failed, and the iteration with it.
    pub(crate) fn failed(&mut self, user: u32, now: u64) {
        let step = self.all[user as usize].step;
        self.counts.steps[step as usize].failed += 1;
        self.counts.failed += 1;
        self.rest(user, now);
    }

    /// Keeps the cookies that a response sets for `user`.
    pub(crate) fn keep_cookies(&mut self, user: u32, set: &[String]) {
        let it = &mut self.all[user as usize];
        let url = &self.plan.steps[it.step as usize].url;
        for field in set {
            it.cookies.keep(field, url);
        }
    }

    /// Whether a request of `user` has cookies, with `path` where that is not the step's.
    pub(crate) fn has_cookies(&mut self, user: u32, path: Option<&str>) -> bool {
        let it = &mut self.all[user as usize];
        it.cookie.clear();
        if it.cookies.is_empty() {
            return false;
        }
        let step = &self.plan.steps[it.step as usize];
        let moved = path.and_then(|path| step.url.join(path).ok());
        let url: &Url = moved.as_ref().unwrap_or(&step.url);
        it.cookies.write(url, &mut it.cookie);
        !it.cookie.is_empty()
    }

    /// What goes into the requests of `user`.
    pub(crate) fn values(&self, user: u32) -> Values<'_> {
        let User {
            variables, cookie, ..
        } = &self.all[user as usize];
        Values {
            variables,
            cookies: cookie,
        }
    }

    /// When the iteration that a pending request is the first of could have begun, so far as that hung
    /// on users; 0 for other requests.
    pub(crate) fn could_begin(&self, pending: Pending) -> u64 {
        let user = &self.all[pending.user as usize];
        if pending.intended == user.began {
            user.idle_since
        } else {
            0
        }
    }

    /// When a user has something to send.
    pub(crate) fn next_due(&self, schedule: &Schedule) -> Option<u64> {
        let ready = self.ready.iter().filter_map(|each| each.front());
        let ready = ready.map(|(since, _)| *since);
        ready.chain(self.next_begun(schedule)).min()
    }

    /// When a user has something to send to an origin.
    pub(crate) fn next_due_to(&self, origin: usize) -> Option<u64> {
        self.ready[origin].front().map(|(since, _)| *since)
    }

    /// When [`Self::go_on`] has something to do.
    pub(crate) fn next_begun(&self, schedule: &Schedule) -> Option<u64> {
        let woken = self.pausing.peek().map(|Reverse((until, _))| *until);
        let begun = schedule.next_start().filter(|_| !self.idle.is_empty());
        woken.into_iter().chain(begun).min()
    }

    /// Iterations that have begun and not ended.
    pub(crate) fn under_way(&self) -> u64 {
        (self.all.len() - self.idle.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listed::Listed;
    use crate::options::Options;
    use crate::plan::Plan;
    use crate::scenario::{Flow, Scenario, Step};
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    fn plan(change: impl FnOnce(&mut Options)) -> Plan {
        let mut options = options();
        change(&mut options);
        Plan::new(&options).unwrap()
    }

    /// With the second request to another URL.
    fn plan_to(url: &str) -> Plan {
        plan(|options| options.listed[1].url = url.into())
    }

    fn options() -> Options {
        let step = |name: &str| Step {
            name: name.into(),
            ..Step::default()
        };
        let pause = Duration::from_millis(5);
        Options {
            listed: vec![
                Listed::new("", "http://a.example/login"),
                Listed::new("", "http://a.example/items/{seq}"),
            ],
            connections: 2,
            scenario: Some(Scenario {
                name: "shop".into(),
                users: None,
                flow: vec![Flow::Send(0), Flow::Pause(pause, pause), Flow::Send(1)],
                steps: vec![step("login"), step("item")],
                cookies: true,
            }),
            ..Options::default()
        }
    }

    fn parts(plan: &Plan) -> (Users<'_>, Schedule) {
        let mut schedule = Schedule::new(plan, 0);
        schedule.begin(0);
        let scenario = plan.scenario.as_ref().unwrap();
        (Users::new(scenario, scenario.users), schedule)
    }

    fn at(step: u32, start: u64) -> Instants {
        let mut at = Instants {
            intended: start,
            start,
            ..Instants::default()
        };
        at.of.request = step;
        at
    }

    #[test]
    fn users_go_on_when_they_are_answered() {
        let plan = plan(|_| ());
        let (mut users, mut schedule) = parts(&plan);
        let mut take = |users: &mut Users<'_>, now: u64| {
            let taken = users.take(now, 0, &mut schedule)?;
            Some((taken.user, taken.request, taken.number, taken.intended))
        };
        assert_eq!(take(&mut users, 1), Some((0, 0, 0, 1)));
        assert_eq!(take(&mut users, 2), Some((1, 0, 1, 1)));
        assert_eq!(take(&mut users, 3), None, "both are waiting");
        users.succeeded(1, at(0, 2), MS);
        assert_eq!(take(&mut users, MS), None, "it pauses");
        assert_eq!(users.next_due(&schedule_of(&plan)), Some(6 * MS));
        // Late, and due when the pause was over.
        assert_eq!(take(&mut users, 7 * MS), Some((1, 1, 1, 6 * MS)));
        users.succeeded(1, at(1, 7 * MS), 8 * MS);
        let counts = &users.counts;
        assert_eq!((counts.started, counts.ok, counts.failed), (2, 1, 0));
        assert_eq!(counts.duration.count(), 1);
        // It begins anew.
        assert_eq!(take(&mut users, 8 * MS), Some((1, 0, 2, 8 * MS)));
        users.failed(0, 9 * MS);
        assert_eq!((users.counts.failed, users.counts.steps[0].failed), (1, 1));
        assert_eq!(users.under_way(), 1);
    }

    fn schedule_of(plan: &Plan) -> Schedule {
        let mut schedule = Schedule::new(plan, 0);
        schedule.begin(0);
        schedule
    }

    #[test]
    fn iterations_of_the_open_model_wait_for_a_user() {
        let plan = plan(|options| options.rate = Some(1000.0));
        let (mut users, mut schedule) = parts(&plan);
        let first = users.take(0, 0, &mut schedule).unwrap();
        assert_eq!((first.user, first.intended), (0, 0));
        assert_eq!(
            users.take(0, 0, &mut schedule),
            None,
            "the next is due at 1 ms"
        );
        users.take(MS, 0, &mut schedule).unwrap();
        assert_eq!(users.next_due(&schedule), None, "no user is idle");
        users.failed(0, 3 * MS);
        let third = users.take(3 * MS, 0, &mut schedule).unwrap();
        assert_eq!((third.intended, users.could_begin(third)), (2 * MS, 3 * MS));
    }

    #[test]
    fn cookies_are_those_of_the_user_and_the_path() {
        let plan = plan(|_| ());
        let (mut users, mut schedule) = parts(&plan);
        users.take(1, 0, &mut schedule).unwrap();
        users.take(1, 0, &mut schedule).unwrap();
        let set = [
            "sid=1; Path=/; HttpOnly",
            "cart=2; Path=/items",
            "other=3; Domain=b.example",
            "safe=4; Secure",
        ];
        users.keep_cookies(0, &set.map(str::to_owned));
        let sent = |users: &mut Users<'_>, user: u32, path: &str| {
            users.has_cookies(user, Some(path));
            let cookies = users.values(user).cookies;
            cookies.to_owned()
        };
        assert_eq!(sent(&mut users, 0, "/items/7"), "cart=2; sid=1");
        assert_eq!(sent(&mut users, 0, "/other"), "sid=1");
        assert_eq!(sent(&mut users, 1, "/items/7"), "");
        // Another origin's are its own.
        users.all[0].step = 1;
        assert_eq!(sent(&mut users, 0, "/items/7"), "cart=2; sid=1");
        let elsewhere = plan_to("http://b.example/items/{seq}");
        let mut others = Users::new(elsewhere.scenario.as_ref().unwrap(), 1);
        others.keep_cookies(0, &set.map(str::to_owned));
        others.all[0].step = 1;
        assert_eq!(sent(&mut others, 0, "/items/7"), "");
        others.all[0].step = 0;
        assert_eq!(sent(&mut others, 0, "/items/7"), "cart=2; sid=1");
        users.all[0].step = 0;
        // The next iteration is another visitor's.
        users.failed(0, 2);
        users.take(2, 0, &mut schedule).unwrap();
        assert_eq!(sent(&mut users, 0, "/items/7"), "");
    }
}
