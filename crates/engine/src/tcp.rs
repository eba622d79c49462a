//! One connection over TCP, with or without TLS, speaking HTTP/1.1 or HTTP/2: its socket and its books.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use rustix::io::Errno;
use trilane_connection::{self as connection, HEADROOM, Over, Phase, Progress, Stream};
use trilane_socket::Moved;
use trilane_socket::stream::{Flushed, Options};
use trilane_wire::{ConnectionError, End, Refused, StreamId};

use crate::context::{Context, Gone, misfit, unmade};
use crate::exchanges::{Exchanges, with_sink};
use crate::failure::FailureKind;
use crate::grpc::Protocol;
use crate::io::{Completion, System};
use crate::plan::{Plan, Version};
use crate::refill::refill;
use crate::route::Address;
use crate::sys::TcpInfo;

/// Content of a request that leaves with its head, however soon the answer comes: as much as the initial
/// window allows (RFC 6928), in bytes.
const INITIAL_WINDOW: u64 = 14_600;

/// One TCP connection.
#[derive(Debug)]
pub(crate) struct Tcp {
    /// Where its socket is.
    place: u32,
    peer: Address,
    stream: Stream,
    /// Whether the socket is full.
    blocked: bool,
    /// Whether what the peer sends is left in the socket.
    held: bool,
    /// Whether the peer has been told why the connection ends.
    spoke: bool,
    /// The last reading of the kernel's counters.
    counted: TcpInfo,
    content_counted: u64,
    /// Bytes of what the connection says first.
    announced: u64,
    /// Bytes that went and came before requests could be sent.
    handshake_sent: u64,
    handshake_received: u64,
}

impl Tcp {
    pub(crate) fn open(
        place: u32,
        peer: &Address,
        source: Option<SocketAddr>,
        stream: Stream,
        plan: &Plan,
        system: &mut dyn System,
    ) -> Result<Self, Gone> {
        let options = Options {
            source,
            congestion_control: plan.congestion_control.as_deref(),
        };
        let opened = system.open_stream(place, peer, options);
        opened.map_err(|failed| match failed.error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => {
                connect_failure(peer, stream.is_to_proxy(), &failed.error)
            }
            _ => unmade(failed, source),
        })?;
        Ok(Self {
            place,
            peer: peer.clone(),
            stream,
            blocked: false,
            held: false,
            spoke: false,
            counted: TcpInfo::default(),
            content_counted: 0,
            announced: 0,
            handshake_sent: 0,
            handshake_received: 0,
        })
    }

    pub(crate) fn is_open(&self) -> bool {
        self.stream.phase() == Phase::Open
    }

    /// Whether the peer has shown that it speaks the version: with HTTP/2 it has sent SETTINGS.
    pub(crate) fn is_ready(&self) -> bool {
        self.stream.is_ready()
    }

    /// Why the peer can never be sent any of the plan's requests to its origin.
    #[inline]
    pub(crate) fn misfit(&self, plan: &Plan, origin: usize) -> Option<Refused> {
        plan.misfit(origin, &self.stream)
    }

    /// The requests that the peer allows at one time, once it has told (RFC 9113 §6.5.2).
    fn streams_allowed(&self) -> Option<u64> {
        let settings = self.stream.h2()?.peer_settings();
        let allowed = settings.max_concurrent_streams.map_or(u64::MAX, u64::from);
        settings.received.then_some(allowed)
    }

    /// When the handshake will have taken too long.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.stream.deadline()
    }

    /// What the connection was doing, for the message of a timeout.
    pub(crate) fn waiting_for(&self) -> &'static str {
        self.stream.phase().waits_for()
    }

    /// Something has happened on the socket.
    #[inline]
    pub(crate) fn on_completion(
        &mut self,
        completion: Completion,
        exchanges: &mut Exchanges,
        context: &mut Context<'_>,
    ) -> Result<(), Gone> {
        match completion {
            Completion::Received(count) => {
                if !self.is_open() {
                    self.handshake_received += count as u64;
                }
                self.receive(exchanges, context)
            }
            Completion::Discarded(count) => self.discarded(count, exchanges, context),
            Completion::Connected(outcome) => {
                outcome.map_err(|error| {
                    connect_failure(&self.peer, self.stream.is_to_proxy(), &error.into())
                })?;
                self.connected(exchanges, context)
            }
            Completion::Room => {
                self.blocked = false;
                let now = context.now();
                self.pump(now, exchanges, context)
            }
            Completion::End => Err(self.eof(None, exchanges, context)),
            Completion::Failed(error) => Err(self.eof(Some(error), exchanges, context)),
            Completion::Datagrams | Completion::Unreachable | Completion::NoDatagrams(_) => Ok(()),
        }
    }

    fn connected(
        &mut self,
        exchanges: &mut Exchanges,
        context: &mut Context<'_>,
    ) -> Result<(), Gone> {
        let now = context.now();
        let since = context.clock.at(self.stream.since());
        let recorder = &mut context.tally.recorder;
        recorder.of_connection(exchanges.began(), |phases| {
            phases.connect.record(now - since)
        });
        let (place, peer) = (self.place, self.peer.ip());
        if let Some(header) = context.announcement(|system| system.local_address(place).zip(peer)) {
            self.announced = header.len() as u64;
            self.stream.announce(header);
        }
        let instant = context.clock.instant(now);
        let progress = self.stream.connected(instant);
        let progress = progress.map_err(|over| self.over(over, None, exchanges, context))?;
        self.settle(progress, since, now, exchanges, context);
        self.pump(now, exchanges, context)
    }

    /// Keeps the books of a connection that is open since `now`; its last phase began at `since`.
    fn settle(
        &mut self,
        progress: Progress,
        since: u64,
        now: u64,
        exchanges: &mut Exchanges,
        context: &mut Context<'_>,
    ) {
        if progress == Progress::Same {
            return;
        }
        let tls = self.stream.tls_info();
        // Without TLS it leaves with the first request.
        let unsent = if tls.is_none() { self.announced } else { 0 };
        let (sent, received) = (self.handshake_sent + unsent, self.handshake_received);
        context
            .tally
            .recorder
            .of_connection(exchanges.began(), |phases| {
                phases.handshake_sent += sent;
                phases.handshake_received += received;
            });
        if let Some(info) = &tls {
            let recorder = &mut context.tally.recorder;
            recorder.of_connection(exchanges.began(), |phases| phases.tls.record(now - since));
            exchanges.handshake_done(info, recorder);
        }
        context.learned.established(match self.stream.version() {
            Some(connection::Version::H2) if tls.is_some() => Version::H2,
            Some(connection::Version::H2) => Version::H2c,
            _ => Version::H1,
        });
        if context.learned.peer.is_none() {
            context.learned.peer = Some(self.peer.to_string());
            context.learned.tls = tls;
            context.learned.congestion_control = context.system.congestion_control(self.place);
        }
        context.opened(now);
    }

    fn receive(
        &mut self,
        exchanges: &mut Exchanges,
        context: &mut Context<'_>,
    ) -> Result<(), Gone> {
        let instant = context.system.now();
        let now = context.clock.at(instant);
        let since = self.stream.since();
        self.look_at_upload(exchanges, context);
        let stream = &mut self.stream;
        let buffer = context.system.received();
        let begin = stream.restore(buffer, HEADROOM);
        let bytes = &mut buffer[begin..];
        let progress = with_sink!(context, exchanges, now, None, sink => {
            stream.receive(instant, bytes, sink)
        });
        match progress {
            Ok(Progress::Same) => (),
            Ok(opened) => self.settle(opened, context.clock.at(since), now, exchanges, context),
            Err(over) => return Err(self.over(over, None, exchanges, context)),
        }
        self.read_on(now, exchanges, context)
    }

    /// Bytes of a body have come and were thrown away.
    fn discarded(
        &mut self,
        count: usize,
        exchanges: &mut Exchanges,
        context: &mut Context<'_>,
    ) -> Result<(), Gone> {
        self.look_at_upload(exchanges, context);
        let (now, stream) = (context.now(), &mut self.stream);
        with_sink!(context, exchanges, now, None, sink => stream.discard(count as u64, sink));
        self.read_on(now, exchanges, context)
    }

    /// Over HTTP/1.1 the kernel takes megabytes at once: what has reached the server of a large upload as its
    /// answer comes is what TCP says of it. Over HTTP/2 the server's windows bound what the kernel is given.
    #[inline]
    fn look_at_upload(&self, exchanges: &mut Exchanges, context: &mut Context<'_>) {
        if exchanges.largest_content() > INITIAL_WINDOW
            && self.stream.version() == Some(connection::Version::H1)
            && exchanges.content() > INITIAL_WINDOW
        {
            exchanges.unacknowledged(self.unacknowledged(context));
        }
    }

    /// Bytes that were sent and that the other end has not acknowledged; 0 where nobody tells.
    fn unacknowledged(&self, context: &mut Context<'_>) -> u64 {
        // Of a Unix socket the kernel tells what its buffers take.
        if self.peer.ip().is_none() {
            return 0;
        }
        context.tally.recorder.traffic.syscalls += 1;
        context.system.unacknowledged(self.place).unwrap_or(0)
    }

    /// What has come has been taken.
    fn read_on(
        &mut self,
        now: u64,
        exchanges: &mut Exchanges,
        context: &mut Context<'_>,
    ) -> Result<(), Gone> {
        self.pump(now, exchanges, context)?;
        if self.stream.is_finished() {
            return Err(self.finished(exchanges, context));
        }
        // The first body of each URL is read, and known by its sum.
        if context.plan.discard_bodies && !context.tally.sums_bodies() {
            let bytes = self.stream.discardable();
            context.system.discard(self.place, bytes);
        }
        Ok(())
    }

    /// Nothing more can happen on the connection.
    fn finished(&mut self, exchanges: &mut Exchanges, context: &mut Context<'_>) -> Gone {
        let drained = self.stream.h2().is_some_and(|h2| h2.is_closing());
        match self.eof(None, exchanges, context) {
            // It said so before.
            Gone::Closed(_) if drained => Gone::Closed(FailureKind::Goaway),
            gone => gone,
        }
    }

    /// The peer has ended its direction, or the socket has failed.
    fn eof(
        &mut self,
        error: Option<Errno>,
        exchanges: &mut Exchanges,
        context: &mut Context<'_>,
    ) -> Gone {
        let cause = error.map_or_else(
            || "the server closed the connection".to_owned(),
            |error| error.to_string(),
        );
        let (now, stream) = (context.now(), &mut self.stream);
        let over = with_sink!(context, exchanges, now, Some(cause.as_str()), sink => {
            stream.eof(error.is_some(), sink)
        });
        self.over(over, error, exchanges, context)
    }

    /// The connection is over: sends what the protocol asks for at the end, and says why. `error` is
    /// the socket's.
    fn over(
        &mut self,
        over: Over,
        error: Option<Errno>,
        exchanges: &mut Exchanges,
        context: &mut Context<'_>,
    ) -> Gone {
        // A courtesy: the connection is lost whether or not it leaves.
        if matches!(over, Over::Tls(_) | Over::Protocol(_)) {
            self.say_goodbye(context);
        } else {
            let _ = self.flush(context);
        }
        match over {
            Over::Ended(End::Clean | End::Truncated) => Gone::Closed(FailureKind::Closed),
            Over::Ended(End::Reset) => Gone::Closed(FailureKind::Reset),
            Over::Tls(error) if self.is_open() => {
                let (now, stream, cause) = (context.now(), &mut self.stream, error.0);
                with_sink!(context, exchanges, now, Some(cause.as_str()), sink => {
                    stream.abandon(End::Reset, sink);
                });
                Gone::Closed(FailureKind::Tls)
            }
            Over::Tls(error) => Gone::Failed(FailureKind::Tls, error.to_string()),
            Over::Protocol(error) if self.is_ready() => Gone::Closed(error.kind.into()),
            Over::Protocol(error) => self.not_http_2(error, context.plan),
            Over::Version(obtained) => wrong_version(obtained, context.plan.version),
            Over::Tunnel(status, reason) => {
                let status = status.map_or_else(String::new, |status| format!("{status} "));
                let message = format!("the proxy {} made no tunnel: {status}{reason}", self.peer);
                Gone::Failed(FailureKind::Connect, message)
            }
            Over::Early(Phase::Handshaking) => {
                let error = error.unwrap_or(Errno::CONNRESET);
                let hint = hint(context);
                let message = format!("{} ended in the TLS handshake: {error}{hint}", self.peer);
                Gone::Failed(FailureKind::Tls, message)
            }
            Over::Early(_) => connect_failure(
                &self.peer,
                self.stream.is_to_proxy(),
                &error.unwrap_or(Errno::CONNRESET).into(),
            ),
        }
    }

    /// Tells the peer that nothing more comes, where the connection has words for it: GOAWAY and
    /// close_notify.
    fn say_goodbye(&mut self, context: &mut Context<'_>) {
        self.spoke = self.stream.is_sealed() || self.stream.h2().is_some();
        if self.spoke {
            self.stream.close();
        }
        let _ = self.flush(context);
    }

    fn not_http_2(&self, error: ConnectionError, plan: &Plan) -> Gone {
        let hint = match &plan.calls {
            Some(calls) if calls.asked.protocol == Protocol::Grpc => ", which gRPC needs",
            Some(_) => "; type --h1 for HTTP/1.1",
            None if self.stream.is_sealed() => "",
            None => "; type --h1 for HTTP/1.1",
        };
        Gone::Failed(
            FailureKind::Protocol,
            format!("{} does not speak HTTP/2: {error}{hint}", self.peer),
        )
    }

    /// Sends requests while there is room, and writes.
    pub(crate) fn pump(
        &mut self,
        now: u64,
        exchanges: &mut Exchanges,
        context: &mut Context<'_>,
    ) -> Result<(), Gone> {
        while !self.blocked {
            self.stream.produce();
            let ready = self.is_open() || self.stream.is_early();
            let more = ready && refill(&mut self.stream, now, exchanges, context);
            self.write(exchanges, context)?;
            if !more {
                break;
            }
        }
        let allowed = self.streams_allowed();
        if let Some(allowed) = allowed {
            let allowed = u32::try_from(allowed).unwrap_or(u32::MAX);
            context.streams_allowed[exchanges.origin()] = Some(allowed);
        }
        context.in_flight.count(exchanges, allowed);
        if exchanges.may_close(now, || self.stream.awaits_ticket()) {
            self.say_goodbye(context);
            return Err(Gone::Spent);
        }
        match self.misfit(context.plan, exchanges.origin()) {
            Some(refused) if exchanges.in_flight() == 0 => {
                Err(misfit(&self.peer, refused, "SETTINGS_MAX_HEADER_LIST_SIZE"))
            }
            _ => Ok(()),
        }
    }

    /// Asks by a PING whether the server is there. One that has not answered the last is taken for gone.
    pub(crate) fn ping(
        &mut self,
        now: u64,
        exchanges: &mut Exchanges,
        context: &mut Context<'_>,
    ) -> Result<(), Gone> {
        let unanswered = self.stream.h2().map_or(0, |h2| h2.unanswered_pings());
        if unanswered > 0 {
            let every = context.plan.keepalive.unwrap_or_default();
            let cause = format!("no answer to a PING within {every:?}");
            let stream = &mut self.stream;
            with_sink!(context, exchanges, now, Some(cause.as_str()), sink => {
                stream.abandon(End::Reset, sink);
            });
            return Err(Gone::Closed(FailureKind::Timeout));
        }
        if self.stream.ping() {
            self.pump(now, exchanges, context)?;
        }
        Ok(())
    }

    /// Writes as much as the socket takes.
    fn write(&mut self, exchanges: &mut Exchanges, context: &mut Context<'_>) -> Result<(), Gone> {
        match self.flush(context) {
            Ok(flushed) => {
                self.blocked = flushed == Flushed::Full;
                // Every frame read may ask for an answer: a peer that reads nothing gets no more of
                // them.
                if self.held == self.stream.may_read() {
                    self.held = !self.held;
                    context.system.hold(self.place, self.held);
                }
                Ok(())
            }
            Err(over) => Err(self.over(over, None, exchanges, context)),
        }
    }

    fn flush(&mut self, context: &mut Context<'_>) -> Result<Flushed, Over> {
        let mut moved = Moved::default();
        let flushed = context
            .system
            .send(self.place, &mut self.stream, &mut moved);
        if !self.is_open() {
            self.handshake_sent += moved.bytes;
        }
        context.tally.recorder.traffic.add_sent(moved);
        flushed
    }

    /// What is left of the words that tell the peer why the connection ends; `None` where there were
    /// none.
    pub(crate) fn last_words(&mut self) -> Option<Vec<u8>> {
        let mut unsent = Vec::new();
        while self.spoke
            && let Ok(bytes @ [_, ..]) = self.stream.transmit()
        {
            let length = bytes.len();
            unsent.extend_from_slice(bytes);
            self.stream.sent(length);
        }
        self.spoke.then_some(unsent)
    }

    /// Gives up one request that took too long. HTTP/1.1 has to give up the connection with it.
    pub(crate) fn cancel(
        &mut self,
        id: StreamId,
        exchanges: &mut Exchanges,
        context: &mut Context<'_>,
    ) -> Result<(), Gone> {
        if !self.stream.cancel(id) {
            return Err(Gone::Closed(FailureKind::Timeout));
        }
        if self.blocked {
            return Ok(());
        }
        self.write(exchanges, context)
    }

    /// Adds what kernel and connection counted since the last reading, and what is known of the peer.
    pub(crate) fn count(&mut self, exchanges: &Exchanges, context: &mut Context<'_>) {
        let new = self.stream.content_sent() - self.content_counted;
        if new > 0 {
            // Behind an answer that came early there may be no other request.
            let at_most = match exchanges.content() {
                0 => new,
                in_flight => new.min(in_flight),
            };
            let unacknowledged = match self.stream.version() {
                Some(connection::Version::H1) => self.unacknowledged(context),
                _ => 0,
            };
            let arrived = new - unacknowledged.min(at_most);
            context.tally.recorder.traffic.body_sent += arrived;
            self.content_counted += arrived;
        }
        if let Some(settings) = self.stream.h2().map(|h2| h2.peer_settings())
            && settings.received
        {
            context.learned.h2 = Some(settings);
            let allowed = settings.max_concurrent_streams.unwrap_or(u32::MAX);
            context.streams_allowed[exchanges.origin()] = Some(allowed);
        }
        let Some(info) = context.system.tcp_info(self.place) else {
            return;
        };
        let traffic = &mut context.tally.recorder.traffic;
        traffic.segments_sent +=
            u64::from(info.segments_sent.wrapping_sub(self.counted.segments_sent));
        traffic.segments_received += u64::from(
            info.segments_received
                .wrapping_sub(self.counted.segments_received),
        );
        traffic.retransmits += u64::from(info.retransmits.wrapping_sub(self.counted.retransmits));
        self.counted = info;
        if self.is_open() {
            let least = (info.min_rtt_us < u32::MAX).then(|| f64::from(info.min_rtt_us) / 1e6);
            let smoothed = f64::from(info.rtt_us) / 1e6;
            context.learned.round_trips(smoothed, least);
            context.learned.mtu = Some(info.path_mtu.into());
        }
    }

    /// Whether a request could be sent now.
    pub(crate) fn has_room(&self) -> bool {
        !self.blocked && self.stream.capacity() > 0
    }
}

/// What may be the matter with a server that ends connections in the handshake.
fn hint(context: &Context<'_>) -> &'static str {
    match &context.plan.announced {
        None => {
            "; a server that expects the PROXY protocol does so: type --proxy-protocol v2 for such a one"
        }
        Some(_) => {
            "; a server that does not expect the PROXY protocol may do so: leave --proxy-protocol out for such a one"
        }
    }
}

fn connect_failure(peer: &Address, is_proxy: bool, error: &io::Error) -> Gone {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Gone::Failed(
            FailureKind::Refused,
            match peer {
                Address::Ip(_) if is_proxy => {
                    format!("the proxy {peer} refused the connection: is it running on that port?")
                }
                Address::Ip(_) => {
                    format!("{peer} refused the connection: is the server running on that port?")
                }
                Address::Unix(_) => {
                    format!("{peer} refused the connection: is the server running?")
                }
            },
        ),
        // The reset of a connection that was made may overtake the news that it was.
        io::ErrorKind::ConnectionReset => {
            Gone::Failed(FailureKind::Reset, format!("{peer} reset the connection"))
        }
        _ => Gone::Failed(
            FailureKind::Connect,
            format!("cannot connect to {peer}: {error}"),
        ),
    }
}

/// The server agreed on a version that was not asked for.
fn wrong_version(obtained: connection::Version, asked: Option<Version>) -> Gone {
    let asked = asked.unwrap_or(Version::H2).title();
    Gone::Failed(
        FailureKind::Tls,
        format!(
            "the server does not speak {asked}: it agreed on no ALPN protocol; type --{} instead, or another server",
            obtained.name()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_reset_before_it_was_seen_counts_as_reset() {
        let peer = Address::Ip(([127, 0, 0, 1], 80).into());
        let kind = |error: Errno| match connect_failure(&peer, false, &error.into()) {
            Gone::Failed(kind, _) => Some(kind),
            Gone::Closed(_) | Gone::Exhausted(_) | Gone::Spent => None,
        };
        assert_eq!(kind(Errno::CONNRESET), Some(FailureKind::Reset));
        assert_eq!(kind(Errno::CONNREFUSED), Some(FailureKind::Refused));
        assert_eq!(kind(Errno::NETUNREACH), Some(FailureKind::Connect));
    }
}
