//! The socket of a place, and what the kernel knows of it.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::sockopt;
use trilane_socket::stream::{self, Options};
use trilane_socket::{Moved, Unmade, udp};

use super::Completion;
use crate::route::Address;
use crate::sys::{self, TcpInfo};

#[derive(Debug)]
pub(super) enum Socket {
    Stream { fd: OwnedFd, is_connected: bool },
    Datagrams(udp::Socket),
}

impl Socket {
    /// One that begins a connection over a byte stream to `peer`.
    pub(super) fn connecting(peer: &Address, options: Options<'_>) -> Result<Self, Unmade> {
        let fd = match peer {
            Address::Ip(peer) => stream::connect(*peer, options),
            Address::Unix(path) => stream::connect_unix(path),
        }?;
        let is_connected = false;
        Ok(Self::Stream { fd, is_connected })
    }

    /// One for datagrams to `peer`, from `source` where that is given.
    pub(super) fn datagrams(peer: SocketAddr, source: Option<SocketAddr>) -> Result<Self, Unmade> {
        udp::Socket::connect(peer, source).map(Self::Datagrams)
    }

    /// That of a TCP connection, or over a Unix socket.
    fn stream(&self) -> Option<&OwnedFd> {
        match self {
            Self::Stream { fd, .. } => Some(fd),
            Self::Datagrams(_) => None,
        }
    }

    /// Our end's address, where it has one.
    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        stream::local_address(self)
    }

    /// What the kernel has counted on a TCP connection.
    pub(super) fn tcp_info(&self) -> Option<TcpInfo> {
        sys::tcp_info(self.stream()?.as_fd())
    }

    /// Bytes that the other end of a TCP connection has not acknowledged.
    pub(super) fn unacknowledged(&self) -> Option<u64> {
        sys::unacknowledged(self.stream()?.as_fd())
    }

    /// The congestion control of a TCP connection.
    pub(super) fn congestion_control(&self) -> Option<String> {
        sockopt::tcp_congestion(self.stream()?).ok()
    }

    /// Datagrams that the kernel has dropped because the socket was full.
    pub(super) fn dropped_datagrams(&self) -> Option<u32> {
        match self {
            Self::Datagrams(socket) => sys::dropped_datagrams(socket.as_fd()),
            Self::Stream { .. } => None,
        }
    }
}

/// Reads datagrams once: what that comes to, and whether there may be more.
pub(super) fn read_datagrams(
    socket: &udp::Socket,
    inbox: &mut udp::Inbox,
    moved: &mut Moved,
) -> Option<(Completion, bool)> {
    match socket.receive(inbox, moved) {
        udp::Received::Datagrams { more } => Some((Completion::Datagrams, more)),
        udp::Received::Nothing => None,
        udp::Received::Unreachable => Some((Completion::Unreachable, true)),
        udp::Received::Failed(error) => Some((Completion::NoDatagrams(error), true)),
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Stream { fd, .. } => fd.as_fd(),
            Self::Datagrams(socket) => socket.as_fd(),
        }
    }
}
