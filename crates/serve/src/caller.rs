//! Who calls: what one address has at a time.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
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
    _share: Share,
}

/// What a connection has of what is bounded. It is given back when the connection has ended.
#[derive(Default)]
pub(crate) struct Share {
    /// Of connections over TCP.
    _descriptor: Option<OwnedSemaphorePermit>,
    /// Where the connections of a caller are bounded.
    _admission: Option<Admission>,
}

/// How many connections each caller has: as many as it may at most.
pub(crate) struct Connections {
    most: usize,
    crowded: Arc<Crowded>,
    known: Mutex<HashMap<IpAddr, usize>>,
}

/// Counts as one of a caller's connections until it is dropped.
pub(crate) struct Admission {
    caller: IpAddr,
    connections: Arc<Connections>,
}

/// Says once that a caller has all connections that it may have: who makes more could fill the log.
pub(crate) struct Crowded {
    warn: Option<fn(&str)>,
    is_said: AtomicBool,
}

/// Counts as one of a caller's calls until it is dropped.
pub(crate) struct Place(Arc<AtomicUsize>);

impl Callers {
    pub(crate) fn of(&self, peer: SocketAddr, share: Share) -> Caller {
        let known = self.0.lock();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        if known.calls.len() >= known.most {
            known.calls.retain(|_, calls| Arc::strong_count(calls) > 1);
            known.most = 2 * known.calls.len() + 16;
        }
        Caller {
            peer,
            calls: known.calls.entry(network(peer.ip())).or_default().clone(),
            _share: share,
        }
    }
}

impl Share {
    pub(crate) fn new(
        descriptor: Option<OwnedSemaphorePermit>,
        admission: Option<Admission>,
    ) -> Self {
        Self {
            _descriptor: descriptor,
            _admission: admission,
        }
    }
}

impl Connections {
    pub(crate) fn new(most: usize, crowded: Arc<Crowded>) -> Arc<Self> {
        Arc::new(Self {
            most,
            crowded,
            known: Mutex::default(),
        })
    }

    /// Counts one more connection of a caller, unless it has as many as it may.
    pub(crate) fn admit(self: &Arc<Self>, peer: SocketAddr) -> Option<Admission> {
        let caller = network(peer.ip());
        let mut known = self.known();
        let count = known.get(&caller).copied().unwrap_or_default();
        if count >= self.most {
            drop(known);
            self.crowded.say(peer.ip(), self.most);
            return None;
        }
        known.insert(caller, count + 1);
        drop(known);
        let connections = self.clone();
        Some(Admission {
            caller,
            connections,
        })
    }

    fn known(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut known = self.connections.known();
        if let Some(count) = known.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                known.remove(&self.caller);
            }
        }
    }
}

impl Crowded {
    pub(crate) fn new(warn: Option<fn(&str)>) -> Arc<Self> {
        Arc::new(Self {
            warn,
            is_said: AtomicBool::new(false),
        })
    }

    fn say(&self, caller: IpAddr, most: usize) {
        if let Some(warn) = self.warn
            && !self.is_said.swap(true, Relaxed)
        {
            warn(&format!(
                "{caller} has {most} connections, the most that one caller may have (--connections-per-caller): \
                 more are closed; this is said once"
            ));
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

    fn peer(address: &str) -> SocketAddr {
        SocketAddr::new(address.parse().unwrap(), 1)
    }

    fn of(callers: &Callers, address: &str) -> Caller {
        callers.of(peer(address), Share::default())
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
    fn a_caller_has_so_many_connections_and_leaves_those_of_others() {
        let connections = Connections::new(2, Crowded::new(None));
        let admit = |address| connections.admit(peer(address));
        let held = [admit("192.0.2.1"), admit("::ffff:192.0.2.1")];
        assert!(held.iter().all(Option::is_some));
        assert!(admit("192.0.2.1").is_none());
        assert!(admit("192.0.2.2").is_some());
        drop(held);
        assert!(admit("192.0.2.1").is_some());
        assert!(connections.known().is_empty());
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
