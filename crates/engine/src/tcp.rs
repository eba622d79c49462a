//! One TCP connection, with or without TLS, speaking HTTP/1.1 or HTTP/2.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use trilane_transport::tls;
use trilane_wire::{ConnectionError, End, Refused, StreamId};

use crate::codec::Codec;
use crate::context::{Context, Gone, Turn, misfit};
use crate::driver::Ready;
use crate::failure::Kind;
use crate::grpc::CallSink;
use crate::plan::{Plan, Version};
use crate::record::Traffic;
use crate::streams::{Sink, Streams};
use crate::sys::{self, TcpInfo};

/// Nothing more is read from a peer that leaves more than this unread.
const UNSENT_LIMIT: usize = 1 << 20;
/// Reads of one connection before the others have their turn.
const READS_PER_TURN: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Connecting,
    Handshaking,
    Open,
}

/// One TCP connection.
#[derive(Debug)]
pub(crate) struct Tcp {
    socket: OwnedFd,
    peer: SocketAddr,
    phase: Phase,
    /// When the phase began.
    since: u64,
    tls: Option<Box<tls::Session>>,
    codec: Option<Codec>,
    /// What the socket did not take.
    unsent: Vec<u8>,
    /// Whether reading waits until the peer has taken `unsent`.
    stalled: bool,
    /// Whether no edge will come any more: the socket is read to its end, not to a short read.
    ended: bool,
    /// The last reading of the kernel's counters.
    counted: TcpInfo,
}

impl Tcp {
    pub(crate) fn open(peer: SocketAddr, plan: &Plan, now: u64) -> Result<Self, Gone> {
        let failed = |what: &str, error: Errno| {
            Gone::Failed(Kind::Connect, format!("{what} for {peer}: {error}"))
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let family = if peer.is_ipv4() {
            net::AddressFamily::INET
        } else {
            net::AddressFamily::INET6
        };
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)
            .map_err(|error| failed("cannot make a socket", error))?;
        sockopt::set_tcp_nodelay(&socket, true).map_err(|error| failed("TCP_NODELAY", error))?;
        if let Some(name) = &plan.congestion_control {
            sockopt::set_tcp_congestion(&socket, name).map_err(|error| {
                failed(
                    &format!("congestion control {name:?} is not available here"),
                    error,
                )
            })?;
        }
        match net::connect(&socket, &peer) {
            Ok(()) | Err(Errno::INPROGRESS) => (),
            Err(error) => return Err(connect_failure(peer, error)),
        }
        Ok(Self {
            socket,
            peer,
            phase: Phase::Connecting,
            since: now,
            tls: None,
            codec: None,
            unsent: Vec::new(),
            stalled: false,
            ended: false,
            counted: TcpInfo::default(),
        })
    }

    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether the peer has shown that it speaks the version: with HTTP/2 it has sent SETTINGS.
    pub(crate) fn is_ready(&self) -> bool {
        self.codec.as_ref().is_some_and(Codec::is_ready)
    }

    /// Why the peer can never be sent any of the plan's requests.
    pub(crate) fn misfit(&self, plan: &Plan) -> Option<Refused> {
        self.codec.as_ref()?.misfit(plan)
    }

    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// What the connection was doing, for the message of a timeout.
    pub(crate) fn waiting_for(&self) -> &'static str {
        match self.phase {
            Phase::Connecting => "the TCP connection",
            Phase::Handshaking => "the TLS handshake",
            Phase::Open => "a response",
        }
    }

    /// The socket is ready.
    pub(crate) fn on_ready(
        &mut self,
        ready: Ready,
        streams: &mut Streams,
        context: &mut Context<'_>,
    ) -> Result<Turn, Gone> {
        self.ended |= ready.ended;
        if self.phase == Phase::Connecting {
            if !ready.writable {
                return Ok(Turn::Wait);
            }
            self.connected(streams, context)?;
        } else if ready.writable && !self.unsent.is_empty() {
            self.flush(context)?;
            let now = context.clock.now();
            self.pump(now, streams, context)?;
        }
        if ready.readable {
            self.read(streams, context)
        } else {
            Ok(Turn::Wait)
        }
    }

    fn connected(&mut self, streams: &mut Streams, context: &mut Context<'_>) -> Result<(), Gone> {
        context.tally.recorder.traffic.syscalls += 1;
        match sockopt::socket_error(&self.socket) {
            Ok(Ok(())) => (),
            Ok(Err(error)) | Err(error) => return Err(connect_failure(self.peer, error)),
        }
        let now = context.clock.now();
        context.phases.connect.record(now - self.since);
        self.since = now;
        let Some(config) = &context.plan.tls else {
            self.opened(context.plan.version.unwrap_or(Version::H1), now, context);
            return self.pump(now, streams, context);
        };
        self.phase = Phase::Handshaking;
        let mut session = tls::Session::new(config, &context.plan.origin.server_name)
            .map_err(|error| Gone::Failed(Kind::Tls, error.to_string()))?;
        session
            .start(&mut context.out)
            .map_err(|error| Gone::Failed(Kind::Tls, error.to_string()))?;
        self.tls = Some(Box::new(session));
        self.write(context)
    }

    /// TCP and TLS are ready: HTTP begins.
    fn opened(&mut self, version: Version, now: u64, context: &mut Context<'_>) {
        self.phase = Phase::Open;
        self.since = now;
        self.codec = Some(Codec::new(version, context.plan, &mut context.plain));
        context.learned.established(version);
        if context.learned.peer.is_none() {
            context.learned.peer = Some(self.peer.to_string());
            context.learned.tls = self.tls.as_ref().and_then(|session| session.info());
            context.learned.congestion_control = sockopt::tcp_congestion(&self.socket).ok();
        }
        context.schedule.begin(now);
    }

    fn handshaken(&mut self, now: u64, context: &mut Context<'_>) -> Result<(), Gone> {
        let info = self
            .tls
            .as_ref()
            .and_then(|session| session.info())
            .unwrap_or_default();
        let version = version_from_alpn(&info.alpn, context.plan.version)?;
        context.phases.tls.record(now - self.since);
        if info.resumed {
            context.phases.resumed += 1;
        } else {
            context.phases.full += 1;
        }
        self.opened(version, now, context);
        Ok(())
    }

    fn read(&mut self, streams: &mut Streams, context: &mut Context<'_>) -> Result<Turn, Gone> {
        for _ in 0..READS_PER_TURN {
            // Every frame read may ask for an answer: a peer that reads nothing gets no more of them.
            self.stalled = self.unsent.len() > UNSENT_LIMIT;
            if self.stalled {
                return Ok(Turn::Wait);
            }
            let kept = match &mut self.tls {
                Some(session) => session.restore(&mut context.buffer),
                None => 0,
            };
            context.tally.recorder.traffic.syscalls += 1;
            let length = match net::recv(
                &self.socket,
                &mut context.buffer[kept..],
                RecvFlags::empty(),
            ) {
                Ok((_, 0)) => return Err(self.ended(None, streams, context)),
                Ok((_, length)) => length,
                Err(Errno::AGAIN) => return Ok(Turn::Wait),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(self.ended(Some(error), streams, context)),
            };
            let now = context.clock.now();
            context.tally.recorder.traffic.received += length as u64;
            let end = kept + length;
            if context.tally.sums_bodies() {
                self.receive::<true>(end, now, streams, context)?;
            } else {
                self.receive::<false>(end, now, streams, context)?;
            }
            self.pump(now, streams, context)?;
            if self.is_finished() {
                let gone = self.ended(None, streams, context);
                // It said so before: GOAWAY, where the version has it.
                let drained = matches!(&self.codec, Some(Codec::H2(codec)) if codec.is_closing());
                return Err(match gone {
                    Gone::Closed(_) if drained => Gone::Closed(Kind::Goaway),
                    gone => gone,
                });
            }
            // A short read has emptied the socket, but not told of the end behind the last byte.
            if end < context.buffer.len() && !self.ended {
                return Ok(Turn::Wait);
            }
        }
        Ok(Turn::Again)
    }

    /// Takes the first `end` bytes of the buffer.
    fn receive<const FULL: bool>(
        &mut self,
        end: usize,
        now: u64,
        streams: &mut Streams,
        context: &mut Context<'_>,
    ) -> Result<(), Gone> {
        let Some(session) = &mut self.tls else {
            let Some(codec) = &mut self.codec else {
                return Ok(());
            };
            let bytes = &context.buffer[..end];
            let result =
                codec.feed::<FULL>(bytes, now, streams, &mut context.tally, &mut context.plain);
            return result.map_err(|error| self.farewell(error, context));
        };
        let handshaking = session.is_handshaking();
        let mut result = Ok(());
        // A server may send its SETTINGS behind its Finished, before ALPN is known here.
        let mut early = Vec::new();
        let sealed = session.receive(
            &mut context.buffer[..end],
            |plaintext| match &mut self.codec {
                Some(codec) if result.is_ok() => {
                    result = codec.feed::<FULL>(
                        plaintext,
                        now,
                        streams,
                        &mut context.tally,
                        &mut context.plain,
                    );
                }
                Some(_) => (),
                None => early.extend_from_slice(plaintext),
            },
            &mut context.out,
        );
        if let Err(error) = sealed {
            // The alert is a courtesy: the connection is lost whether or not it leaves.
            let _ = self.write(context);
            if handshaking {
                return Err(Gone::Failed(Kind::Tls, error.to_string()));
            }
            self.fail_streams(End::Reset, &error.to_string(), streams, context);
            return Err(Gone::Closed(Kind::Tls));
        }
        if handshaking && !session.is_handshaking() {
            self.handshaken(now, context)?;
            if let Some(codec) = self.codec.as_mut().filter(|_| !early.is_empty()) {
                result = codec.feed::<FULL>(
                    &early,
                    now,
                    streams,
                    &mut context.tally,
                    &mut context.plain,
                );
            }
        }
        result.map_err(|error| self.farewell(error, context))
    }

    /// The codec gave up: sends what it had to say.
    fn farewell(&mut self, error: ConnectionError, context: &mut Context<'_>) -> Gone {
        let _ = self.seal(context).and_then(|()| self.write(context));
        if self.is_ready() {
            return Gone::Closed(error.kind.into());
        }
        let hint = match &context.plan.call {
            Some(_) => ", which gRPC needs",
            None if self.tls.is_some() => "",
            None => "; type --h1 for HTTP/1.1",
        };
        Gone::Failed(
            Kind::Protocol,
            format!("{} does not speak HTTP/2: {error}{hint}", self.peer),
        )
    }

    /// Sends requests while there is room, and writes.
    pub(crate) fn pump(
        &mut self,
        now: u64,
        streams: &mut Streams,
        context: &mut Context<'_>,
    ) -> Result<(), Gone> {
        self.send_and_write(now, streams, context)?;
        match self.misfit(context.plan) {
            Some(refused) if streams.in_flight() == 0 => {
                Err(misfit(self.peer, refused, "SETTINGS_MAX_HEADER_LIST_SIZE"))
            }
            _ => Ok(()),
        }
    }

    fn send_and_write(
        &mut self,
        now: u64,
        streams: &mut Streams,
        context: &mut Context<'_>,
    ) -> Result<(), Gone> {
        loop {
            let mut more = false;
            if self.unsent.is_empty()
                && let Some(codec) = &mut self.codec
            {
                if codec.has_output() {
                    codec.produce(&mut context.plain);
                }
                more = codec.refill(now, streams, context) || codec.has_output();
            }
            self.seal(context)?;
            if context.out.is_empty() {
                return Ok(());
            }
            self.write(context)?;
            if !more || !self.unsent.is_empty() {
                return Ok(());
            }
        }
    }

    /// Moves what the codec wrote to `context.out`, through TLS where there is one.
    fn seal(&mut self, context: &mut Context<'_>) -> Result<(), Gone> {
        match &mut self.tls {
            _ if context.plain.is_empty() => Ok(()),
            None => {
                // Nothing else writes to `out` without TLS.
                std::mem::swap(&mut context.plain, &mut context.out);
                Ok(())
            }
            Some(session) => {
                let sealed = session.send(&context.plain, &mut context.out);
                context.plain.clear();
                sealed.map_err(|error| Gone::Failed(Kind::Tls, error.to_string()))
            }
        }
    }

    /// Writes `context.out` and empties it.
    fn write(&mut self, context: &mut Context<'_>) -> Result<(), Gone> {
        if !self.unsent.is_empty() {
            self.unsent.append(&mut context.out);
            return self.flush(context);
        }
        let sent = self.send(&context.out, &mut context.tally.recorder.traffic)?;
        self.unsent.extend_from_slice(&context.out[sent..]);
        context.out.clear();
        Ok(())
    }

    fn flush(&mut self, context: &mut Context<'_>) -> Result<(), Gone> {
        let sent = self.send(&self.unsent, &mut context.tally.recorder.traffic)?;
        self.unsent.drain(..sent);
        Ok(())
    }

    /// Writes as much of `bytes` as the socket takes. A broken connection is found by the next read,
    /// which may still hold a response.
    fn send(&self, bytes: &[u8], traffic: &mut Traffic) -> Result<usize, Gone> {
        let mut sent = 0;
        while sent < bytes.len() {
            traffic.syscalls += 1;
            match net::send(&self.socket, &bytes[sent..], SendFlags::NOSIGNAL) {
                Ok(count) => sent += count,
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => break,
                Err(_) => return Ok(bytes.len()),
            }
        }
        traffic.sent += sent as u64;
        Ok(sent)
    }

    /// Whether nothing more can happen on the connection.
    fn is_finished(&self) -> bool {
        let done = self.codec.as_ref().is_some_and(Codec::is_finished);
        done || self
            .tls
            .as_ref()
            .is_some_and(|session| session.peer_closed())
    }

    /// The peer closed, or the transport failed.
    fn ended(
        &mut self,
        error: Option<Errno>,
        streams: &mut Streams,
        context: &mut Context<'_>,
    ) -> Gone {
        let what = match error {
            None => "the server closed the connection".to_owned(),
            Some(error) => error.to_string(),
        };
        match self.phase {
            Phase::Connecting => connect_failure(self.peer, error.unwrap_or(Errno::CONNRESET)),
            Phase::Handshaking => {
                let told = self.tls.as_ref().and_then(|session| session.eof().err());
                let message = told.map_or(what, |error| error.to_string());
                Gone::Failed(Kind::Tls, message)
            }
            Phase::Open => {
                let end = tls::end_of_stream(self.tls.as_deref(), error.is_some());
                self.fail_streams(end, &what, streams, context);
                Gone::Closed(match end {
                    End::Clean | End::Truncated => Kind::Closed,
                    End::Reset => Kind::Reset,
                })
            }
        }
    }

    fn fail_streams(
        &mut self,
        end: End,
        cause: &str,
        streams: &mut Streams,
        context: &mut Context<'_>,
    ) {
        let Some(codec) = &mut self.codec else {
            return;
        };
        let (now, tally) = (context.clock.now(), &mut context.tally);
        match &context.plan.call {
            Some(plan) => codec.eof(
                end,
                &mut CallSink {
                    now,
                    plan,
                    streams,
                    tally,
                    cause: Some(cause),
                },
            ),
            None => codec.eof(
                end,
                &mut Sink::<true> {
                    now,
                    streams,
                    tally,
                    cause: Some(cause),
                },
            ),
        }
    }

    /// Gives up one request that took too long. HTTP/1.1 has to give up the connection with it.
    pub(crate) fn cancel(
        &mut self,
        stream: StreamId,
        context: &mut Context<'_>,
    ) -> Result<(), Gone> {
        let codec = self.codec.as_mut();
        if !codec.is_some_and(|codec| codec.cancel(stream, &mut context.plain)) {
            return Err(Gone::Closed(Kind::Timeout));
        }
        self.seal(context)?;
        self.write(context)
    }

    /// Adds the kernel's counters since the last reading, and what is known of the peer.
    pub(crate) fn count(&mut self, context: &mut Context<'_>) {
        if let Some(settings) = self.codec.as_ref().and_then(Codec::settings) {
            context.learned.h2 = Some(settings);
        }
        let Some(info) = sys::tcp_info(self.socket.as_fd()) else {
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
            context.learned.rtt_s = Some(f64::from(info.rtt_us) / 1e6);
            context.learned.mtu = Some(info.path_mtu.into());
        }
    }

    /// Whether a request could be sent now.
    pub(crate) fn has_room(&self) -> bool {
        self.unsent.is_empty()
            && self
                .codec
                .as_ref()
                .is_some_and(|codec| codec.capacity() > 0)
    }
}

impl AsFd for Tcp {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn connect_failure(peer: SocketAddr, error: Errno) -> Gone {
    match error {
        Errno::CONNREFUSED => Gone::Failed(
            Kind::Refused,
            format!("{peer} refused the connection: is the server running on that port?"),
        ),
        // The reset of a connection that was made may overtake the news that it was.
        Errno::CONNRESET => Gone::Failed(Kind::Reset, format!("{peer} reset the connection")),
        error => Gone::Failed(Kind::Connect, format!("cannot connect to {peer}: {error}")),
    }
}

/// Which version the server chose by ALPN, and whether that is what was asked.
fn version_from_alpn(alpn: &[u8], asked: Option<Version>) -> Result<Version, Gone> {
    let obtained = match alpn {
        b"h2" => Version::H2,
        b"http/1.1" | b"" => Version::H1,
        other => {
            let name = String::from_utf8_lossy(other).into_owned();
            return Err(Gone::Failed(
                Kind::Tls,
                format!("the server chose the protocol {name:?}, which was not offered"),
            ));
        }
    };
    match asked {
        Some(asked) if asked != obtained => Err(Gone::Failed(
            Kind::Tls,
            format!(
                "the server does not speak {}: it agreed on no ALPN protocol; type --{} instead, or another server",
                asked.title(),
                obtained.name()
            ),
        )),
        _ => Ok(obtained),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_reset_before_it_was_seen_counts_as_reset() {
        let peer = SocketAddr::from(([127, 0, 0, 1], 80));
        let kind = |error| match connect_failure(peer, error) {
            Gone::Failed(kind, _) => Some(kind),
            Gone::Closed(_) => None,
        };
        assert_eq!(kind(Errno::CONNRESET), Some(Kind::Reset));
        assert_eq!(kind(Errno::CONNREFUSED), Some(Kind::Refused));
        assert_eq!(kind(Errno::NETUNREACH), Some(Kind::Connect));
    }
}
