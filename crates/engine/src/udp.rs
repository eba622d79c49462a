//! One connection over QUIC, speaking HTTP/3: its socket, or its part in one, and its books.

use std::mem;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use trilane_connection::{Quic, QuicConfig};
use trilane_socket::Moved;
use trilane_transport::quic::{self, Routed};
use trilane_wire::{Refused, StreamId};

use crate::context::{Context, Gone, misfit, unmade};
use crate::exchanges::{Exchanges, with_sink};
use crate::failure::FailureKind;
use crate::io::{Completion, System};
use crate::plan::{Plan, Version};
use crate::refill::refill;
use crate::route::Address;
use crate::shared::Shared;

/// One QUIC connection.
#[derive(Debug)]
pub(crate) struct Udp {
    /// Where its socket is, which may be others' as well.
    socket: u32,
    quic: Quic,
    open: bool,
    /// The requests that the peer allowed at one time as the connection began.
    streams_at_first: u64,
    timer: Option<u64>,
    /// Whether datagrams have been taken from a shared socket that nobody has looked at,
    taken: bool,
    /// or to which nothing has been answered.
    unanswered: bool,
    counted: quic::Stats,
    fields_counted: u64,
    content_counted: u64,
    drops_counted: u32,
}

impl Udp {
    pub(crate) fn open(
        place: u32,
        peer: &Address,
        source: Option<SocketAddr>,
        config: &QuicConfig,
        now: Instant,
        shared: Option<&mut Shared>,
        system: &mut dyn System,
    ) -> Result<Self, Gone> {
        let &Address::Ip(peer) = peer else {
            let message = format!("HTTP/3 does not go to {peer}");
            return Err(Gone::Failed(FailureKind::Connect, message));
        };
        let (socket, quic) = match shared {
            Some(shared) => shared.connect(place, peer, source, config, now, system)?,
            None => {
                let opened = system.open_datagrams(place, peer, source);
                opened.map_err(|failed| unmade(failed, source))?;
                (place, Quic::new(config, peer, now))
            }
        };
        Ok(Self {
            socket,
            quic: quic.map_err(|error| failure(&error, peer))?,
            open: false,
            streams_at_first: 0,
            timer: None,
            taken: false,
            unanswered: false,
            counted: quic::Stats::default(),
            fields_counted: 0,
            content_counted: 0,
            drops_counted: 0,
        })
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Whether the peer has shown that it speaks HTTP/3: it has sent SETTINGS.
    pub(crate) fn is_ready(&self) -> bool {
        self.open && self.quic.is_ready()
    }

    /// Why the peer can never be sent any of the plan's requests to its origin.
    pub(crate) fn misfit(&self, plan: &Plan, origin: usize) -> Option<Refused> {
        plan.misfit(origin, &self.quic)
    }

    /// The requests that the peer is known to allow at one time. Its credit is for all streams of the
    /// connection together (RFC 9000 §4.6): what it gave at first could be open at once, and so could
    /// what was.
    fn streams_allowed(&self) -> Option<u64> {
        let outstanding = self.quic.outstanding() as u64;
        self.open.then(|| self.streams_at_first.max(outstanding))
    }

    /// When the handshake will have taken too long.
    pub(crate) fn deadline(&self, timeout: Duration) -> Option<Instant> {
        (!self.open).then(|| self.quic.since() + timeout)
    }

    /// When [`Self::on_timer`] has to be called at the latest.
    pub(crate) fn timer(&self) -> Option<u64> {
        self.timer
    }

    /// Whether a request could be sent now.
    pub(crate) fn has_room(&self) -> bool {
        !self.quic.is_blocked() && self.quic.capacity() > 0
    }

    /// Something has happened on the socket. Datagrams are taken, and answered by [`Self::pump`] when the
    /// socket has no more of them.
    pub(crate) fn on_completion(
        &mut self,
        completion: Completion,
        exchanges: &mut Exchanges,
        context: &mut Context<'_>,
    ) -> Result<(), Gone> {
        let instant = context.system.now();
        let now = context.clock.at(instant);
        let quic = &mut self.quic;
        match completion {
            Completion::Datagrams => {
                while let Some(batch) = context.system.datagrams() {
                    with_sink!(context, exchanges, now, None, sink => {
                        quic.receive(instant, batch, sink);
                    });
                }
                return Ok(());
            }
            Completion::Unreachable => with_sink!(context, exchanges, now, None, sink => {
                quic.unreachable(instant, sink);
            }),
            Completion::NoDatagrams(error) => {
                let message = format!("receiving from {} failed: {error}", quic.peer());
                return Err(Gone::Failed(FailureKind::Connect, message));
            }
            Completion::Room
            | Completion::Connected(_)
            | Completion::Received(_)
            | Completion::Discarded(_)
            | Completion::End
            | Completion::Failed(_) => (),
        }
        self.pump(now, exchanges, context)
    }

    /// Whether its socket is in this place.
    pub(crate) fn is_on(&self, socket: u32) -> bool {
        self.socket == socket
    }

    /// Takes a datagram that a shared socket received. True where it is the first that [`Self::look`] has to
    /// look at.
    pub(crate) fn take(&mut self, datagram: Routed) -> bool {
        self.quic.take(datagram);
        !mem::replace(&mut self.taken, true)
    }

    /// Looks at the datagrams that were taken. True where [`Self::pump`] has to answer, and had not to before.
    pub(crate) fn look(
        &mut self,
        instant: Instant,
        exchanges: &mut Exchanges,
        context: &mut Context<'_>,
    ) -> bool {
        self.taken = false;
        let (now, quic) = (context.clock.at(instant), &mut self.quic);
        with_sink!(context, exchanges, now, None, sink => quic.process(instant, sink));
        !mem::replace(&mut self.unanswered, true)
    }

    /// The time of [`Self::timer`] has come.
    pub(crate) fn on_timer(
        &mut self,
        now: u64,
        exchanges: &mut Exchanges,
        context: &mut Context<'_>,
    ) -> Result<(), Gone> {
        let (instant, quic) = (context.clock.instant(now), &mut self.quic);
        with_sink!(context, exchanges, now, None, sink => quic.handle_timeout(instant, sink));
        self.pump(now, exchanges, context)
    }

    /// Sends requests while there is room, and every datagram that is due.
    pub(crate) fn pump(
        &mut self,
        now: u64,
        exchanges: &mut Exchanges,
        context: &mut Context<'_>,
    ) -> Result<(), Gone> {
        self.unanswered = false;
        if !self.open && self.quic.is_connected() {
            self.opened(now, exchanges, context);
        }
        loop {
            let more = !self.quic.is_blocked() && refill(&mut self.quic, now, exchanges, context);
            if self.transmit(now, context) {
                let (instant, quic) = (context.clock.instant(now), &mut self.quic);
                with_sink!(context, exchanges, now, None, sink => quic.unreachable(instant, sink));
            }
            if !more {
                break;
            }
        }
        context.in_flight.count(exchanges, self.streams_allowed());
        self.timer = self.quic.timeout().map(|at| context.clock.at(at));
        let peer = self.quic.peer();
        if let Some(error) = self.quic.error() {
            let cause = error.to_string();
            let gone = match failure(error, peer) {
                Gone::Failed(kind, _) if self.open => Gone::Closed(kind),
                // With what has gone in early data, where something has.
                gone => return Err(gone),
            };
            let quic = &mut self.quic;
            with_sink!(context, exchanges, now, Some(cause.as_str()), sink => quic.abandon(sink));
            return Err(gone);
        }
        if self.quic.is_finished() {
            // Else the server would keep it until it has been idle for too long.
            self.say_goodbye(context);
            return Err(Gone::Closed(FailureKind::Goaway));
        }
        if exchanges.may_close(now, || self.quic.quic().awaits_ticket()) {
            self.say_goodbye(context);
            return Err(Gone::Spent);
        }
        match self.misfit(context.plan, exchanges.origin()) {
            Some(refused) if exchanges.in_flight() == 0 => {
                self.say_goodbye(context);
                Err(misfit(&peer, refused, "SETTINGS_MAX_FIELD_SECTION_SIZE"))
            }
            _ => Ok(()),
        }
    }

    fn opened(&mut self, now: u64, exchanges: &mut Exchanges, context: &mut Context<'_>) {
        self.open = true;
        let parameters = self.quic.quic().peer_parameters();
        self.streams_at_first = parameters.map_or(0, |told| told.initial_max_streams_bidi);
        let since = context.clock.at(self.quic.since());
        let info = self.quic.quic().tls();
        let recorder = &mut context.tally.recorder;
        let stats = self.quic.quic().stats();
        recorder.of_connection(exchanges.began(), |phases| {
            phases.quic.record(now - since);
            phases.handshake_sent += stats.sent_bytes;
            phases.handshake_received += stats.received_bytes;
        });
        if let Some(info) = &info {
            exchanges.handshake_done(info, recorder);
        }
        context.learned.established(Version::H3);
        if context.learned.peer.is_none() {
            context.learned.peer = Some(self.quic.peer().to_string());
            context.learned.tls = info;
            context.learned.congestion_control = context.plan.congestion_control.clone();
        }
        context.opened(now);
    }

    /// Sends every datagram that is due. True where nobody listens at the other end.
    fn transmit(&mut self, now: u64, context: &mut Context<'_>) -> bool {
        let instant = context.clock.instant(now);
        let mut moved = Moved::default();
        let (socket, quic) = (self.socket, &mut self.quic);
        if let Some(shared) = &mut context.shared {
            quic.settle_with(&mut shared.endpoint);
        }
        let unreachable = context
            .system
            .send_datagrams(socket, quic, instant, &mut moved);
        context.tally.recorder.traffic.add_sent(moved);
        unreachable
    }

    /// Gives up one request that took too long.
    pub(crate) fn cancel(&mut self, stream: StreamId, context: &mut Context<'_>) {
        self.quic.cancel(stream);
        self.transmit(context.now(), context);
    }

    /// Adds what the connection counted since the last reading, and what is known of the peer.
    pub(crate) fn count(&mut self, context: &mut Context<'_>) {
        let stats = self.quic.quic().stats();
        let traffic = &mut context.tally.recorder.traffic;
        traffic.datagrams_sent += stats.sent_datagrams - self.counted.sent_datagrams;
        traffic.datagrams_received += stats.received_datagrams - self.counted.received_datagrams;
        traffic.retransmits += stats.lost_packets - self.counted.lost_packets;
        self.counted = stats;
        let content = self.quic.content_sent();
        traffic.body_sent += content - self.content_counted;
        self.content_counted = content;
        let (socket, system) = (self.socket, &*context.system);
        let dropped = match &mut context.shared {
            Some(shared) => shared.dropped(socket, system),
            None => {
                let known = self.drops_counted;
                let drops = system.dropped_datagrams(socket).unwrap_or(known);
                self.drops_counted = drops;
                drops.wrapping_sub(known)
            }
        };
        traffic.datagrams_dropped += u64::from(dropped);
        if !self.open {
            return;
        }
        let least = Some(stats.min_rtt.as_secs_f64());
        context.learned.round_trips(stats.rtt.as_secs_f64(), least);
        if context.plan.quic_ack_frequency.is_some() {
            let told = Some(stats.sent_ack_frequency > 0);
            context.learned.ack_frequency = context.learned.ack_frequency.max(told);
        }
        context.learned.mtu = Some(stats.mtu.into());
        if let Some(h3) = self.quic.h3() {
            let fields = h3.sent_field_bytes();
            traffic.fields_sent_encoded += fields - self.fields_counted;
            self.fields_counted = fields;
        }
        context.learned.h3 = self.quic.peer_settings().or(context.learned.h3);
    }

    /// The connection goes: what it shared is told.
    pub(crate) fn leave(&mut self, context: &mut Context<'_>) {
        if let Some(shared) = &mut context.shared {
            self.quic.leave(&mut shared.endpoint);
        }
    }

    /// Tells the peer that nothing more comes.
    pub(crate) fn say_goodbye(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        self.quic.close(context.clock.instant(now));
        self.transmit(now, context);
    }
}

fn failure(error: &quic::Error, peer: SocketAddr) -> Gone {
    let kind = match error.kind {
        quic::ErrorKind::Options => FailureKind::Connect,
        quic::ErrorKind::HandshakeTimeout => FailureKind::HandshakeTimeout,
        quic::ErrorKind::Refused => FailureKind::Refused,
        quic::ErrorKind::Tls | quic::ErrorKind::Version => FailureKind::Tls,
        quic::ErrorKind::IdleTimeout => FailureKind::Timeout,
        quic::ErrorKind::Closed => FailureKind::Closed,
        quic::ErrorKind::Reset => FailureKind::Reset,
        quic::ErrorKind::Protocol => FailureKind::Protocol,
        quic::ErrorKind::Limit => FailureKind::Limit,
    };
    Gone::Failed(kind, format!("{peer} over UDP: {error}"))
}
