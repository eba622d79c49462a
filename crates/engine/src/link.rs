//! A connection's place in a worker: it outlives the connections that come and go in it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use trilane_connection::Stream;
use trilane_transport::quic::Routed;

use crate::context::{Clock, Context, Gone};
use crate::exchanges::Exchanges;
use crate::failure::FailureKind;
use crate::io::Completion;
use crate::plan::{Plan, Transport};
use crate::route::Address;
use crate::tcp::Tcp;
use crate::udp::Udp;

/// The connection in a place.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "TCP has the most connections and the shortest turns"
)]
enum Io {
    None,
    Tcp(Tcp),
    Quic(Box<Udp>),
}

/// One place for a connection.
#[derive(Debug)]
pub(crate) struct Link {
    /// Its number among the worker's places.
    place: u32,
    io: Io,
    pub(crate) exchanges: Exchanges,
    /// Whether the link stands in the queue of those with room.
    pub(crate) waiting: bool,
    /// Whether the present connection has been counted as ready.
    pub(crate) established: bool,
    /// Whether the limit that is watched is that of requests, not that of the handshake.
    pub(crate) limits_requests: bool,
    /// Responses that had come in this place when the present connection began.
    completed_before: u64,
}

impl Link {
    pub(crate) fn new(plan: &Plan, place: u32) -> Self {
        Self {
            place,
            io: Io::None,
            exchanges: Exchanges::new(plan, place),
            waiting: false,
            established: false,
            limits_requests: false,
            completed_before: 0,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        match &self.io {
            Io::None => false,
            Io::Tcp(tcp) => tcp.is_open(),
            Io::Quic(quic) => quic.is_open(),
        }
    }

    /// Whether the peer has shown that it speaks the version asked for, and takes requests of the
    /// plan's.
    pub(crate) fn is_ready(&self, plan: &Plan) -> bool {
        let speaks = match &self.io {
            Io::None => false,
            Io::Tcp(tcp) => tcp.is_ready(),
            // A response may overtake SETTINGS, which come on a stream of their own.
            Io::Quic(quic) => quic.is_ready() || self.has_served(),
        };
        speaks && !self.is_misfit(plan)
    }

    /// Whether the peer can never be sent any of the plan's requests.
    fn is_misfit(&self, plan: &Plan) -> bool {
        let misfit = match &self.io {
            Io::None => None,
            Io::Tcp(tcp) => tcp.misfit(plan, self.exchanges.origin()),
            Io::Quic(quic) => quic.misfit(plan, self.exchanges.origin()),
        };
        misfit.is_some()
    }

    /// Whether any response has come on the present connection.
    fn has_served(&self) -> bool {
        self.exchanges.completed() > self.completed_before
    }

    /// Begins a connection to `peer`.
    pub(crate) fn open(
        &mut self,
        peer: &Address,
        source: Option<SocketAddr>,
        context: &mut Context<'_>,
    ) -> Result<(), Gone> {
        self.established = false;
        self.limits_requests = false;
        self.completed_before = self.exchanges.completed();
        let plan = context.plan;
        // Opening many takes time of its own: each has its own beginning.
        let (place, now) = (self.place, context.system.now());
        self.exchanges.begin_connection(context.clock.at(now));
        let system = &mut *context.system;
        match &plan.origins[self.exchanges.origin()].transport {
            Transport::Stream(config) => {
                let mut stream = Stream::new(Arc::clone(config), now);
                if let Some(allowed) = context.streams_allowed[self.exchanges.origin()] {
                    stream.expect_streams(allowed);
                }
                let tcp = Tcp::open(place, peer, source, stream, plan, system)?;
                self.io = Io::Tcp(tcp);
                Ok(())
            }
            Transport::Quic(config) => {
                let shared = context.shared.as_deref_mut();
                let quic = Udp::open(place, peer, source, config, now, shared, system)?;
                self.io = Io::Quic(Box::new(quic));
                // QUIC sends first.
                self.pump(context.clock.at(now), context)
            }
        }
    }

    /// Something has happened on the socket of the place.
    #[inline]
    pub(crate) fn on_completion(
        &mut self,
        completion: Completion,
        context: &mut Context<'_>,
    ) -> Result<(), Gone> {
        match &mut self.io {
            Io::None => Ok(()),
            Io::Tcp(tcp) => tcp.on_completion(completion, &mut self.exchanges, context),
            Io::Quic(quic) => quic.on_completion(completion, &mut self.exchanges, context),
        }
    }

    /// Whether the connection is over QUIC, and its socket in this place.
    pub(crate) fn is_on(&self, socket: u32) -> bool {
        matches!(&self.io, Io::Quic(quic) if quic.is_on(socket))
    }

    /// Takes a datagram that a shared socket received. True where it is the first that [`Self::look`] has to look at.
    pub(crate) fn take(&mut self, datagram: Routed) -> bool {
        match &mut self.io {
            Io::Quic(quic) => quic.take(datagram),
            Io::None | Io::Tcp(_) => false,
        }
    }

    /// Looks at the datagrams that were taken. True where [`Self::pump`] has to answer, and had not to before.
    pub(crate) fn look(&mut self, now: Instant, context: &mut Context<'_>) -> bool {
        match &mut self.io {
            Io::Quic(quic) => quic.look(now, &mut self.exchanges, context),
            Io::None | Io::Tcp(_) => false,
        }
    }

    /// Sends what may be sent.
    pub(crate) fn pump(&mut self, now: u64, context: &mut Context<'_>) -> Result<(), Gone> {
        match &mut self.io {
            Io::None => Ok(()),
            Io::Tcp(tcp) => tcp.pump(now, &mut self.exchanges, context),
            Io::Quic(quic) => quic.pump(now, &mut self.exchanges, context),
        }
    }

    /// Asks whether the server is there, where it has answered the last such question.
    pub(crate) fn ping(&mut self, now: u64, context: &mut Context<'_>) -> Result<(), Gone> {
        match &mut self.io {
            Io::Tcp(tcp) => tcp.ping(now, &mut self.exchanges, context),
            Io::None | Io::Quic(_) => Ok(()),
        }
    }

    /// Whether a request could be sent now.
    pub(crate) fn has_room(&self, context: &Context<'_>) -> bool {
        self.exchanges.next_slot().is_some()
            && !self.is_misfit(context.plan)
            && (self.is_open() || !context.holds_back_early())
            && match &self.io {
                Io::None => false,
                Io::Tcp(tcp) => tcp.has_room(),
                Io::Quic(quic) => quic.has_room(),
            }
    }

    /// When [`Self::on_timer`] has to be called at the latest.
    pub(crate) fn timer(&self) -> Option<u64> {
        match &self.io {
            Io::Quic(quic) => quic.timer(),
            Io::None | Io::Tcp(_) => None,
        }
    }

    /// The time of [`Self::timer`] has come.
    pub(crate) fn on_timer(&mut self, now: u64, context: &mut Context<'_>) -> Result<(), Gone> {
        match &mut self.io {
            Io::Quic(quic) => quic.on_timer(now, &mut self.exchanges, context),
            Io::None | Io::Tcp(_) => Ok(()),
        }
    }

    /// When the handshake, or the oldest request, will have taken too long.
    pub(crate) fn limit(&self, plan: &Plan, clock: Clock) -> Option<u64> {
        let deadline = match &self.io {
            Io::None => return None,
            Io::Tcp(tcp) => tcp.deadline(),
            Io::Quic(quic) => quic.deadline(plan.connect_timeout),
        };
        if let Some(deadline) = deadline {
            return Some(clock.at(deadline));
        }
        if let Some(until) = self.exchanges.staying_until() {
            return Some(until);
        }
        let oldest = self.exchanges.oldest()?;
        Some(oldest.saturating_add(plan.patience().as_nanos() as u64))
    }

    /// What a connection that is not ready is waiting for.
    pub(crate) fn handshake(&self) -> Option<&'static str> {
        match &self.io {
            _ if self.is_open() => None,
            Io::None => None,
            Io::Tcp(tcp) => Some(tcp.waiting_for()),
            Io::Quic(_) => Some("the QUIC handshake"),
        }
    }

    /// Fails the requests sent at or before `deadline`. Says whether there were any.
    pub(crate) fn give_up_overdue(
        &mut self,
        deadline: u64,
        now: u64,
        context: &mut Context<'_>,
    ) -> Result<bool, Gone> {
        let overdue: Vec<_> = self.exchanges.overdue(deadline).collect();
        let mut outcome = Ok(!overdue.is_empty());
        for id in overdue {
            let calls = context.plan.calls.as_ref();
            let waits_for = calls.and_then(|plan| self.exchanges.calls.waits_for(plan, id));
            let at = self.exchanges.close(id);
            let tally = &mut context.tally;
            match context.plan.deadline() {
                Some(deadline) => tally.deadline_exceeded(now, at, deadline),
                None => {
                    let (timeout, user) =
                        (context.plan.timeout, self.exchanges.visits.user(id.slot));
                    tally.failed(FailureKind::Timeout, now, Some(at), user, || {
                        let waits_for =
                            waits_for.map_or_else(String::new, |text| format!(": {text}"));
                        format!("no complete response within {timeout:?}{waits_for}")
                    });
                }
            }
            let cancelled = match &mut self.io {
                Io::None => Ok(()),
                Io::Tcp(tcp) => tcp.cancel(id, &mut self.exchanges, context),
                Io::Quic(quic) => {
                    quic.cancel(id, context);
                    Ok(())
                }
            };
            if let Err(gone) = cancelled {
                outcome = Err(gone);
            }
        }
        outcome
    }

    /// Adds what kernel and codec counted.
    pub(crate) fn count(&mut self, context: &mut Context<'_>) {
        match &mut self.io {
            Io::None => (),
            Io::Tcp(tcp) => tcp.count(&self.exchanges, context),
            Io::Quic(quic) => quic.count(context),
        }
    }

    /// Drops the connection, with `reason` for the requests that are still on it. Says whether any
    /// response had come on it.
    pub(crate) fn close(
        &mut self,
        reason: Option<(FailureKind, &str)>,
        context: &mut Context<'_>,
    ) -> bool {
        self.count(context);
        let last_words = match &mut self.io {
            Io::None => None,
            Io::Tcp(tcp) => tcp.last_words(),
            Io::Quic(quic) => {
                quic.leave(context);
                None
            }
        };
        context.system.close(self.place, last_words);
        self.io = Io::None;
        // Usually the codec has failed them already, with a better reason.
        let left: Vec<_> = self.exchanges.overdue(u64::MAX).collect();
        for id in left {
            let at = self.exchanges.close(id);
            let now = context.now();
            let given_up = "the connection was given up with the request on it";
            let (kind, message) = reason.unwrap_or((FailureKind::Closed, given_up));
            let user = self.exchanges.visits.user(id.slot);
            let tally = &mut context.tally;
            tally.failed(kind, now, Some(at), user, || message.to_owned());
        }
        context.in_flight.count(&mut self.exchanges, None);
        self.exchanges.end_connection(context.plan, context.now());
        self.has_served()
    }

    /// Tells the peer that the run is over, as far as it can be told without waiting.
    pub(crate) fn say_goodbye(&mut self, context: &mut Context<'_>) {
        if let Io::Quic(quic) = &mut self.io {
            quic.say_goodbye(context);
        }
        context.system.close(self.place, None);
        self.io = Io::None;
    }
}
