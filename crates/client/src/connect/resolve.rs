//! From a host's name to its addresses.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, TryRecvError};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};

use crate::{Error, Kind};

/// A name that a thread looks up: the system's resolver cannot be asked without waiting, nor interrupted.
/// Where nobody waits any more, its answer is lost.
pub(super) struct Lookup {
    name: String,
    receiver: mpsc::Receiver<io::Result<Vec<SocketAddr>>>,
    bell: Arc<OwnedFd>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Lookup {
    pub(super) fn begin(host: &str, port: u16) -> Result<Self, Error> {
        let name = host.trim_matches(['[', ']']).to_owned();
        let unasked = |error: io::Error| {
            let message = format!("no thread to resolve {name}: {error}");
            Error::new(Kind::Resolve, message)
        };
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| unasked(error.into()))?;
        let bell = Arc::new(bell);
        let (sender, receiver) = mpsc::channel();
        let query = (name.clone(), port);
        let rung = Arc::clone(&bell);
        let thread = thread::Builder::new()
            .name("trilane-resolve".into())
            .spawn(move || {
                let answer = query.to_socket_addrs().map(Iterator::collect::<Vec<_>>);
                // An error says that nobody waits any more.
                let _ = sender.send(answer);
                let _ = rustix::io::write(&*rung, &1u64.to_ne_bytes());
            })
            .map_err(unasked)?;
        Ok(Self {
            name,
            receiver,
            bell,
            thread: Some(thread),
        })
    }

    /// Can be read when there is an answer.
    pub(super) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// The addresses in the order in which to try them, the system's (RFC 6724), with the families in turn
    /// (RFC 8305 §4); `None` before the answer.
    pub(super) fn answer(&mut self) -> Result<Option<Vec<SocketAddr>>, Error> {
        let name = &self.name;
        let received = self.receiver.try_recv();
        if let Err(TryRecvError::Empty) = received {
            return Ok(None);
        }
        // It has nothing left to do but to ring the bell, which it has open too.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let message = match received {
            Ok(Ok(addresses)) if !addresses.is_empty() => return Ok(Some(in_turn(addresses))),
            Ok(Ok(_)) | Err(_) => format!("{name} has no address"),
            Ok(Err(error)) => format!("{name} cannot be resolved: {error}"),
        };
        Err(Error::new(Kind::Resolve, message).unsent())
    }
}

/// The address that a host is, where it is no name.
pub(super) fn address(host: &str) -> Option<IpAddr> {
    host.trim_matches(['[', ']']).parse().ok()
}

/// Whether it is no name.
pub(super) fn is_address(host: &str) -> bool {
    address(host).is_some()
}

/// The families in turn, beginning with the one that comes first.
pub(super) fn in_turn(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv6() == first_is_v6);
    let mut second = second.into_iter();
    let mut all = Vec::new();
    for address in first {
        all.push(address);
        all.extend(second.next());
    }
    all.extend(second);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let parse = |text: &[&str]| -> Vec<SocketAddr> {
            text.iter().filter_map(|text| text.parse().ok()).collect()
        };
        let given = parse(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1"]);
        let expected = parse(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "[::3]:1"]);
        assert_eq!(in_turn(given), expected);
    }
}
