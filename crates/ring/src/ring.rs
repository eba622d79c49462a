//! The ring: operations in, events out.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::sys::{Asked, Sends, Shared, cancel_all};

/// The group of the ring's buffers.
const GROUP: u16 = 0;
/// Operations that wait to be submitted, at most: then they are. What is sent waits no longer than it takes
/// to put together as many.
const SUBMISSIONS: u32 = 64;
/// Completions that the kernel can tell of before it keeps a list of its own.
const COMPLETIONS: u32 = 4096;

/// What an operation is for: a number of the caller's below 2^60, and a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(u64);

impl Token {
    const BITS: u32 = 60;

    /// The token with this number.
    ///
    /// # Panics
    ///
    /// Where `number` is 2^60 or more.
    pub fn new(number: u64) -> Self {
        assert!(number >> Self::BITS == 0, "{number} is no token");
        Self(number)
    }

    /// Its number.
    pub fn number(self) -> u64 {
        self.0
    }
}

const POLL: u64 = 0;
const RECEIVE: u64 = 1;
const SEND: u64 = 2;
const CANCEL: u64 = 3;

/// What to wait for on a socket. Its failure is always waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read.
    Read,
    /// Room to write.
    Write,
    /// Both.
    Both,
}

impl Interest {
    fn events(self) -> u32 {
        let events = match self {
            Self::Read => libc::POLLIN | libc::POLLRDHUP,
            Self::Write => libc::POLLOUT,
            Self::Both => libc::POLLIN | libc::POLLRDHUP | libc::POLLOUT,
        };
        events as u32
    }
}

/// A buffer of the ring's that bytes have been received into: [`Ring::bytes`] shows them,
/// [`Ring::give_back`] lets it be used again. Dropped, it is not.
#[derive(Debug)]
pub struct Filled {
    id: u16,
    length: usize,
}

impl Filled {
    /// Bytes received.
    #[expect(clippy::len_without_is_empty, reason = "it has at least one byte")]
    pub fn len(&self) -> usize {
        self.length
    }
}

/// What came of receiving.
#[derive(Debug)]
pub enum Received {
    /// Bytes.
    Bytes(Filled),
    /// The peer has ended its direction.
    End,
    /// The socket has failed; or the ring has no buffers left (`NOBUFS`), or the operation was cancelled
    /// (`CANCELED`).
    Failed(Errno),
}

/// What the kernel tells.
#[derive(Debug)]
pub enum Event {
    /// What [`Ring::poll`] or [`Ring::poll_each_time`] waits for is there, or the socket has failed.
    Ready {
        /// The caller's token.
        token: Token,
        /// Whether it goes on waiting.
        armed: bool,
    },
    /// Something of [`Ring::receive`].
    Received {
        /// The caller's token.
        token: Token,
        /// What.
        received: Received,
        /// Whether it goes on receiving.
        armed: bool,
    },
    /// A [`Ring::send`] has ended.
    Sent {
        /// What was to be sent.
        bytes: Vec<u8>,
        /// How many of them were, or why none was.
        sent: Result<usize, Errno>,
        /// The caller's token.
        token: Token,
    },
}

/// A ring of the kernel's for one thread, on which alone it can be used.
pub struct Ring {
    // Dropped in this order: the kernel's end first, then what it may have read or written.
    ring: IoUring,
    shared: Shared,
    sends: Sends,
    /// The tokens of what is kept in `sends`.
    sending: Vec<Token>,
    /// The kernel's clock as it stood at an instant; `None` where the kernel waits for a time only, and
    /// not until one.
    clock: Option<(Instant, Duration)>,
}

impl Ring {
    /// A ring with `buffers`, a power of two, of `size` bytes, each of them behind `headroom` bytes of its
    /// caller's.
    ///
    /// # Errors
    ///
    /// Where the kernel has no io_uring, or not all that is used of it, or does not let this process have
    /// it.
    pub fn new(buffers: u16, headroom: usize, size: u32) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_cqsize(COMPLETIONS)
            .setup_submit_all()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(SUBMISSIONS)?;
        let mut shared = Shared::new(buffers, headroom, size)?;
        shared.register(&ring.submitter(), GROUP)?;
        for id in 0..buffers {
            shared.give(id);
        }
        shared.publish();
        let mut ring = Self {
            ring,
            shared,
            sends: Sends::default(),
            sending: Vec::new(),
            clock: Some((Instant::now(), now())),
        };
        // Linux before 6.12 refuses an absolute time.
        if let Err(error) = ring.enter(Some(Instant::now())) {
            if error.raw_os_error() != Some(libc::EINVAL) {
                return Err(error);
            }
            ring.clock = None;
        }
        // One system call less to look up the ring in. It makes no other difference.
        let _ = ring.ring.submitter().register_ring_fd();
        Ok(ring)
    }

    /// Waits for `interest` once.
    pub fn poll(&mut self, fd: impl AsFd, interest: Interest, token: Token) -> io::Result<()> {
        let events = interest.events();
        let each_time = false;
        self.ask(fd, &Asked::Poll { events, each_time }, POLL, token)
    }

    /// Tells each time that something is there to read, until it is cancelled.
    pub fn poll_each_time(&mut self, fd: impl AsFd, token: Token) -> io::Result<()> {
        let events = Interest::Read.events();
        let each_time = true;
        self.ask(fd, &Asked::Poll { events, each_time }, POLL, token)
    }

    /// Receives whatever comes, until an event says that it has ended.
    pub fn receive(&mut self, fd: impl AsFd, token: Token) -> io::Result<()> {
        self.ask(fd, &Asked::Receive { group: GROUP }, RECEIVE, token)
    }

    /// Ends a [`Self::receive`]; an event tells when it has.
    pub fn stop_receiving(&mut self, fd: impl AsFd, token: Token) -> io::Result<()> {
        let data = RECEIVE << Token::BITS | token.0;
        self.ask(fd, &Asked::CancelOne { data }, CANCEL, token)
    }

    /// Ends whatever is under way on the socket. Keep it open until the next [`Self::enter`].
    pub fn cancel(&mut self, fd: impl AsFd) -> io::Result<()> {
        self.ask(fd, &Asked::Cancel, CANCEL, Token::new(0))
    }

    /// Sends `bytes`, which come back with the event that tells how it ended.
    pub fn send(&mut self, fd: impl AsFd, bytes: Vec<u8>, token: Token) -> io::Result<()> {
        let fd = fd.as_fd().as_raw_fd();
        let slot = self.sends.keep(bytes);
        if self.sending.len() <= slot as usize {
            self.sending.resize(slot as usize + 1, token);
        }
        self.sending[slot as usize] = token;
        let data = SEND << Token::BITS | u64::from(slot);
        if self.sends.push(&mut self.ring.submission(), fd, slot, data) {
            return Ok(());
        }
        self.submit()?;
        let pushed = self.sends.push(&mut self.ring.submission(), fd, slot, data);
        if !pushed {
            self.sends.end(slot);
        }
        taken(pushed)
    }

    /// Hands the operations to the kernel without waiting. Done by itself where the queue is full.
    pub fn submit(&mut self) -> io::Result<()> {
        self.enter(None)
    }

    /// Hands the operations to the kernel, and waits for the first event, or until the time is `until`.
    /// Interrupted by a signal, it returns.
    pub fn enter(&mut self, until: Option<Instant>) -> io::Result<()> {
        // Events that are there already wait for nobody.
        let until = until.filter(|_| self.ring.completion().is_empty());
        let entered = match (until, self.clock) {
            (None, _) => self.ring.submit(),
            (Some(until), Some((then, clock))) => {
                let time = Timespec::from(clock + until.saturating_duration_since(then));
                let args = SubmitArgs::new().timespec(&time);
                let flags = EnterFlags::ABS_TIMER;
                let submitter = self.ring.submitter();
                submitter.submit_with_args_and_flags(1, &args, flags)
            }
            (Some(until), None) => {
                let rest = until.saturating_duration_since(Instant::now());
                let time = Timespec::from(rest);
                let args = SubmitArgs::new().timespec(&time);
                self.ring.submitter().submit_with_args(1, &args)
            }
        };
        match entered {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // The time is over; a signal has come; or events have to be taken first.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// The next event, until there is no more: then it is time to enter.
    #[inline]
    #[expect(
        clippy::should_implement_trait,
        reason = "a ring without events is not at its end"
    )]
    pub fn next(&mut self) -> Option<Event> {
        loop {
            let event = self.ring.completion().next()?;
            let (result, flags, data) = (event.result(), event.flags(), event.user_data());
            let token = Token(data & ((1 << Token::BITS) - 1));
            let armed = cqueue::more(flags);
            return Some(match data >> Token::BITS {
                POLL if result == -libc::ECANCELED => continue,
                POLL => Event::Ready { token, armed },
                RECEIVE => {
                    let id = cqueue::buffer_select(flags);
                    if let Some(id) = id {
                        self.shared.take(id);
                    }
                    let received = match (result, id) {
                        (length @ 1.., Some(id)) => Received::Bytes(Filled {
                            id,
                            length: length as usize,
                        }),
                        (result, id) => {
                            if let Some(id) = id {
                                self.give(id);
                            }
                            if result < 0 {
                                Received::Failed(Errno::from_raw_os_error(-result))
                            } else {
                                Received::End
                            }
                        }
                    };
                    Event::Received {
                        token,
                        received,
                        armed,
                    }
                }
                SEND => {
                    let slot = token.0 as u32;
                    let Some(bytes) = self.sends.end(slot) else {
                        continue;
                    };
                    let sent = match result {
                        0.. => Ok(result as usize),
                        _ => Err(Errno::from_raw_os_error(-result)),
                    };
                    let token = self.sending[slot as usize];
                    Event::Sent { bytes, sent, token }
                }
                _ => continue,
            });
        }
    }

    /// The bytes of a buffer, behind its headroom, which has whatever was there.
    ///
    /// # Panics
    ///
    /// Where `filled` is not of this ring.
    pub fn bytes(&mut self, filled: &Filled) -> &mut [u8] {
        self.shared.bytes(filled.id, filled.length)
    }

    /// Lets a buffer be used again.
    ///
    /// # Panics
    ///
    /// Where `filled` is not of this ring.
    #[expect(clippy::needless_pass_by_value, reason = "it is used up")]
    pub fn give_back(&mut self, filled: Filled) {
        self.give(filled.id);
    }

    fn give(&mut self, id: u16) {
        self.shared.give(id);
        self.shared.publish();
    }

    fn ask(&mut self, fd: impl AsFd, asked: &Asked, kind: u64, token: Token) -> io::Result<()> {
        let fd = fd.as_fd().as_raw_fd();
        let data = kind << Token::BITS | token.0;
        if crate::sys::ask(&mut self.ring.submission(), fd, asked, data) {
            return Ok(());
        }
        self.submit()?;
        taken(crate::sys::ask(
            &mut self.ring.submission(),
            fd,
            asked,
            data,
        ))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        cancel_all(&self.ring);
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

/// Whether an operation has found room in the queue that was just handed over: the kernel takes what it can,
/// and where it can take nothing, it has no memory.
fn taken(pushed: bool) -> io::Result<()> {
    pushed.then_some(()).ok_or_else(|| Errno::AGAIN.into())
}

fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
