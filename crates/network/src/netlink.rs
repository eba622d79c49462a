//! What the namespace of the calling thread is told by rtnetlink(7): it takes from the owner of a
//! user namespace what ioctl(2) takes from root alone.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::Tcp;

/// Bytes of `nlmsghdr`.
const HEADER: usize = 16;
// linux/rtnetlink.h
const RTAX_INITCWND: u16 = 11;
const RTAX_CC_ALGO: u16 = 16;

/// Says how many packets wait in an interface at most.
pub(crate) fn set_queue(interface: &str, packets: u32) -> io::Result<()> {
    let netlink = Netlink::new(interface)?;
    // `ifinfomsg`: the interface; nothing else of it changes.
    let mut body = vec![0; 4];
    body.extend(netlink.interface.to_ne_bytes());
    body.extend([0; 8]);
    attribute(&mut body, libc::IFLA_TXQLEN, &packets.to_ne_bytes());
    netlink.ask(libc::RTM_SETLINK, 0, &body)
}

/// Says that a network, with so many bits in common, is behind an interface, and how TCP sends to it.
///
/// The route says so because a namespace may not have every congestion control of the kernel as its
/// default (`tcp_allowed_congestion_control`).
pub(crate) fn route(
    interface: &str,
    (network, bits): (Ipv4Addr, u8),
    own: Ipv4Addr,
    tcp: &Tcp,
) -> io::Result<()> {
    let netlink = Netlink::new(interface)?;
    // `rtmsg`: of IPv4, so many bits, in the main table, to what is at the other end.
    let mut body = vec![
        libc::AF_INET as u8,
        bits,
        0,
        0,
        libc::RT_TABLE_MAIN,
        libc::RTPROT_BOOT,
        libc::RT_SCOPE_LINK,
        libc::RTN_UNICAST,
    ];
    body.extend([0; 4]);
    attribute(&mut body, libc::RTA_DST, &network.octets());
    attribute(&mut body, libc::RTA_OIF, &netlink.interface.to_ne_bytes());
    attribute(&mut body, libc::RTA_PREFSRC, &own.octets());
    let mut metrics = Vec::new();
    attribute(
        &mut metrics,
        RTAX_INITCWND,
        &tcp.initial_window.to_ne_bytes(),
    );
    let mut name = tcp.congestion_control.as_bytes().to_vec();
    name.push(0);
    attribute(&mut metrics, RTAX_CC_ALGO, &name);
    attribute(&mut body, libc::RTA_METRICS, &metrics);
    // In place of one that came with the address.
    let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    netlink.ask(libc::RTM_NEWROUTE, flags, &body)
}

struct Netlink {
    socket: OwnedFd,
    /// Number of the interface that this is about.
    interface: u32,
}

impl Netlink {
    fn new(interface: &str) -> io::Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        // No protocol is 0, which is NETLINK_ROUTE.
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        let interface = rustix::net::netdevice::name_to_index(&socket, interface)?;
        Ok(Self { socket, interface })
    }

    /// Sends one message, and waits until the kernel has done what it asks for.
    fn ask(&self, kind: u16, flags: i32, body: &[u8]) -> io::Result<()> {
        let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags;
        let mut message = Vec::new();
        message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend((flags as u16).to_ne_bytes());
        message.extend([0; 8]);
        message.extend(body);
        rustix::net::send(&self.socket, &message, SendFlags::empty())?;
        let mut answer = [0; 1024];
        let (_, length) = rustix::net::recv(&self.socket, &mut answer, RecvFlags::empty())?;
        // Behind the header of the acknowledgement: 0, or the number of an error below it.
        let code = answer[..length].get(HEADER..HEADER + 4);
        match code
            .and_then(|code| code.try_into().ok())
            .map(i32::from_ne_bytes)
        {
            Some(0) => Ok(()),
            Some(code) => Err(io::Error::from_raw_os_error(-code)),
            None => Err(io::Error::other("the kernel did not acknowledge")),
        }
    }
}

/// Appends an attribute: its length, its kind, its value, and what fills it up to four bytes.
fn attribute(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    to.extend(((4 + value.len()) as u16).to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(value);
    to.resize(to.len().next_multiple_of(4), 0);
}
