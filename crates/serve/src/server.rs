//! Starting and stopping.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustls::ServerConfig;
use tokio::sync::{Semaphore, mpsc, watch};
use trilane_grpc::Schema;

use crate::{
    Config, Cost, Counts, Error, Forwarding, ServiceConfig,
    app::{self, App, Cors, Hosts},
    caller::{Connections, Crowded},
    certificate::Identity,
    cost::{self, Tally},
    library::Library,
    net::{self, Sockets},
    rest::Gateway,
    rpc::Rpc,
    services::Services,
    tcp, tls,
    upstream::Upstreams,
    worker::{Accept, Arrival, MAX_QUIC_CONNECTIONS, Signal, Worker},
};

/// More threads than this is a slip of the finger.
const MAX_THREADS: usize = 256;

/// A running server. Dropping it stops it at once; [`Server::stop`] is gentler.
pub struct Server {
    addresses: Addresses,
    tcp_congestion: Option<String>,
    authority: Option<PathBuf>,
    new_authority: bool,
    replaced_authority: bool,
    counts: Counts,
    signal: watch::Sender<Signal>,
    threads: Vec<JoinHandle<()>>,
    switch: Switch,
}

/// Changes which services of its upstreams a running server serves.
#[derive(Clone)]
pub struct Switch {
    apps: Vec<Arc<App>>,
    forwarding: Option<Forwarding>,
}

/// Where a server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// TCP, cleartext: HTTP/1.1, and HTTP/2 by prior knowledge.
    pub http: SocketAddr,
    /// TCP with TLS (HTTP/1.1, HTTP/2) and UDP with QUIC (HTTP/3).
    pub https: SocketAddr,
}

impl Server {
    /// Loads or makes the certificate, binds the sockets, and starts the worker threads. Requests
    /// are answered when this returns.
    pub fn start(config: Config) -> Result<Self, Error> {
        check(&config)?;
        // What cannot be served needs neither ports nor a certificate.
        let (alone, services) = match &config.forwarding {
            None => (false, Services::library()),
            Some(forwarding) => (forwarding.alone, Services::of(forwarding)?),
        };
        let for_clients = net::raise_file_limit();
        let descriptors = Arc::new(Semaphore::new(for_clients));
        let bounds = Bounds::new(&config, for_clients);
        // Who waits for the ports finds the certificate authority there.
        let identity = Identity::load(&config)?;
        let certified = identity.names();
        let sockets = Sockets::bind(&config)?;
        let addresses = Addresses {
            http: sockets.http.local_addr().map_err(Error::System)?,
            https: sockets.https.local_addr().map_err(Error::System)?,
        };
        let tcp_congestion = net::congestion_of(&sockets.https);
        let early_data = config.early_data;
        let tcp_tls = tls::tcp(identity.key.clone(), early_data)?;
        let quic = tls::quic(
            identity.key,
            config.streams,
            early_data,
            config.quic_congestion,
        )?;
        let (signal, watcher) = watch::channel(Signal::Serve);
        let listeners = [(sockets.http, None), (sockets.https, Some(tcp_tls))];
        let (accepts, queues) = deal(listeners, config.threads, &descriptors, bounds.tcp.as_ref());

        let library = (!alone).then(Library::new);
        let mut server = Self {
            addresses,
            tcp_congestion,
            authority: identity.authority,
            new_authority: identity.new_authority,
            replaced_authority: identity.replaced_authority,
            counts: Counts(Vec::with_capacity(config.threads)),
            signal,
            threads: Vec::with_capacity(config.threads + 1),
            switch: Switch {
                apps: Vec::with_capacity(config.threads),
                forwarding: config.forwarding.clone(),
            },
        };
        let (ready, started) = std::sync::mpsc::channel();
        let parts = queues.into_iter().zip(sockets.quic).zip(accepts);
        for (number, ((queue, udp), accepts)) in parts.enumerate() {
            let tally = Arc::new(Tally::default());
            server.counts.0.push(tally.clone());
            let calls = Rpc::new(
                library.clone(),
                upstreams(config.forwarding.as_ref())?,
                &services,
                watcher.clone(),
            )?;
            let app = App::new(
                addresses.https.port(),
                tally,
                Gateway::new(calls, services.clone()),
                alone,
                Hosts::new(&config.allow_hosts, &certified)?,
                Cors::new(&config.cors_origins)?,
                bounds.quic(),
            );
            server.switch.apps.push(app.clone());
            let worker = Worker {
                number,
                workers: config.threads,
                cpu: (!config.cpus.is_empty()).then(|| config.cpus[number % config.cpus.len()]),
                app,
                limit: config.keepalive_requests,
                early_data,
                retry: config.retry,
                builders: tcp::Builders::new(config.streams),
                queue,
                accepts,
                udp,
                quic: quic.clone(),
                signal: watcher.clone(),
            };
            let ready = ready.clone();
            server.spawn(format!("serve-{number}"), move || worker.run(&ready))?;
        }
        drop(ready);
        for result in started.iter().take(config.threads) {
            result?;
        }
        // Writing 3,000 books takes a moment; the first reader should not have to wait for it.
        server.spawn("serve-books".into(), app::prepare)?;
        Ok(server)
    }

    /// Starts a thread that [`Self::end`] waits for.
    fn spawn(&mut self, name: String, run: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let thread = thread::Builder::new().name(name).spawn(run);
        self.threads.push(thread.map_err(Error::System)?);
        Ok(())
    }

    /// The congestion control of connections over TCP by the kernel's name, unless a route has another.
    pub fn tcp_congestion(&self) -> Option<&str> {
        self.tcp_congestion.as_deref()
    }

    /// Where it listens, with the port numbers that were picked.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// The certificate authority to trust (PEM, absolute path); `None` when the certificate was
    /// given by [`Config::identity`].
    pub fn ca_path(&self) -> Option<&Path> {
        self.authority.as_deref()
    }

    /// The authority was made by this start: nobody trusts it yet.
    pub fn made_new_ca(&self) -> bool {
        self.new_authority
    }

    /// It was made in the place of another, which had to be renewed or could not sign for all
    /// names.
    pub fn replaced_ca(&self) -> bool {
        self.replaced_authority
    }

    /// What changes the services of upstreams.
    pub fn switch(&self) -> Switch {
        self.switch.clone()
    }

    /// Requests received so far.
    pub fn requests(&self) -> u64 {
        self.counts.requests()
    }

    /// What it counts, for whoever asks while it runs.
    pub fn counts(&self) -> Counts {
        self.counts.clone()
    }

    /// Stops accepting, tells the clients (GOAWAY, `connection: close`), waits up to `grace` for
    /// the requests in flight, and drops what is left.
    pub fn stop(mut self, grace: Duration) -> Cost {
        let drops = cost::udp_receive_drops(self.addresses.https.port());
        self.end(Signal::Leave(Instant::now() + grace));
        Cost::read(self.requests(), drops)
    }

    fn end(&mut self, signal: Signal) {
        self.signal.send_replace(signal);
        for thread in self.threads.drain(..) {
            // A worker that panicked has been reported by the panic itself.
            let _ = thread.join();
        }
    }
}

/// How many connections one caller may have.
struct Bounds {
    /// Those of all workers; `None` where there is no bound.
    tcp: Option<Arc<Connections>>,
    most: usize,
    crowded: Arc<Crowded>,
}

impl Bounds {
    fn new(config: &Config, for_clients: usize) -> Self {
        let crowded = Crowded::new(config.warn);
        let others = config.forwarding.as_ref().map(|_| for_clients.div_ceil(2));
        let most = config.connections_per_caller.or(others);
        Self {
            tcp: most.map(|most| Connections::new(most, crowded.clone())),
            most: most.unwrap_or(usize::MAX),
            crowded,
        }
    }

    /// Those of one worker.
    fn quic(&self) -> Option<Arc<Connections>> {
        let most = self.most.min(MAX_QUIC_CONNECTIONS / 2);
        let bounded = self.tcp.is_some();
        bounded.then(|| Connections::new(most, self.crowded.clone()))
    }
}

/// Whether a server can be made so.
fn check(config: &Config) -> Result<(), Error> {
    if !(1..=MAX_THREADS).contains(&config.threads) {
        return Err(Error::Config(format!(
            "{} threads: give a number from 1 to {MAX_THREADS}",
            config.threads
        )));
    }
    if config.streams == 0 || config.keepalive_requests == Some(0) {
        return Err(Error::Config(
            "streams and requests per connection must be at least 1".into(),
        ));
    }
    Ok(())
}

/// For each worker the listening sockets whose connections it accepts, and the queue by which it gets
/// those that are dealt to it. Accepting is little work; the two ports are spread over two workers where
/// there are two.
fn deal(
    listeners: [(TcpListener, Option<Arc<ServerConfig>>); 2],
    workers: usize,
    descriptors: &Arc<Semaphore>,
    connections: Option<&Arc<Connections>>,
) -> (Vec<Vec<Accept>>, Vec<mpsc::UnboundedReceiver<Arrival>>) {
    let (doors, queues): (Vec<_>, Vec<_>) = (0..workers).map(|_| mpsc::unbounded_channel()).unzip();
    let mut accepts: Vec<Vec<Accept>> = (0..workers).map(|_| Vec::new()).collect();
    for (number, (listener, tls)) in listeners.into_iter().enumerate() {
        accepts[number % workers].push(Accept {
            listener,
            tls,
            doors: doors.clone(),
            descriptors: descriptors.clone(),
            connections: connections.cloned(),
        });
    }
    (accepts, queues)
}

/// One worker's connections to the servers that calls go on to.
fn upstreams(forwarding: Option<&Forwarding>) -> Result<Upstreams, Error> {
    let upstreams = forwarding.map_or(&[][..], |to| &to.upstreams);
    let limits = forwarding.map(|to| to.limits).unwrap_or_default();
    let ended = forwarding.and_then(|to| to.ended.as_ref());
    Upstreams::new(upstreams, limits, ended)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end(Signal::Leave(Instant::now()));
    }
}

impl Switch {
    /// Puts other services in the place of those that upstreams had: `names` has those of each, in the
    /// order of [`Forwarding::upstreams`](crate::Forwarding::upstreams), `schema` describes them, and `config` has
    /// rules for them. Requests that have begun go on as they were, and connections stay. Where this fails, so do the
    /// services.
    pub fn put(
        &self,
        schema: &Schema,
        names: &[Vec<String>],
        config: &ServiceConfig,
    ) -> Result<(), Error> {
        let Some(mut forwarding) = self.forwarding.clone() else {
            return Err(Error::Config("this server has no upstreams".into()));
        };
        forwarding.schema = schema.clone();
        forwarding.config = config.clone();
        for (upstream, names) in forwarding.upstreams.iter_mut().zip(names) {
            upstream.services.clone_from(names);
        }
        let services = Services::of(&forwarding)?;
        let mut ways = Vec::with_capacity(self.apps.len());
        for app in &self.apps {
            let gateway = app.gateway();
            let rpc = gateway.rpc().with_services(&services, names)?;
            ways.push(gateway.with_services(rpc, services.clone()));
        }
        for (app, way) in self.apps.iter().zip(ways) {
            app.put_gateway(way);
        }
        Ok(())
    }
}

impl Addresses {
    /// Such as `http://127.0.0.1:8080/`.
    pub fn http_url(&self) -> String {
        format!("http://{}/", reachable(self.http))
    }

    /// Such as `https://127.0.0.1:8443/`.
    pub fn https_url(&self) -> String {
        format!("https://{}/", reachable(self.https))
    }
}

/// Nobody can connect to "any address"; loopback is one of them.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, address.port())
}
