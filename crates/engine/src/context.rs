//! What the connections of one worker share.

use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use trilane_socket::Unmade;
use trilane_transport::tls;
use trilane_wire::{Encoding, Refused, Request, StreamId, h2, h3, websocket};

use crate::changing::Changing;
use crate::concurrency::InFlight;
use crate::exchanges::Exchanges;
use crate::failure::FailureKind;
use crate::io::System;
use crate::plan::{Plan, Version};
use crate::record::{Instants, Wait};
use crate::scenario::{Users, Values};
use crate::schedule::Schedule;
use crate::shared::Shared;
use crate::slowest::Of;
use crate::tally::{Pending, Tally};
use crate::websocket::Masks;

/// Nanoseconds since the run began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(pub(crate) Instant);

impl Clock {
    /// What the clock showed at `instant`.
    #[inline]
    pub(crate) fn at(self, instant: Instant) -> u64 {
        instant.saturating_duration_since(self.0).as_nanos() as u64
    }

    /// When the clock showed `now`.
    #[inline]
    pub(crate) fn instant(self, now: u64) -> Instant {
        self.0 + Duration::from_nanos(now)
    }
}

/// What the connections found out about the server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Learned {
    /// Connections established, by version.
    pub(crate) versions: [u64; 4],
    #[serde(with = "crate::told::tls")]
    pub(crate) tls: Option<tls::Info>,
    pub(crate) peer: Option<String>,
    pub(crate) congestion_control: Option<String>,
    pub(crate) mtu: Option<u64>,
    pub(crate) rtt_s: Option<f64>,
    /// The smallest round-trip time of all connections.
    pub(crate) min_rtt_s: Option<f64>,
    /// Whether a server was told how often to acknowledge, where that was asked for.
    pub(crate) ack_frequency: Option<bool>,
    #[serde(with = "crate::told::h2")]
    pub(crate) h2: Option<h2::PeerSettings>,
    #[serde(with = "crate::told::h3")]
    pub(crate) h3: Option<h3::PeerSettings>,
}

fn least(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(f64::min)
}

/// The end of a connection that none of the run's requests can be sent on.
pub(crate) fn misfit(peer: &dyn fmt::Display, refused: Refused, setting: &str) -> Gone {
    if refused == Refused::NoConnectProtocol {
        let message =
            format!("{peer} takes no WebSockets over HTTP/2: {refused}; type --h1 for HTTP/1.1");
        return Gone::Failed(FailureKind::Protocol, message);
    }
    let message = format!("{peer} takes none of the requests: {refused} ({setting})");
    Gone::Failed(FailureKind::Limit, message)
}

/// The end of a connection whose socket could not be made, from `source` where that was asked for.
pub(crate) fn unmade(unmade: Unmade, source: Option<SocketAddr>) -> Gone {
    let Unmade { what, error } = unmade;
    let way_out = match Errno::from_io_error(&error) {
        Some(Errno::MFILE | Errno::NFILE) => "raise it with 'ulimit -n' or lower -c",
        Some(Errno::ADDRINUSE) => {
            "no local port is free: lower -c or give more addresses by --bind"
        }
        // With a source it is one that this machine does not have.
        Some(Errno::ADDRNOTAVAIL) if source.is_none() => {
            "no local port is free: lower -c, give more addresses by --bind or widen net.ipv4.ip_local_port_range"
        }
        _ => return Gone::Failed(FailureKind::Connect, format!("{what}: {error}")),
    };
    Gone::Exhausted(format!("{what}: {error}: {way_out}"))
}

impl Learned {
    pub(crate) fn merge(&mut self, other: Learned) {
        for (sum, count) in self.versions.iter_mut().zip(other.versions) {
            *sum += count;
        }
        let min_rtt_s = least(self.min_rtt_s, other.min_rtt_s);
        let ack_frequency = self.ack_frequency.max(other.ack_frequency);
        if self.peer.is_none() {
            let versions = self.versions;
            *self = Learned { versions, ..other };
        }
        (self.min_rtt_s, self.ack_frequency) = (min_rtt_s, ack_frequency);
    }

    /// A connection has had this smoothed round-trip time last, and this one at least.
    pub(crate) fn round_trips(&mut self, smoothed_s: f64, least_s: Option<f64>) {
        self.rtt_s = Some(smoothed_s);
        self.min_rtt_s = least(self.min_rtt_s, least_s);
    }

    pub(crate) fn established(&mut self, version: Version) {
        self.versions[version as usize] += 1;
    }
}

/// The end of a connection.
#[derive(Debug)]
pub(crate) enum Gone {
    /// It never became ready.
    Failed(FailureKind, String),
    /// This machine, or what it allows the process, had no file descriptor or local port left for it.
    Exhausted(String),
    /// It was ready and has ended, for this reason; its requests have been accounted for.
    Closed(FailureKind),
    /// It has carried as many requests as a connection may, and has been closed in order.
    Spent,
}

/// What the connections of one worker share.
#[derive(Debug)]
pub(crate) struct Context<'p> {
    pub(crate) plan: &'p Plan,
    pub(crate) clock: Clock,
    pub(crate) system: Box<dyn System + 'p>,
    pub(crate) tally: Tally<'p>,
    pub(crate) schedule: Schedule,
    /// The UDP sockets of HTTP/3 connections that have none of their own.
    pub(crate) shared: Option<Box<Shared>>,
    /// For each request of the plan what changes in it; empty where nothing does in any.
    changing: Vec<Option<Changing>>,
    /// The same with the cookies of a virtual user.
    with_cookies: Vec<Option<Changing>>,
    /// Of WebSockets over HTTP/1.1 the opening handshakes, each of which gets a key of its own; else empty.
    handshakes: Vec<Request>,
    pub(crate) masks: Masks,
    pub(crate) learned: Learned,
    /// The number, over all threads, of the next connection that says whose it is.
    pub(crate) announced: usize,
    pub(crate) in_flight: InFlight,
    /// For each origin the streams that its server allowed on the connection that told last, over HTTP/2.
    pub(crate) streams_allowed: Vec<Option<u32>>,
    /// For each origin, since when some connection to it has had room for a request; open model. None: none
    /// has, or the room came in this turn.
    pub(crate) room_since: Vec<Option<u64>>,
    /// Whether requests wait for the first connections.
    pub(crate) holding: bool,
    /// Whether no more requests are to be sent.
    pub(crate) stopping: bool,
}

impl<'p> Context<'p> {
    pub(crate) fn new(
        plan: &'p Plan,
        clock: Clock,
        system: Box<dyn System + 'p>,
        tally: Tally<'p>,
        schedule: Schedule,
    ) -> Self {
        Self {
            plan,
            clock,
            system,
            tally,
            schedule,
            shared: None,
            changing: plan.changing.clone(),
            with_cookies: plan.scenario.as_ref().map_or_else(Vec::new, |scenario| {
                let steps = scenario.steps.iter();
                steps.map(|step| step.with_cookies.clone()).collect()
            }),
            handshakes: match &plan.websocket {
                Some(socket) if !socket.is_multiplexed() => plan.prepared.clone(),
                _ => Vec::new(),
            },
            masks: Masks::default(),
            learned: Learned::default(),
            announced: 0,
            in_flight: InFlight::default(),
            streams_allowed: vec![None; plan.origins.len()],
            room_since: vec![None; plan.origins.len()],
            holding: false,
            stopping: false,
        }
    }

    /// The time.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.clock.at(self.system.now())
    }

    /// What the next connection over a byte stream, from its own address to its other end's, says first.
    pub(crate) fn announcement(
        &mut self,
        addresses: impl FnOnce(&dyn System) -> Option<(SocketAddr, SocketAddr)>,
    ) -> Option<Vec<u8>> {
        let announced = self.plan.announced.as_ref()?;
        let number = self.announced;
        self.announced += self.plan.threads;
        Some(announced.header(number, addresses(&*self.system)))
    }

    /// A connection is open.
    pub(crate) fn opened(&mut self, now: u64) {
        if !self.holding {
            self.schedule.begin(now);
        }
    }

    /// Whether nothing is sent in early data: a request that is to be sent again, perhaps as it was
    /// too early before (RFC 8470 §5.2), needs a connection whose handshake is done, and new ones
    /// would take that from it.
    #[inline]
    pub(crate) fn holds_back_early(&self) -> bool {
        !self.tally.retries.is_empty()
    }

    /// The next request to send on the connection of `exchanges`: one that has to be sent again before a
    /// new one.
    #[inline]
    pub(crate) fn next_request(&mut self, now: u64, exchanges: &Exchanges) -> Option<Pending> {
        if self.stopping || self.holding {
            return None;
        }
        let (users, schedule) = (&mut self.tally.users, &mut self.schedule);
        let again = self.tally.retries.pop(exchanges.origin());
        again.or_else(|| match users {
            None => schedule.take(now, exchanges.lane()),
            Some(users) => users.take(now, exchanges.lane(), schedule),
        })
    }

    /// Fails the requests that wait to be sent again and have been under way for too long.
    pub(crate) fn give_up_waiting(&mut self, now: u64) {
        let patience = self.plan.patience().as_nanos() as u64;
        let Some(deadline) = now.checked_sub(patience) else {
            return;
        };
        for origin in 0..self.tally.retries.origins() {
            while let Some(pending) = self.tally.retries.pop_overdue(origin, deadline) {
                let of = Of {
                    request: pending.request,
                    number: pending.number,
                    ..Of::default()
                };
                self.tally.too_late(pending, now, of);
            }
        }
    }

    /// Several origins: has virtual users begin what they do by now.
    pub(crate) fn go_on(&mut self, now: u64) {
        if let Some(users) = &mut self.tally.users
            && !self.stopping
        {
            users.go_on(now, &mut self.schedule);
        }
    }

    /// Several origins, closed model: the next request in order goes to the connections of its origin, which
    /// is told, where another may be in flight.
    pub(crate) fn assign(&mut self, now: u64) -> Option<usize> {
        if self.stopping || self.tally.users.is_some() {
            return None;
        }
        let in_flight = self.tally.recorder.in_flight();
        self.schedule.assign(now, in_flight, self.plan)
    }

    /// Several origins: when the next request to one of them has to be sent though no event comes.
    pub(crate) fn next_due_to(&self, origin: usize) -> Option<u64> {
        match &self.tally.users {
            None => self.schedule.next_due_on(origin as u32),
            Some(users) => users.next_due_to(origin),
        }
    }

    /// Several origins: when [`Self::go_on`] or [`Self::assign`] has something to do.
    pub(crate) fn next_assigned(&self) -> Option<u64> {
        match &self.tally.users {
            None => {
                let in_flight = self.tally.recorder.in_flight();
                self.schedule.may_assign(in_flight).then_some(0)
            }
            Some(users) => users.next_begun(&self.schedule),
        }
    }

    /// A request as it is sent, for a connection of this version; an error says why it cannot be made.
    #[inline]
    pub(crate) fn request(
        &mut self,
        pending: Pending,
        version: Encoding,
    ) -> Result<&Request, String> {
        let (at, number) = (pending.request as usize, pending.number);
        let changing = self.changing.get_mut(at).and_then(Option::as_mut);
        let Some(users) = &mut self.tally.users else {
            return match changing {
                Some(changing) => changing.write(version, number, Values::NONE),
                None => Ok(self.handshakes.get(at).unwrap_or(&self.plan.prepared[at])),
            };
        };
        let user = pending.user;
        if let Some(request) = self.with_cookies.get_mut(at).and_then(Option::as_mut) {
            let path = request.path(number, users.values(user));
            if users.has_cookies(user, path.as_deref()) {
                return request.write(version, number, users.values(user));
            }
        }
        match changing {
            Some(changing) => changing.write(version, number, users.values(user)),
            None => Ok(&self.plan.prepared[at]),
        }
    }

    /// A request could not be made: what changes in it makes it none.
    #[cold]
    pub(crate) fn unmade(
        &mut self,
        pending: Pending,
        text: String,
        now: u64,
        exchanges: &Exchanges,
    ) {
        self.count_start(pending, now, exchanges);
        let kind = FailureKind::Body;
        self.tally.failed(kind, now, None, pending.user, || text);
        self.tally.recorder.failed_was(pending.request);
    }

    /// Gives the opening handshake of a session over HTTP/1.1 a key of its own, and tells it; `None` where
    /// requests are no such.
    #[inline]
    pub(crate) fn renew_key(&mut self, pending: Pending) -> Option<[u8; websocket::KEY_LENGTH]> {
        let handshake = self.handshakes.get_mut(pending.request as usize)?;
        let key = websocket::key(self.masks.next());
        handshake.set_websocket_key(&key);
        Some(key)
    }

    /// When the next request has to be sent though no event comes: in the open model, or by a virtual
    /// user.
    pub(crate) fn next_due(&self) -> Option<u64> {
        match &self.tally.users {
            None => self.schedule.next_due(),
            Some(users) => users.next_due(&self.schedule),
        }
    }

    /// Whether there is a request that should have been sent.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        !self.tally.retries.is_empty()
            || match &self.tally.users {
                None => self.schedule.is_due(now),
                Some(users) => users.next_due(&self.schedule).is_some_and(|due| due <= now),
            }
    }

    /// Whether no request of a counted run is left to be sent.
    pub(crate) fn is_exhausted(&self) -> bool {
        let is_idle = |users: &Users<'_>| users.under_way() == 0;
        self.schedule.is_exhausted()
            && self.tally.retries.is_empty()
            && self.tally.users.as_deref().is_none_or(is_idle)
    }

    /// A request goes out on a connection, or is given up before it can.
    #[inline]
    pub(crate) fn count_start(&mut self, pending: Pending, now: u64, exchanges: &Exchanges) {
        if pending.start == 0 {
            // The connection's own, where each has a rate of its own.
            let room_since = exchanges
                .room_since
                .or_else(|| self.room_since[exchanges.origin()]);
            let room_since = match &self.tally.users {
                None => room_since,
                Some(users) => room_since.map(|room| room.max(users.could_begin(pending))),
            };
            let wait = Wait::between(pending.intended, room_since, now);
            self.tally.recorder.started(wait, exchanges.are_unused());
        }
    }

    /// A request that has been sent is a call.
    #[inline]
    pub(crate) fn open_call(
        &mut self,
        id: StreamId,
        pending: Pending,
        exchanges: &mut Exchanges,
        now: u64,
    ) {
        if let Some(plan) = &self.plan.calls {
            let call = plan.of(pending.request);
            exchanges.calls.open(call, id, pending, now);
            if let Some(count) = call.count.filter(|_| !call.is_streamed()) {
                self.tally.recorder.calls().sent += count;
            }
        }
    }

    /// A connection did not take a request. True when it may take the next one all the same: where a
    /// request is too large for the peer, there is one among the plan's that is not.
    pub(crate) fn refused(
        &mut self,
        pending: Pending,
        refused: Refused,
        now: u64,
        exchanges: &Exchanges,
    ) -> bool {
        if !matches!(refused, Refused::TooLarge { .. }) {
            self.tally.send_again(pending);
            return false;
        }
        self.count_start(pending, now, exchanges);
        let kind = FailureKind::Limit;
        self.tally
            .failed(kind, now, None, pending.user, || refused.to_string());
        self.tally.recorder.failed_was(pending.request);
        true
    }

    /// A connection could not be made: one request, where one was due, fails with it.
    pub(crate) fn fail_one(
        &mut self,
        kind: FailureKind,
        now: u64,
        message: &str,
        exchanges: &Exchanges,
    ) {
        if let Some(pending) = self.next_request(now, exchanges) {
            self.count_start(pending, now, exchanges);
            let at = (pending.start != 0).then_some(Instants {
                intended: pending.intended,
                start: pending.start,
                head: 0,
                cold: false,
                of: Of {
                    request: pending.request,
                    number: pending.number,
                    ..Of::default()
                },
            });
            self.tally
                .failed(kind, now, at, pending.user, || message.to_owned());
            if at.is_none() {
                self.tally.recorder.failed_was(pending.request);
            }
        }
    }
}
