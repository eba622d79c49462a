//! TCP and Unix sockets.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, sockopt,
};
use trilane_connection::{Over, Stream};

use crate::{Moved, Unmade};

/// The slices of one send: what a codec writes at once, 64 KiB in frames of 16, has no more than ten,
/// and heads and small bodies are in one piece.
const MOST_SLICES: usize = 16;

/// How a TCP socket is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// The local address to connect from.
    pub source: Option<SocketAddr>,
    /// The congestion control, by the kernel's name.
    pub congestion_control: Option<&'a str>,
}

/// How a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes are there.
    Bytes(usize),
    /// The socket has no more now.
    Nothing,
    /// The peer has ended its direction.
    End,
    /// The socket has failed.
    Failed(Errno),
}

/// How a flush ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// Everything went.
    All,
    /// The socket is full.
    Full,
    /// The socket takes nothing any more: reading tells why.
    Broken,
}

/// Begins to connect to `peer`, with TCP_NODELAY.
pub fn connect(peer: SocketAddr, options: Options<'_>) -> Result<OwnedFd, Unmade> {
    let failed = |what: String| {
        move |error: Errno| Unmade {
            what,
            error: error.into(),
        }
    };
    let family = if peer.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let socket = socket(family).map_err(failed(format!("no socket for {peer}")))?;
    sockopt::set_tcp_nodelay(&socket, true).map_err(failed(format!("TCP_NODELAY for {peer}")))?;
    if let Some(name) = options.congestion_control {
        sockopt::set_tcp_congestion(&socket, name).map_err(failed(format!(
            "congestion control {name:?} is not available here"
        )))?;
    }
    if let Some(source) = options.source {
        net::bind(&socket, &source).map_err(failed(format!("{source} cannot be used here")))?;
    }
    match net::connect(&socket, &peer) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(failed(format!("no connection to {peer}"))(error)),
    }
}

/// Connects to a Unix socket.
pub fn connect_unix(path: &Path) -> Result<OwnedFd, Unmade> {
    let failed = |error: Errno| Unmade {
        what: format!("no connection to {}", path.display()),
        error: error.into(),
    };
    let socket = socket(AddressFamily::UNIX).map_err(failed)?;
    let address = SocketAddrUnix::new(path).map_err(failed)?;
    net::connect(&socket, &address).map_err(failed)?;
    Ok(socket)
}

fn socket(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    net::socket_with(family, SocketType::STREAM, flags, None)
}

/// The error of a connect that has ended, if it has one.
pub fn connect_error(socket: impl AsFd) -> Result<(), Errno> {
    sockopt::socket_error(socket)?
}

/// Whether the other end has answered the connect.
pub fn is_connected(socket: impl AsFd) -> Result<bool, Errno> {
    connect_error(&socket)?;
    match net::getpeername(&socket) {
        Ok(_) => Ok(true),
        Err(Errno::NOTCONN) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Our end's address, where the socket has one.
pub fn local_address(socket: impl AsFd) -> Option<SocketAddr> {
    SocketAddr::try_from(net::getsockname(socket).ok()?).ok()
}

/// Sends what `stream` has to send, as far as the socket takes it. An error of the connection itself
/// (of TLS) comes back as it is.
pub fn flush(socket: impl AsFd, stream: &mut Stream, moved: &mut Moved) -> Result<Flushed, Over> {
    loop {
        let mut slices = [IoSlice::new(&[]); MOST_SLICES];
        let mut count = 0;
        for (place, bytes) in slices.iter_mut().zip(stream.transmit_slices()?) {
            *place = IoSlice::new(bytes);
            count += 1;
        }
        let sent = match &slices[..count] {
            [] => return Ok(Flushed::All),
            [bytes] => net::send(&socket, bytes, SendFlags::NOSIGNAL),
            several => {
                let mut control = SendAncillaryBuffer::default();
                net::sendmsg(&socket, several, &mut control, SendFlags::NOSIGNAL)
            }
        };
        moved.calls += 1;
        match sent {
            Ok(count) => {
                moved.bytes += count as u64;
                stream.sent(count);
            }
            Err(Errno::INTR) => (),
            Err(Errno::AGAIN) => return Ok(Flushed::Full),
            // A response may have come all the same.
            Err(_) => {
                stream.broke();
                return Ok(Flushed::Broken);
            }
        }
    }
}

/// Reads once into `buffer`.
pub fn receive(socket: impl AsFd, buffer: &mut [u8], moved: &mut Moved) -> Received {
    read(socket, buffer, RecvFlags::empty(), moved)
}

/// Has the kernel throw away what has come, as much as `buffer` has room for and without filling it
/// (tcp(7): MSG_TRUNC).
pub fn discard(socket: impl AsFd, buffer: &mut [u8], moved: &mut Moved) -> Received {
    read(socket, buffer, RecvFlags::TRUNC, moved)
}

fn read(socket: impl AsFd, buffer: &mut [u8], flags: RecvFlags, moved: &mut Moved) -> Received {
    loop {
        moved.calls += 1;
        return match net::recv(&socket, &mut *buffer, flags) {
            Ok((_, 0)) => Received::End,
            Ok((_, length)) => {
                moved.bytes += length as u64;
                Received::Bytes(length)
            }
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Received::Nothing,
            Err(error) => Received::Failed(error),
        };
    }
}
