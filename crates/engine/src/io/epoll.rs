//! The system by epoll, with nanosecond timeouts.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::{EventData, EventFlags as Flags};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use trilane_connection::{Batch, HEADROOM, Over, Quic, Stream};
use trilane_socket::stream::{self, Flushed, Options};
use trilane_socket::{Lingering, Moved, Unmade, udp};

use crate::route::Address;
use crate::sys::TcpInfo;

use super::socket::{Socket, read_datagrams};
use super::{Completion, System};

/// Most events taken in one turn.
const EVENTS: usize = 256;
/// Reads of one TCP connection before the others have their turn.
const READS_PER_TURN: u32 = 4;
/// Reads of one QUIC connection before the others have their turn.
const DATAGRAM_READS_PER_TURN: u32 = 8;
/// Failed connections that are kept, for a moment, so that their peers learn why.
const MOST_LINGERING: usize = 64;
/// How long the end of a run waits for them.
const LAST_MOMENT: Duration = Duration::from_secs(1);
/// What one read of TCP takes where bodies are thrown away, in bytes: a head, and little more.
const HEAD: usize = 2048;
/// What one read of TCP takes: what the socket has ready. Each read of a large body is answered with an
/// acknowledgement, so fewer and larger ones cost less: a body of 128 KiB over HTTP/1.1 took 17 µs of
/// CPU with a buffer of 200 kB, 18 to 21 with 81 KiB and 27 with 16 KiB (two runs each).
const READ_BUFFER: usize = 256 * 1024;
/// What is known of the socket of a place.
#[derive(Debug)]
struct Open {
    socket: Socket,
    /// Whether it took less than it was given.
    full: bool,
    /// Whether epoll tells when it has room. Each datagram that leaves a UDP socket would be told as room,
    /// so that is asked for only while it is full.
    watched_for_room: bool,
    /// Whether what the peer sends is left in it.
    held: bool,
    /// How much of what the peer sends next is thrown away, in bytes; `None` where nothing ever is.
    discard: Option<u64>,
    /// Whether no edge will come any more: it is read to its end, not to a short read.
    ended: bool,
}

#[derive(Debug, Default)]
struct Place {
    open: Option<Open>,
    /// Sockets that the place has had: tells events of a former one from those of this.
    generation: u32,
}

impl Place {
    /// The socket that the token was given to, if it is still the place's.
    fn known_by(&mut self, token: u64) -> Option<&mut Open> {
        let mine = self.generation == (token >> 32) as u32;
        self.open.as_mut().filter(|_| mine)
    }
}

/// What is to be done for one socket in this turn.
#[derive(Clone, Copy, Debug)]
struct Task {
    token: u64,
    readable: bool,
    writable: bool,
    reads: u32,
}

/// One worker's sockets.
#[derive(Debug)]
pub(crate) struct Epoll {
    epoll: OwnedFd,
    events: Box<[MaybeUninit<epoll::Event>; EVENTS]>,
    places: Vec<Place>,
    /// What the last poll found.
    tasks: VecDeque<Task>,
    /// Sockets that have more to read, when the others have had their turn.
    again: Vec<u64>,
    lingering: Vec<(u64, Lingering)>,
    buffer: Box<[u8]>,
    /// Where the bytes of the last completion end.
    filled: usize,
    inbox: udp::Inbox,
    /// Where datagrams are put together.
    scratch: Vec<u8>,
}

impl Epoll {
    /// For so many places.
    pub(crate) fn new(places: usize) -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: Box::new([const { MaybeUninit::uninit() }; EVENTS]),
            places: (0..places).map(|_| Place::default()).collect(),
            tasks: VecDeque::with_capacity(EVENTS),
            again: Vec::with_capacity(places),
            lingering: Vec::new(),
            buffer: vec![0; HEADROOM + READ_BUFFER].into_boxed_slice(),
            filled: HEADROOM,
            inbox: udp::Inbox::default(),
            scratch: Vec::new(),
        })
    }

    fn token(&self, place: u32) -> u64 {
        u64::from(self.places[place as usize].generation) << 32 | u64::from(place)
    }

    /// The socket of a place that has one.
    fn socket(&self, place: u32) -> Option<&Socket> {
        let open = self.places[place as usize].open.as_ref();
        open.map(|open| &open.socket)
    }

    /// Registers a socket, edge-triggered. Closing it takes it out.
    fn keep(&mut self, place: u32, socket: Socket) -> Result<(), Unmade> {
        let generation = &mut self.places[place as usize].generation;
        *generation = generation.wrapping_add(1);
        let watched_for_room = matches!(socket, Socket::Stream { .. });
        let data = EventData::new_u64(self.token(place));
        let flags = edges(watched_for_room);
        epoll::add(&self.epoll, &socket, data, flags).map_err(|error| Unmade {
            what: "a socket cannot be watched".to_owned(),
            error: error.into(),
        })?;
        self.places[place as usize].open = Some(Open {
            socket,
            full: false,
            watched_for_room,
            held: false,
            discard: None,
            ended: false,
        });
        Ok(())
    }

    /// Waits for events, and makes tasks of them.
    fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let events = match epoll::wait(&self.epoll, &mut self.events[..], Some(&timeout)) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for event in events {
            let (token, flags) = (event.data.u64(), event.flags);
            let Some(open) = self.places[token as u32 as usize].known_by(token) else {
                linger(&self.epoll, &mut self.lingering, token);
                continue;
            };
            open.ended |= flags.intersects(Flags::RDHUP | Flags::ERR | Flags::HUP);
            self.tasks.push_back(Task {
                token,
                readable: open.ended || flags.intersects(Flags::IN),
                writable: flags.intersects(Flags::OUT | Flags::ERR | Flags::HUP),
                reads: 0,
            });
        }
        Ok(())
    }
}

/// The events of a socket.
fn edges(of_room: bool) -> Flags {
    let mut flags = Flags::IN | Flags::RDHUP | Flags::ET;
    flags.set(Flags::OUT, of_room);
    flags
}

/// Has a connection that is over read on.
fn linger(epoll: &OwnedFd, lingering: &mut Vec<(u64, Lingering)>, token: u64) {
    if let Some(index) = lingering.iter().position(|(other, _)| *other == token) {
        let one = &mut lingering[index].1;
        if !one.advance(Instant::now()) || watch(epoll, one, token).is_err() {
            lingering.swap_remove(index);
        }
    }
}

/// Waits for what a connection that is over can go on with.
fn watch(epoll: &OwnedFd, lingering: &Lingering, token: u64) -> rustix::io::Result<()> {
    // Not for edges: what is not read at once is told again.
    let mut flags = Flags::IN;
    flags.set(Flags::OUT, lingering.wants_room());
    epoll::modify(epoll, lingering, EventData::new_u64(token), flags)
}

impl System for Epoll {
    #[inline]
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn open_stream(
        &mut self,
        place: u32,
        peer: &Address,
        options: Options<'_>,
    ) -> Result<(), Unmade> {
        self.keep(place, Socket::connecting(peer, options)?)
    }

    fn open_datagrams(
        &mut self,
        place: u32,
        peer: SocketAddr,
        source: Option<SocketAddr>,
    ) -> Result<(), Unmade> {
        self.keep(place, Socket::datagrams(peer, source)?)
    }

    fn send(
        &mut self,
        place: u32,
        connection: &mut Stream,
        moved: &mut Moved,
    ) -> Result<Flushed, Over> {
        let Some(Open {
            socket: Socket::Stream { fd, .. },
            full,
            ..
        }) = &mut self.places[place as usize].open
        else {
            return Ok(Flushed::Broken);
        };
        let flushed = stream::flush(fd, connection, moved)?;
        *full = flushed == Flushed::Full;
        Ok(flushed)
    }

    fn send_datagrams(
        &mut self,
        place: u32,
        connection: &mut Quic,
        now: Instant,
        moved: &mut Moved,
    ) -> bool {
        let token = self.token(place);
        let Some(Open {
            socket: Socket::Datagrams(socket),
            full,
            watched_for_room,
            ..
        }) = &mut self.places[place as usize].open
        else {
            return false;
        };
        let unreachable = socket.flush(connection, now, &mut self.scratch, moved);
        // Others may send on the socket, too: what one of them is refused is told to all of them.
        *full |= connection.is_blocked();
        if *full != *watched_for_room {
            moved.calls += 1;
            // Where there is room already, that is told at once.
            let flags = edges(*full);
            // Fails only where the kernel has no memory: the timer of QUIC sends again then.
            if epoll::modify(&self.epoll, socket, EventData::new_u64(token), flags).is_ok() {
                *watched_for_room = *full;
            }
        }
        unreachable
    }

    fn hold(&mut self, place: u32, held: bool) {
        let token = self.token(place);
        if let Some(open) = &mut self.places[place as usize].open {
            open.held = held;
            if !held {
                // The edge has passed.
                self.again.push(token);
            }
        }
    }

    fn discard(&mut self, place: u32, bytes: u64) {
        if let Some(open) = &mut self.places[place as usize].open {
            open.discard = Some(bytes);
        }
    }

    fn close(&mut self, place: u32, last_words: Option<Vec<u8>>) {
        let token = self.token(place);
        let open = self.places[place as usize].open.take();
        let (Some(unsent), Some(open)) = (last_words, open) else {
            return;
        };
        let Socket::Stream { fd, .. } = open.socket else {
            return;
        };
        if self.lingering.len() == MOST_LINGERING {
            return;
        }
        if let Some(lingering) = Lingering::new(fd, unsent, Instant::now())
            && watch(&self.epoll, &lingering, token).is_ok()
        {
            self.lingering.push((token, lingering));
        }
    }

    fn poll(&mut self, until: Instant) -> io::Result<()> {
        // Taken as late as can be: epoll waits for a time, not until a time.
        let timeout = if self.again.is_empty() {
            until.saturating_duration_since(Instant::now())
        } else {
            Duration::ZERO
        };
        self.wait(timeout)?;
        let again = self.again.drain(..).map(|token| Task {
            token,
            readable: true,
            writable: false,
            reads: 0,
        });
        self.tasks.extend(again);
        if !self.lingering.is_empty() {
            let now = Instant::now();
            self.lingering.retain(|(_, one)| now < one.until());
        }
        Ok(())
    }

    #[inline]
    fn next(&mut self, moved: &mut Moved) -> Option<(u32, Completion)> {
        while let Some(task) = self.tasks.front_mut() {
            let place = task.token as u32;
            if let Some(open) = self.places[place as usize].known_by(task.token) {
                if task.reads == open.reads_per_turn() {
                    self.again.push(task.token);
                } else {
                    let buffer = &mut self.buffer[HEADROOM..];
                    let completion = open.carry_out(task, buffer, &mut self.inbox, moved);
                    if let Some(completion) = completion {
                        if let Completion::Received(length) = completion {
                            self.filled = HEADROOM + length;
                        }
                        return Some((place, completion));
                    }
                }
            }
            self.tasks.pop_front();
        }
        None
    }

    fn datagrams(&mut self) -> Option<Batch> {
        self.inbox.take().next()
    }

    #[inline]
    fn received(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.filled]
    }

    fn finish(&mut self) {
        let end = Instant::now() + LAST_MOMENT;
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            if self.lingering.is_empty() || rest.is_zero() || self.wait(rest).is_err() {
                break;
            }
            self.tasks.clear();
        }
    }

    fn local_address(&self, place: u32) -> Option<SocketAddr> {
        self.socket(place)?.local_address()
    }

    fn tcp_info(&self, place: u32) -> Option<TcpInfo> {
        self.socket(place)?.tcp_info()
    }

    fn unacknowledged(&self, place: u32) -> Option<u64> {
        self.socket(place)?.unacknowledged()
    }

    fn congestion_control(&self, place: u32) -> Option<String> {
        self.socket(place)?.congestion_control()
    }

    fn dropped_datagrams(&self, place: u32) -> Option<u32> {
        self.socket(place)?.dropped_datagrams()
    }
}

impl Open {
    fn reads_per_turn(&self) -> u32 {
        match self.socket {
            Socket::Stream { .. } => READS_PER_TURN,
            Socket::Datagrams(_) => DATAGRAM_READS_PER_TURN,
        }
    }

    /// What a task comes to next; `None` where there is nothing more to do now.
    fn carry_out(
        &mut self,
        task: &mut Task,
        buffer: &mut [u8],
        inbox: &mut udp::Inbox,
        moved: &mut Moved,
    ) -> Option<Completion> {
        if task.writable {
            task.writable = false;
            if let Socket::Stream { fd, is_connected } = &mut self.socket
                && !*is_connected
            {
                *is_connected = true;
                moved.calls += 1;
                return Some(Completion::Connected(stream::connect_error(fd)));
            }
            if self.full {
                self.full = false;
                return Some(Completion::Room);
            }
        }
        if !task.readable || self.held {
            return None;
        }
        task.reads += 1;
        match &self.socket {
            // Its connect is told first.
            Socket::Stream {
                is_connected: false,
                ..
            } => None,
            Socket::Stream { fd, .. } => {
                let (asked, discards) = match self.discard {
                    None => (buffer.len(), false),
                    // The rest is thrown away when the head has told how much it is.
                    Some(0) => (HEAD, false),
                    Some(bytes) => (bytes.min(buffer.len() as u64) as usize, true),
                };
                let buffer = &mut buffer[..asked];
                let received = if discards {
                    stream::discard(fd, buffer, moved)
                } else {
                    stream::receive(fd, buffer, moved)
                };
                match received {
                    stream::Received::Bytes(length) => {
                        // A short read has emptied the socket, but not told of the end behind it.
                        task.readable = length == asked || self.ended;
                        if !discards {
                            return Some(Completion::Received(length));
                        }
                        self.discard = self.discard.map(|bytes| bytes - length as u64);
                        Some(Completion::Discarded(length))
                    }
                    stream::Received::Nothing => None,
                    stream::Received::End => Some(Completion::End),
                    stream::Received::Failed(error) => Some(Completion::Failed(error)),
                }
            }
            Socket::Datagrams(socket) => {
                let (completion, more) = read_datagrams(socket, inbox, moved)?;
                task.readable = more || self.ended;
                Some(completion)
            }
        }
    }
}
