//! One server: the connections to it, and how it fares.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
    time::{Instant, timeout_at},
};
use tonic::Status;

use super::{
    backoff,
    dial::{Address, Dial, Driver, MAX_STREAMS},
    health::Health,
    limits::Limits,
};

/// How long a call waits for one of the streams that a server allows.
const PATIENCE: Duration = Duration::from_secs(30);
/// A connection that has had no call for so long is closed, unless it is the only one.
const IDLE: Duration = Duration::from_secs(60);

/// A server at one address. All that is in it belongs to one worker thread; it is made of atomics and
/// locks because the runtime's tasks have to be `Send`.
pub(super) struct Server {
    pub(super) dial: Arc<Dial>,
    address: Address,
    pub(super) limits: Limits,
    /// Told when a connection has ended that was not ended here, and when one is there again.
    ended: Arc<dyn Fn() + Send + Sync>,
    /// Calls that are there, or wait to be.
    open: AtomicUsize,
    waiting: AtomicUsize,
    /// A stream has ended, or a connection.
    room: Notify,
    state: Mutex<State>,
    health: watch::Sender<Health>,
}

#[derive(Default)]
struct State {
    links: Vec<Arc<Link>>,
    /// What comes of the connection that is being made.
    making: Option<watch::Receiver<Option<Result<(), Status>>>>,
    /// Attempts to connect that have failed since the last that did not.
    failures: u32,
    /// When the next may be made.
    rests_until: Option<Instant>,
    /// A connection has ended, or failed, since the last was made.
    was_lost: bool,
    asking: Option<AbortHandle>,
}

/// One connection, which ends when the last of these and of its streams is dropped.
struct Link {
    sender: SendRequest<Bytes>,
    open: AtomicUsize,
    /// It takes no more requests.
    has_ended: Arc<AtomicBool>,
    idle_since: Mutex<Instant>,
}

/// Whether a server should be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Ready,
    /// It has not said yet whether it serves.
    Unknown,
    /// The last attempt to connect has failed.
    Failing,
    /// It says that it does not serve.
    Unfit,
}

/// A place for one call on a connection, until it is dropped.
pub(super) struct Slot {
    server: Arc<Server>,
    link: Arc<Link>,
    _load: Load,
}

/// Counts as a call of a server's until it is dropped.
pub(super) struct Load(Arc<Server>);

/// Counts as waiting for a stream until it is dropped.
struct Queued<'a>(&'a Server);

enum Next {
    Take(Arc<Link>),
    Join(watch::Receiver<Option<Result<(), Status>>>),
    Full,
}

impl Server {
    pub(super) fn new(
        dial: Arc<Dial>,
        address: Address,
        limits: Limits,
        ended: Arc<dyn Fn() + Send + Sync>,
    ) -> Arc<Self> {
        let health = match limits.health {
            true => Health::Unknown,
            false => Health::Fit,
        };
        Arc::new(Self {
            dial,
            address,
            limits,
            ended,
            open: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            room: Notify::new(),
            state: Mutex::default(),
            health: watch::Sender::new(health),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn label(&self) -> String {
        self.dial.label_of(&self.address)
    }

    /// Counts as one of its calls.
    pub(super) fn hold(self: &Arc<Self>) -> Load {
        self.open.fetch_add(1, Relaxed);
        Load(self.clone())
    }

    /// Calls that are there now.
    pub(super) fn load(&self) -> usize {
        self.open.load(Relaxed)
    }

    pub(super) fn set_health(&self, health: Health) {
        self.health.send_replace(health);
    }

    pub(super) fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    /// Whether it should be called. One that failed is tried again here when it has rested, without a
    /// call that would have to wait for that.
    pub(super) fn standing(self: &Arc<Self>, now: Instant) -> Standing {
        let mut state = self.state();
        if state.failures > 0 && state.links.is_empty() {
            if state.making.is_none() && !state.rests(now) {
                self.make(&mut state);
            }
            return Standing::Failing;
        }
        match *self.health.borrow() {
            Health::Fit => Standing::Ready,
            Health::Unknown => Standing::Unknown,
            Health::Unfit => Standing::Unfit,
        }
    }

    /// When one that fails may be tried again.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        self.state().rests_until
    }

    fn is_connected(&self) -> bool {
        let state = self.state();
        state.links.iter().any(|link| !link.has_ended.load(Relaxed))
    }

    /// Remembers what asks for its health.
    pub(super) fn asks_by(&self, asking: AbortHandle) {
        self.state().asking = Some(asking);
    }

    /// Its upstream does not have the address any more: calls that are there may end.
    pub(super) fn leave(&self) {
        let mut state = self.state();
        if let Some(asking) = state.asking.take() {
            asking.abort();
        }
        for link in state.links.drain(..) {
            link.has_ended.store(true, Relaxed);
        }
    }

    /// A place on a connection: on one that there is, else on a new one, else when a stream ends.
    pub(super) async fn place(self: &Arc<Self>) -> Result<Slot, Status> {
        let load = self.hold();
        let link = match self.next() {
            Next::Take(link) => link,
            _ => self.wait().await?,
        };
        Ok(Slot {
            server: self.clone(),
            link,
            _load: load,
        })
    }

    /// A connection that has room, when there is one.
    async fn wait(self: &Arc<Self>) -> Result<Arc<Link>, Status> {
        let mut queued = None;
        let mut deadline = None;
        loop {
            // Before the look, lest what happens between that and the wait be missed.
            let freed = self.room.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            match self.next() {
                Next::Take(link) => return Ok(link),
                Next::Join(mut making) => {
                    let made = making.wait_for(Option::is_some).await;
                    let made = made.map(|made| made.clone());
                    // The sender goes without a word only where the runtime ends.
                    let gone = || Err(Status::unavailable("the gateway stops"));
                    match made.ok().flatten().unwrap_or_else(gone) {
                        // There are others, if not with room.
                        Err(_) if self.is_connected() => {}
                        made => made?,
                    }
                }
                Next::Full => {
                    if queued.is_none() {
                        queued = Some(Queued::new(self)?);
                    }
                    let until = *deadline.get_or_insert_with(|| Instant::now() + PATIENCE);
                    let in_time = timeout_at(until, freed).await;
                    in_time.map_err(|_| self.has_no_room())?;
                }
            }
        }
    }

    fn has_no_room(&self) -> Status {
        Status::unavailable(format!(
            "{} has let no more streams be opened for {} s: it allows few, and there are {} \
             connections at most",
            self.label(),
            PATIENCE.as_secs(),
            self.limits.connections
        ))
    }

    fn next(self: &Arc<Self>) -> Next {
        let mut state = self.state();
        state.links.retain(|link| !link.has_ended.load(Relaxed));
        if state.links.len() > 1 {
            let now = Instant::now();
            let mut is_first = true;
            state.links.retain(|link| {
                let is_kept = is_first || !link.is_idle_since(now - IDLE);
                is_first = false;
                // What is dropped says good-bye by itself.
                link.has_ended.fetch_or(!is_kept, Relaxed);
                is_kept
            });
        }
        // The first that has room, so that the others become idle when there is less to do.
        if let Some(link) = state.links.iter().find(|link| link.has_room()) {
            link.open.fetch_add(1, Relaxed);
            return Next::Take(link.clone());
        }
        if let Some(making) = &state.making {
            return Next::Join(making.clone());
        }
        // Another is of use only where the last attempt has not just failed.
        let is_full = state.links.len() >= self.limits.connections;
        let rests = !state.links.is_empty() && state.rests(Instant::now());
        match is_full || rests {
            true => Next::Full,
            false => Next::Join(self.make(&mut state)),
        }
    }

    /// Begins to connect, in a task of its own: whoever wanted it may go.
    fn make(self: &Arc<Self>, state: &mut State) -> watch::Receiver<Option<Result<(), Status>>> {
        let (told, making) = watch::channel(None);
        state.making = Some(making.clone());
        let server = self.clone();
        tokio::spawn(async move {
            let made = server.dial.connect(&server.address).await;
            let made = made.map(|(sender, driver)| {
                let link = Link::new(sender);
                tokio::spawn(server.clone().drive(link.has_ended.clone(), driver));
                Arc::new(link)
            });
            let mut state = server.state();
            state.making = None;
            let mut is_back = false;
            let outcome = match made {
                Ok(link) => {
                    is_back = std::mem::take(&mut state.was_lost);
                    state.links.push(link);
                    state.failures = 0;
                    state.rests_until = None;
                    Ok(())
                }
                Err(status) => {
                    state.was_lost = true;
                    state.failures = state.failures.saturating_add(1);
                    state.rests_until = Instant::now().checked_add(backoff::after(state.failures));
                    Err(status)
                }
            };
            drop(state);
            told.send_replace(Some(outcome));
            server.room.notify_waiters();
            if is_back {
                (server.ended)();
            }
        });
        making
    }

    /// Carries a connection on, and tells when it has ended.
    async fn drive(self: Arc<Self>, has_ended: Arc<AtomicBool>, driver: Driver) {
        driver.await;
        let was_ours = has_ended.swap(true, Relaxed);
        let is_other = |link: &Arc<Link>| !Arc::ptr_eq(&link.has_ended, &has_ended);
        self.state().links.retain(is_other);
        self.room.notify_waiters();
        if !was_ours {
            self.lose();
        }
    }

    /// A connection has ended that was not ended here.
    fn lose(&self) {
        self.state().was_lost = true;
        (self.ended)();
    }
}

impl State {
    fn rests(&self, now: Instant) -> bool {
        self.rests_until.is_some_and(|until| now < until)
    }
}

impl Link {
    fn new(sender: SendRequest<Bytes>) -> Self {
        Self {
            sender,
            open: AtomicUsize::new(0),
            has_ended: Arc::default(),
            idle_since: Mutex::new(Instant::now()),
        }
    }

    fn has_room(&self) -> bool {
        let most = self.sender.current_max_send_streams().min(MAX_STREAMS);
        self.open.load(Relaxed) < most
    }

    fn idle(&self) -> MutexGuard<'_, Instant> {
        self.idle_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn is_idle_since(&self, then: Instant) -> bool {
        self.open.load(Relaxed) == 0 && *self.idle() < then
    }
}

impl Slot {
    pub(super) fn sender(&self) -> SendRequest<Bytes> {
        self.link.sender.clone()
    }

    pub(super) fn label(&self) -> String {
        self.server.label()
    }

    /// The connection takes no more requests, as it has said (GOAWAY) or as its end shows.
    pub(super) fn retire(&self) {
        if !self.link.has_ended.swap(true, Relaxed) {
            self.server.lose();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.link.open.fetch_sub(1, Relaxed) == 1 {
            *self.link.idle() = Instant::now();
        }
        if self.server.waiting.load(Relaxed) > 0 {
            self.server.room.notify_one();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

impl<'a> Queued<'a> {
    fn new(server: &'a Server) -> Result<Self, Status> {
        let most = server.limits.waiting;
        if server.waiting.fetch_add(1, Relaxed) >= most {
            server.waiting.fetch_sub(1, Relaxed);
            return Err(Status::resource_exhausted(format!(
                "{most} calls wait for a stream to {} already",
                server.label()
            )));
        }
        Ok(Self(server))
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}
