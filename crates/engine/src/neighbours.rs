//! What other programs of this machine take of its processors while a run lasts.
//!
//! A server on the same machine is no other program where it is known: by `--server-pid`, or by who listens on
//! the ports that the requests go to. One that nobody can name hides the others, and nothing is told.

mod sockets;

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::cost::{MachineTime, ServerClocks, process_cpu_s};
use crate::plan::{Plan, Transport};
use crate::route::Address;

/// In less the kernel's ticks, of which one is 10 ms, are too coarse.
const SHORTEST: Duration = Duration::from_millis(500);

/// Processors that are idle for less of the time have nothing left.
const IDLE: f64 = 0.1;

/// What was taken of the processors of this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// The share that other programs took, 0…1.
    pub(crate) others: f64,
    /// Whether the server runs here, and left none idle.
    pub(crate) server_is_full: bool,
}

/// Counters as the run begins.
#[derive(Debug)]
pub(crate) struct Neighbours {
    since: Instant,
    before: Reading,
    server: ServerClocks,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    machine: MachineTime,
    /// Processor time of this process and of the server.
    ours_s: f64,
}

impl Reading {
    fn now(server: &ServerClocks) -> Option<Self> {
        let server_s = match server.is_empty() {
            true => 0.0,
            false => server.now()?,
        };
        Some(Self {
            machine: MachineTime::now()?,
            ours_s: process_cpu_s()? + server_s,
        })
    }
}

impl Neighbours {
    /// A run of `plan` begins, whose requests go to `addresses`; `None` where its server cannot be told from
    /// other programs.
    pub(crate) fn new(plan: &Plan, addresses: &[Vec<Address>]) -> Option<Self> {
        let server = match plan.server.is_empty() {
            false => plan.server.clone(),
            true => servers_here(plan, addresses)?,
        };
        let before = Reading::now(&server)?;
        Some(Self {
            since: Instant::now(),
            before,
            server,
        })
    }

    /// What was taken since; `None` where that is not known.
    pub(crate) fn taken(&self) -> Option<Taken> {
        if self.since.elapsed() < SHORTEST {
            return None;
        }
        let now = Reading::now(&self.server)?;
        let ours_s = now.ours_s - self.before.ours_s;
        let idle = now.machine.idle_since(self.before.machine)?;
        Some(Taken {
            others: now.machine.others_since(self.before.machine, ours_s)?,
            server_is_full: !self.server.is_empty() && idle < IDLE,
        })
    }
}

/// The clocks of the servers that run on this machine, of all that requests go to; `None` where the process of
/// one cannot be found.
fn servers_here(plan: &Plan, addresses: &[Vec<Address>]) -> Option<ServerClocks> {
    let mut here = BTreeSet::new();
    for (origin, addresses) in plan.origins.iter().zip(addresses) {
        let udp = matches!(origin.transport, Transport::Quic(_));
        for address in addresses {
            match address {
                // Whose socket it is, no table tells.
                Address::Unix(_) => return None,
                Address::Ip(peer) if is_here(peer.ip()) => here.insert((udp, *peer)),
                Address::Ip(_) => continue,
            };
        }
    }
    let mut pids = BTreeSet::new();
    for (udp, address) in here {
        let found = listeners(udp, address);
        if found.is_empty() {
            return None;
        }
        pids.extend(found);
    }
    pids.remove(&std::process::id());
    ServerClocks::new(&pids.into_iter().collect::<Vec<_>>()).ok()
}

/// Whether an address is one of this machine's: nobody else may bind to it.
fn is_here(address: IpAddr) -> bool {
    UdpSocket::bind(SocketAddr::new(address, 0)).is_ok()
}

/// The processes that have a socket which takes connections, or datagrams of anybody, on the port of an address.
fn listeners(udp: bool, address: SocketAddr) -> BTreeSet<u32> {
    let inodes = sockets::behind(udp, address).unwrap_or_default();
    if inodes.is_empty() {
        return BTreeSet::new();
    }
    let sockets = inodes.iter().map(|inode| format!("socket:[{inode}]"));
    let sockets: BTreeSet<String> = sockets.collect();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| has_one(pid, &sockets)).collect()
}

/// Whether a process has one of the sockets open, as far as this process may look.
fn has_one(pid: u32, sockets: &BTreeSet<String>) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    open.flatten().any(|entry| {
        fs::read_link(entry.path())
            .is_ok_and(|target| target.to_str().is_some_and(|name| sockets.contains(name)))
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::options::{Options, Version};

    #[test]
    fn who_listens_on_a_port_is_found() {
        let own = BTreeSet::from([std::process::id()]);
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        assert_eq!(listeners(false, address), own);
        let udp = UdpSocket::bind("[::1]:0").unwrap();
        assert_eq!(listeners(true, udp.local_addr().unwrap()), own);
        drop(tcp);
        assert_eq!(listeners(false, address), BTreeSet::new());
        // Linux has it take connections over IPv4, too.
        let both = TcpListener::bind("[::]:0").unwrap();
        let port = both.local_addr().unwrap().port();
        assert_eq!(listeners(false, ([127, 0, 0, 1], port).into()), own);
    }

    #[test]
    fn a_server_here_that_nobody_can_name_hides_the_others() {
        let plan = |version| {
            Plan::new(&Options {
                urls: vec!["https://a/".into()],
                version: Some(version),
                ..Options::default()
            })
            .unwrap()
        };
        let looks = |version, address: &str| {
            let address = Address::Ip(address.parse().unwrap());
            Neighbours::new(&plan(version), &[vec![address]]).is_some()
        };
        // Port 1 is the multiplexer's, which nobody has (RFC 1078).
        assert!(!looks(Version::H2, "127.0.0.1:1"));
        assert!(!looks(Version::H3, "127.0.0.1:1"));
        assert!(looks(Version::H2, "192.0.2.1:443"));
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap().to_string();
        assert!(looks(Version::H2, &address));
    }
}
