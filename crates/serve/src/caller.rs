//! Who calls: what one address has at a time.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use tokio::sync::OwnedSemaphorePermit;

/// The callers of one worker that have connections.
#[derive(Default)]
pub(crate) struct Callers(Mutex<Known>);

#[derive(Default)]
struct Known {
    calls: HashMap<IpAddr, Arc<AtomicUsize>>,
    /// How many there may be before those are looked for that have left.
    most: usize,
}

/// One connection's part of a caller.
pub(crate) struct Caller {
    pub(crate) peer: SocketAddr,
    calls: Arc<AtomicUsize>,
    /// The descriptor of a connection over TCP.
    _descriptor: Option<OwnedSemaphorePermit>,
}

/// Counts as one of a caller's calls until it is dropped.
pub(crate) struct Place(Arc<AtomicUsize>);

impl Callers {
    pub(crate) fn of(&self, peer: SocketAddr, descriptor: Option<OwnedSemaphorePermit>) -> Caller {
        let known = self.0.lock();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        if known.calls.len() >= known.most {
            known.calls.retain(|_, calls| Arc::strong_count(calls) > 1);
            known.most = 2 * known.calls.len() + 16;
        }
        Caller {
            peer,
            calls: known.calls.entry(network(peer.ip())).or_default().clone(),
            _descriptor: descriptor,
        }
    }
}

impl Caller {
    /// A place for one more call, where it has fewer than so many.
    pub(crate) fn place(&self, most: usize) -> Option<Place> {
        if self.calls.load(Relaxed) >= most {
            return None;
        }
        self.calls.fetch_add(1, Relaxed);
        Some(Place(self.calls.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Who has an address of IPv6 has all with the same first half.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(callers: &Callers, address: &str) -> Caller {
        callers.of(SocketAddr::new(address.parse().unwrap(), 1), None)
    }

    #[test]
    fn all_connections_of_a_caller_share_its_places() {
        let callers = Callers::default();
        let (one, same) = (of(&callers, "192.0.2.1"), of(&callers, "192.0.2.1"));
        let other = of(&callers, "192.0.2.2");
        let places = [one.place(2), same.place(2)];
        assert!(places.iter().all(Option::is_some));
        assert!(one.place(2).is_none() && same.place(2).is_none());
        assert!(other.place(2).is_some());
        drop(places);
        assert!(one.place(2).is_some());
        let (near, far) = (of(&callers, "2001:db8::1"), of(&callers, "2001:db8::2:1"));
        let place = near.place(1);
        assert!(place.is_some() && far.place(1).is_none());
    }

    #[test]
    fn who_has_left_is_forgotten() {
        let callers = Callers::default();
        let stays = of(&callers, "192.0.2.1");
        let _place = stays.place(1);
        for number in 0..1000 {
            of(&callers, &format!("10.0.{}.{}", number / 250, number % 250));
        }
        assert!(callers.0.lock().unwrap().calls.len() <= 20);
        assert!(of(&callers, "192.0.2.1").place(1).is_none());
    }
}
