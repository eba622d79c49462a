//! One HTTP connection, for any number of threads or one event loop.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{OwnedFd, RawFd};
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use trilane_wire::{Content, Encoding, OneOff, Refused, Request};

use crate::exchange::Exchange;
use crate::link::{Link, Socket, StreamLink, Turn};
use crate::slots::Slots;
use crate::{ConnectOptions, Error, Kind, Patience, TlsInfo, Version, connect, keeper};

/// Requests that wait to leave together leave when they have this many bytes.
const GATHERED: usize = 16 * 1024;
/// Reads of one turn, after which others have the lock.
const READS_PER_TURN: usize = 8;

/// A request.
#[derive(Debug)]
pub struct Submission<'a> {
    /// The method, case-sensitive.
    pub method: &'a str,
    /// Path and query; with a plain HTTP/1.1 proxy the whole URL.
    pub target: &'a str,
    /// Host and port, in place of those of the connection.
    pub authority: Option<&'a str>,
    /// Fields in order.
    pub fields: &'a [(&'a [u8], &'a [u8])],
    /// The content, or how it will come.
    pub content: Content,
    /// When to write.
    pub flush: Flush,
}

/// When a request leaves, as far as the socket takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// At once.
    Now,
    /// At once on an idle connection; else together with those that follow, when somebody waits for a
    /// response, when many bytes have gathered, or after a millisecond.
    Soon,
    /// When the caller calls [`Connection::flush`] or [`Connection::drive`].
    Later,
}

/// One HTTP connection. Clones share it.
#[derive(Clone, Debug)]
pub struct Connection {
    pub(crate) shared: Arc<Shared>,
}

/// What the handles of a connection share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) socket: Socket,
    /// Wakes the thread that polls the socket, when what it polls for has changed.
    pub(crate) bell: OwnedFd,
    state: Mutex<State>,
    version: Version,
    scheme: &'static str,
    authority: String,
    /// The process that made the connection: one that was forked from it has the same socket, and
    /// must not end for both.
    process: u32,
    peer: Option<SocketAddr>,
    local: Option<SocketAddr>,
    tls: Option<TlsInfo>,
}

/// What is changed under the lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) link: Link,
    pub(crate) slots: Slots,
    /// Whether a thread leads.
    pub(crate) leading: bool,
    /// Whether it sleeps, and until when.
    pub(crate) sleeping: bool,
    pub(crate) sleeping_until: Option<Instant>,
    /// Whether the keeper will visit.
    looked_after: bool,
    /// Threads that wait for the one who leads.
    pub(crate) followers: VecDeque<Thread>,
    /// Why the connection is over.
    failure: Option<Error>,
}

/// A connection that is ready.
pub(crate) struct Ready {
    pub(crate) socket: Socket,
    pub(crate) link: Link,
    pub(crate) slots: Slots,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) tls: Option<TlsInfo>,
}

impl Connection {
    /// Connects, and shakes hands.
    pub fn connect(options: &ConnectOptions, patience: &mut dyn Patience) -> Result<Self, Error> {
        let ready = connect::connect(options, patience)?;
        let scheme = if options.secure { "https" } else { "http" };
        let default = if options.secure { 443 } else { 80 };
        let host = options.host.trim_matches(['[', ']']);
        let mut authority = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.to_owned()
        };
        if options.port != default {
            authority = format!("{authority}:{}", options.port);
        }
        Self::new(ready, scheme, authority)
    }

    /// A connection without a socket: its bytes go through [`Self::receive`] and [`Self::output`].
    pub fn memory(version: Version, scheme: &str, authority: &str) -> Result<Self, Error> {
        if version == Version::H3 {
            let message = "HTTP/3 needs a UDP socket: a connection in memory speaks h1 or h2";
            return Err(Error::new(Kind::Local, message));
        }
        let ready = Ready {
            socket: Socket::Memory,
            link: Link::Stream(Box::new(StreamLink::new(version, None))),
            slots: Slots::default(),
            peer: None,
            local: None,
            tls: None,
        };
        let scheme = if scheme == "https" { "https" } else { "http" };
        Self::new(ready, scheme, authority.to_owned())
    }

    fn new(ready: Ready, scheme: &'static str, authority: String) -> Result<Self, Error> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Error::new(Kind::Connect, format!("no more descriptors: {error}")))?;
        let mut state = State {
            link: ready.link,
            slots: ready.slots,
            leading: false,
            sleeping: false,
            sleeping_until: None,
            looked_after: false,
            followers: VecDeque::new(),
            failure: None,
        };
        state.flush(&ready.socket);
        Ok(Self {
            shared: Arc::new(Shared {
                bell,
                version: state.link.version(),
                state: Mutex::new(state),
                socket: ready.socket,
                scheme,
                authority,
                process: process::id(),
                peer: ready.peer,
                local: ready.local,
                tls: ready.tls,
            }),
        })
    }

    /// The version that was agreed on.
    pub fn version(&self) -> Version {
        self.shared.version
    }

    /// The address of the peer, a proxy's where there is one.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.shared.peer
    }

    /// Our own address.
    pub fn local(&self) -> Option<SocketAddr> {
        self.shared.local
    }

    /// What TLS agreed on.
    pub fn tls(&self) -> Option<&TlsInfo> {
        self.shared.tls.as_ref()
    }

    /// Whether no other thread is at work on the connection just now, so that what does not wait
    /// for the socket will not wait at all.
    pub fn is_free(&self) -> bool {
        self.shared.try_lock().is_some()
    }

    /// How many more requests [`Self::submit`] takes now.
    pub fn capacity(&self) -> usize {
        let state = self.shared.lock();
        if state.failure.is_some() {
            return 0;
        }
        state.link.capacity()
    }

    /// Requests whose response is not complete.
    pub fn outstanding(&self) -> usize {
        self.shared.lock().link.outstanding()
    }

    /// Whether the connection takes no more requests, now or later.
    pub fn is_closing(&self) -> bool {
        let state = self.shared.lock();
        state.failure.is_some() || state.link.is_closing()
    }

    /// Sends a request. Never waits: what the socket does not take at once leaves when somebody
    /// waits for a response, or when [`Self::drive`] is called.
    pub fn submit(&self, submission: Submission<'_>) -> Result<Exchange, Error> {
        let shared = &self.shared;
        let upload = matches!(submission.content, Content::Streamed { .. });
        let encoding = match shared.version {
            Version::H1 => Encoding::H1,
            Version::H2 => Encoding::H2,
            Version::H3 => Encoding::H3,
        };
        let request = Request::one_off(
            encoding,
            &OneOff {
                method: submission.method,
                scheme: shared.scheme,
                authority: submission.authority.unwrap_or(&shared.authority),
                path: submission.target,
                fields: submission.fields,
                content: submission.content,
            },
        )
        .map_err(|error| Error::new(Kind::Local, error.to_string()))?;

        shared.expect_ours()?;
        let mut state = shared.lock();
        if let Some(error) = &state.failure {
            return Err(error.clone().unsent());
        }
        let slot = state.slots.reserve();
        let id = match state.link.submit(&request, slot) {
            Ok(id) => id,
            Err(refused) => {
                state.slots.cancel_reservation(slot);
                return Err(self::refused(refused));
            }
        };
        state.slots.open(slot, id.number);
        if upload {
            state.slots.expect_upload(slot, request.streamed_length());
        }
        let now = match submission.flush {
            Flush::Now => true,
            Flush::Soon => {
                let at_once = state.link.outstanding() == 1
                    || state.sleeping
                    || state.link.gathered() >= GATHERED;
                // QUIC has timers that run whether or not somebody waits.
                let alone =
                    (at_once && shared.version != Version::H3) || !shared.look_after(&mut state);
                at_once || alone
            }
            Flush::Later => false,
        };
        if now {
            state.flush(&shared.socket);
            shared.ring_if_needed(&mut state);
        }
        drop(state);
        Ok(Exchange::new(self.clone(), slot, id.number))
    }

    /// Whether an idle connection can still be used: looks at the socket without waiting.
    pub fn is_alive(&self) -> bool {
        if !self.shared.is_ours() {
            return false;
        }
        let mut state = self.shared.lock();
        if !state.leading {
            state.turn(&self.shared.socket, true);
            state.flush(&self.shared.socket);
        }
        state.failure.is_none() && !state.link.is_closing()
    }

    /// Says goodbye and closes; what is outstanding fails. May be called again.
    pub fn close(&self) {
        let Some(mut state) = self.shared.lock_unless_lost() else {
            return;
        };
        if state.failure.is_some() {
            return;
        }
        self.shared
            .end(&mut state, "the connection was closed here");
    }

    /// The peer's limits, as far as they are known.
    pub fn settings(&self) -> Vec<(&'static str, u64)> {
        self.shared.lock().link.settings()
    }

    /// The descriptor that an event loop waits for.
    pub fn fileno(&self) -> Option<RawFd> {
        self.shared.socket.raw()
    }

    /// Does what there is to do without waiting, and appends the tokens of the exchanges whose
    /// watched state has come.
    pub fn drive(&self, ready: &mut Vec<u32>) {
        let mut state = self.shared.lock();
        state.turn(&self.shared.socket, true);
        state.flush(&self.shared.socket);
        ready.append(&mut state.slots.ready);
    }

    /// Writes what there is, as far as the socket takes it.
    pub fn flush(&self) {
        let mut state = self.shared.lock();
        state.flush(&self.shared.socket);
        self.shared.ring_if_needed(&mut state);
    }

    /// Whether something is left that the socket did not take.
    pub fn wants_write(&self) -> bool {
        self.shared.lock().link.has_unsent()
    }

    /// How long [`Self::drive`] may wait though the socket is silent; `None` for ever.
    pub fn timeout(&self) -> Option<Duration> {
        let mut state = self.shared.lock();
        if !state.slots.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let due = state.link.timeout()?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// Takes bytes from the peer of a connection in memory.
    pub fn receive(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut state = self.shared.lock();
        let State { link, slots, .. } = &mut *state;
        let Link::Stream(link) = link else {
            return Ok(());
        };
        let result = link.feed(&mut bytes.to_vec(), slots);
        if let Err(error) = &result {
            state.over(error.clone());
        }
        state.settle();
        result
    }

    /// The peer of a connection in memory has sent its last byte.
    pub fn eof(&self) {
        let mut state = self.shared.lock();
        let State { link, slots, .. } = &mut *state;
        if let Link::Stream(link) = link {
            let error = link.eof(None, slots);
            state.over(error);
        }
    }

    /// What a connection in memory has to send.
    pub fn output(&self) -> Vec<u8> {
        let mut state = self.shared.lock();
        state.settle();
        match &mut state.link {
            Link::Stream(link) => link.output(),
            Link::Quic(_) => Vec::new(),
        }
    }
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The lock, unless another process made the connection and a thread of it held the lock at the
    /// fork: nobody would ever give it back.
    pub(crate) fn lock_unless_lost(&self) -> Option<MutexGuard<'_, State>> {
        match self.try_lock() {
            None if self.is_ours() => Some(self.lock()),
            state => state,
        }
    }

    /// Says goodbye, and fails what is outstanding.
    pub(crate) fn end(&self, state: &mut State, reason: &str) {
        if self.is_ours() {
            state.link.close(&self.socket);
        }
        state.over(Error::new(Kind::Closed, reason));
        self.ring();
    }

    /// An error in any process but the one that made the connection: what two processes write to
    /// one socket is the message of neither.
    pub(crate) fn expect_ours(&self) -> Result<(), Error> {
        if self.is_ours() {
            return Ok(());
        }
        let message = "the connection belongs to the process that made it: connect after the fork";
        Err(Error::new(Kind::Local, message).unsent())
    }

    /// Whether this process made the connection.
    pub(crate) fn is_ours(&self) -> bool {
        self.process == process::id()
    }

    /// Wakes the thread that polls.
    pub(crate) fn ring(&self) {
        // A bell that is full has rung.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    pub(crate) fn silence(&self) {
        // Nothing to read: somebody else has heard it.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }

    /// Wakes the thread that polls where it would wake too late, or wait for the wrong thing.
    pub(crate) fn ring_if_needed(&self, state: &mut State) {
        if !state.sleeping {
            return;
        }
        let due = state.link.timeout();
        let earlier = due.is_some_and(|due| state.sleeping_until.is_none_or(|until| due < until));
        if earlier || state.link.has_unsent() {
            self.ring();
        }
    }
}

impl Shared {
    /// Has the keeper visit, unless it will. False where it cannot.
    pub(crate) fn look_after(self: &Arc<Self>, state: &mut State) -> bool {
        state.looked_after = state.looked_after || keeper::look_after(self);
        state.looked_after
    }

    /// Does what there is to do, if nobody else does. True while there is reason to come again.
    pub(crate) fn visit(&self) -> bool {
        let mut state = self.lock();
        if !state.leading {
            state.turn(&self.socket, true);
            state.flush(&self.socket);
        }
        state.looked_after =
            state.failure.is_none() && (state.link.outstanding() > 0 || state.link.has_unsent());
        state.looked_after
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let ours = self.is_ours();
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.failure.is_none() && ours {
            state.link.close(&self.socket);
        }
    }
}

impl State {
    /// Writes what there is, as far as the socket takes it.
    pub(crate) fn flush(&mut self, socket: &Socket) {
        self.settle();
        self.link.flush(socket, &mut self.slots);
        // What the socket took makes room for more content.
        while !self.slots.uploading.is_empty() && self.settle() {
            self.link.flush(socket, &mut self.slots);
        }
    }

    /// Reads what there is and does what is due.
    pub(crate) fn turn(&mut self, socket: &Socket, readable: bool) {
        if self.failure.is_some() {
            return;
        }
        if let Some(due) = self.link.timeout() {
            let now = Instant::now();
            if due <= now
                && let Turn::Over(error) = self.link.handle_timeout(now, &mut self.slots)
            {
                return self.over(error);
            }
        }
        if readable {
            for _ in 0..READS_PER_TURN {
                if !self.link.may_read() {
                    break;
                }
                match self.link.read(socket, &mut self.slots) {
                    Turn::More => (),
                    Turn::Drained => break,
                    Turn::Over(error) => return self.over(error),
                }
                self.settle();
            }
        }
        self.settle();
    }

    /// Pauses readers that are behind, and hands content of requests over. True where content moved.
    pub(crate) fn settle(&mut self) -> bool {
        while let Some(slot) = self.slots.full.pop() {
            let place = self.slots.get(slot);
            if place.live && place.paused {
                self.link.pause(place.id(slot));
            }
        }
        let mut moved = false;
        let mut index = 0;
        while index < self.slots.uploading.len() && self.link.has_room() {
            let slot = self.slots.uploading[index];
            let (done, any) = self.advance(slot);
            moved |= any;
            if done {
                self.slots.uploading.swap_remove(index);
            } else {
                index += 1;
            }
            if any {
                self.slots.notify(slot);
            }
        }
        moved
    }

    /// Hands over content of one request: whether nothing is left to do, and whether any moved.
    fn advance(&mut self, slot: u32) -> (bool, bool) {
        let place = self.slots.get_mut(slot);
        let id = place.id(slot);
        let Some(upload) = &mut place.upload else {
            return (true, false);
        };
        if upload.open && self.link.upload(id) != trilane_wire::Upload::Open {
            upload.open = false;
        }
        if !upload.open {
            upload.pending = Vec::new();
            upload.sent = 0;
            if place.ended && self.link.version() == Version::H3 {
                // HTTP/3 leaves our direction open when the response comes first.
                self.link.cancel(id);
            }
            return (true, true);
        }
        let waiting = &upload.pending[upload.sent..];
        let taken = if waiting.is_empty() {
            0
        } else {
            self.link.write(id, waiting)
        };
        upload.sent += taken;
        if upload.sent < upload.pending.len() {
            return (false, taken > 0);
        }
        upload.pending.clear();
        upload.sent = 0;
        if let Some(trailers) = upload.finish.take() {
            upload.open = false;
            if !self.link.finish(id, &trailers) {
                // Everything else was looked at when they were handed over.
                let message = "the trailers of the request are larger than the server accepts";
                self.slots.fail(slot, Error::new(Kind::Local, message));
                if !self.link.cancel(id) {
                    self.over(Error::new(Kind::Closed, "a request could not be ended"));
                }
            }
        }
        (true, true)
    }

    /// The connection is over: whatever is outstanding ends with it.
    pub(crate) fn over(&mut self, error: Error) {
        if self.failure.is_none() && self.link.version() == Version::H3 {
            self.slots.explain(&error);
        }
        for slot in self.slots.open_slots() {
            self.slots.fail(slot, error.clone());
        }
        if self.failure.is_none() {
            self.failure = Some(error);
        }
    }

    /// Wakes a thread that can lead, if nobody does.
    pub(crate) fn hand_over(&mut self) {
        if !self.leading
            && let Some(next) = self.followers.pop_front()
        {
            next.unpark();
        }
    }
}

fn refused(refused: Refused) -> Error {
    let kind = match refused {
        Refused::Full => Kind::Full,
        Refused::Draining | Refused::Exhausted => Kind::Closed,
        Refused::TooLarge => Kind::Local,
    };
    Error::new(kind, refused.to_string()).unsent()
}
