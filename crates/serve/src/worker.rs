//! One thread, one event loop, its share of the connections.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::{Arc, mpsc as std_mpsc},
    time::{Duration, Instant},
};

use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};
use quinn::{
    ConnectionId, ConnectionIdGenerator, Endpoint, EndpointConfig, Runtime as _, TokioRuntime,
    VarInt,
};
use rustls::{ServerConfig, crypto::aws_lc_rs};
use tokio::{
    runtime,
    sync::{Semaphore, mpsc, watch},
    time,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    Error,
    app::App,
    caller::{Connections, Share},
    connection::{Connection, HANDSHAKE_TIMEOUT, Tls},
    h3,
    tcp::{self, EarlyTls},
};

/// QUIC connections per worker. TCP has the limit on open files; UDP needs its own.
pub(crate) const MAX_QUIC_CONNECTIONS: usize = 1 << 14;
/// How long a listener rests when the process is out of file descriptors.
const ACCEPT_REST: Duration = Duration::from_millis(50);
/// How long the last packets of closed QUIC connections may take.
const FAREWELL: Duration = Duration::from_millis(200);
const CONNECTION_ID_BYTES: usize = 8;

/// What the workers are to do.
#[derive(Clone, Copy)]
pub(crate) enum Signal {
    Serve,
    /// Finish what is in flight, but leave by then.
    Leave(Instant),
}

/// A connection handed to the worker that will keep it.
pub(crate) struct Arrival {
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<Arc<ServerConfig>>,
    share: Share,
}

/// A listening socket, and the doors of all workers to deal its connections to.
pub(crate) struct Accept {
    pub(crate) listener: TcpListener,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) doors: Vec<mpsc::UnboundedSender<Arrival>>,
    /// One for each connection that there may be; more wait to be accepted.
    pub(crate) descriptors: Arc<Semaphore>,
    /// Those of each caller, where they are bounded.
    pub(crate) connections: Option<Arc<Connections>>,
}

pub(crate) struct Worker {
    pub(crate) number: usize,
    pub(crate) workers: usize,
    pub(crate) cpu: Option<usize>,
    pub(crate) app: Arc<App>,
    /// Requests per connection.
    pub(crate) limit: Option<u64>,
    /// Whether requests are served before the handshake is done.
    pub(crate) early_data: bool,
    /// Whether clients of HTTP/3 prove their addresses first.
    pub(crate) retry: bool,
    pub(crate) builders: tcp::Builders,
    pub(crate) queue: mpsc::UnboundedReceiver<Arrival>,
    pub(crate) accepts: Vec<Accept>,
    pub(crate) udp: UdpSocket,
    pub(crate) quic: quinn::ServerConfig,
    pub(crate) signal: watch::Receiver<Signal>,
}

impl Worker {
    /// Serves until told to leave. Says on `ready` whether it could start.
    pub(crate) fn run(self, ready: &std_mpsc::Sender<Result<(), Error>>) {
        // The starter may have given up on another worker; then nobody listens and we end.
        let runtime = match self.prepare() {
            Ok(runtime) => runtime,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        runtime.block_on(self.serve(ready));
        // Connections that outlived the grace end here, with the tasks that hold them.
        drop(runtime);
    }

    fn prepare(&self) -> Result<runtime::Runtime, Error> {
        if let Some(cpu) = self.cpu {
            let mut set = CpuSet::new();
            set.set(cpu)
                .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
                .map_err(|cause| {
                    Error::Config(format!("cannot run on processor {cpu}: {cause}"))
                })?;
        }
        runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Error::System)
    }

    async fn serve(mut self, ready: &std_mpsc::Sender<Result<(), Error>>) {
        let (workers, number) = (self.workers, self.number);
        let mut config = EndpointConfig::default();
        if workers > 1 {
            config.cid_generator(move || Box::new(SteeredIds { workers, number }));
        }
        let runtime = Arc::new(TokioRuntime);
        let opened = runtime.wrap_udp_socket(self.udp).and_then(|socket| {
            let socket = Arc::new(h3::Socket::new(socket));
            let (quic, of_endpoint) = (Some(self.quic), socket.clone());
            let endpoint = Endpoint::new_with_abstract_socket(config, quic, of_endpoint, runtime)?;
            Ok((endpoint, socket))
        });
        let (endpoint, socket) = match opened {
            Ok(opened) => opened,
            Err(cause) => {
                let _ = ready.send(Err(Error::System(cause)));
                return;
            }
        };
        // Every task holds a sender; when the last is gone, so are the connections.
        let (alive, mut all_gone) = mpsc::channel::<()>(1);
        let mut signal = self.signal.clone();
        for accept in self.accepts {
            tokio::spawn(accept.run(self.signal.clone()));
        }
        let _ = ready.send(Ok(()));

        loop {
            tokio::select! {
                biased;
                arrival = self.queue.recv() => {
                    let Some(arrival) = arrival else { break };
                    tokio::spawn(serve_tcp(
                        arrival,
                        self.app.clone(),
                        self.limit,
                        self.early_data,
                        self.builders.clone(),
                        self.signal.clone(),
                        alive.clone(),
                    ));
                }
                incoming = endpoint.accept() => {
                    let Some(incoming) = incoming else { break };
                    if endpoint.open_connections() >= MAX_QUIC_CONNECTIONS {
                        incoming.refuse();
                        continue;
                    }
                    if self.retry && !incoming.remote_address_validated() {
                        // Only what is validated cannot be asked again.
                        let _ = incoming.retry();
                        continue;
                    }
                    let is_proven = incoming.remote_address_validated();
                    let proof = socket.begin(incoming.remote_address(), is_proven);
                    tokio::spawn(h3::serve(
                        incoming,
                        proof,
                        self.app.clone(),
                        self.limit,
                        self.early_data,
                        self.signal.clone(),
                        alive.clone(),
                    ));
                }
                _ = signal.changed() => break,
            }
        }

        drop(alive);
        let Signal::Leave(deadline) = *signal.borrow() else {
            return;
        };
        endpoint.set_server_config(None);
        let leaving = async {
            self.app.leave().await;
            all_gone.recv().await
        };
        let _ = time::timeout_at(deadline.into(), leaving).await;
        // RFC 9114 section 8.1: H3_NO_ERROR.
        endpoint.close(VarInt::from_u32(0x100), b"server stops");
        let _ = time::timeout(FAREWELL, endpoint.wait_idle()).await;
    }
}

impl Accept {
    async fn run(self, mut signal: watch::Receiver<Signal>) {
        // Made by `net::listen`, non-blocking, and on this thread's event loop: cannot fail but
        // for a lack of memory, and then the server is of no use on this port.
        let Ok(listener) = tokio::net::TcpListener::from_std(self.listener) else {
            return;
        };
        let mut doors = self.doors.iter().cycle();
        loop {
            let accepting = async {
                let descriptor = self.descriptors.clone().acquire_owned().await;
                (descriptor, listener.accept().await)
            };
            let (descriptor, accepted) = tokio::select! {
                accepted = accepting => accepted,
                _ = signal.changed() => return,
            };
            // Nobody closes it.
            let Ok(descriptor) = descriptor else { return };
            let (stream, peer) = match accepted {
                Ok((stream, peer)) => match stream.into_std() {
                    Ok(stream) => (stream, peer),
                    Err(_) => continue,
                },
                Err(error) if is_of_one_connection(&error) => continue,
                // Out of descriptors or memory: connections that end will free some.
                Err(_) => {
                    time::sleep(ACCEPT_REST).await;
                    continue;
                }
            };
            let admission = match &self.connections {
                Some(connections) => match connections.admit(peer) {
                    Some(admission) => Some(admission),
                    None => continue,
                },
                None => None,
            };
            let _ = stream.set_nodelay(true);
            if let Some(door) = doors.next() {
                // A worker that has left takes no more connections.
                let _ = door.send(Arrival {
                    stream,
                    peer,
                    tls: self.tls.clone(),
                    share: Share::new(Some(descriptor), admission),
                });
            }
        }
    }
}

/// accept(2): errors pending on the new socket, not on the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

async fn serve_tcp(
    arrival: Arrival,
    app: Arc<App>,
    limit: Option<u64>,
    early_data: bool,
    builders: tcp::Builders,
    signal: watch::Receiver<Signal>,
    _alive: mpsc::Sender<()>,
) {
    let Ok(stream) = tokio::net::TcpStream::from_std(arrival.stream) else {
        return;
    };
    let Some(config) = arrival.tls else {
        let caller = app.count_connection(arrival.peer, arrival.share);
        let connection = Connection::new(caller, None, limit, None);
        return tcp::serve(stream, connection, app, builders, signal).await;
    };
    if early_data {
        let handshake = EarlyTls::accept(stream, config);
        let Some(stream) = in_time(handshake, signal.clone()).await else {
            return;
        };
        let tls = describe(stream.session());
        let early = Some(stream.handshaking());
        let caller = app.count_connection(arrival.peer, arrival.share);
        let connection = Connection::new(caller, Some(tls), limit, early);
        return tcp::serve(stream, connection, app, builders, signal).await;
    }
    let handshake = TlsAcceptor::from(config).accept(stream);
    let Some(stream) = in_time(handshake, signal.clone()).await else {
        return;
    };
    let tls = describe(stream.get_ref().1);
    let caller = app.count_connection(arrival.peer, arrival.share);
    let connection = Connection::new(caller, Some(tls), limit, None);
    tcp::serve(stream, connection, app, builders, signal).await;
}

/// What a handshake comes to, unless it fails, takes too long, or all have to leave.
async fn in_time<T>(
    handshake: impl Future<Output = io::Result<T>>,
    mut leaving: watch::Receiver<Signal>,
) -> Option<T> {
    tokio::select! {
        result = time::timeout(HANDSHAKE_TIMEOUT, handshake) => result.ok()?.ok(),
        _ = leaving.changed() => None,
    }
}

fn describe(connection: &rustls::ServerConnection) -> Tls {
    Tls {
        version: match connection.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLSv1.3",
        },
        cipher: connection
            .negotiated_cipher_suite()
            .map(|suite| format!("{:?}", suite.suite())),
        alpn: connection
            .alpn_protocol()
            .map(|name| String::from_utf8_lossy(name).into_owned()),
        server_name: connection.server_name().map(str::to_owned),
    }
}

/// Connection ids whose first byte leads back to this worker; see `sys`.
struct SteeredIds {
    workers: usize,
    number: usize,
}

impl ConnectionIdGenerator for SteeredIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; CONNECTION_ID_BYTES];
        // Fails only where the system has no randomness, and then TLS has failed before.
        let _ = aws_lc_rs::default_provider().secure_random.fill(&mut id);
        let row = usize::from(id[0]) % (256 / self.workers);
        // Below 256 because `row` is at most 256 / workers - 1.
        id[0] = (row * self.workers + self.number) as u8;
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        CONNECTION_ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::{io::AsyncReadExt as _, net};

    use super::*;
    use crate::caller::Crowded;

    fn accept(
        descriptors: &Arc<Semaphore>,
        connections: Option<Arc<Connections>>,
    ) -> (Accept, SocketAddr, mpsc::UnboundedReceiver<Arrival>) {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (door, arrivals) = mpsc::unbounded_channel();
        let accept = Accept {
            listener,
            tls: None,
            doors: vec![door],
            descriptors: descriptors.clone(),
            connections,
        };
        (accept, (Ipv4Addr::LOCALHOST, port).into(), arrivals)
    }

    #[tokio::test]
    async fn no_more_connections_are_accepted_than_there_are_descriptors() {
        let descriptors = Arc::new(Semaphore::new(2));
        let (accept, address, mut arrivals) = accept(&descriptors, None);
        let (_signal, watcher) = watch::channel(Signal::Serve);
        tokio::spawn(accept.run(watcher));
        let clients: Vec<_> = (0..3)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        let first = arrivals.recv().await.unwrap();
        let _second = arrivals.recv().await.unwrap();
        assert_eq!(descriptors.available_permits(), 0);
        assert_eq!(first.peer, clients[0].local_addr().unwrap());
        assert!(arrivals.try_recv().is_err());
        drop(first);
        let third = arrivals.recv().await.unwrap();
        assert_eq!(third.peer, clients[2].local_addr().unwrap());
    }

    #[tokio::test]
    async fn one_caller_leaves_descriptors_to_others() {
        let descriptors = Arc::new(Semaphore::new(4));
        let connections = Connections::new(2, Crowded::new(None));
        let (accept, address, mut arrivals) = accept(&descriptors, Some(connections));
        let (_signal, watcher) = watch::channel(Signal::Serve);
        tokio::spawn(accept.run(watcher));
        let mut greedy = Vec::new();
        for _ in 0..5 {
            greedy.push(net::TcpStream::connect(address).await.unwrap());
        }
        let (first, _second) = (arrivals.recv().await, arrivals.recv().await);
        for closed in &mut greedy[2..] {
            assert_eq!(closed.read(&mut [0]).await.unwrap(), 0);
        }
        // Another machine of the loopback network.
        let socket = net::TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 2], 0).into()).unwrap();
        let other = socket.connect(address).await.unwrap();
        let arrived = arrivals.recv().await.unwrap();
        assert_eq!(arrived.peer, other.local_addr().unwrap());
        drop(first);
        let again = net::TcpStream::connect(address).await.unwrap();
        let arrived = arrivals.recv().await.unwrap();
        assert_eq!(arrived.peer, again.local_addr().unwrap());
    }

    #[test]
    fn connection_ids_lead_back_to_their_worker() {
        for workers in [2, 3, 7, 256] {
            for number in [0, workers - 1] {
                let mut ids = SteeredIds { workers, number };
                for _ in 0..200 {
                    assert_eq!(usize::from(ids.generate_cid()[0]) % workers, number);
                }
            }
        }
    }
}
