//! Servers of gRPC that calls go on to.
//!
//! A message passes as it is: its frame is never read here. Each worker has connections of its own to each
//! server, over HTTP/2: the first is made when a call needs it, more when the server allows no more streams
//! on those that there are. A call goes to the server of its service that has the fewest; one that no
//! server has processed, as is proved, goes to another.

mod answer;
pub mod backoff;
mod call;
mod content;
mod dial;
mod fields;
mod health;
mod limits;
mod meter;
mod peer;
mod pool;
mod process;
mod service;
mod status;

use std::{
    collections::HashMap,
    fmt,
    path::PathBuf,
    sync::{Arc, mpsc},
};

pub use limits::Limits;
pub(crate) use limits::TIMEOUT;
pub use process::InProcess;

use http::Request;
use tonic::body::Body;

use crate::{Error, caller, rpc::Calling};
use peer::Peer;
use service::Service;

pub(crate) use fields::{of_call, of_connect, of_rest, to_connect, to_rest};
pub(crate) use status::status_of;

/// The service by which a server tells how it fares.
const HEALTH: &str = "grpc.health.v1.Health";

/// A server of gRPC over HTTP/2, or several alike at the addresses of one name.
#[derive(Clone)]
pub struct Upstream {
    /// Where it listens.
    pub place: Place,
    /// TLS; `None` for HTTP/2 with prior knowledge. ALPN is set here.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// What it is called in requests (`:authority`) and, over TLS, in its certificate, where that is not
    /// the host of `place`.
    pub name: Option<String>,
    /// Full names of the services that are called there.
    pub services: Vec<String>,
}

/// Where an upstream listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// TCP.
    Host {
        /// Host name or address; an address of IPv6 without brackets. Calls are shared by all addresses
        /// that a name has.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// A Unix domain socket.
    Unix(PathBuf),
    /// This process.
    Process(InProcess),
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("place", &self.place)
            .field("tls", &self.tls.is_some())
            .field("name", &self.name)
            .field("services", &self.services)
            .finish()
    }
}

/// The upstreams of one worker, and which services they have.
pub(crate) struct Upstreams {
    peers: Vec<Way>,
    of: HashMap<Box<str>, Destination>,
    limits: Limits,
}

/// An upstream.
#[derive(Clone)]
enum Way {
    Peer(Arc<Peer>),
    Process(InProcess),
}

/// Where the methods of a service are called.
#[derive(Clone)]
pub(crate) enum Destination {
    Servers(Arc<Service>),
    Process(InProcess),
}

impl Upstreams {
    /// `ended` is told the number of an upstream when it has ended a connection.
    pub(crate) fn new(
        upstreams: &[Upstream],
        limits: Limits,
        ended: Option<&mpsc::Sender<usize>>,
    ) -> Result<Self, Error> {
        let peers = upstreams.iter().enumerate().map(|(number, upstream)| {
            if let Place::Process(service) = &upstream.place {
                return Ok(Way::Process(service.clone()));
            }
            let ended = ended.cloned();
            let tell = move || {
                if let Some(ended) = &ended {
                    // Whoever listened may have gone.
                    let _ = ended.send(number);
                }
            };
            Peer::new(upstream, limits, Arc::new(tell)).map(|peer| Way::Peer(Arc::new(peer)))
        });
        let peers = peers.collect::<Result<Vec<_>, _>>()?;
        let services = upstreams.iter().map(|upstream| &upstream.services[..]);
        Ok(Self {
            of: destinations(&peers, services, &limits),
            peers,
            limits,
        })
    }

    /// The same upstreams and their connections, with other services each.
    pub(crate) fn with_services(&self, services: &[Vec<String>]) -> Self {
        Self {
            of: destinations(
                &self.peers,
                services.iter().map(Vec::as_slice),
                &self.limits,
            ),
            peers: self.peers.clone(),
            limits: self.limits,
        }
    }

    /// Where the method of this path is called.
    pub(crate) fn find(&self, path: &str) -> Option<&Destination> {
        let (service, _) = path.strip_prefix('/')?.rsplit_once('/')?;
        self.of.get(service)
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }
}

impl Destination {
    /// Calls a method there: the request is one of gRPC, without what concerns a connection. The caller's place is
    /// kept until the call is over.
    pub(crate) fn call(&self, request: Request<Body>, place: caller::Place) -> Calling {
        match self {
            Self::Servers(service) => service.clone().call(request, place),
            Self::Process(service) => service.call(request),
        }
    }
}

fn destinations<'a>(
    ways: &[Way],
    services: impl Iterator<Item = &'a [String]>,
    limits: &Limits,
) -> HashMap<Box<str>, Destination> {
    let mut servers: HashMap<Box<str>, Vec<Arc<Peer>>> = HashMap::new();
    let mut all = HashMap::new();
    for (way, services) in ways.iter().zip(services) {
        for service in services {
            let name = service.as_str().into();
            match way {
                Way::Peer(peer) => servers.entry(name).or_default().push(peer.clone()),
                Way::Process(service) => {
                    all.insert(name, Destination::Process(service.clone()));
                }
            }
        }
    }
    // What a server says about itself.
    if let [Way::Peer(only)] = ways {
        servers
            .entry(HEALTH.into())
            .or_insert_with(|| vec![only.clone()]);
    }
    for (name, peers) in servers {
        let servers = Destination::Servers(Arc::new(Service::new(peers, limits)));
        // What is in this process has no way to fail.
        all.entry(name).or_insert(servers);
    }
    all
}
