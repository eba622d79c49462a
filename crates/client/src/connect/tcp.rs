//! One attempt to connect over TCP or a Unix socket, through a proxy and TLS where they are wanted.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use trilane_connection::{HEADROOM, Over, Phase, Stream, StreamConfig};
use trilane_socket::stream::{self, Options, Received};
use trilane_socket::{Moved, Unmade};

use super::Step;
use crate::connection::Ready;
use crate::link::{self, Link, Socket};
use crate::slots::{Sink, Slots};
use crate::{ConnectOptions, Error, Facts, Kind, Setup};

/// What one read of a handshake takes, in bytes.
const BUFFER: usize = 16 * 1024;

/// One attempt to connect over TCP.
pub(super) struct TcpAttempt {
    /// Taken when the attempt is ready.
    parts: Option<(OwnedFd, Stream)>,
    slots: Slots,
    /// What is to be reached, for messages.
    target: String,
    /// Whom the socket goes to, for messages: the target, or the proxy to it.
    next: String,
    peer: Option<SocketAddr>,
    /// Whether a proxy is asked for a tunnel.
    tunnels: bool,
    marks: Marks,
}

/// When a step was done.
struct Marks {
    began: Instant,
    connected: Option<Instant>,
    /// The way to the origin was free.
    tunnelled: Option<Instant>,
}

impl TcpAttempt {
    pub(super) fn open(
        peer: SocketAddr,
        options: &ConnectOptions,
        config: &Arc<StreamConfig>,
        began: Instant,
    ) -> Result<Self, Error> {
        let origin = format!("{}:{}", options.host, options.port);
        let (target, next) = if let Some(proxy) = &options.proxy {
            let next = format!("the proxy {} ({peer}) for {origin}", proxy.host);
            (origin, next)
        } else {
            let target = format!("{origin} ({peer})");
            (target.clone(), target)
        };
        let how = Options {
            source: options.source,
            congestion_control: None,
        };
        let socket = stream::connect(peer, how).map_err(|Unmade { what, error }| {
            Error::new(refusal(&error), format!("{what}: {error}"))
        })?;
        Ok(Self::new(socket, target, next, Some(peer), config, began))
    }

    pub(super) fn unix(
        path: &Path,
        config: &Arc<StreamConfig>,
        began: Instant,
    ) -> Result<Self, Error> {
        let target = path.display().to_string();
        let socket =
            stream::connect_unix(path).map_err(|unmade| no_connection(&target, &unmade.error))?;
        Ok(Self::new(
            socket,
            target.clone(),
            target,
            None,
            config,
            began,
        ))
    }

    fn new(
        socket: OwnedFd,
        target: String,
        next: String,
        peer: Option<SocketAddr>,
        config: &Arc<StreamConfig>,
        began: Instant,
    ) -> Self {
        Self {
            parts: Some((socket, Stream::new(Arc::clone(config), Instant::now()))),
            slots: Slots::default(),
            target,
            next,
            peer,
            tunnels: config.tunnel.is_some(),
            marks: Marks {
                began,
                connected: None,
                tunnelled: None,
            },
        }
    }

    /// Whether the peer has answered.
    pub(super) fn is_connected(&self) -> bool {
        self.parts
            .as_ref()
            .is_some_and(|(_, stream)| stream.phase() != Phase::Connecting)
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        self.parts.as_ref().map(|(socket, _)| socket.as_fd())
    }

    pub(super) fn wants_write(&self) -> bool {
        self.parts
            .as_ref()
            .is_some_and(|(_, stream)| stream.phase() == Phase::Connecting || stream.has_output())
    }

    pub(super) fn step(&mut self) -> Step {
        match self.advance() {
            Ok(Some(ready)) => Step::Ready(Box::new(ready)),
            Ok(None) => Step::Pending,
            Err(error) => Step::Failed(error),
        }
    }

    fn advance(&mut self) -> Result<Option<Ready>, Error> {
        let Some((socket, stream)) = &mut self.parts else {
            return Ok(None);
        };
        let (target, next) = (&self.target, &self.next);
        let over = |over| self::over(over, target, next);
        if stream.phase() == Phase::Connecting {
            let connected = stream::is_connected(&*socket)
                .map_err(|error| no_connection(next, &error.into()))?;
            if !connected {
                return Ok(None);
            }
            let now = Instant::now();
            self.marks.connected = Some(now);
            stream.connected(now).map_err(over)?;
        }
        let moved = &mut Moved::default();
        let mut buffer = [0; HEADROOM + BUFFER];
        while stream.phase() != Phase::Open {
            // A socket that takes nothing any more is read for the reason.
            stream::flush(&*socket, stream, moved).map_err(over)?;
            match stream::receive(&*socket, &mut buffer[HEADROOM..], moved) {
                Received::Bytes(length) => {
                    let begin = stream.restore(&mut buffer, HEADROOM);
                    let bytes = &mut buffer[begin..HEADROOM + length];
                    let received =
                        stream.receive(Instant::now(), bytes, &mut Sink(&mut self.slots));
                    if let Err(error) = received {
                        // The alert is a courtesy: the connection is lost whether or not it leaves.
                        let _ = stream::flush(&*socket, stream, moved);
                        return Err(over(error));
                    }
                    if !matches!(stream.phase(), Phase::Tunnelling) {
                        self.marks.tunnelled.get_or_insert_with(Instant::now);
                    }
                }
                Received::Nothing => return Ok(None),
                Received::End => {
                    return Err(over(stream.eof(false, &mut Sink(&mut self.slots))));
                }
                Received::Failed(error) => {
                    let who = match stream.phase() {
                        Phase::Tunnelling => next,
                        _ => target,
                    };
                    let message = format!("{who} ended in the {}: {error}", doing(stream));
                    return Err(Error::new(lost(stream.phase()), message));
                }
            }
        }
        stream::flush(&*socket, stream, moved).map_err(over)?;
        Ok(self.ready())
    }

    fn ready(&mut self) -> Option<Ready> {
        let (socket, mut stream) = self.parts.take()?;
        let proxy_fields = stream.take_proxy_fields();
        let local = stream::local_address(&socket);
        let link = Link::Stream(Box::new(stream));
        let tls = link.tls();
        Some(Ready {
            facts: Facts {
                peer: self.peer,
                local,
                setup: self.marks.setup(self.tunnels, tls.is_some()),
                tls,
            },
            socket: Socket::Stream(socket),
            link,
            slots: std::mem::take(&mut self.slots),
            proxy_fields,
        })
    }
}

impl Marks {
    /// How long each step took of a connection that is ready now.
    fn setup(&self, tunnels: bool, secure: bool) -> Setup {
        let now = Instant::now();
        let connected = self.connected.unwrap_or(now);
        let free = self.tunnelled.filter(|_| tunnels).unwrap_or(connected);
        Setup {
            connect: Some(connected.saturating_duration_since(self.began)),
            tunnel: tunnels.then(|| free.saturating_duration_since(connected)),
            tls: secure.then(|| now.saturating_duration_since(free)),
            ..Setup::default()
        }
    }
}

/// What a connection that is not open yet is doing.
fn doing(stream: &Stream) -> &'static str {
    match stream.phase() {
        Phase::Tunnelling => "request for a tunnel",
        _ => "TLS handshake",
    }
}

/// The class of a connection that ends in a phase.
fn lost(phase: Phase) -> Kind {
    match phase {
        Phase::Tunnelling => Kind::Proxy,
        Phase::Handshaking => Kind::Tls,
        Phase::Connecting | Phase::Open => Kind::Connect,
    }
}

/// The end of an attempt, in the words of somebody who wants to reach `target` and talks to `proxy`
/// where there is one.
fn over(over: Over, target: &str, proxy: &str) -> Error {
    match over {
        Over::Version(_) => {
            let message = format!("{target} does not speak HTTP/2: allow h1 too");
            Error::new(Kind::Version, message)
        }
        Over::Tunnel(Some(status), reason) => {
            let message = format!("{proxy} refused the tunnel: {status} {reason}");
            Error {
                code: Some(status.into()),
                ..Error::new(Kind::Proxy, message.trim_end().to_owned())
            }
        }
        Over::Tunnel(None, reason) => {
            Error::new(Kind::Proxy, format!("{proxy} made no tunnel: {reason}"))
        }
        Over::Early(Phase::Tunnelling) => {
            let message = format!("{proxy} made no tunnel: it closed the connection");
            Error::new(Kind::Proxy, message)
        }
        Over::Early(phase) => Error::new(lost(phase), format!("{target} closed the connection")),
        over => link::failure(over, None),
    }
}

fn refusal(error: &io::Error) -> Kind {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Kind::Refused,
        io::ErrorKind::TimedOut => Kind::ConnectTimeout,
        _ => Kind::Connect,
    }
}

fn no_connection(target: &str, error: &io::Error) -> Error {
    Error::new(
        refusal(error),
        format!("no connection to {target}: {error}"),
    )
}
