//! Listening sockets: one for cleartext, one for TLS, one UDP socket per worker.

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpListener, UdpSocket},
};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::sync::Semaphore;

use crate::{Config, Error, sys};

/// Connections that the kernel completes before we accept them. It caps this by `somaxconn`.
const BACKLOG: i32 = 4096;
/// Asked of the kernel for each UDP socket, which caps it by `rmem_max` and `wmem_max`. The
/// usual 208 KiB hold less than one burst of a busy client.
const UDP_BUFFER: usize = 8 << 20;
/// The part of all descriptors that is not for clients, and the least of it.
const OWN_PART: u64 = 8;
const OWN_LEAST: u64 = 64;
/// How often a number free on TCP is tried before we give up on finding it free on UDP too.
const PORT_TRIES: usize = 32;

/// All sockets of one server, bound and listening.
pub(crate) struct Sockets {
    pub(crate) http: TcpListener,
    pub(crate) https: TcpListener,
    /// One per worker, all on the address of `https`.
    pub(crate) quic: Vec<UdpSocket>,
}

impl Sockets {
    pub(crate) fn bind(config: &Config) -> Result<Self, Error> {
        let congestion = config.same_over_tcp.then(|| config.quic_congestion.name());
        let http = listen(config.bind, config.port, congestion, "--port")?;
        let mut tries = PORT_TRIES;
        loop {
            let https = listen(config.bind, config.tls_port, congestion, "--tls-port")?;
            let address = https.local_addr().map_err(Error::System)?;
            match udp_group(address, config.threads) {
                Ok(quic) => return Ok(Self { http, https, quic }),
                Err(cause) if cause.kind() == io::ErrorKind::AddrInUse => {
                    tries -= 1;
                    if config.tls_port != 0 || tries == 0 {
                        return Err(Error::PortInUse {
                            port: address.port(),
                            flag: "--tls-port",
                        });
                    }
                }
                Err(cause) => {
                    return Err(Error::Bind {
                        what: format!("UDP {address}"),
                        cause,
                    });
                }
            }
        }
    }
}

/// One socket without `SO_REUSEPORT`: two servers must not share a port unnoticed. Its connections send by
/// `congestion`, where the kernel allows it.
fn listen(
    bind: IpAddr,
    port: u16,
    congestion: Option<&str>,
    flag: &'static str,
) -> Result<TcpListener, Error> {
    let address = SocketAddr::new(bind, port);
    let bound = || {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM,
            Some(Protocol::TCP),
        )?;
        socket.set_reuse_address(true)?;
        if let Some(name) = congestion {
            // Who asks is told what it has become.
            let _ = socket.set_tcp_congestion(name.as_bytes());
        }
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        io::Result::Ok(socket.into())
    };
    bound().map_err(|cause| match cause.kind() {
        io::ErrorKind::AddrInUse => Error::PortInUse { port, flag },
        _ => Error::Bind {
            what: address.to_string(),
            cause,
        },
    })
}

/// The congestion control of the connections of a listening socket, by the kernel's name.
pub(crate) fn congestion_of(listener: &TcpListener) -> Option<String> {
    let name = SockRef::from(listener).tcp_congestion().ok()?;
    let end = name.iter().position(|&byte| byte == 0);
    let name = &name[..end.unwrap_or(name.len())];
    Some(String::from_utf8_lossy(name).into_owned())
}

fn udp_group(address: SocketAddr, count: usize) -> io::Result<Vec<UdpSocket>> {
    let mut group = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        if count > 1 {
            socket.set_reuse_port(true)?;
        }
        // A smaller buffer than asked for still works; the drops are counted in the cost.
        let _ = socket.set_recv_buffer_size(UDP_BUFFER);
        let _ = socket.set_send_buffer_size(UDP_BUFFER);
        socket.bind(&address.into())?;
        group.push(UdpSocket::from(socket));
    }
    if let [first, _, ..] = &group[..] {
        // A connection keeps the addresses of its packets, so the kernel's own hashing, which is
        // left if this fails, also delivers each connection to one worker: only less evenly.
        let _ = sys::steer_by_connection_id(first, count as u32);
    }
    Ok(group)
}

/// Lets the process hold as many connections as the system allows. Returns how many of them clients may have: a part
/// is left for connections to upstreams, and files.
pub(crate) fn raise_file_limit() -> usize {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return Semaphore::MAX_PERMITS;
    };
    // Staying at the old limit is no reason not to start.
    let limit = match soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
        true => hard,
        false => soft,
    };
    let own = (limit / OWN_PART).max(OWN_LEAST);
    let left = usize::try_from(limit.saturating_sub(own)).unwrap_or(usize::MAX);
    left.clamp(1, Semaphore::MAX_PERMITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_send_as_they_are_told_to() {
        let controlled = |name| {
            let listener = listen([127, 0, 0, 1].into(), 0, name, "--port").unwrap();
            congestion_of(&listener).unwrap()
        };
        // The one that no kernel is without.
        assert_eq!(controlled(Some("reno")), "reno");
        let of_the_kernel = controlled(None);
        assert_eq!(controlled(Some("no such thing")), of_the_kernel);
    }
}
