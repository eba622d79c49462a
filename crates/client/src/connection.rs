//! One HTTP connection, for any number of threads or one event loop.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::process;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use trilane_connection::Stream;
use trilane_wire::{Content, Encoding, OneOff, Refused, Request};

use crate::exchange::Exchange;
use crate::keeper::{self, Care};
use crate::link::{self, Descriptors, Link, Socket};
use crate::shared::Shared;
use crate::slots::{Sink, Slots, Times};
use crate::state::State;
use crate::{
    ConnectOptions, Connecting, Error, Facts, FieldList, Kind, Patience, Version, connect,
};

/// Requests that wait to leave together leave when they have this many bytes.
const GATHERED: usize = 16 * 1024;

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
    /// Whether the clock is read when something comes, for [`Exchange::times`].
    pub timed: bool,
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

/// A connection that is ready.
pub(crate) struct Ready {
    pub(crate) socket: Socket,
    pub(crate) link: Link,
    pub(crate) slots: Slots,
    pub(crate) facts: Facts,
    pub(crate) proxy_fields: Option<FieldList>,
}

impl Connection {
    /// Connects, and shakes hands.
    pub fn connect(options: &ConnectOptions, patience: &mut dyn Patience) -> Result<Self, Error> {
        Connecting::begin(options.clone())?.finish(patience)
    }

    /// One that is ready.
    pub(crate) fn made(ready: Ready, options: &ConnectOptions) -> Result<Self, Error> {
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
        let connection = Self::new(ready, scheme, authority, options.driven, options.streams)?;
        connection.shared.keep();
        Ok(connection)
    }

    /// A connection without a socket: its bytes go through [`Self::receive`] and [`Self::output`].
    pub fn memory(version: Version, scheme: &str, authority: &str) -> Result<Self, Error> {
        if version == Version::H3 {
            let message = "HTTP/3 needs a UDP socket: a connection in memory speaks h1 or h2";
            return Err(Error::new(Kind::Local, message));
        }
        let now = Instant::now();
        let config = Arc::new(connect::stream_config(&[version], None));
        let mut stream = Stream::new(config, now);
        stream
            .connected(now)
            .map_err(|over| link::failure(over, None))?;
        let ready = Ready {
            socket: Socket::None,
            link: Link::Stream(Box::new(stream)),
            slots: Slots::default(),
            facts: Facts::default(),
            proxy_fields: None,
        };
        let scheme = if scheme == "https" { "https" } else { "http" };
        Self::new(ready, scheme, authority.to_owned(), true, None)
    }

    pub(crate) fn new(
        ready: Ready,
        scheme: &'static str,
        authority: String,
        driven: bool,
        streams: Option<u32>,
    ) -> Result<Self, Error> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Error::new(Kind::Connect, format!("no more descriptors: {error}")))?;
        let mut state = State {
            unsettled: streams.is_none() && ready.link.awaits_settings(),
            held: VecDeque::new(),
            link: ready.link,
            slots: ready.slots,
            descriptors: Arc::new(Descriptors {
                socket: ready.socket,
                bell: Some(bell),
            }),
            leading: false,
            sleeping: false,
            sleeping_until: None,
            care: Care::new(driven),
            followers: VecDeque::new(),
            failure: None,
            doubt: None,
        };
        state.flush();
        Ok(Self {
            shared: Arc::new(Shared {
                version: state.link.version(),
                state: Mutex::new(state),
                scheme,
                authority,
                token: keeper::token(),
                process: process::id(),
                facts: Arc::new(ready.facts),
                proxy_fields: ready.proxy_fields,
            }),
        })
    }

    /// The version that was agreed on.
    pub fn version(&self) -> Version {
        self.shared.version
    }

    /// What is known of it from its making on. It outlives the connection.
    pub fn facts(&self) -> &Arc<Facts> {
        &self.shared.facts
    }

    /// The fields of the answer by which a proxy made the tunnel; `None` without one.
    pub fn proxy_fields(&self) -> Option<&FieldList> {
        self.shared.proxy_fields.as_ref()
    }

    /// Whether no other thread is at work on the connection just now, so that what does not wait
    /// for the socket will not wait at all.
    pub fn is_free(&self) -> bool {
        self.shared.try_lock().is_some()
    }

    /// How many more requests should be handed to [`Self::submit`] now: none while the connection
    /// [is silent](Self::is_silent).
    pub fn capacity(&self) -> usize {
        let mut state = self.shared.lock();
        if state.failure.is_some() || state.is_silent() {
            return 0;
        }
        state.capacity()
    }

    /// Whether a request was given up while nothing came from the peer, which has not answered a PING
    /// since: the way to it may be cut without either end having learnt of it.
    pub fn is_silent(&self) -> bool {
        self.shared.lock().is_silent()
    }

    /// Requests whose response is not complete.
    pub fn outstanding(&self) -> usize {
        self.shared.lock().outstanding()
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
        let (upload, length) = match &submission.content {
            Content::Whole(bytes) => (false, bytes.len() as u64),
            _ => (true, 0),
        };
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
        let times = submission.timed.then(|| Box::new(Times::begin(length)));
        let streamed_length = request.streamed_length();
        let id = match state.submit(request, slot) {
            Ok(id) => id,
            Err(refused) => {
                state.slots.cancel_reservation(slot);
                return Err(self::refused(refused));
            }
        };
        state.slots.open(slot, id.map(|id| id.number), times);
        if upload {
            state.slots.expect_upload(slot, streamed_length);
        }
        let now = match submission.flush {
            Flush::Now => true,
            Flush::Soon => {
                let at_once =
                    state.outstanding() == 1 || state.sleeping || state.link.gathered() >= GATHERED;
                // QUIC has timers that run whether or not somebody waits.
                let alone =
                    (at_once && shared.version != Version::H3) || !shared.look_after(&mut state);
                at_once || alone
            }
            Flush::Later => {
                state.care.driven = true;
                false
            }
        };
        if now {
            state.flush();
            shared.ring_if_needed(&mut state);
        }
        drop(state);
        Ok(Exchange::new(self.clone(), slot))
    }

    /// Whether an idle connection can still be used: looks at the socket without waiting.
    pub fn is_alive(&self) -> bool {
        if !self.shared.is_ours() {
            return false;
        }
        let mut state = self.shared.lock();
        if !state.leading {
            state.turn(true);
            state.flush();
        }
        state.failure.is_none() && !state.link.is_closing()
    }

    /// Says goodbye and closes, the descriptors too, whoever still holds an exchange; what is outstanding
    /// fails. May be called again. Who has an event loop wait for [`Self::fileno`] ends that first.
    pub fn close(&self) {
        let Some(mut state) = self.shared.lock_unless_lost() else {
            return;
        };
        match &state.failure {
            // A process that was forked from this one may have the socket too: the peer is not to wait for
            // it. One that broke rules is being told so.
            Some(failure) if failure.kind == Kind::Closed && self.shared.is_ours() => {
                state.descriptors.socket.shut();
            }
            Some(_) => (),
            None => self
                .shared
                .end(&mut state, "the connection was closed here"),
        }
        self.shared.let_go(&mut state);
    }

    /// The peer's limits, as far as they are known.
    pub fn settings(&self) -> Vec<(&'static str, u64)> {
        self.shared.lock().link.settings()
    }

    /// The descriptor that an event loop waits for. `None` in memory, and once it was closed.
    pub fn fileno(&self) -> Option<RawFd> {
        self.shared.lock().descriptors.socket.raw()
    }

    /// Does what there is to do without waiting, and appends the tokens of the exchanges whose
    /// watched state has come.
    pub fn drive(&self, ready: &mut Vec<u32>) {
        let mut state = self.shared.lock();
        state.care.driven = true;
        state.turn(true);
        state.flush();
        ready.append(&mut state.slots.ready);
        // A thread that polls the socket would not learn of what was read here.
        if state.sleeping {
            state.descriptors.ring();
        }
    }

    /// Writes what there is, as far as the socket takes it.
    pub fn flush(&self) {
        let mut state = self.shared.lock();
        state.flush();
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
        let now = Instant::now();
        slots.heard = Some(now);
        let result = link
            .receive(now, &mut bytes.to_vec(), &mut Sink(slots))
            .map(|_| ())
            .map_err(|over| link::failure(over, None));
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
            let error = link::eof(link, None, slots);
            state.over(error);
        }
    }

    /// What a connection in memory has to send.
    pub fn output(&self) -> Vec<u8> {
        let mut state = self.shared.lock();
        state.settle();
        let mut output = Vec::new();
        if let Link::Stream(link) = &mut state.link {
            while let Ok(bytes @ [_, ..]) = link.transmit() {
                let length = bytes.len();
                output.extend_from_slice(bytes);
                link.sent(length);
            }
        }
        output
    }
}

pub(crate) fn refused(refused: Refused) -> Error {
    let kind = match refused {
        Refused::Full => Kind::Full,
        Refused::Draining | Refused::Exhausted => Kind::Closed,
        Refused::TooLarge { .. } => Kind::Local,
        Refused::NoConnectProtocol => Kind::Version,
    };
    Error::new(kind, refused.to_string()).unsent()
}
