//! One upstream: the servers at all of its addresses.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    net::lookup_host,
    sync::watch,
    time::{Instant, timeout},
};
use tonic::Status;

use super::{
    Place, Upstream,
    dial::{Address, CONNECT_TIMEOUT, Dial},
    health,
    limits::Limits,
    pool::Server,
};
use crate::Error;

/// A name is not looked up again before so long, as in gRPC's clients.
const REFRESH: Duration = Duration::from_secs(30);
/// A look-up that failed is repeated after so long at the earliest.
const RETRY: Duration = Duration::from_secs(1);

type Servers = Arc<[Arc<Server>]>;

/// One upstream, of one worker.
pub(super) struct Peer {
    place: Place,
    dial: Arc<Dial>,
    limits: Limits,
    ended: Arc<dyn Fn() + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those of the last look-up that did not fail.
    servers: Option<Servers>,
    /// When the name may be looked up again.
    fresh_until: Option<Instant>,
    looking: Option<watch::Receiver<Option<Result<Servers, Status>>>>,
    /// What the last look-up said, if it failed.
    failure: Option<Status>,
}

impl State {
    fn is_fresh(&self) -> bool {
        self.fresh_until.is_some_and(|until| Instant::now() < until)
    }
}

impl Peer {
    pub(super) fn new(
        upstream: &Upstream,
        limits: Limits,
        ended: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Self, Error> {
        Ok(Self {
            place: upstream.place.clone(),
            dial: Arc::new(Dial::new(upstream)?),
            limits,
            ended,
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The servers, as far as they are known; a name that has not been looked up is, from now on.
    pub(super) fn known(self: &Arc<Self>) -> Servers {
        let mut state = self.state();
        if let Some(servers) = &state.servers {
            return servers.clone();
        }
        if let Some(address) = self.fixed() {
            return self.put(&mut state, vec![address]);
        }
        if !state.is_fresh() {
            self.look(&mut state);
        }
        Servers::default()
    }

    /// The servers, when they are known.
    pub(super) async fn servers(self: &Arc<Self>) -> Result<Servers, Status> {
        let known = self.known();
        if !known.is_empty() {
            return Ok(known);
        }
        let mut looking = {
            let mut state = self.state();
            match (&state.looking, &state.failure) {
                (Some(looking), _) => looking.clone(),
                (None, Some(status)) => return Err(status.clone()),
                (None, None) => self.look(&mut state),
            }
        };
        let found = looking.wait_for(Option::is_some).await;
        let found = found.ok().and_then(|found| found.clone());
        // The sender goes without a word only where the runtime ends.
        found.unwrap_or_else(|| Err(Status::unavailable("the gateway stops")))
    }

    /// Looks a name up again, beside the calls: a server of it has failed, and others may have taken its
    /// place.
    pub(super) fn refresh(self: &Arc<Self>) {
        let mut state = self.state();
        let is_due = state
            .fresh_until
            .is_some_and(|until| until <= Instant::now());
        if is_due && state.looking.is_none() {
            self.look(&mut state);
        }
    }

    /// The address of an upstream that has no name.
    fn fixed(&self) -> Option<Address> {
        match &self.place {
            Place::Unix(path) => Some(Address::Unix(path.clone())),
            Place::Process(_) => None,
            Place::Host { host, port } => {
                let ip: IpAddr = host.parse().ok()?;
                Some(Address::Tcp(SocketAddr::new(ip, *port)))
            }
        }
    }

    /// Begins to look the name up, or joins those who wait for that.
    fn look(
        self: &Arc<Self>,
        state: &mut State,
    ) -> watch::Receiver<Option<Result<Servers, Status>>> {
        if let Some(looking) = &state.looking {
            return looking.clone();
        }
        let (told, looking) = watch::channel(None);
        state.looking = Some(looking.clone());
        let peer = self.clone();
        tokio::spawn(async move {
            let found = peer.addresses().await;
            let mut state = peer.state();
            state.looking = None;
            let now = Instant::now();
            let outcome = match found {
                Ok(addresses) => {
                    state.failure = None;
                    state.fresh_until = Some(now + REFRESH);
                    Ok(peer.put(&mut state, addresses))
                }
                Err(reason) => {
                    let label = &peer.dial.label;
                    let status =
                        Status::unavailable(format!("{label} cannot be reached: {reason}"));
                    state.failure = Some(status.clone());
                    state.fresh_until = Some(now + RETRY);
                    Err(status)
                }
            };
            drop(state);
            told.send_replace(Some(outcome));
        });
        looking
    }

    async fn addresses(&self) -> Result<Vec<Address>, String> {
        let Place::Host { host, port } = &self.place else {
            return Ok(Vec::new());
        };
        let found = timeout(CONNECT_TIMEOUT, lookup_host((host.as_str(), *port))).await;
        let found = match found {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => {
                let limit = CONNECT_TIMEOUT.as_secs();
                return Err(format!("its name has no answer within {limit} s"));
            }
        };
        let mut addresses: Vec<_> = found.map(Address::Tcp).collect();
        let mut seen = Vec::new();
        addresses.retain(|address| {
            let is_new = !seen.contains(address);
            seen.push(address.clone());
            is_new
        });
        match addresses.is_empty() {
            true => Err("its name has no address".into()),
            false => Ok(addresses),
        }
    }

    /// Puts servers at these addresses in the place of those before: one whose address stays, stays.
    fn put(&self, state: &mut State, addresses: Vec<Address>) -> Servers {
        let before = state.servers.take().unwrap_or_default();
        let servers: Servers = addresses
            .iter()
            .map(|address| {
                let known = before.iter().find(|server| server.address() == address);
                known.cloned().unwrap_or_else(|| {
                    let (dial, ended) = (self.dial.clone(), self.ended.clone());
                    let server = Server::new(dial, address.clone(), self.limits, ended);
                    if self.limits.health {
                        health::ask(&server);
                    }
                    server
                })
            })
            .collect();
        for server in before.iter() {
            if !addresses.contains(server.address()) {
                server.leave();
            }
        }
        state.servers = Some(servers.clone());
        servers
    }
}
