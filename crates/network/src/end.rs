//! One end of the network: a namespace with one interface, and the programs in it.

use std::fmt;
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::mpsc;
use std::thread;

use crate::{MTU, netlink, sys};

/// The name of the interface at each end.
pub const INTERFACE: &str = "road";
/// Packets that wait in the interface for the emulator at most, whose own queue is the one that is
/// asked for: as many as a fast sender makes while a processor is busy elsewhere.
const INTERFACE_QUEUE: u32 = 10_000;
/// Settings of the kernel for one end, and why.
const SETTINGS: [(&str, &str); 4] = [
    // 127.0.0.1 is the server at the client's end, whose packets have that address on the way.
    ("net/ipv4/conf/all/route_localnet", "1"),
    // Else what one connection met would change the next one (tcp(7)).
    ("net/ipv4/tcp_no_metrics_save", "1"),
    // Neighbours are looked for with packets that no program sent.
    ("net/ipv6/conf/all/disable_ipv6", "1"),
    ("net/ipv6/conf/default/disable_ipv6", "1"),
];

/// Why there can be no network on this machine.
#[derive(Debug)]
pub struct Unavailable {
    /// What was tried.
    pub what: &'static str,
    /// What the system said.
    pub error: io::Error,
    /// What helps.
    pub way_out: &'static str,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}; {}", self.what, self.error, self.way_out)
    }
}

impl std::error::Error for Unavailable {}

/// How TCP sends at an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Its congestion control, by the kernel's name.
    pub congestion_control: String,
    /// What it sends before the first acknowledgement, in segments (RFC 6928).
    pub initial_window: u32,
}

impl Default for Tcp {
    /// What most kernels do, and most implementations of QUIC.
    fn default() -> Self {
        Self {
            congestion_control: "cubic".into(),
            initial_window: 10,
        }
    }
}

/// Where a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// 10.0.0.2. There 127.0.0.1 is the server, too, so that URLs and certificates for one machine
    /// hold; there is no loopback interface.
    Client,
    /// 10.0.0.1.
    Server,
}

impl Side {
    /// Its address.
    pub fn address(self) -> Ipv4Addr {
        match self {
            Self::Client => Ipv4Addr::new(10, 0, 0, 2),
            Self::Server => Ipv4Addr::new(10, 0, 0, 1),
        }
    }
}

type Task = Box<dyn FnOnce() + Send>;

/// A namespace with one interface, through which everything passes that leaves it.
///
/// It is gone once this and the programs in it are.
#[derive(Debug)]
pub struct End {
    /// Address of the interface.
    pub address: Ipv4Addr,
    /// Where another process opens the namespace, to enter it (setns(2)).
    pub namespace: PathBuf,
    /// A thread that is in the namespace does what is to be done there.
    tasks: mpsc::Sender<Task>,
}

/// Lets a process that is not root make networks: gives it a user namespace of its own.
///
/// To be called before the process has a second thread.
pub fn prepare() -> Result<(), Unavailable> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    sys::new_user_namespace().map_err(|error| Unavailable {
        what: "cannot make a user namespace",
        error,
        way_out: "run this as root, or allow such namespaces: sysctl user.max_user_namespaces, \
                  kernel.unprivileged_userns_clone and \
                  kernel.apparmor_restrict_unprivileged_userns",
    })
}

/// Where another process opens the user namespace that `prepare` made, which it enters before those
/// of the ends; None where there is none.
pub fn user_namespace() -> Option<PathBuf> {
    (!rustix::process::geteuid().is_root())
        .then(|| format!("/proc/{}/ns/user", std::process::id()).into())
}

impl End {
    /// Makes one, and the file of its interface, for the emulator.
    pub fn new(side: Side, tcp: &Tcp) -> Result<(Self, File), Unavailable> {
        let tcp = tcp.clone();
        let (tasks, asked) = mpsc::channel::<Task>();
        let (made, result) = mpsc::channel();
        thread::spawn(move || {
            let thread = rustix::thread::gettid();
            let interface = make(side, &tcp).map(|interface| (interface, thread));
            let usable = interface.is_ok();
            if made.send(interface).is_ok() && usable {
                asked.into_iter().for_each(|task| task());
            }
        });
        let (interface, thread) = result.recv().unwrap_or_else(|_| {
            Err(Unavailable {
                what: "cannot make an end of the network",
                error: io::Error::other("its thread ended"),
                way_out: "this is a fault of Trilane's",
            })
        })?;
        let address = side.address();
        let (process, thread) = (std::process::id(), thread.as_raw_nonzero());
        let end = Self {
            address,
            namespace: format!("/proc/{process}/task/{thread}/ns/net").into(),
            tasks,
        };
        Ok((end, interface))
    }

    /// Starts the program of this end, of which there is one. It passes SIGTERM on to all that it
    /// starts, and what it has started ends with it, or with this process, however that ends.
    pub fn spawn(&self, mut command: Command) -> io::Result<Child> {
        self.within(move || {
            sys::new_process_namespace()?;
            sys::contain(&mut command);
            command.spawn()
        })?
    }

    /// Whether a program in the namespace listens on a port of TCP.
    pub fn listens(&self, port: u16) -> io::Result<bool> {
        self.within(move || {
            // No connection is made that the program would see.
            let tables = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
            tables
                .iter()
                .filter_map(|table| std::fs::read_to_string(table).ok())
                .any(|table| table.lines().any(|line| is_listener(line, port)))
        })
    }

    /// Does something in the namespace.
    pub(crate) fn within<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let (done, result) = mpsc::channel();
        let task = Box::new(move || {
            let _ = done.send(task());
        });
        let gone = |_| io::Error::other("the thread of the namespace ended");
        self.tasks.send(task).map_err(|_| gone(mpsc::RecvError))?;
        result.recv().map_err(gone)
    }
}

/// Gives the calling thread a namespace with the interface of that side.
fn make(side: Side, tcp: &Tcp) -> Result<File, Unavailable> {
    sys::new_network_namespace().map_err(|error| Unavailable {
        what: "cannot make a network namespace",
        error,
        way_out: "this needs CAP_SYS_ADMIN: run it as root, or as a user who may make user \
                  namespaces",
    })?;
    for (setting, value) in SETTINGS {
        // A kernel without IPv6 has no such setting.
        let _ = std::fs::write(format!("/proc/sys/{setting}"), value);
    }
    let interface = sys::tun(INTERFACE).map_err(|error| Unavailable {
        what: "cannot make a TUN interface",
        error,
        way_out: "this needs /dev/net/tun: modprobe tun, start the container with \
                  --device /dev/net/tun, and let others than root use it: chmod 666 /dev/net/tun",
    })?;
    let loopback = match side {
        // One that was never up has no address, and 127.0.0.1 can be elsewhere.
        Side::Client => Ok(()),
        Side::Server => sys::bring_up("lo"),
    };
    loopback
        .and_then(|()| sys::configure(INTERFACE, side.address(), MTU))
        .and_then(|()| netlink::set_queue(INTERFACE, INTERFACE_QUEUE))
        .map_err(|error| Unavailable {
            what: "cannot configure an interface",
            error,
            way_out: "this needs CAP_NET_ADMIN",
        })?;
    let own = side.address();
    let there = [
        (Ipv4Addr::new(10, 0, 0, 0), 24),
        (Ipv4Addr::new(127, 0, 0, 0), 8),
    ];
    let there = match side {
        Side::Client => &there[..],
        Side::Server => &there[..1],
    };
    for network in there {
        netlink::route(INTERFACE, *network, own, tcp).map_err(|error| Unavailable {
            what: "cannot use this congestion control and initial window",
            error,
            way_out: "the kernel has those in \
                      /proc/sys/net/ipv4/tcp_available_congestion_control; modprobe tcp_bbr, for \
                      one, adds another",
        })?;
    }
    Ok(interface)
}

/// Whether a line of `/proc/net/tcp` (proc(5)) is of a socket that listens on a port.
fn is_listener(line: &str, port: u16) -> bool {
    // Number, local address, remote address, state: 0A is TCP_LISTEN.
    let mut words = line.split_whitespace().skip(1);
    let local = words.next().and_then(|address| address.rsplit_once(':'));
    local.is_some_and(|(_, own)| u16::from_str_radix(own, 16) == Ok(port))
        && words.nth(1) == Some("0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_told_by_its_port_and_state() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000";
        assert!(is_listener(line, 8080));
        assert!(!is_listener(line, 8081));
        assert!(!is_listener(&line.replace(" 0A ", " 01 "), 8080));
        assert!(!is_listener(
            "  sl  local_address rem_address   st tx_queue",
            8080
        ));
    }
}
