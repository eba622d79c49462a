//! The system by io_uring: what is received and what is small to send goes over a ring of the kernel's, and one
//! system call a turn hands over operations and waits for what comes of them.
//!
//! Byte streams receive into buffers that the kernel picks, for as long as the connection lasts. What a
//! connection sends is copied and handed over at the end of the turn, up to [`SMALL`]; larger content goes
//! from where it lies, by a system call of its own. Datagrams are told of by the ring and read and sent by
//! system calls, which take many at once.

mod events;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use rustix::io::Errno;
use trilane_connection::{Batch, HEADROOM, Over, Quic, Stream};
use trilane_ring::{Event, Filled, Interest, Ring, Token};
use trilane_socket::stream::{self, Flushed, Options};
use trilane_socket::{Lingering, Moved, Unmade, udp};

use super::socket::Socket;
use super::{Completion, DATAGRAM_READS_PER_TURN, LAST_MOMENT, MOST_LINGERING, System};
use crate::route::Address;
use crate::sys::TcpInfo;

/// What a connection sends is copied up to this, in bytes.
const SMALL: usize = 16 * 1024;
/// What waits for an earlier send of the connection, at most, in bytes.
const WAITING: usize = 4 * SMALL;
/// Bytes of a buffer of the ring.
const BUFFER: u32 = 64 * 1024;
/// Buffers of a ring: one for each connection that may have received in a turn, within these bounds.
const BUFFERS: (usize, usize) = (16, 256);
/// Places that a token can name.
const PLACE_BITS: u32 = 24;

/// What an operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Connect,
    Stream,
    Room,
    Datagrams,
    Lingering,
}

impl Purpose {
    const ALL: [Self; 5] = [
        Self::Connect,
        Self::Stream,
        Self::Room,
        Self::Datagrams,
        Self::Lingering,
    ];
}

/// What has come for a place while it was held.
#[derive(Debug)]
enum Kept {
    Bytes(Vec<u8>),
    End,
    Failed(Errno),
}

/// Where the bytes of the last completion are.
#[derive(Debug)]
enum Last {
    Nowhere,
    Filled(Filled),
    /// In `kept`, which they had been copied to.
    Kept,
}

/// What is known of the socket of a place.
#[derive(Debug)]
struct Open {
    socket: Socket,
    /// Whether the kernel receives for it.
    receiving: bool,
    /// Whether what the peer sends is left in it.
    held: bool,
    /// What came all the same.
    kept: VecDeque<Kept>,
    /// Whether the kernel sends for it.
    sending: bool,
    /// What is sent next.
    waiting: Vec<u8>,
    /// Whether [`Completion::Room`] is due, when the socket has some.
    refused: bool,
    /// Whether it takes nothing any more.
    broken: bool,
}

#[derive(Debug, Default)]
struct Place {
    open: Option<Open>,
    /// Sockets that the place has had: tells events of a former one from those of this.
    generation: u32,
}

/// A place whose socket is read, or whose kept bytes are told.
#[derive(Clone, Copy, Debug)]
struct Task {
    place: u32,
    generation: u32,
    reads: u32,
    /// Whether nothing is left to do.
    done: bool,
}

/// One worker's sockets.
#[derive(Debug)]
pub(super) struct Uring {
    ring: Ring,
    places: Vec<Place>,
    tasks: VecDeque<Task>,
    /// Tasks for the next turn.
    again: Vec<Task>,
    /// Places for which the kernel is to receive again.
    unarmed: Vec<(u32, u32)>,
    /// Events that were taken while one was looked for.
    early: VecDeque<Event>,
    /// Sockets that are closed when what ends their operations has been handed over.
    leaving: Vec<Socket>,
    lingering: Vec<(Token, Lingering)>,
    last: Last,
    kept: Vec<u8>,
    /// Why the ring did not take an operation: the next turn fails by it, and the run.
    lost: Option<io::Error>,
    /// Memory of what has been sent.
    spare: Vec<Vec<u8>>,
    inbox: udp::Inbox,
    /// Where datagrams are put together.
    scratch: Vec<u8>,
}

impl Uring {
    /// For so many places.
    pub(super) fn new(places: usize) -> io::Result<Self> {
        let buffers = places.clamp(BUFFERS.0, BUFFERS.1).next_power_of_two();
        Ok(Self {
            ring: Ring::new(buffers as u16, HEADROOM, BUFFER)?,
            places: (0..places).map(|_| Place::default()).collect(),
            tasks: VecDeque::new(),
            again: Vec::new(),
            unarmed: Vec::new(),
            early: VecDeque::new(),
            leaving: Vec::new(),
            lingering: Vec::new(),
            last: Last::Nowhere,
            kept: Vec::new(),
            lost: None,
            spare: Vec::new(),
            inbox: udp::Inbox::default(),
            scratch: Vec::new(),
        })
    }

    /// The token of an operation for the present socket of a place. Generations come again after 2^32, when
    /// nothing is known of the first any more.
    fn token(&self, place: u32, purpose: Purpose) -> Token {
        let generation = u64::from(self.places[place as usize].generation);
        Token::new((purpose as u64) << 56 | generation << PLACE_BITS | u64::from(place))
    }

    /// The socket of a place that has one.
    fn socket(&self, place: u32) -> Option<&Socket> {
        let open = self.places[place as usize].open.as_ref();
        open.map(|open| &open.socket)
    }

    fn keep(&mut self, place: u32, socket: Socket, purpose: Purpose) -> Result<(), Unmade> {
        let generation = &mut self.places[place as usize].generation;
        *generation = generation.wrapping_add(1);
        let token = self.token(place, purpose);
        let polled = match purpose {
            Purpose::Datagrams => self.ring.poll_each_time(&socket, token),
            _ => self.ring.poll(&socket, Interest::Write, token),
        };
        polled.map_err(|error| Unmade {
            what: "a socket cannot be watched".to_owned(),
            error,
        })?;
        self.places[place as usize].open = Some(Open {
            socket,
            receiving: false,
            held: false,
            kept: VecDeque::new(),
            sending: false,
            waiting: Vec::new(),
            refused: false,
            broken: false,
        });
        Ok(())
    }

    /// Has the kernel receive for a place where it should and does not.
    fn receive(&mut self, place: u32) -> io::Result<()> {
        let token = self.token(place, Purpose::Stream);
        let Some(open) = &mut self.places[place as usize].open else {
            return Ok(());
        };
        if open.receiving || open.held || !open.kept.is_empty() {
            return Ok(());
        }
        open.receiving = true;
        self.ring.receive(&open.socket, token)
    }

    fn receive_later(&mut self, place: u32) {
        let generation = self.places[place as usize].generation;
        self.unarmed.push((place, generation));
    }

    /// Takes the buffer of the last completion back.
    #[inline]
    fn let_go(&mut self) {
        if let Last::Filled(filled) = std::mem::replace(&mut self.last, Last::Nowhere) {
            self.ring.give_back(filled);
        }
    }
}

/// The socket of a place, if it is still this one.
#[inline]
fn known(places: &mut [Place], place: u32, generation: u32) -> Option<&mut Open> {
    let place = &mut places[place as usize];
    let mine = place.generation == generation;
    place.open.as_mut().filter(|_| mine)
}

/// Remembers that an operation was not taken.
fn note(lost: &mut Option<io::Error>, asked: io::Result<()>) {
    if let Err(error) = asked {
        lost.get_or_insert(error);
    }
}

/// Keeps memory for the next send.
fn recycle(spare: &mut Vec<Vec<u8>>, mut bytes: Vec<u8>) {
    if spare.len() < BUFFERS.1 && bytes.capacity() <= SMALL {
        bytes.clear();
        spare.push(bytes);
    }
}

/// What a token was made of.
fn parts(token: Token) -> (Purpose, u32, u32) {
    let number = token.number();
    let purpose = Purpose::ALL[(number >> 56) as usize % Purpose::ALL.len()];
    let place = number as u32 & ((1 << PLACE_BITS) - 1);
    (purpose, place, (number >> PLACE_BITS) as u32)
}

impl System for Uring {
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
        self.keep(place, Socket::connecting(peer, options)?, Purpose::Connect)
    }

    fn open_datagrams(
        &mut self,
        place: u32,
        peer: SocketAddr,
        source: Option<SocketAddr>,
    ) -> Result<(), Unmade> {
        self.keep(place, Socket::datagrams(peer, source)?, Purpose::Datagrams)
    }

    fn send(
        &mut self,
        place: u32,
        connection: &mut Stream,
        moved: &mut Moved,
    ) -> Result<Flushed, Over> {
        let room = self.token(place, Purpose::Room);
        let token = self.token(place, Purpose::Stream);
        let Some(open) = &mut self.places[place as usize].open else {
            return Ok(Flushed::Broken);
        };
        let Socket::Stream { fd, .. } = &open.socket else {
            return Ok(Flushed::Broken);
        };
        if open.broken {
            connection.broke();
            return Ok(Flushed::Broken);
        }
        let mut bytes = Vec::new();
        loop {
            let length: usize = connection.transmit_slices()?.map(<[u8]>::len).sum();
            if length == 0 {
                break;
            }
            let target = if open.sending {
                &mut open.waiting
            } else {
                &mut bytes
            };
            let most = if open.sending { WAITING } else { SMALL };
            if target.len() + length > most {
                if open.sending || !bytes.is_empty() {
                    // Behind what is on its way.
                    open.refused = true;
                    break;
                }
                let flushed = stream::flush(fd, connection, moved)?;
                if flushed == Flushed::Full {
                    open.refused = true;
                    note(&mut self.lost, self.ring.poll(fd, Interest::Write, room));
                }
                return Ok(flushed);
            }
            if target.capacity() == 0
                && let Some(memory) = self.spare.pop()
            {
                *target = memory;
            }
            for slice in connection.transmit_slices()? {
                target.extend_from_slice(slice);
            }
            connection.sent(length);
            moved.bytes += length as u64;
        }
        if !bytes.is_empty() {
            open.sending = true;
            note(&mut self.lost, self.ring.send(fd, bytes, token));
        }
        Ok(if open.refused {
            Flushed::Full
        } else {
            Flushed::All
        })
    }

    fn send_datagrams(
        &mut self,
        place: u32,
        connection: &mut Quic,
        now: Instant,
        moved: &mut Moved,
    ) -> bool {
        let room = self.token(place, Purpose::Room);
        let Some(open) = &mut self.places[place as usize].open else {
            return false;
        };
        let Socket::Datagrams(socket) = &open.socket else {
            return false;
        };
        let unreachable = socket.flush(connection, now, &mut self.scratch, moved);
        if connection.is_blocked() && !open.refused {
            open.refused = true;
            note(
                &mut self.lost,
                self.ring.poll(socket, Interest::Write, room),
            );
        }
        unreachable
    }

    fn hold(&mut self, place: u32, held: bool) {
        let generation = self.places[place as usize].generation;
        let token = self.token(place, Purpose::Stream);
        let Some(open) = &mut self.places[place as usize].open else {
            return;
        };
        open.held = held;
        if !held {
            self.again.push(Task {
                place,
                generation,
                reads: 0,
                done: false,
            });
        } else if open.receiving {
            note(
                &mut self.lost,
                self.ring.stop_receiving(&open.socket, token),
            );
        }
    }

    /// The kernel receives before it is told of a length: nothing is thrown away.
    fn discard(&mut self, _place: u32, _bytes: u64) {}

    fn close(&mut self, place: u32, last_words: Option<Vec<u8>>) {
        let stuck = !self.settle(place);
        let token = self.token(place, Purpose::Lingering);
        let Some(open) = self.places[place as usize].open.take() else {
            return;
        };
        note(&mut self.lost, self.ring.cancel(&open.socket));
        match (open.socket, last_words) {
            (Socket::Stream { fd, .. }, Some(unsent))
                if !stuck && self.lingering.len() < MOST_LINGERING =>
            {
                // Else what is received for the place would be lost to who reads on.
                if self.ring.submit().is_err() {
                    return;
                }
                if let Some(lingering) = Lingering::new(fd, unsent, Instant::now()) {
                    self.lingering.push((token, lingering));
                    if !self.watch(self.lingering.len() - 1) {
                        self.lingering.pop();
                    }
                }
            }
            (socket, _) => self.leaving.push(socket),
        }
    }

    fn poll(&mut self, until: Instant) -> io::Result<()> {
        self.let_go();
        // In their order: where buffers are short, each has its turn.
        let mut unarmed = std::mem::take(&mut self.unarmed);
        for (place, generation) in unarmed.drain(..) {
            if known(&mut self.places, place, generation).is_some() {
                self.receive(place)?;
            }
        }
        self.unarmed = unarmed;
        let idle = self.again.is_empty() && self.early.is_empty() && self.tasks.is_empty();
        self.ring.enter(idle.then_some(until))?;
        if let Some(error) = self.lost.take() {
            return Err(error);
        }
        self.leaving.clear();
        self.tasks.extend(self.again.drain(..));
        if !self.lingering.is_empty() {
            let now = Instant::now();
            self.lingering.retain(|(_, one)| now < one.until());
        }
        Ok(())
    }

    #[inline]
    fn next(&mut self, moved: &mut Moved) -> Option<(u32, Completion)> {
        self.let_go();
        loop {
            while let Some(task) = self.tasks.front() {
                let (place, generation) = (task.place, task.generation);
                let mut task = *task;
                if !task.done && known(&mut self.places, place, generation).is_some() {
                    if task.reads == DATAGRAM_READS_PER_TURN {
                        self.again.push(Task { reads: 0, ..task });
                    } else if let Some(completion) = self.carry_out(&mut task, moved) {
                        self.tasks[0] = task;
                        return Some((place, completion));
                    }
                }
                self.tasks.pop_front();
            }
            let event = self.early.pop_front().or_else(|| self.ring.next())?;
            if let Some(told) = self.take(event, moved) {
                return Some(told);
            }
        }
    }

    fn datagrams(&mut self) -> Option<Batch> {
        self.inbox.take().next()
    }

    #[inline]
    fn received(&mut self) -> &mut [u8] {
        match &self.last {
            Last::Filled(filled) => self.ring.bytes(filled),
            Last::Kept => &mut self.kept,
            Last::Nowhere => &mut [],
        }
    }

    fn finish(&mut self) {
        let end = Instant::now() + LAST_MOMENT;
        // What was sent last has to leave, even where nobody waits for it.
        let mut entered = self.poll(Instant::now());
        while entered.is_ok() && !self.lingering.is_empty() && Instant::now() < end {
            while let Some(event) = self.ring.next() {
                if let Event::Ready { token, .. } = event
                    && parts(token).0 == Purpose::Lingering
                {
                    self.linger(token);
                }
            }
            entered = self.poll(end);
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
