//! Who looks after a connection while nobody waits for it.
//!
//! A caller may send requests and turn to something else. Their bytes must leave all the same, the
//! peer's PINGs and SETTINGS want answers and QUIC has timers. One thread for all connections of the
//! process does this. It visits a connection a moment after a request was left to it, and again as
//! long as responses are due. Where none is, it waits for the socket by epoll and for QUIC's next
//! timer, so that an idle connection costs nothing until its peer says something.

use std::collections::{BTreeSet, HashMap};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::process;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use trilane_socket::Lingering;

use crate::shared::Shared;

/// Requests that are sent one after the other leave together: the first waits this long.
pub(crate) const FLUSH_AFTER: Duration = Duration::from_millis(1);
/// How often a connection is visited on which a response is due.
pub(crate) const VISIT_EVERY: Duration = Duration::from_millis(20);
/// How often one is looked at that threads attend to: it may have become idle.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Sockets that epoll tells of at once.
const EVENTS: usize = 64;
/// The token of the bell. Those of connections begin with 1.
const BELL: u64 = 0;
/// Connections of which the dead are not looked for.
const FEW: usize = 64;
/// Connections that have failed and are kept, for a moment, so that their peers learn why.
const MOST_LINGERING: usize = 64;
/// Forks of forks that have a keeper; in those beyond, requests leave at once.
const GENERATIONS: usize = 32;

/// One for each process from the first that had one down to this: a fork inherits the list without
/// the thread, and perhaps its lock without the one who holds it.
static KEEPERS: [Entry; GENERATIONS] = [const { Entry::new() }; GENERATIONS];

/// The keeper of one process.
struct Entry {
    /// Whose it is; 0 where it is nobody's.
    process: AtomicU32,
    /// Made when first needed. None where there can be none.
    keeper: OnceLock<Option<Arc<Keeper>>>,
}

/// What the thread shares with those who call it.
pub(crate) struct Keeper {
    epoll: OwnedFd,
    /// Wakes the thread.
    bell: OwnedFd,
    agenda: Mutex<Agenda>,
}

#[derive(Default)]
struct Agenda {
    connections: HashMap<u64, Weak<Shared>>,
    /// Connections that have failed, and have said so.
    lingering: HashMap<u64, Lingering>,
    /// When to visit which. The connection knows whether it still counts.
    visits: BTreeSet<(Instant, u64)>,
    /// When the thread looks here again though nobody rings; `None` for never.
    wakes: Option<Instant>,
    /// How many connections there may be before those that are no more are taken out.
    crowd: usize,
}

/// What a connection knows of its keeper. It is under the connection's lock.
#[derive(Debug, Default)]
pub(crate) struct Care {
    /// Whether an event loop drives the connection. The keeper leaves it alone then.
    pub(crate) driven: bool,
    /// Whether a caller has left something to the keeper since its last visit.
    pub(crate) asked: bool,
    /// When the next visit is.
    pub(crate) next: Option<Instant>,
    listed: bool,
    /// Whether epoll knows the socket.
    registered: bool,
}

impl Care {
    pub(crate) fn new(driven: bool) -> Self {
        Self {
            driven,
            ..Self::default()
        }
    }
}

/// A number that no other connection has.
pub(crate) fn token() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(BELL);
    LAST.fetch_add(1, Relaxed) + 1
}

/// Has the connection visited after so long, or a moment later. False where there can be no thread
/// for it.
pub(crate) fn look_after(connection: &Arc<Shared>, care: &mut Care, after: Duration) -> bool {
    let now = Instant::now();
    let soon = now + after.max(VISIT_EVERY);
    if care.next.is_some_and(|next| next <= soon) {
        return true;
    }
    let Some(keeper) = keeper() else {
        return false;
    };
    let due = now + after;
    let mut agenda = keeper.lock();
    if !care.listed {
        agenda.list(connection);
        care.listed = true;
    }
    agenda.visits.insert((due, connection.token));
    care.next = Some(due);
    let sleeps_on = agenda.wakes.is_none_or(|wakes| due < wakes);
    drop(agenda);
    if sleeps_on {
        keeper.ring();
    }
    true
}

/// Takes the socket out of this process's epoll: closing it would not, where a fork has it too. Takes
/// no lock.
pub(crate) fn forget(care: &mut Care, socket: impl AsFd) {
    if !care.registered {
        return;
    }
    care.registered = false;
    let process = process::id();
    let mine = |entry: &&Entry| entry.process.load(Relaxed) == process;
    if let Some(Some(keeper)) = KEEPERS.iter().find(mine).and_then(|one| one.keeper.get()) {
        // A socket that is not in there need not be taken out.
        let _ = epoll::delete(&keeper.epoll, socket);
    }
}

/// Sends what is `unsent` of a connection that has failed, and discards what its peer still sends, for
/// a moment. Where there is no keeper, or where it has too many of them, the peer may not learn why.
pub(crate) fn linger(socket: impl AsFd, unsent: Vec<u8>) {
    // A descriptor of its own: the caller closes the other.
    let lingering = fcntl_dupfd_cloexec(socket, 0)
        .ok()
        .and_then(|socket| Lingering::new(socket, unsent, Instant::now()));
    let Some(lingering) = lingering else {
        return;
    };
    let Some(keeper) = keeper() else {
        return;
    };
    let token = token();
    let mut agenda = keeper.lock();
    if agenda.lingering.len() < MOST_LINGERING {
        let until = lingering.until();
        agenda.visits.insert((until, token));
        let sleeps_on = agenda.wakes.is_none_or(|wakes| until < wakes);
        keeper.keep_lingering(&mut agenda, token, lingering);
        drop(agenda);
        if sleeps_on {
            keeper.ring();
        }
    }
}

/// The keeper of this process, with its thread.
fn keeper() -> Option<&'static Arc<Keeper>> {
    let process = process::id();
    let entry = KEEPERS.iter().find(|entry| entry.claim(process))?;
    entry.keeper.get_or_init(Keeper::start).as_ref()
}

impl Entry {
    const fn new() -> Self {
        Self {
            process: AtomicU32::new(0),
            keeper: OnceLock::new(),
        }
    }

    /// Whether this is the process's, which takes it where nobody has. No lock: there may be a fork
    /// at any moment.
    fn claim(&self, process: u32) -> bool {
        match self.process.compare_exchange(0, process, Relaxed, Relaxed) {
            Ok(_) => true,
            Err(owner) => owner == process,
        }
    }
}

impl Keeper {
    fn start() -> Option<Arc<Self>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        let data = epoll::EventData::new_u64(BELL);
        epoll::add(&epoll, &bell, data, epoll::EventFlags::IN).ok()?;
        let keeper = Arc::new(Self {
            epoll,
            bell,
            agenda: Mutex::default(),
        });
        let served = Arc::clone(&keeper);
        let thread = thread::Builder::new().name("trilane-keeper".into());
        thread.spawn(move || served.serve()).ok()?;
        Some(keeper)
    }

    fn lock(&self) -> MutexGuard<'_, Agenda> {
        self.agenda.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the thread visit the connection, once, when its socket has something. False where epoll
    /// cannot.
    pub(crate) fn watch(&self, care: &mut Care, socket: impl AsFd, token: u64) -> bool {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        let data = epoll::EventData::new_u64(token);
        let done = if care.registered {
            epoll::modify(&self.epoll, socket, data, flags)
        } else {
            epoll::add(&self.epoll, socket, data, flags)
        };
        care.registered = care.registered || done.is_ok();
        done.is_ok()
    }

    /// Wakes the thread.
    fn ring(&self) {
        // A bell that is full has rung.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Waits for the socket of a failed connection.
    fn keep_lingering(&self, agenda: &mut Agenda, token: u64, lingering: Lingering) {
        let data = epoll::EventData::new_u64(token);
        let mut flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        flags.set(epoll::EventFlags::OUT, lingering.wants_room());
        let fd = lingering.as_fd();
        // It is in there from the second time on.
        let done = epoll::modify(&self.epoll, fd, data, flags)
            .or_else(|_| epoll::add(&self.epoll, fd, data, flags));
        if done.is_ok() {
            agenda.lingering.insert(token, lingering);
        }
    }

    fn serve(&self) {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let mut visits = Vec::new();
        loop {
            let rest = self.lock().rest();
            match epoll::wait(&self.epoll, &mut events, rest.map(timespec).as_ref()) {
                Ok((ready, _)) => {
                    let tokens = ready.iter().map(|event| event.data.u64());
                    visits.extend(tokens.map(|token| (None, token)));
                }
                Err(Errno::INTR) => (),
                // Somebody has closed the descriptor. What has a time is done all the same.
                Err(_) => thread::sleep(rest.unwrap_or(LOOK_EVERY).min(LOOK_EVERY)),
            }
            let now = Instant::now();
            let mut agenda = self.lock();
            agenda.wakes = Some(now);
            while let Some((due, token)) = agenda.visits.pop_first() {
                if due > now {
                    agenda.visits.insert((due, token));
                    break;
                }
                visits.push((Some(due), token));
            }
            drop(agenda);
            for (due, token) in visits.drain(..) {
                self.visit(due, token);
            }
        }
    }

    fn visit(&self, due: Option<Instant>, token: u64) {
        if token == BELL {
            // Nothing to read: it is silent already.
            let _ = rustix::io::read(&self.bell, &mut [0; 8]);
            return;
        }
        let mut agenda = self.lock();
        if let Some(mut lingering) = agenda.lingering.remove(&token) {
            drop(agenda);
            if lingering.advance(Instant::now()) {
                self.keep_lingering(&mut self.lock(), token, lingering);
            } else {
                // Closing it would not take it out, where somebody else has the connection too.
                let _ = epoll::delete(&self.epoll, &lingering);
            }
            return;
        }
        let connection = agenda.connection(token);
        drop(agenda);
        // No lock of the keeper's is held here: this may be what ends the connection.
        let next = connection.and_then(|connection| connection.visit(due, self));
        if let Some(next) = next {
            self.lock().visits.insert((next, token));
        }
    }
}

impl Agenda {
    fn list(&mut self, connection: &Arc<Shared>) {
        if self.connections.len() >= self.crowd {
            self.connections.retain(|_, one| one.strong_count() > 0);
            self.crowd = (2 * self.connections.len()).max(FEW);
        }
        let weak = Arc::downgrade(connection);
        self.connections.insert(connection.token, weak);
    }

    fn connection(&mut self, token: u64) -> Option<Arc<Shared>> {
        let connection = self.connections.get(&token)?.upgrade();
        if connection.is_none() {
            self.connections.remove(&token);
        }
        connection
    }

    /// How long the thread may sleep now.
    fn rest(&mut self) -> Option<Duration> {
        self.wakes = self.visits.first().map(|&(due, _)| due);
        let due = self.wakes?;
        Some(due.saturating_duration_since(Instant::now()))
    }
}

fn timespec(rest: Duration) -> Timespec {
    Timespec {
        tv_sec: rest.as_secs() as i64,
        tv_nsec: rest.subsec_nanos().into(),
    }
}
