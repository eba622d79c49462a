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

use crate::recording::Recording;
use crate::{Counters, Direction, Nanos, Spec, Way, sys};

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
    /// What of it passed while the loop looked at the clock and nothing was to be done.
    pub waited: Duration,
    /// Nanoseconds by which packets went out later than they should have.
    pub lateness: Histogram<u64>,
    /// Why not all that passed was recorded, where that was asked for.
    pub unrecorded: Option<String>,
}

/// What the loop is asked to do.
#[derive(Debug)]
enum Order {
    /// Begin anew with these directions, and tell what was done before.
    Begin(Box<[Direction<Vec<u8>>; 2]>, mpsc::Sender<Outcome>),
    /// Write what passes to this file.
    Record(File),
}

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
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let (orders, asked) = mpsc::channel();
        let mut emulator = Emulator {
            interfaces: [client, server],
            ways: ways(spec),
            begun: Instant::now(),
            buffer: vec![0; LARGEST].into_boxed_slice(),
            lateness: Histogram::new_with_bounds(1, 60_000_000_000, 3).map_err(io::Error::other)?,
            spent_before: Duration::ZERO,
            waited: 0,
            recording: None,
            unrecorded: None,
        };
        let woken = Arc::clone(&wake);
        let loop_ = thread::Builder::new()
            .name("network".into())
            .spawn(move || {
                // Else it is late while other programs run, and without it only that is lost.
                let _ = sys::run_first();
                emulator.run(&woken, &asked)
            })?;
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
        self.order(Order::Begin(Box::new(ways(spec)), told))?;
        outcome.recv().map_err(|_| ended())
    }

    /// Writes every packet that arrives at an end from now on to a file in the format of libpcap,
    /// with the instant of its arrival; those that are lost or dropped are not in it.
    pub fn record(&self, file: File) -> io::Result<()> {
        self.order(Order::Record(file))
    }

    fn order(&self, order: Order) -> io::Result<()> {
        self.orders.send(order).map_err(|_| ended())?;
        rustix::io::write(&self.wake, &1u64.to_ne_bytes())?;
        Ok(())
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

fn ended() -> io::Error {
    io::Error::other("the loop of the network ended")
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
    /// Nanoseconds in which it had nothing to do, and did not sleep.
    waited: Nanos,
    recording: Option<Recording>,
    unrecorded: Option<String>,
}

fn ways(spec: &Spec) -> [Direction<Vec<u8>>; 2] {
    [Way::Up, Way::Down].map(|way| Direction::new(spec, way))
}

/// Processor time of the calling thread.
pub(crate) fn spent() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

impl Emulator {
    fn run(&mut self, wake: &OwnedFd, orders: &mpsc::Receiver<Order>) -> io::Result<Outcome> {
        // Else the kernel may end a sleep 50 µs late, to wake others at once (prctl(2)).
        nix::sys::prctl::set_timerslack(1)?;
        // Also while packets come without a pause.
        while self.obey(orders) {
            let begun = self.now();
            let read = self.take()?;
            let written = self.hand_on()?;
            if read {
                continue;
            }
            let due = self.ways.iter().filter_map(Direction::due).min();
            let now = self.now();
            let wait = due.map(|due| due.saturating_sub(now));
            if wait.is_some_and(|wait| wait <= SPIN) {
                if !written {
                    self.waited += now - begun;
                }
                std::hint::spin_loop();
                continue;
            }
            self.sleep(wait.map(|wait| wait - SPIN), wake)?;
        }
        if let Some(recording) = self.recording.take() {
            recording
                .end()
                .unwrap_or_else(|error| self.lose_recording(&error));
        }
        Ok(self.outcome())
    }

    /// What passes is recorded no more, for this reason; the network goes on.
    fn lose_recording(&mut self, error: &io::Error) {
        self.recording = None;
        self.unrecorded = Some(error.to_string());
    }

    /// Carries out what is ordered; whether there can be more.
    fn obey(&mut self, orders: &mpsc::Receiver<Order>) -> bool {
        loop {
            match orders.try_recv() {
                Ok(Order::Record(file)) => {
                    let begun = Recording::new(file, self.now());
                    self.recording = begun.map_err(|error| self.lose_recording(&error)).ok();
                }
                Ok(Order::Begin(ways, told)) => {
                    let outcome = self.outcome();
                    self.ways = *ways;
                    let now = self.now();
                    if let Some(recording) = &mut self.recording {
                        recording.begin_anew(now);
                    }
                    // A trace begins with the network.
                    self.begun += Duration::from_nanos(now);
                    self.lateness.reset();
                    self.spent_before = spent();
                    self.waited = 0;
                    // Who asked may be gone.
                    let _ = told.send(outcome);
                }
                Err(mpsc::TryRecvError::Empty) => return true,
                Err(mpsc::TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn outcome(&self) -> Outcome {
        let [up, down] = self.ways.each_ref().map(Direction::counters);
        Outcome {
            up,
            down,
            cpu: spent().saturating_sub(self.spent_before),
            waited: Duration::from_nanos(self.waited),
            lateness: self.lateness.clone(),
            unrecorded: self.unrecorded.clone(),
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

    /// Writes what has arrived at the other end; whether anything has.
    fn hand_on(&mut self) -> io::Result<bool> {
        let mut any = false;
        for way in 0..2 {
            let now = self.now();
            while let Some((at, packet)) = self.ways[way].poll(now) {
                any = true;
                self.lateness
                    .saturating_record(self.now().saturating_sub(at).max(1));
                let noted = self.recording.as_mut().map(|file| file.note(at, &packet));
                if let Some(Err(error)) = noted {
                    self.lose_recording(&error);
                }
                match (&self.interfaces[1 - way]).write(&packet) {
                    Ok(_) => {}
                    // A damaged header is refused with EINVAL, and an interface whose end is gone
                    // with EIO: the packet is lost, as it would be.
                    Err(error) if is_of_packet(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(any)
    }

    /// Waits until something comes or is ordered, for so long at most.
    fn sleep(&self, wait: Option<Nanos>, wake: &OwnedFd) -> io::Result<()> {
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
            Ok(_) if !files[0].revents().is_empty() => {
                rustix::io::read(wake, &mut [0; 8])?;
                Ok(())
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    /// A network between two sockets, in place of interfaces.
    fn network(text: &str, trace: &str) -> (Running, Spec, [UnixDatagram; 2]) {
        let spec = Spec::read(text, |_| Ok(trace.to_owned())).unwrap();
        let (client, of_client) = UnixDatagram::pair().unwrap();
        let (server, of_server) = UnixDatagram::pair().unwrap();
        let file = |socket: UnixDatagram| {
            socket.set_nonblocking(true).unwrap();
            File::from(OwnedFd::from(socket))
        };
        let running = Running::start(&spec, file(of_client), file(of_server)).unwrap();
        (running, spec, [client, server])
    }

    #[test]
    fn a_trace_begins_with_the_network() {
        const NOTHING: Duration = Duration::from_millis(100);
        let trace: String = (100..10_000).map(|ms| format!("{ms}\n")).collect();
        let (network, spec, [client, server]) = network("trace=here", &trace);
        for _ in 0..2 {
            let begun = Instant::now();
            network.begin(&spec).unwrap();
            client.send(b"packet").unwrap();
            assert_eq!(server.recv(&mut [0; 100]).unwrap(), 6);
            assert!(begun.elapsed() >= NOTHING, "{:?}", begun.elapsed());
        }
        let outcome = network.stop().unwrap();
        assert_eq!(outcome.up.forwarded.packets, 1);
    }
}
