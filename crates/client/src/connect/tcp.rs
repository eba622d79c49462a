//! One attempt to connect over TCP or a Unix socket, through a proxy and TLS where they are wanted.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};
use trilane_transport::tls;
use trilane_wire::{Content, Encoding, OneOff, Request};

use super::Step;
use crate::connection::Ready;
use crate::link::{Link, Socket, StreamLink, Turn};
use crate::slots::Slots;
use crate::{ConnectOptions, Error, Kind, Proxy, Version};

/// What one read of a handshake takes, in bytes.
const BUFFER: usize = 16 * 1024;

enum Phase {
    Connecting,
    /// The proxy has been asked for a tunnel.
    Tunnelling(Box<StreamLink>, Slots, u32),
    Handshaking(Box<tls::Session>),
    Done,
}

/// One attempt to connect over TCP.
pub(super) struct TcpAttempt {
    socket: Socket,
    /// For messages.
    target: String,
    peer: Option<SocketAddr>,
    options: ConnectOptions,
    phase: Phase,
    unsent: Vec<u8>,
    early: Vec<u8>,
}

impl TcpAttempt {
    pub(super) fn open(peer: SocketAddr, options: &ConnectOptions) -> Result<Self, Error> {
        let failed =
            |error: Errno| Error::new(Kind::Connect, format!("no socket for {peer}: {error}"));
        let family = if peer.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None).map_err(failed)?;
        sockopt::set_tcp_nodelay(&socket, true).map_err(failed)?;
        if let Some(source) = options.source {
            net::bind(&socket, &source).map_err(|error| {
                Error::new(
                    Kind::Connect,
                    format!("{source} cannot be used here: {error}"),
                )
            })?;
        }
        let target = format!("{}:{} ({peer})", options.host, options.port);
        match net::connect(&socket, &peer) {
            Ok(()) | Err(Errno::INPROGRESS) => (),
            Err(error) => return Err(refusal(&target, error)),
        }
        Ok(Self::new(socket, target, Some(peer), options))
    }

    pub(super) fn unix(path: &Path, options: &ConnectOptions) -> Result<Self, Error> {
        let target = path.display().to_string();
        let failed = |error: Errno| refusal(&target, error);
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(failed)?;
        let address = SocketAddrUnix::new(path).map_err(failed)?;
        net::connect(&socket, &address).map_err(failed)?;
        Ok(Self::new(socket, target, None, options))
    }

    fn new(
        socket: OwnedFd,
        target: String,
        peer: Option<SocketAddr>,
        options: &ConnectOptions,
    ) -> Self {
        Self {
            socket: Socket::Stream(socket),
            target,
            peer,
            options: options.clone(),
            phase: Phase::Connecting,
            unsent: Vec::new(),
            early: Vec::new(),
        }
    }

    /// Whether the peer has answered.
    pub(super) fn is_connected(&self) -> bool {
        !matches!(self.phase, Phase::Connecting)
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.fd()
    }

    pub(super) fn wants_write(&self) -> bool {
        match &self.phase {
            Phase::Connecting => true,
            Phase::Tunnelling(link, ..) => link.has_unsent(),
            _ => !self.unsent.is_empty(),
        }
    }

    pub(super) fn step(&mut self) -> Step {
        match self.advance() {
            Ok(Some(ready)) => Step::Ready(Box::new(ready)),
            Ok(None) => Step::Pending,
            Err(error) => Step::Failed(error),
        }
    }

    fn advance(&mut self) -> Result<Option<Ready>, Error> {
        if matches!(self.phase, Phase::Connecting) {
            if !self.has_connected()? {
                return Ok(None);
            }
            match self.options.proxy.clone() {
                Some(proxy) => self.ask_for_tunnel(&proxy)?,
                None => self.greet()?,
            }
        }
        if let Phase::Tunnelling(..) = self.phase
            && self.is_tunnelled()?
        {
            self.greet()?;
        }
        match self.phase {
            Phase::Handshaking(_) => self.shake_hands(),
            Phase::Done => self.ready(None).map(Some),
            _ => Ok(None),
        }
    }

    fn has_connected(&self) -> Result<bool, Error> {
        let Some(fd) = self.socket.fd() else {
            return Ok(false);
        };
        match sockopt::socket_error(fd) {
            Ok(Ok(())) => (),
            Ok(Err(error)) | Err(error) => return Err(refusal(&self.target, error)),
        }
        if self.peer.is_none() {
            return Ok(true);
        }
        match net::getpeername(fd) {
            Ok(_) => Ok(true),
            Err(Errno::NOTCONN) => Ok(false),
            Err(error) => Err(refusal(&self.target, error)),
        }
    }

    fn ask_for_tunnel(&mut self, proxy: &Proxy) -> Result<(), Error> {
        let host = self.options.host.trim_matches(['[', ']']);
        let authority = if host.contains(':') {
            format!("[{host}]:{}", self.options.port)
        } else {
            format!("{host}:{}", self.options.port)
        };
        let fields: Vec<_> = proxy
            .fields
            .iter()
            .map(|(name, value)| (&name[..], &value[..]))
            .collect();
        let request = Request::one_off(
            Encoding::H1,
            &OneOff {
                method: "CONNECT",
                scheme: "http",
                authority: &authority,
                path: &authority,
                fields: &fields,
                content: Content::Whole([].into()),
            },
        )
        .map_err(|error| Error::new(Kind::Local, error.to_string()))?;
        let mut slots = Slots::default();
        let mut link = StreamLink::new(Version::H1, None);
        let slot = slots.reserve();
        let id = link
            .submit(&request, slot)
            .map_err(|refused| Error::new(Kind::Proxy, refused.to_string()))?;
        slots.open(slot, id.number);
        self.phase = Phase::Tunnelling(Box::new(link), slots, slot);
        Ok(())
    }

    /// Whether the proxy has made the tunnel.
    fn is_tunnelled(&mut self) -> Result<bool, Error> {
        let Phase::Tunnelling(link, slots, slot) = &mut self.phase else {
            return Ok(false);
        };
        let proxy = format!("the proxy for {}", self.target);
        link.flush(&self.socket, slots);
        // Bytes behind the head of the tunnel are lost here, and nobody may send any: the client's
        // side speaks first.
        if let Turn::Over(error) = link.read(&self.socket, slots)
            && match slots.get(*slot).status {
                None => true,
                Some(status) => status < 300 && error.kind == Kind::Protocol,
            }
        {
            let message = format!("{proxy} made no tunnel: {}", error.message);
            return Err(Error::new(Kind::Proxy, message));
        }
        let answer = slots.get(*slot);
        match answer.status {
            None => Ok(false),
            Some(200..=299) => Ok(true),
            Some(status) => {
                let reason = String::from_utf8_lossy(&answer.reason)
                    .escape_default()
                    .to_string();
                let message = format!("{proxy} refused the tunnel: {status} {reason}");
                Err(Error {
                    code: Some(status.into()),
                    ..Error::new(Kind::Proxy, message.trim_end().to_owned())
                })
            }
        }
    }

    /// The stream is there: TLS begins, or HTTP.
    fn greet(&mut self) -> Result<(), Error> {
        let Some(tls) = self.options.tls.as_ref().filter(|_| self.options.secure) else {
            self.phase = Phase::Done;
            return Ok(());
        };
        let versions: Vec<_> = self
            .options
            .versions
            .iter()
            .copied()
            .filter(|version| *version != Version::H3)
            .collect();
        let name = self
            .options
            .server_name
            .as_ref()
            .unwrap_or(&self.options.host);
        let mut session = tls::Session::new(&tls.tcp(&versions), name)
            .map_err(|error| crate::tls::failure(&error.0))?;
        session
            .start(&mut self.unsent)
            .map_err(|error| crate::tls::failure(&error.0))?;
        self.phase = Phase::Handshaking(Box::new(session));
        self.write()
    }

    fn shake_hands(&mut self) -> Result<Option<Ready>, Error> {
        self.write()?;
        let mut buffer = [0; BUFFER];
        loop {
            let Phase::Handshaking(session) = &mut self.phase else {
                return Ok(None);
            };
            let Socket::Stream(fd) = &self.socket else {
                return Ok(None);
            };
            let length = match net::recv(fd.as_fd(), &mut buffer, RecvFlags::empty()) {
                Ok((_, 0)) => {
                    session
                        .eof()
                        .map_err(|error| crate::tls::failure(&error.0))?;
                    let message = format!("{} closed the connection", self.target);
                    return Err(Error::new(Kind::Tls, message));
                }
                Ok((_, length)) => length,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => {
                    let message = format!("{} ended in the TLS handshake: {error}", self.target);
                    return Err(Error::new(Kind::Tls, message));
                }
            };
            let early = &mut self.early;
            let result = session.receive(
                &mut buffer[..length],
                |plaintext| early.extend_from_slice(plaintext),
                &mut self.unsent,
            );
            let done = !session.is_handshaking();
            if let Err(error) = result {
                // The alert is a courtesy: the connection is lost whether or not it leaves.
                let _ = self.write();
                return Err(crate::tls::failure(&error.0));
            }
            self.write()?;
            if done {
                let Phase::Handshaking(session) = std::mem::replace(&mut self.phase, Phase::Done)
                else {
                    return Ok(None);
                };
                return self.ready(Some(session)).map(Some);
            }
        }
    }

    fn write(&mut self) -> Result<(), Error> {
        let Socket::Stream(fd) = &self.socket else {
            return Ok(());
        };
        while !self.unsent.is_empty() {
            match net::send(fd, &self.unsent, SendFlags::NOSIGNAL) {
                Ok(length) => drop(self.unsent.drain(..length)),
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => {
                    let message = format!("{} ended in the TLS handshake: {error}", self.target);
                    return Err(Error::new(Kind::Tls, message));
                }
            }
        }
        Ok(())
    }

    fn ready(&mut self, session: Option<Box<tls::Session>>) -> Result<Ready, Error> {
        let version = self.version(session.as_deref())?;
        let mut slots = Slots::default();
        let mut link = StreamLink::new(version, session);
        link.queue(std::mem::take(&mut self.unsent));
        if !self.early.is_empty() {
            link.feed_early(&self.early, &mut slots)?;
        }
        let socket = std::mem::replace(&mut self.socket, Socket::Memory);
        let local = socket
            .fd()
            .and_then(|fd| net::getsockname(fd).ok())
            .and_then(|address| SocketAddr::try_from(address).ok());
        Ok(Ready {
            tls: link.tls(),
            socket,
            link: Link::Stream(Box::new(link)),
            slots,
            peer: self.peer,
            local,
        })
    }

    fn version(&self, session: Option<&tls::Session>) -> Result<Version, Error> {
        let versions = &self.options.versions;
        let Some(session) = session else {
            return Ok(if versions.contains(&Version::H1) {
                Version::H1
            } else {
                Version::H2
            });
        };
        let alpn = session.info().unwrap_or_default().alpn;
        let version = match &alpn[..] {
            b"h2" => Version::H2,
            _ => Version::H1,
        };
        if versions.contains(&version) {
            return Ok(version);
        }
        let message = format!("{} does not speak HTTP/2: allow h1 too", self.target);
        Err(Error::new(Kind::Version, message))
    }
}

fn refusal(target: &str, error: Errno) -> Error {
    let kind = match error {
        Errno::CONNREFUSED => Kind::Refused,
        Errno::TIMEDOUT => Kind::ConnectTimeout,
        _ => Kind::Connect,
    };
    Error::new(kind, format!("no connection to {target}: {error}"))
}
