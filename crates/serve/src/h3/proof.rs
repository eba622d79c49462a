//! What is sent to an address before it has proven that it asks: three times what came from it (RFC 9000 section
//! 8.1), and not a datagram more.
//!
//! quinn sends a whole datagram while it may send a byte, so up to a datagram more than that. Here that one waits for
//! more to come from the address. That quinn goes on beyond it says that it knows the address as proven: it has read
//! a packet that only who was answered could make.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    fmt,
    io::{self, IoSliceMut},
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use quinn::{
    AsyncUdpSocket, UdpPoller,
    udp::{EcnCodepoint, RecvMeta, Transmit},
};

/// RFC 9000 section 8.1.
const TIMES: usize = 3;
/// RFC 9000 section 14.1: the datagram that begins a handshake has this at least.
const FIRST: usize = 1200;
/// A datagram of Ethernet has no more.
const LONGEST: usize = 1472;
/// Datagrams whose lengths are remembered until the handshakes begin that they ask for.
const RECENT: usize = 256;
/// Datagrams of an address that wait. More are lost, and sent again by QUIC.
const HELD: usize = 8;

/// The socket of one worker.
pub(crate) struct Socket {
    inner: Arc<dyn AsyncUdpSocket>,
    addresses: Addresses,
}

/// The addresses at which handshakes or connections are.
#[derive(Clone, Default)]
pub(crate) struct Addresses(Arc<Shared>);

#[derive(Default)]
struct Shared {
    of: Mutex<HashMap<SocketAddr, Address>>,
    /// Lengths of datagrams that may begin a handshake.
    recent: Mutex<VecDeque<(SocketAddr, usize)>>,
    /// Handshakes under way: without any, nothing is limited, and nothing looked up.
    handshakes: AtomicUsize,
}

#[derive(Default)]
struct Address {
    handshakes: usize,
    /// Connections whose handshakes have proven the address.
    proven: usize,
    received: usize,
    /// What quinn may have counted as received at most.
    received_at_most: usize,
    sent: usize,
    /// What quinn has handed over, sent or not.
    offered: usize,
    /// It has handed over more than it would to an address that is not proven.
    is_known_to_quinn: bool,
    held: Vec<Held>,
}

struct Held {
    ecn: Option<EcnCodepoint>,
    src_ip: Option<IpAddr>,
    contents: Vec<u8>,
}

/// A handshake, and then a connection.
pub(crate) struct Proof {
    addresses: Addresses,
    address: SocketAddr,
    is_proven: bool,
    /// To send what was held.
    inner: Arc<dyn AsyncUdpSocket>,
}

impl Socket {
    pub(crate) fn new(inner: Arc<dyn AsyncUdpSocket>) -> Self {
        Self {
            inner,
            addresses: Addresses::default(),
        }
    }

    /// A handshake begins at this address, which a token has proven or not.
    pub(crate) fn begin(&self, address: SocketAddr, is_proven: bool) -> Proof {
        let length = self.addresses.forget(address);
        let mut all = self.addresses.lock();
        let known = all.entry(address).or_default();
        match is_proven {
            true => known.proven += 1,
            false => {
                // Beside another, what came for it has been counted.
                let least = if known.handshakes == 0 { FIRST } else { 0 };
                known.handshakes += 1;
                known.received += length.unwrap_or(least);
                known.received_at_most += length.unwrap_or(LONGEST);
                self.addresses.0.handshakes.fetch_add(1, Relaxed);
            }
        }
        Proof {
            addresses: self.addresses.clone(),
            address,
            is_proven,
            inner: self.inner.clone(),
        }
    }
}

impl Addresses {
    fn lock(&self) -> MutexGuard<'_, HashMap<SocketAddr, Address>> {
        self.0.of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a datagram that may begin a handshake: its first packet has a long header.
    fn remember(&self, came: &RecvMeta, datagram: &[u8]) {
        if datagram.first().is_some_and(|first| first & 0x80 != 0) {
            let mut recent = self.recent();
            recent.truncate(RECENT - 1);
            recent.push_front((came.addr, came.len));
        }
    }

    /// The lengths of such datagrams from this address: a ClientHello may take several.
    fn forget(&self, address: SocketAddr) -> Option<usize> {
        let mut recent = self.recent();
        let own = recent.iter().filter(|(from, _)| *from == address);
        let sum = own.map(|(_, length)| length).sum();
        recent.retain(|(from, _)| *from != address);
        (sum > 0).then_some(sum)
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<(SocketAddr, usize)>> {
        let recent = self.0.recent.lock();
        recent.unwrap_or_else(PoisonError::into_inner)
    }

    fn are_limited(&self) -> bool {
        self.0.handshakes.load(Relaxed) > 0
    }
}

impl Proof {
    /// The handshake is done.
    pub(crate) fn prove(&mut self) {
        if std::mem::replace(&mut self.is_proven, true) {
            return;
        }
        self.addresses.0.handshakes.fetch_sub(1, Relaxed);
        let mut all = self.addresses.lock();
        let known = all.entry(self.address).or_default();
        known.handshakes -= 1;
        known.proven += 1;
        known.release(self.address, &*self.inner);
    }
}

impl Drop for Proof {
    fn drop(&mut self) {
        let mut all = self.addresses.lock();
        let Entry::Occupied(mut known) = all.entry(self.address) else {
            return;
        };
        match self.is_proven {
            true => known.get_mut().proven -= 1,
            false => {
                known.get_mut().handshakes -= 1;
                self.addresses.0.handshakes.fetch_sub(1, Relaxed);
            }
        }
        if known.get().handshakes + known.get().proven == 0 {
            known.remove();
        }
    }
}

impl Address {
    /// quinn hands over so much more.
    fn offer(&mut self, length: usize) {
        // Of several handshakes each may have gone beyond by a datagram.
        let beyond = LONGEST * self.handshakes.saturating_sub(1);
        self.is_known_to_quinn |= self.offered >= self.received_at_most * TIMES + beyond;
        self.offered += length;
    }

    fn may_send(&self, length: usize) -> bool {
        let is_proven = self.proven > 0 || self.is_known_to_quinn;
        is_proven || self.sent + length <= self.received * TIMES
    }

    /// Sends what was held, as far as it may be.
    fn release(&mut self, address: SocketAddr, socket: &dyn AsyncUdpSocket) {
        while let Some(first) = self.held.first()
            && self.may_send(first.contents.len())
        {
            let first = self.held.remove(0);
            self.sent += first.contents.len();
            // A datagram that cannot leave now is lost, as others are.
            let _ = socket.try_send(&Transmit {
                destination: address,
                ecn: first.ecn,
                contents: &first.contents,
                segment_size: None,
                src_ip: first.src_ip,
            });
        }
    }

    /// Sends the datagrams of a transmission that may be sent, and holds the others.
    fn send(&mut self, transmit: &Transmit<'_>, socket: &dyn AsyncUdpSocket) -> io::Result<()> {
        let all = transmit.contents;
        let segment = transmit.segment_size.unwrap_or(all.len()).max(1);
        let offered = self.offered;
        let (mut now, mut goes_on) = (0, self.held.is_empty());
        for datagram in all.chunks(segment) {
            self.offer(datagram.len());
            goes_on &= self.may_send(now + datagram.len());
            now += if goes_on { datagram.len() } else { 0 };
        }
        let (first, rest) = all.split_at(now);
        if !first.is_empty() {
            socket
                .try_send(&Transmit {
                    destination: transmit.destination,
                    ecn: transmit.ecn,
                    contents: first,
                    segment_size: (first.len() > segment).then_some(segment),
                    src_ip: transmit.src_ip,
                })
                // quinn hands it over again.
                .inspect_err(|_| self.offered = offered)?;
            self.sent += first.len();
        }
        let room = HELD.saturating_sub(self.held.len());
        let rest = rest.chunks(segment).take(room);
        self.held.extend(rest.map(|contents| Held {
            ecn: transmit.ecn,
            src_ip: transmit.src_ip,
            contents: contents.to_vec(),
        }));
        self.release(transmit.destination, socket);
        Ok(())
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.inner.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        if self.addresses.are_limited()
            && let Some(known) = self.addresses.lock().get_mut(&transmit.destination)
            && known.proven == 0
        {
            return known.send(transmit, &*self.inner);
        }
        self.inner.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.inner.poll_recv(cx, bufs, meta))?;
        let are_limited = self.addresses.are_limited();
        for (came, datagram) in meta.iter().zip(bufs.iter()).take(count) {
            if are_limited
                && let Some(known) = self.addresses.lock().get_mut(&came.addr)
                && known.handshakes > 0
            {
                known.received += came.len;
                known.received_at_most += came.len;
                known.release(came.addr, &*self.inner);
            } else {
                self.addresses.remember(came, datagram);
            }
        }
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Socket").field(&self.inner).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Keeps the lengths of what is sent; what comes is as long as was said before.
    #[derive(Debug, Default)]
    struct Fake {
        sent: Mutex<Vec<(SocketAddr, usize)>>,
        comes: Mutex<Vec<(SocketAddr, usize)>>,
    }

    impl AsyncUdpSocket for Fake {
        fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
            unreachable!("nothing waits")
        }

        fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
            let segment = transmit.segment_size.unwrap_or(transmit.contents.len());
            let lengths = transmit.contents.chunks(segment).map(<[u8]>::len);
            let mut sent = self.sent.lock().unwrap();
            sent.extend(lengths.map(|length| (transmit.destination, length)));
            Ok(())
        }

        fn poll_recv(
            &self,
            _: &mut Context<'_>,
            _: &mut [IoSliceMut<'_>],
            meta: &mut [RecvMeta],
        ) -> Poll<io::Result<usize>> {
            let Some((addr, len)) = self.comes.lock().unwrap().pop() else {
                return Poll::Pending;
            };
            meta[0] = RecvMeta {
                addr,
                len,
                stride: len,
                ..RecvMeta::default()
            };
            Poll::Ready(Ok(1))
        }

        fn local_addr(&self) -> io::Result<SocketAddr> {
            Ok(([127, 0, 0, 1], 1).into())
        }
    }

    struct Wire {
        fake: Arc<Fake>,
        socket: Socket,
    }

    impl Wire {
        fn new() -> Self {
            let fake = Arc::new(Fake::default());
            let socket = Socket::new(fake.clone());
            Self { fake, socket }
        }

        /// Sends so many bytes, in datagrams of 1200; returns all lengths that have left for the address.
        fn send(&self, to: SocketAddr, length: usize) -> Vec<usize> {
            let transmit = Transmit {
                destination: to,
                ecn: None,
                contents: &vec![0; length],
                segment_size: (length > FIRST).then_some(FIRST),
                src_ip: None,
            };
            self.socket.try_send(&transmit).unwrap();
            self.sent(to)
        }

        fn sent(&self, to: SocketAddr) -> Vec<usize> {
            let sent = self.fake.sent.lock().unwrap();
            let to = sent.iter().filter(|(address, _)| *address == to);
            to.map(|(_, length)| *length).collect()
        }

        fn receive(&self, from: SocketAddr, length: usize) {
            self.fake.comes.lock().unwrap().push((from, length));
            let mut cx = Context::from_waker(Waker::noop());
            let mut meta = [RecvMeta::default()];
            let mut initial = [0xc0];
            let mut bufs = [IoSliceMut::new(&mut initial)];
            let polled = self.socket.poll_recv(&mut cx, &mut bufs, &mut meta);
            assert!(polled.is_ready());
        }
    }

    fn address(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    #[test]
    fn a_silent_address_gets_three_times_what_came() {
        let wire = Wire::new();
        let (silent, other) = (address(1), address(2));
        let proof = wire.socket.begin(silent, false);
        assert_eq!(wire.send(silent, 2700), [1200, 1200, 300]);
        // As quinn does it: a whole datagram, while there may be one byte.
        assert_eq!(wire.send(silent, 1200), [1200, 1200, 300]);
        assert_eq!(wire.send(other, 6000).len(), 5);
        drop(proof);
        assert!(wire.socket.addresses.lock().is_empty());
        assert_eq!(
            wire.send(silent, 1200).len(),
            4,
            "what is no handshake is not limited"
        );
    }

    #[test]
    fn what_waits_leaves_when_more_has_come() {
        let wire = Wire::new();
        let client = address(1);
        let mut proof = wire.socket.begin(client, false);
        assert_eq!(wire.send(client, 4 * 1200), [1200; 3]);
        wire.receive(client, 399);
        assert_eq!(wire.sent(client).len(), 3);
        wire.receive(client, 1);
        assert_eq!(wire.sent(client).len(), 4);
        // As long as quinn can have meant it.
        assert_eq!(wire.send(client, 1200).len(), 4);
        proof.prove();
        assert_eq!(wire.send(client, 2 * 1200).len(), 7);
        assert_eq!(wire.sent(client).len(), 7);
        assert_eq!(wire.send(client, 10 * 1200).len(), 17);
        // Another handshake from there does not hold up the connection.
        let second = wire.socket.begin(client, false);
        assert_eq!(wire.send(client, 10 * 1200).len(), 27);
        drop((proof, second));
        assert!(wire.socket.addresses.lock().is_empty());
        assert!(!wire.socket.addresses.are_limited());
    }

    #[test]
    fn who_is_known_to_quinn_as_proven_waits_for_nothing() {
        let wire = Wire::new();
        let client = address(1);
        wire.receive(client, 1250);
        let _proof = wire.socket.begin(client, false);
        // 3750 bytes: the fourth ends beyond, and quinn sends the fifth because it knows the client.
        assert_eq!(wire.send(client, 4 * 1200).len(), 3);
        assert_eq!(wire.send(client, 1200).len(), 5);
        assert_eq!(wire.send(client, 10 * 1200).len(), 15);
    }

    #[test]
    fn several_handshakes_of_one_address_prove_nothing() {
        let wire = Wire::new();
        let silent = address(1);
        for _ in 0..2 {
            wire.receive(silent, 1200);
        }
        let _both = [0, 1].map(|_| wire.socket.begin(silent, false));
        for _ in 0..2 {
            wire.send(silent, 2700);
            wire.send(silent, 1200);
        }
        assert!(wire.sent(silent).iter().sum::<usize>() <= 3 * 2400);
    }

    #[test]
    fn a_token_proves_the_address_beforehand() {
        let wire = Wire::new();
        let _proof = wire.socket.begin(address(1), true);
        assert_eq!(wire.send(address(1), 6000).len(), 5);
    }
}
