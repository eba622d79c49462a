//! Which sockets of this machine take connections, or datagrams of anybody, on a port: as the kernel tells by
//! `sock_diag(7)`. Its tables in `/proc/net` have every connection, of which a machine that is measured has many.

use std::io;
use std::net::SocketAddr;

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, IPPROTO_UDP};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, sendto,
    socket_with,
};

/// Bytes that the kernel puts into one answer at most (`NLMSG_GOODSIZE` for dumps).
const ANSWER: usize = 32 << 10;

/// The inodes of the sockets behind an address of this machine.
///
/// Those of IPv6 may take what goes to an address of IPv4, too: they are told where it has none of its own.
pub(super) fn behind(udp: bool, address: SocketAddr) -> io::Result<Vec<u32>> {
    let port = address.port();
    if address.is_ipv4() {
        let found = on_port(AF_INET, udp, port)?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    on_port(AF_INET6, udp, port)
}

fn on_port(family: u8, udp: bool, port: u16) -> io::Result<Vec<u32>> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    let kernel = netlink::SocketAddrNetlink::new(0, 0);
    sendto(
        &socket,
        &request(family, udp, port),
        SendFlags::empty(),
        &kernel,
    )?;
    let mut answer = vec![0; ANSWER];
    let mut inodes = Vec::new();
    loop {
        let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
        if !take(&answer[..length], &mut inodes)? {
            return Ok(inodes);
        }
    }
}

fn request(family: u8, udp: bool, port: u16) -> Vec<u8> {
    let mut socket_id = match family {
        AF_INET => SocketId::new_v4(),
        _ => SocketId::new_v6(),
    };
    socket_id.source_port = port;
    // A UDP socket that is connected to nobody counts as closed.
    let (protocol, states) = match udp {
        true => (IPPROTO_UDP, StateFlags::CLOSE),
        false => (IPPROTO_TCP, StateFlags::LISTEN),
    };
    let wanted = InetRequest {
        family,
        protocol,
        extensions: ExtensionFlags::empty(),
        states,
        socket_id,
    };
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(wanted).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// Takes the messages of one answer; whether others follow it.
fn take(mut answer: &[u8], inodes: &mut Vec<u32>) -> io::Result<bool> {
    while !answer.is_empty() {
        let message = NetlinkMessage::<SockDiagMessage>::deserialize(answer)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        match message.payload {
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(socket)) => {
                inodes.push(socket.header.inode);
            }
            NetlinkPayload::Done(_) => return Ok(false),
            NetlinkPayload::Error(error) => return Err(error.to_io()),
            _ => (),
        }
        // Messages begin at multiples of four bytes (netlink(7)).
        let length = (message.header.length as usize).next_multiple_of(4);
        answer = answer.get(length..).unwrap_or_default();
    }
    Ok(true)
}
