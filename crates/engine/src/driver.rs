//! Waiting for sockets: epoll with nanosecond timeouts. Another driver (io_uring) takes this file's
//! place behind the same four functions.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::event::{Timespec, epoll};
use rustix::io::{self, Errno};

/// Most events taken in one turn.
const EVENTS: usize = 256;

/// One worker's interest in its sockets.
#[derive(Debug)]
pub(crate) struct Driver {
    epoll: OwnedFd,
    events: Box<[MaybeUninit<epoll::Event>; EVENTS]>,
    ready: Vec<Ready>,
}

/// A socket on which something can be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) token: u64,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The peer has sent its last byte, or the socket has failed: no further edge will tell.
    pub(crate) ended: bool,
}

impl Driver {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: Box::new([const { MaybeUninit::uninit() }; EVENTS]),
            ready: Vec::with_capacity(EVENTS),
        })
    }

    /// Registers a socket once, edge-triggered in both directions. Closing it takes it out.
    pub(crate) fn add(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        use epoll::EventFlags as Flags;
        let flags = Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET;
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(token), flags)
    }

    /// Waits until a socket is ready or the time is `until`; the sockets are then in
    /// [`Self::ready`].
    pub(crate) fn wait(&mut self, until: Instant) -> io::Result<()> {
        use epoll::EventFlags as Flags;
        // Taken as late as can be: epoll waits for a time, not until a time.
        let timeout = until.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        self.ready.clear();
        let events = match epoll::wait(&self.epoll, &mut self.events[..], Some(&timeout)) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.ready.extend(events.iter().map(|event| {
            let flags = event.flags;
            Ready {
                token: event.data.u64(),
                readable: flags.intersects(Flags::IN | Flags::RDHUP | Flags::ERR | Flags::HUP),
                writable: flags.intersects(Flags::OUT | Flags::ERR | Flags::HUP),
                ended: flags.intersects(Flags::RDHUP | Flags::ERR | Flags::HUP),
            }
        }));
        Ok(())
    }

    /// How many sockets the last `wait` found ready.
    pub(crate) fn len(&self) -> usize {
        self.ready.len()
    }

    /// The socket at `index` of the last `wait`.
    pub(crate) fn ready(&self, index: usize) -> Ready {
        self.ready[index]
    }
}
