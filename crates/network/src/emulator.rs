//! The loop that carries packets between two interfaces.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::time::{ClockId, clock_gettime};

use crate::{Counters, Direction, Nanos, Spec, Way};

/// The last part of a wait is spent looking at the clock, because a sleep ends late by about this.
const SPIN: Nanos = 60_000;
/// Packets that are read of one interface before the other is looked at.
const BATCH: usize = 64;
/// What an interface gives at most.
const LARGEST: usize = 65_536;

/// What a network did.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// From the client to the server.
    pub up: Counters,
    /// From the server to the client.
    pub down: Counters,
    /// Processor time of the loop.
    pub cpu: Duration,
    /// Nanoseconds by which packets went out later than they should have.
    pub lateness: Histogram<u64>,
}

/// Both directions of a network, and where what was done before they were used is told.
type Order = (Box<[Direction<Vec<u8>>; 2]>, mpsc::Sender<Outcome>);

/// A network at work.
#[derive(Debug)]
pub struct Running {
    /// Wakes the loop for an order, or, when there can be none any more, to end.
    wake: Arc<OwnedFd>,
    orders: mpsc::Sender<Order>,
    loop_: thread::JoinHandle<io::Result<Outcome>>,
}

impl Running {
    /// Carries packets between the interfaces of the client and of the server, until it is stopped.
    pub fn start(spec: &Spec, client: File, server: File) -> io::Result<Self> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (orders, asked) = mpsc::channel();
        let mut emulator = Emulator {
            interfaces: [client, server],
            ways: ways(spec),
            begun: Instant::now(),
            buffer: vec![0; LARGEST].into_boxed_slice(),
            lateness: Histogram::new_with_bounds(1, 60_000_000_000, 3).map_err(io::Error::other)?,
            spent_before: Duration::ZERO,
        };
        let woken = Arc::clone(&wake);
        let loop_ = thread::Builder::new()
            .name("network".into())
            .spawn(move || emulator.run(&woken, &asked))?;
        Ok(Self {
            wake,
            orders,
            loop_,
        })
    }

    /// Begins anew, as another network or the same; gives what the one before did.
    ///
    /// Packets that are under way are lost.
    pub fn begin(&self, spec: &Spec) -> io::Result<Outcome> {
        let (told, outcome) = mpsc::channel();
        let ended = |_| io::Error::other("the loop of the network ended");
        let order = (Box::new(ways(spec)), told);
        self.orders
            .send(order)
            .map_err(|_| ended(mpsc::RecvError))?;
        rustix::io::write(&self.wake, &1u64.to_ne_bytes())?;
        outcome.recv().map_err(ended)
    }

    /// Ends it; packets that are under way are lost.
    pub fn stop(self) -> io::Result<Outcome> {
        drop(self.orders);
        rustix::io::write(&self.wake, &1u64.to_ne_bytes())?;
        self.loop_
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the loop of the network panicked")))
    }
}

struct Emulator {
    /// Of the client and of the server: packets of the first go up, those of the second down.
    interfaces: [File; 2],
    ways: [Direction<Vec<u8>>; 2],
    begun: Instant,
    buffer: Box<[u8]>,
    lateness: Histogram<u64>,
    /// Processor time of the loop when these directions began.
    spent_before: Duration,
}

fn ways(spec: &Spec) -> [Direction<Vec<u8>>; 2] {
    [Way::Up, Way::Down].map(|way| Direction::new(spec, way))
}

/// Processor time of the calling thread.
fn spent() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

impl Emulator {
    fn run(&mut self, wake: &OwnedFd, orders: &mpsc::Receiver<Order>) -> io::Result<Outcome> {
        // Else the kernel may end a sleep 50 µs late, to wake others at once (prctl(2)).
        nix::sys::prctl::set_timerslack(1)?;
        loop {
            let read = self.take()?;
            self.hand_on()?;
            if read {
                continue;
            }
            let due = self.ways.iter().filter_map(Direction::due).min();
            let wait = due.map(|due| due.saturating_sub(self.now()));
            if wait.is_some_and(|wait| wait <= SPIN) {
                std::hint::spin_loop();
                continue;
            }
            if self.sleep(wait.map(|wait| wait - SPIN), wake)? && self.obey(wake, orders)? {
                break;
            }
        }
        Ok(self.outcome())
    }

    /// Carries out what is ordered; whether nothing more will be.
    fn obey(&mut self, wake: &OwnedFd, orders: &mpsc::Receiver<Order>) -> io::Result<bool> {
        match rustix::io::read(wake, &mut [0; 8]) {
            Ok(_) | Err(rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        loop {
            match orders.try_recv() {
                Ok((ways, told)) => {
                    let outcome = self.outcome();
                    self.ways = *ways;
                    self.lateness.reset();
                    self.spent_before = spent();
                    // Who asked may be gone.
                    let _ = told.send(outcome);
                }
                Err(mpsc::TryRecvError::Empty) => return Ok(false),
                Err(mpsc::TryRecvError::Disconnected) => return Ok(true),
            }
        }
    }

    fn outcome(&self) -> Outcome {
        let [up, down] = self.ways.each_ref().map(Direction::counters);
        Outcome {
            up,
            down,
            cpu: spent().saturating_sub(self.spent_before),
            lateness: self.lateness.clone(),
        }
    }

    fn now(&self) -> Nanos {
        self.begun.elapsed().as_nanos() as Nanos
    }

    /// Reads what has come; whether anything has.
    fn take(&mut self) -> io::Result<bool> {
        let mut any = false;
        for way in 0..2 {
            for _ in 0..BATCH {
                let size = match (&self.interfaces[way]).read(&mut self.buffer) {
                    Ok(size) => size,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                };
                any = true;
                let now = self.now();
                self.ways[way].receive(now, self.buffer[..size].to_vec());
            }
        }
        Ok(any)
    }

    /// Writes what has arrived at the other end.
    fn hand_on(&mut self) -> io::Result<()> {
        for way in 0..2 {
            let now = self.now();
            while let Some((at, packet)) = self.ways[way].poll(now) {
                self.lateness
                    .saturating_record(self.now().saturating_sub(at).max(1));
                match (&self.interfaces[1 - way]).write(&packet) {
                    Ok(_) => {}
                    // A damaged header is refused with EINVAL, and an interface whose end is gone
                    // with EIO: the packet is lost, as it would be.
                    Err(error) if is_of_packet(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Waits until something comes, for so long at most; whether something is ordered.
    fn sleep(&self, wait: Option<Nanos>, wake: &OwnedFd) -> io::Result<bool> {
        let timeout = wait.map(|nanos| Timespec {
            tv_sec: (nanos / 1_000_000_000) as i64,
            tv_nsec: (nanos % 1_000_000_000) as _,
        });
        let [client, server] = self.interfaces.each_ref();
        let mut files = [
            PollFd::new(wake, PollFlags::IN),
            PollFd::from_borrowed_fd(client.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(server.as_fd(), PollFlags::IN),
        ];
        match poll(&mut files, timeout.as_ref()) {
            Ok(_) => Ok(!files[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether a packet was refused for its own sake, or for want of room.
fn is_of_packet(error: &io::Error) -> bool {
    let refused = [
        libc::EINVAL,
        libc::EIO,
        libc::ENOBUFS,
        libc::EAGAIN,
        libc::EINTR,
    ];
    error
        .raw_os_error()
        .is_some_and(|code| refused.contains(&code))
}
