//! The socket of a place, and what the kernel knows of it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::sockopt;
use trilane_socket::udp;

use crate::sys::{self, TcpInfo};

#[derive(Debug)]
pub(super) enum Socket {
    Stream { fd: OwnedFd, is_connected: bool },
    Datagrams(udp::Socket),
}

impl Socket {
    /// That of a TCP connection, or over a Unix socket.
    fn stream(&self) -> Option<&OwnedFd> {
        match self {
            Self::Stream { fd, .. } => Some(fd),
            Self::Datagrams(_) => None,
        }
    }

    /// What the kernel has counted on a TCP connection.
    pub(super) fn tcp_info(&self) -> Option<TcpInfo> {
        sys::tcp_info(self.stream()?.as_fd())
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

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Stream { fd, .. } => fd.as_fd(),
            Self::Datagrams(socket) => socket.as_fd(),
        }
    }
}
