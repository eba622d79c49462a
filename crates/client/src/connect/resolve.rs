//! From a host's name to its addresses.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::Waiting;
use crate::{Error, Kind};

/// The addresses of `host` in the order in which to try them: the system's (RFC 6724), with the
/// families in turn (RFC 8305 §4).
pub(super) fn resolve(
    host: &str,
    port: u16,
    waiting: &mut Waiting<'_>,
) -> Result<Vec<SocketAddr>, Error> {
    let name = host.trim_matches(['[', ']']);
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (sender, receiver) = mpsc::channel();
    let query = (name.to_owned(), port);
    // The system's resolver cannot be interrupted: where nobody waits any more, its answer is lost.
    thread::Builder::new()
        .name("trilane-resolve".into())
        .spawn(move || {
            let answer = query.to_socket_addrs().map(Iterator::collect::<Vec<_>>);
            // An error says that nobody waits any more.
            let _ = sender.send(answer);
        })
        .map_err(|error| {
            Error::new(
                Kind::Resolve,
                format!("no thread to resolve {name}: {error}"),
            )
        })?;
    loop {
        let slice = waiting.slice(None).unwrap_or(Duration::from_secs(3600));
        match receiver.recv_timeout(slice) {
            Ok(Ok(addresses)) if !addresses.is_empty() => return Ok(in_turn(addresses)),
            Ok(Ok(_)) | Err(RecvTimeoutError::Disconnected) => {
                let message = format!("{name} has no address");
                return Err(Error::new(Kind::Resolve, message).unsent());
            }
            Ok(Err(error)) => {
                let message = format!("{name} cannot be resolved: {error}");
                return Err(Error::new(Kind::Resolve, message).unsent());
            }
            Err(RecvTimeoutError::Timeout) => waiting.check()?,
        }
    }
}

/// Whether it is no name.
pub(super) fn is_address(host: &str) -> bool {
    host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
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
