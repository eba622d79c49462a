//! A network proves itself: trains of datagrams, sent and received by the kernels at its two ends.

mod judge;
mod reach;

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sockopt};

use judge::Train;
pub use judge::{Check, Property};
pub use reach::{Reached, reach};

use crate::{Bandwidth, End, MTU, Outcome, Running, Spec, Way, sys};

/// Headers of IP and UDP.
const HEADERS: usize = 28;
/// Bytes of a small packet, its headers among them.
const SMALL: usize = 64;
/// What a datagram begins with: its train, its number and when it was sent.
const HEAD: usize = 20;
/// How long a train lasts that finds losses, and one that finds the rate.
const SECONDS: f64 = 0.35;
/// Packets that find a rate at least.
const LEAST: f64 = 30.0;
/// Small packets a second at most: what a kernel gives and takes without losing any.
const MOST: f64 = 30_000.0;
/// How much of a link is used where nothing is to wait, and where the queue is to be full.
const SPARE: f64 = 0.5;
const MORE: f64 = 1.2;
/// A sender that is later than this has lost its processor for a while.
const BEHIND: Duration = Duration::from_millis(1);
/// How long a packet may take beyond what the network lets it.
const PATIENCE: Duration = Duration::from_millis(250);
/// Packets that are late by more than this, in nanoseconds, at the 99th percentile, make what is
/// measured over a network suspect.
const LATE: u64 = 1_000_000;

/// What a network was asked to be, and what it was.
#[derive(Clone, Debug)]
pub struct Proof {
    /// Of both directions.
    pub checks: Vec<Check>,
    /// What it did meanwhile.
    pub outcome: Outcome,
}

impl Proof {
    /// Sends trains over a network, and leaves it as if new.
    ///
    /// It takes one to two seconds, and the delays.
    pub fn of(spec: &Spec, network: &Running, client: &End, server: &End) -> io::Result<Self> {
        network.begin(spec)?;
        let up = Trip::new(spec, Way::Up, client, server)?;
        let down = Trip::new(spec, Way::Down, server, client)?;
        let (mut of_up, of_down) = thread::scope(|scope| {
            let of_up = scope.spawn(|| up.checks());
            let of_down = down.checks()?;
            let of_up = of_up
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a thread of the proof panicked")))?;
            io::Result::Ok((of_up, of_down))
        })?;
        // One after the other: a machine that can carry a rate in both directions at once is rare.
        of_up.extend(up.rate()?);
        of_up.extend(up.trace(network)?);
        let mut checks = of_up;
        checks.extend(of_down);
        checks.extend(down.rate()?);
        checks.extend(down.trace(network)?);
        let outcome = network.begin(spec)?;
        Ok(Self { checks, outcome })
    }

    /// What was not as it was asked.
    pub fn broken(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| !check.holds())
    }

    /// Whether packets went out so late that what is measured is suspect.
    pub fn is_late(&self) -> bool {
        self.outcome.lateness.value_at_quantile(0.99) > LATE
    }
}

/// Trains of one direction.
struct Trip<'a> {
    spec: &'a Spec,
    way: Way,
    from: UdpSocket,
    to: UdpSocket,
}

impl<'a> Trip<'a> {
    fn new(spec: &'a Spec, way: Way, from: &End, to: &End) -> io::Result<Self> {
        let bind = |address: Ipv4Addr| move || UdpSocket::bind((address, 0));
        let receiver = to.within(bind(to.address))??;
        let sender = from.within(bind(from.address))??;
        sender.connect(receiver.local_addr()?)?;
        nix::sys::socket::setsockopt(&receiver, sockopt::ReceiveTimestampns, &true)?;
        // As root it may be larger than the system's limit, which is for a few packets only.
        let room = 16 << 20;
        nix::sys::socket::setsockopt(&receiver, sockopt::RcvBufForce, &room)
            .or_else(|_| nix::sys::socket::setsockopt(&receiver, sockopt::RcvBuf, &room))?;
        Ok(Self {
            spec,
            way,
            from: sender,
            to: receiver,
        })
    }

    fn checks(&self) -> io::Result<Vec<Check>> {
        let own = self.spec.of(self.way);
        let rate = own.bandwidth.rate().unwrap_or(f64::INFINITY);
        let pace = MOST.min(SPARE * rate / (SMALL * 8) as f64);
        let train = self.train(0, SMALL, pace, (SECONDS * pace).ceil())?;
        let mut checks = judge::loss(self.way, own, &train);
        checks.extend(judge::mean_in_order(self.way, own, &train, SMALL));
        // Each packet alone: the one before it has arrived, whatever its jitter.
        let apart = (2.0 * own.jitter.as_secs_f64()).max(0.005).max(1.0 / pace);
        let train = self.train(1, SMALL, 1.0 / apart, (SECONDS / apart).clamp(10.0, 50.0))?;
        checks.extend(judge::delay(self.way, own, &train, SMALL));
        Ok(checks)
    }

    fn rate(&self) -> io::Result<Option<Check>> {
        let own = self.spec.of(self.way);
        let Some(rate) = own.bandwidth.rate() else {
            return Ok(None);
        };
        let pace = MORE * rate / (MTU * 8) as f64;
        let train = self.train(2, MTU, pace, (SECONDS * pace).max(LEAST).ceil())?;
        Ok(judge::rate(self.way, own, &train))
    }

    fn trace(&self, network: &Running) -> io::Result<Option<Check>> {
        let Bandwidth::Trace { trace, .. } = &self.spec.of(self.way).bandwidth else {
            return Ok(None);
        };
        let pace = MOST.min(MORE * trace.rate() / (MTU * 8) as f64);
        network.begin(self.spec)?;
        let begun = wall_clock();
        let train = self.train(3, MTU, pace, (SECONDS * pace).max(LEAST).ceil())?;
        Ok(judge::trace(self.spec, self.way, &train, begun))
    }

    /// Sends packets of `size` bytes, `pace` a second, and waits for those that arrive.
    fn train(&self, name: u32, size: usize, pace: f64, packets: f64) -> io::Result<Train> {
        let packets = packets as usize;
        thread::scope(|scope| {
            let sent = scope.spawn(move || self.send(name, size, pace, packets));
            let own = self.spec.of(self.way);
            // What waits in the queue leaves it first.
            let last = packets as f64 / pace + self.spec.backlog(self.way);
            let most = Duration::from_secs_f64(last) + own.delay + own.jitter + PATIENCE;
            let arrived = self.receive(name, packets, Instant::now() + most);
            let sent = sent
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a thread of the proof panicked")))?;
            let mut train = arrived?;
            train.took.truncate(sent.len());
            train.sent = sent;
            Ok(train)
        })
    }

    /// Sends a train; gives when each packet of it was sent, which may be fewer.
    fn send(&self, name: u32, size: usize, pace: f64, packets: usize) -> io::Result<Vec<i64>> {
        let rate = self.spec.of(self.way).bandwidth.rate();
        let limit = rate.map_or(f64::INFINITY, |rate| rate / (size * 8) as f64);
        let mut datagram = vec![0; size - HEADERS];
        datagram[..4].copy_from_slice(&name.to_ne_bytes());
        // As the loop of the network does: what is measured is that, not who gets a processor.
        let _ = sys::run_first();
        let mut begun = Instant::now();
        let mut sent = Vec::with_capacity(packets);
        for number in 0..packets {
            let at = begun + Duration::from_secs_f64(number as f64 / pace);
            let now = Instant::now();
            let late = now.saturating_duration_since(at);
            if late > BEHIND && pace < limit {
                // What follows at once would fill a queue that is to have room.
                begun += late;
            } else if late > PATIENCE {
                // More was asked than this machine sends.
                return Ok(sent);
            }
            thread::sleep(at.saturating_duration_since(now));
            datagram[4..12].copy_from_slice(&(number as u64).to_ne_bytes());
            let now = wall_clock();
            datagram[12..HEAD].copy_from_slice(&now.to_ne_bytes());
            sent.push(now);
            match self.from.send(&datagram) {
                // The queue of the interface is full: this packet is lost, and will be missed.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                result => drop(result?),
            }
        }
        Ok(sent)
    }

    fn receive(&self, name: u32, packets: usize, until: Instant) -> io::Result<Train> {
        let mut train = Train {
            took: vec![None; packets],
            arrived: Vec::new(),
            sent: Vec::new(),
        };
        let mut buffer = [0; MTU];
        let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
        while train.arrived.len() < packets {
            let left = until.saturating_duration_since(Instant::now());
            // What has come by then is read, however late this thread is.
            let flags = match left.is_zero() {
                true => MsgFlags::MSG_DONTWAIT,
                false => MsgFlags::empty(),
            };
            if !left.is_zero() {
                self.to.set_read_timeout(Some(left))?;
            }
            let mut parts = [IoSliceMut::new(&mut buffer)];
            let message = recvmsg::<SockaddrStorage>(
                self.to.as_raw_fd(),
                &mut parts,
                Some(&mut control),
                flags,
            );
            let message = match message {
                Ok(message) => message,
                Err(nix::errno::Errno::EAGAIN) if left.is_zero() => break,
                Err(nix::errno::Errno::EAGAIN) => continue,
                Err(nix::errno::Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let stamp = message.cmsgs()?.find_map(|control| match control {
                ControlMessageOwned::ScmTimestampns(time) => {
                    Some(time.tv_sec() * 1_000_000_000 + time.tv_nsec())
                }
                _ => None,
            });
            let length = message.bytes;
            let Some((number, sent)) = read(&buffer[..length], name) else {
                continue;
            };
            let (Some(at), Some(took)) = (stamp, train.took.get_mut(number)) else {
                continue;
            };
            if took.replace(at - sent).is_none() {
                train.arrived.push((at, number));
            }
        }
        Ok(train)
    }
}

/// The number of a datagram of a train, and when it was sent; None of one of another train.
fn read(datagram: &[u8], name: u32) -> Option<(usize, i64)> {
    let (train, rest) = datagram.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (sent, _) = rest.split_first_chunk()?;
    (u32::from_ne_bytes(*train) == name).then(|| {
        (
            u64::from_ne_bytes(*number) as usize,
            i64::from_ne_bytes(*sent),
        )
    })
}

/// By the clock that the kernel stamps packets with, in nanoseconds.
fn wall_clock() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    since.as_nanos() as i64
}
