//! One QUIC connection on a UDP socket of its own, speaking HTTP/3. The socket is connected, so that
//! the kernel tells when nobody listens at the other end.

use std::fmt;
use std::io::{ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSocketState};
use trilane_transport::quic::{self, H3Session};
use trilane_wire::{Events, Refused, StreamId, h3};

use crate::context::{Clock, Context, Gone, Turn, misfit};
use crate::driver::Ready;
use crate::failure::Kind;
use crate::grpc::CallSink;
use crate::plan::{Plan, Version};
use crate::streams::{Sink, Streams};

/// Reads of one connection before the others have their turn.
const READS_PER_TURN: usize = 8;
/// Datagrams of one send: 65,507 bytes are what UDP carries in one call, 1452 what the largest
/// datagram has (see `quic::Options::mtu_discovery`). The kernel refuses more as a whole.
const MOST_SEGMENTS: usize = 65_507 / 1452;
/// Requests added between two rounds of sending.
const REQUESTS_PER_ROUND: usize = 256;
/// Room for what a burst of responses brings, in bytes, as far as the system grants it.
const SOCKET_BUFFER: usize = 4 << 20;

/// What a session is given.
enum Input {
    Datagrams {
        batch: BytesMut,
        segment_size: usize,
        ecn: u8,
    },
    Timer,
    Unreachable,
}

impl Input {
    fn give<E: Events>(
        self,
        session: &mut H3Session,
        peer: SocketAddr,
        instant: Instant,
        sink: &mut E,
    ) {
        match self {
            Input::Datagrams {
                batch,
                segment_size,
                ecn,
            } => {
                session.receive(instant, peer, ecn, batch, segment_size, sink);
            }
            Input::Timer => session.handle_timeout(instant, sink),
            Input::Unreachable => session.unreachable(instant, sink),
        }
    }
}

/// One QUIC connection.
pub(crate) struct Udp {
    socket: UdpSocket,
    state: UdpSocketState,
    peer: SocketAddr,
    session: H3Session,
    since: u64,
    open: bool,
    /// A batch that the socket did not take, with its shape.
    unsent: Option<(Vec<u8>, quic::Transmit)>,
    timer: Option<u64>,
    /// Whether a send was told that nobody listens at the other end.
    unreachable: bool,
    counted: quic::Stats,
    fields_counted: u64,
}

impl Udp {
    pub(crate) fn open(
        peer: SocketAddr,
        plan: &Plan,
        now: u64,
        clock: Clock,
    ) -> Result<Self, Gone> {
        let failed = |what: &str, error: std::io::Error| {
            Gone::Failed(Kind::Connect, format!("{what} for {peer}: {error}"))
        };
        let any: SocketAddr = match peer {
            SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
            SocketAddr::V6(_) => ([0u16; 8], 0).into(),
        };
        let socket = UdpSocket::bind(any).map_err(|error| failed("cannot make a socket", error))?;
        socket
            .connect(peer)
            .map_err(|error| failed("no route", error))?;
        let state = UdpSocketState::new((&socket).into())
            .map_err(|error| failed("cannot set up the socket", error))?;
        // What the system grants is less, perhaps; drops are counted and judged.
        let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER);
        let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BUFFER);
        let Some(config) = &plan.quic else {
            return Err(Gone::Failed(Kind::Tls, "HTTP/3 needs https".to_owned()));
        };
        let limits = h3::Config {
            max_streams: plan.streams as u32,
            ..h3::Config::default()
        };
        let instant = clock.0 + Duration::from_nanos(now);
        let session = H3Session::connect(config, limits, peer, &plan.origin.server_name, instant)
            .map_err(|error| failure(&error, peer))?;
        Ok(Self {
            socket,
            state,
            peer,
            session,
            since: now,
            open: false,
            unsent: None,
            timer: None,
            unreachable: false,
            counted: quic::Stats::default(),
            fields_counted: 0,
        })
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Whether the peer has shown that it speaks HTTP/3: it has sent SETTINGS.
    pub(crate) fn is_ready(&self) -> bool {
        let h3 = self.session.h3().filter(|_| self.open);
        h3.is_some_and(|h3| h3.peer_settings().received)
    }

    /// Why the peer can never be sent any of the plan's requests.
    pub(crate) fn misfit(&self, plan: &Plan) -> Option<Refused> {
        plan.misfit(self.session.h3()?.peer_settings().max_field_section_size)
    }

    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// When [`Self::on_timer`] has to be called at the latest.
    pub(crate) fn timer(&self) -> Option<u64> {
        self.timer
    }

    /// Whether a request could be sent now.
    pub(crate) fn has_room(&self) -> bool {
        self.unsent.is_none() && self.session.capacity() > 0
    }

    pub(crate) fn on_ready(
        &mut self,
        ready: Ready,
        streams: &mut Streams,
        context: &mut Context<'_>,
    ) -> Result<Turn, Gone> {
        if !ready.readable {
            return self
                .pump(context.clock.now(), streams, context)
                .map(|()| Turn::Wait);
        }
        for _ in 0..READS_PER_TURN {
            let mut meta = [RecvMeta::default()];
            let received = {
                let mut space = [IoSliceMut::new(context.datagrams.space())];
                context.tally.recorder.traffic.syscalls += 1;
                self.state
                    .recv((&self.socket).into(), &mut space, &mut meta)
            };
            let instant = Instant::now();
            let now = instant
                .saturating_duration_since(context.clock.0)
                .as_nanos() as u64;
            match received {
                Ok(_) => {
                    let [meta] = meta;
                    context.tally.recorder.traffic.received += meta.len as u64;
                    let batch = context.datagrams.take(meta.len);
                    let ecn = meta.ecn.map_or(0, |ecn| ecn as u8);
                    let input = Input::Datagrams {
                        batch,
                        segment_size: meta.stride,
                        ecn,
                    };
                    self.drive(streams, context, now, instant, input);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Turn::Wait),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    self.drive(streams, context, now, instant, Input::Unreachable);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    let message = format!("receiving from {} failed: {error}", self.peer);
                    return Err(Gone::Failed(Kind::Connect, message));
                }
            }
            self.pump(now, streams, context)?;
        }
        Ok(Turn::Again)
    }

    /// The time of [`Self::timer`] has come.
    pub(crate) fn on_timer(
        &mut self,
        now: u64,
        streams: &mut Streams,
        context: &mut Context<'_>,
    ) -> Result<(), Gone> {
        let instant = context.clock.0 + Duration::from_nanos(now);
        self.drive(streams, context, now, instant, Input::Timer);
        self.pump(now, streams, context)
    }

    /// Gives the session something with the sink that fits.
    fn drive(
        &mut self,
        streams: &mut Streams,
        context: &mut Context<'_>,
        now: u64,
        instant: Instant,
        input: Input,
    ) {
        if let Some(plan) = &context.plan.call {
            let tally = &mut context.tally;
            let mut sink = CallSink {
                now,
                plan,
                streams,
                tally,
                cause: None,
            };
            input.give(&mut self.session, self.peer, instant, &mut sink);
        } else if context.tally.sums_bodies() {
            let tally = &mut context.tally;
            let mut sink: Sink<'_, '_, true> = Sink {
                now,
                streams,
                tally,
                cause: None,
            };
            input.give(&mut self.session, self.peer, instant, &mut sink);
        } else {
            let tally = &mut context.tally;
            let mut sink: Sink<'_, '_, false> = Sink {
                now,
                streams,
                tally,
                cause: None,
            };
            input.give(&mut self.session, self.peer, instant, &mut sink);
        }
    }

    /// Sends requests while there is room, and every datagram that is due.
    pub(crate) fn pump(
        &mut self,
        now: u64,
        streams: &mut Streams,
        context: &mut Context<'_>,
    ) -> Result<(), Gone> {
        if !self.open && self.session.is_connected() {
            self.opened(now, context);
        }
        loop {
            let more = self.unsent.is_none() && self.refill(now, streams, context);
            self.transmit(now, context);
            if self.unreachable {
                // The kernel tells a closed port once, to whichever call comes next.
                self.unreachable = false;
                let instant = context.clock.0 + Duration::from_nanos(now);
                self.drive(streams, context, now, instant, Input::Unreachable);
            }
            if !more {
                break;
            }
        }
        self.timer = self.session.timeout().map(|instant| {
            instant
                .saturating_duration_since(context.clock.0)
                .as_nanos() as u64
        });
        if let Some(error) = self.session.error() {
            return Err(match failure(error, self.peer) {
                Gone::Failed(kind, _) if self.open => Gone::Closed(kind),
                gone => gone,
            });
        }
        if self.session.is_closing() && self.session.outstanding() == 0 {
            // Else the server would keep it until it has been idle for too long.
            self.say_goodbye(context);
            return Err(Gone::Closed(Kind::Goaway));
        }
        match self.misfit(context.plan) {
            Some(refused) if streams.in_flight() == 0 => {
                self.say_goodbye(context);
                Err(misfit(
                    self.peer,
                    refused,
                    "SETTINGS_MAX_FIELD_SECTION_SIZE",
                ))
            }
            _ => Ok(()),
        }
    }

    fn opened(&mut self, now: u64, context: &mut Context<'_>) {
        self.open = true;
        context.phases.quic.record(now - self.since);
        let info = self.session.quic().tls();
        if info.as_ref().is_some_and(|info| info.resumed) {
            context.phases.resumed += 1;
        } else {
            context.phases.full += 1;
        }
        context.learned.established(Version::H3);
        if context.learned.peer.is_none() {
            context.learned.peer = Some(self.peer.to_string());
            context.learned.tls = info;
            context.learned.congestion_control = context.plan.congestion_control.clone();
        }
        context.schedule.begin(now);
    }

    /// Sends requests, and what calls in flight have to write. True when only the size of the round
    /// ended it.
    fn refill(&mut self, now: u64, streams: &mut Streams, context: &mut Context<'_>) -> bool {
        let more = self.send_requests(now, streams, context);
        if let Some(plan) = &context.plan.call {
            let recorder = &mut context.tally.recorder;
            streams
                .calls
                .advance(plan, &mut self.session, recorder, now);
        }
        more
    }

    fn send_requests(
        &mut self,
        now: u64,
        streams: &mut Streams,
        context: &mut Context<'_>,
    ) -> bool {
        // One that fits ends each round of refusals below: they are no endless loop.
        if self.misfit(context.plan).is_some() {
            return false;
        }
        for _ in 0..REQUESTS_PER_ROUND {
            let room = self.session.capacity() > 0;
            let Some(slot) = streams.next_slot().filter(|_| room) else {
                return false;
            };
            let Some(pending) = context.next_request(now) else {
                return false;
            };
            let request = &context.plan.prepared[pending.request as usize];
            match self.session.send(request, slot) {
                Ok(id) => {
                    context.count_start(pending, now);
                    streams.open(id, pending, now);
                    context.open_call(id, streams, now);
                    let traffic = &mut context.tally.recorder.traffic;
                    traffic.fields_sent_decoded += request.decoded_bytes() as u64;
                    traffic.body_sent += request.body().len() as u64;
                }
                Err(refused) if context.refused(pending, refused, now) => (),
                Err(_) => return false,
            }
        }
        true
    }

    /// Sends every datagram that is due, in batches by segmentation offload.
    fn transmit(&mut self, now: u64, context: &mut Context<'_>) {
        let instant = context.clock.0 + Duration::from_nanos(now);
        if let Some((bytes, shape)) = self.unsent.take()
            && !self.send(&bytes, shape, context)
        {
            self.unsent = Some((bytes, shape));
            return;
        }
        let segments = self.state.max_gso_segments().min(MOST_SEGMENTS);
        let mut out = std::mem::take(&mut context.out);
        while let Some(shape) = self.session.transmit(instant, segments, &mut out) {
            if !self.send(&out[..shape.len], shape, context) {
                self.unsent = Some((out[..shape.len].to_vec(), shape));
                break;
            }
        }
        out.clear();
        context.out = out;
    }

    /// Whether the socket took the batch. One that it refuses for another reason than a full buffer
    /// is as good as lost on the way: QUIC sends its content again.
    fn send(&mut self, bytes: &[u8], shape: quic::Transmit, context: &mut Context<'_>) -> bool {
        let traffic = &mut context.tally.recorder.traffic;
        traffic.syscalls += 1;
        let sent = self.state.try_send(
            (&self.socket).into(),
            &quinn_udp::Transmit {
                destination: self.peer,
                ecn: EcnCodepoint::from_bits(shape.ecn),
                contents: bytes,
                segment_size: (shape.segment_size < bytes.len()).then_some(shape.segment_size),
                src_ip: None,
            },
        );
        match sent {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => self.unreachable = true,
            Ok(()) => traffic.sent += bytes.len() as u64,
            Err(_) => (),
        }
        true
    }

    /// Gives up one request that took too long.
    pub(crate) fn cancel(
        &mut self,
        stream: StreamId,
        context: &mut Context<'_>,
    ) -> Result<(), Gone> {
        self.session.cancel(stream);
        self.transmit(context.clock.now(), context);
        Ok(())
    }

    /// Adds what the connection counted since the last reading, and what is known of the peer.
    pub(crate) fn count(&mut self, context: &mut Context<'_>) {
        let stats = self.session.quic().stats();
        let traffic = &mut context.tally.recorder.traffic;
        traffic.datagrams_sent += stats.sent_datagrams - self.counted.sent_datagrams;
        traffic.datagrams_received += stats.received_datagrams - self.counted.received_datagrams;
        traffic.retransmits += stats.lost_packets - self.counted.lost_packets;
        self.counted = stats;
        if !self.open {
            return;
        }
        context.learned.rtt_s = Some(stats.rtt.as_secs_f64());
        context.learned.mtu = Some(stats.mtu.into());
        if let Some(h3) = self.session.h3() {
            let fields = h3.sent_field_bytes();
            traffic.fields_sent_encoded += fields - self.fields_counted;
            self.fields_counted = fields;
            if h3.peer_settings().received {
                context.learned.h3 = Some(h3.peer_settings());
            }
        }
    }

    /// Tells the peer that nothing more comes.
    pub(crate) fn say_goodbye(&mut self, context: &mut Context<'_>) {
        let now = context.clock.now();
        self.session
            .close(context.clock.0 + Duration::from_nanos(now));
        self.transmit(now, context);
    }
}

impl AsFd for Udp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl fmt::Debug for Udp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Udp")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

fn failure(error: &quic::Error, peer: SocketAddr) -> Gone {
    let kind = match error.kind {
        quic::ErrorKind::Options => Kind::Connect,
        quic::ErrorKind::HandshakeTimeout => Kind::HandshakeTimeout,
        quic::ErrorKind::Refused => Kind::Refused,
        quic::ErrorKind::Tls | quic::ErrorKind::Version => Kind::Tls,
        quic::ErrorKind::IdleTimeout => Kind::Timeout,
        quic::ErrorKind::Closed => Kind::Closed,
        quic::ErrorKind::Reset => Kind::Reset,
        quic::ErrorKind::Protocol => Kind::Protocol,
        quic::ErrorKind::Limit => Kind::Limit,
    };
    Gone::Failed(kind, format!("{peer} over UDP: {error}"))
}
