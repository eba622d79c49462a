//! From a name to a connection: addresses in turn (RFC 8305), HTTP/3 beside TCP.

mod qlog;
mod resolve;
mod tcp;
mod udp;

use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use trilane_connection::{StreamConfig, TlsConfig, Tunnel};
use trilane_transport::tls;
use trilane_wire::h2;

use crate::connection::Ready;
use crate::slots::STREAM_WINDOW;
use crate::{ConnectOptions, Connection, Error, Kind, Patience, Proxy, ProxyProtocol, Version};
use resolve::Lookup;
use tcp::TcpAttempt;
use udp::UdpAttempt;

/// Longer than this nobody waits for HTTP/3 alone; a moment that far away can still be told.
const LONGEST_RACE: Duration = Duration::from_secs(86_400);
/// How long one address is tried alone before the next is tried too (RFC 8305 §5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// How far an attempt has come.
pub(super) enum Step {
    /// Waits for its socket, in these directions, or for its time.
    Pending,
    Ready(Box<Ready>),
    Failed(Error),
}

enum Attempt {
    Tcp(Box<TcpAttempt>),
    Udp(Box<UdpAttempt>),
}

impl Attempt {
    fn step(&mut self) -> Step {
        match self {
            Attempt::Tcp(attempt) => attempt.step(),
            Attempt::Udp(attempt) => attempt.step(),
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Attempt::Tcp(attempt) => attempt.fd(),
            Attempt::Udp(attempt) => attempt.fd(),
        }
    }

    fn wants_write(&self) -> bool {
        match self {
            Attempt::Tcp(attempt) => attempt.wants_write(),
            Attempt::Udp(attempt) => attempt.wants_write(),
        }
    }

    fn timeout(&mut self) -> Option<Instant> {
        match self {
            Attempt::Tcp(_) => None,
            Attempt::Udp(attempt) => attempt.timeout(),
        }
    }
}

/// A connection that is being made. It never waits: who makes it waits for [`Self::fileno`], or for
/// [`Self::timeout`] to pass, and calls [`Self::step`] until that gives a connection or an error.
///
/// A server that cannot open an encrypted hello is asked once more with what it gave instead (RFC 9849 §6.1.6).
pub struct Connecting {
    options: ConnectOptions,
    deadline: Option<Instant>,
    /// All that is waited for: one descriptor for whoever waits.
    epoll: OwnedFd,
    phase: Phase,
    /// When the first name was looked up.
    began: Instant,
    /// How long names took, where any was looked up.
    dns: Option<Duration>,
    /// The address of the target, for a SOCKS proxy that is not to resolve its name.
    named: Option<IpAddr>,
    /// What TLS offers over TCP, until the server has been asked a second time.
    offered: Option<tls::Config>,
    retried: bool,
}

enum Phase {
    /// The name of the target, which a SOCKS proxy is told by its address.
    Naming(Lookup),
    /// The name of whom to connect to.
    Resolving(Lookup),
    Racing(Box<Race>),
    Over,
}

impl Connecting {
    /// Begins.
    pub fn begin(options: ConnectOptions) -> Result<Self, Error> {
        check(&options)?;
        let began = Instant::now();
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| unwatched(&error))?;
        let mut connecting = Self {
            deadline: options
                .timeout
                .and_then(|timeout| began.checked_add(timeout)),
            options,
            epoll,
            phase: Phase::Over,
            began,
            dns: None,
            named: None,
            offered: None,
            retried: false,
        };
        connecting.restart()?;
        Ok(connecting)
    }

    /// Goes on as far as it goes without waiting: a connection when it is ready, `None` before.
    pub fn step(&mut self) -> Result<Option<Connection>, Error> {
        let ready = loop {
            match self.advance() {
                Ok(true) => (),
                Ok(false) => {
                    self.expect_time()?;
                    return Ok(None);
                }
                Err(error) => self.ask_again(error)?,
            }
            if let Phase::Racing(race) = &mut self.phase
                && let Some(ready) = race.ready.take()
            {
                break ready;
            }
        };
        self.phase = Phase::Over;
        // Perhaps it took no waiting, but longer than it may.
        self.expect_time()?;
        let mut ready = *ready;
        ready.facts.setup.dns = self.dns;
        Connection::made(ready, &self.options).map(Some)
    }

    /// The descriptor that can be read when there is something to do.
    pub fn fileno(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// How long [`Self::step`] may wait though the descriptor cannot be read; `None` for ever.
    pub fn timeout(&mut self) -> Option<Duration> {
        let due = match &mut self.phase {
            Phase::Racing(race) => race.due(),
            _ => None,
        };
        let now = Instant::now();
        [due, self.deadline]
            .into_iter()
            .flatten()
            .min()
            .map(|due| due.saturating_duration_since(now))
    }

    /// Connects, and shakes hands.
    pub(crate) fn finish(mut self, patience: &mut dyn Patience) -> Result<Connection, Error> {
        loop {
            let made = self.step()?;
            if patience.exhausted() {
                return Err(Error::new(Kind::Interrupted, "interrupted"));
            }
            if let Some(connection) = made {
                return Ok(connection);
            }
            let slice = [self.timeout(), patience.slice()].into_iter().flatten();
            let timeout = slice.min().map(|slice| Timespec {
                tv_sec: slice.as_secs() as i64,
                tv_nsec: slice.subsec_nanos().into(),
            });
            let mut fds = [PollFd::new(&self.epoll, PollFlags::IN)];
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => (),
                Err(error) => return Err(unwatched(&error)),
            }
        }
    }

    /// Looks a name up, or begins the race where there is none to look up.
    fn restart(&mut self) -> Result<(), Error> {
        self.began = Instant::now();
        if self.options.unix.is_some() {
            return self.race(Vec::new());
        }
        let protocol = self.options.proxy.as_ref().map(|proxy| &proxy.protocol);
        if protocol.is_some_and(ProxyProtocol::is_told_addresses)
            && !resolve::is_address(&self.options.host)
        {
            let lookup = Lookup::begin(&self.options.host, self.options.port)?;
            self.watch_bell(&lookup)?;
            self.phase = Phase::Naming(lookup);
            return Ok(());
        }
        self.resolve()
    }

    fn resolve(&mut self) -> Result<(), Error> {
        let (host, port) = match &self.options.proxy {
            Some(proxy) => (&proxy.host, proxy.port),
            None => (&self.options.host, self.options.port),
        };
        if let Some(given) = &self.options.addresses {
            let given = given.iter();
            let given = given.map(|address| SocketAddr::new(*address, port));
            let addresses = resolve::in_turn(given.collect());
            return self.race(addresses);
        }
        if let Some(address) = resolve::address(host) {
            return self.race(vec![SocketAddr::new(address, port)]);
        }
        let lookup = Lookup::begin(host, port)?;
        self.watch_bell(&lookup)?;
        self.phase = Phase::Resolving(lookup);
        Ok(())
    }

    fn race(&mut self, mut addresses: Vec<SocketAddr>) -> Result<(), Error> {
        if let Some(source) = self.options.source {
            addresses.retain(|address| address.is_ipv4() == source.is_ipv4());
            if addresses.is_empty() && self.options.unix.is_none() {
                let host = match &self.options.proxy {
                    Some(proxy) => &proxy.host,
                    None => &self.options.host,
                };
                let message = format!("{host} has no address of the family of {}", source.ip());
                return Err(Error::new(Kind::Connect, message));
            }
        }
        let mut race = Race::new(&self.options, addresses, self.named)?;
        if let Some(path) = &self.options.unix {
            let attempt = TcpAttempt::unix(path, &race.config, race.began)?;
            race.attempts
                .push(Watched::new(Attempt::Tcp(Box::new(attempt))));
        }
        self.offered = race.config.tls.as_ref().map(|tls| tls.config.clone());
        self.phase = Phase::Racing(Box::new(race));
        Ok(())
    }

    /// True where there may be more to do at once.
    fn advance(&mut self) -> Result<bool, Error> {
        match &mut self.phase {
            Phase::Naming(lookup) => {
                let Some(addresses) = lookup.answer()? else {
                    return Ok(false);
                };
                self.named = addresses.first().map(SocketAddr::ip);
                self.looked_up();
                self.resolve()?;
            }
            Phase::Resolving(lookup) => {
                let Some(addresses) = lookup.answer()? else {
                    return Ok(false);
                };
                self.looked_up();
                self.race(addresses)?;
            }
            Phase::Racing(race) => {
                race.step(&self.options, &self.epoll)?;
                return Ok(race.ready.is_some());
            }
            Phase::Over => {
                let message = "the connection has been made, or could not be";
                return Err(Error::new(Kind::Local, message));
            }
        }
        Ok(true)
    }

    /// Waits no more for a name.
    fn looked_up(&mut self) {
        self.dns = Some(self.began.elapsed());
        if let Phase::Naming(lookup) | Phase::Resolving(lookup) = &self.phase {
            // The thread has the bell too, and may be about to ring it.
            let _ = epoll::delete(&self.epoll, lookup.bell());
        }
    }

    /// Tries again where the server has told how to encrypt the hello; else this is its error.
    fn ask_again(&mut self, error: Error) -> Result<(), Error> {
        self.phase = Phase::Over;
        match self.offered.take().and_then(|tls| tls.ech_retry()) {
            Some(ech) if !mem::replace(&mut self.retried, true) => {
                self.options.ech = ech;
                self.restart()
            }
            _ => Err(error),
        }
    }

    fn watch_bell(&self, lookup: &Lookup) -> Result<(), Error> {
        let data = epoll::EventData::new_u64(0);
        epoll::add(&self.epoll, lookup.bell(), data, epoll::EventFlags::IN)
            .map_err(|error| unwatched(&error))
    }

    /// An error when the time is up.
    fn expect_time(&mut self) -> Result<(), Error> {
        if self
            .deadline
            .is_none_or(|deadline| deadline > Instant::now())
        {
            return Ok(());
        }
        self.phase = Phase::Over;
        let ConnectOptions {
            host,
            port,
            timeout,
            ..
        } = &self.options;
        let timeout = timeout.unwrap_or_default();
        let message = format!("no connection to {host}:{port} within {timeout:?}");
        Err(Error::new(Kind::ConnectTimeout, message).unsent())
    }
}

fn unwatched(error: &Errno) -> Error {
    let message = format!("waiting for a connection failed: {error}");
    Error::new(Kind::Connect, message)
}

/// HTTP on a byte stream without proxy or TLS.
pub(crate) fn stream_config(versions: &[Version], streams: Option<u32>) -> StreamConfig {
    StreamConfig {
        tunnel: None,
        proxy_tls: None,
        tls: None,
        versions: versions.to_vec(),
        h2: h2::Config {
            stream_window: STREAM_WINDOW,
            // Others are held until the SETTINGS have come.
            streams_before_settings: streams.unwrap_or(1),
            ..h2::Config::default()
        },
        phase_timeout: None,
    }
}

/// What a proxy is asked for; `named` is the address of the target, where it is to be told that.
fn tunnel(options: &ConnectOptions, proxy: &Proxy, named: Option<IpAddr>) -> Result<Tunnel, Error> {
    match &proxy.protocol {
        ProxyProtocol::Connect { fields, .. } => {
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| (&name[..], &value[..]))
                .collect();
            Tunnel::new(&options.host, options.port, &fields).map_err(|error| error.to_string())
        }
        ProxyProtocol::Socks5 { credentials, .. } => {
            let credentials = credentials
                .as_ref()
                .map(|(user, password)| (&user[..], &password[..]));
            let address = named.map(|address| address.to_string());
            let host = address.as_ref().unwrap_or(&options.host);
            Tunnel::socks5(host, options.port, credentials)
        }
    }
    .map_err(|error| Error::new(Kind::Local, error))
}

/// What is asked of a connection over TCP or a Unix socket.
fn configure(options: &ConnectOptions, named: Option<IpAddr>) -> Result<StreamConfig, Error> {
    let proxy = options.proxy.as_ref();
    let tunnel = proxy
        .map(|proxy| tunnel(options, proxy, named))
        .transpose()?;
    let proxy_tls = match (proxy, &options.tls) {
        (Some(proxy), Some(tls)) if proxy.protocol.is_secure() => Some(TlsConfig {
            config: tls.tcp(&[Version::H1]),
            server_name: proxy.host.clone(),
        }),
        _ => None,
    };
    let Some(tls) = options.tls.as_ref().filter(|_| options.secure) else {
        // Without ALPN nobody agrees on a version: HTTP/1.1 wherever it is allowed.
        let version = if options.versions.contains(&Version::H1) {
            Version::H1
        } else {
            Version::H2
        };
        return Ok(StreamConfig {
            tunnel,
            proxy_tls,
            ..stream_config(&[version], options.streams)
        });
    };
    let versions: Vec<_> = options
        .versions
        .iter()
        .copied()
        .filter(|version| *version != Version::H3)
        .collect();
    let name = options.server_name.as_ref().unwrap_or(&options.host);
    let mut config = tls.tcp(&versions);
    if let Some(list) = &options.ech {
        config = config
            .with_ech(list)
            .map_err(|error| Error::new(Kind::Tls, error.to_string()))?;
    }
    Ok(StreamConfig {
        tunnel,
        proxy_tls,
        tls: Some(TlsConfig {
            config,
            server_name: name.clone(),
        }),
        ..stream_config(&versions, options.streams)
    })
}

fn check(options: &ConnectOptions) -> Result<(), Error> {
    let versions = &options.versions;
    let fault = if versions.is_empty() {
        "no version of HTTP is allowed: name one of h1, h2, h3"
    } else if !options.secure && versions.contains(&Version::H3) && versions.len() == 1 {
        "HTTP/3 needs https"
    } else if options.proxy.is_some() && versions.as_slice() == [Version::H3] {
        "HTTP/3 does not go through a proxy: allow h2 or h1 too"
    } else if options.unix.is_some() && versions.as_slice() == [Version::H3] {
        "HTTP/3 does not go over a Unix socket"
    } else if options.ech.is_some() && versions.contains(&Version::H3) {
        "Encrypted Client Hello is offered over TCP alone: leave h3 out"
    } else if options.tls.is_none() && options.needs_tls() {
        "https needs certificates to trust"
    } else {
        return Ok(());
    };
    Err(Error::new(Kind::Local, fault))
}

/// One attempt, and what the epoll knows of it.
struct Watched {
    attempt: Attempt,
    /// Whether it is told when the socket takes bytes too; `None` before it knows the socket.
    writes: Option<bool>,
}

impl Watched {
    fn new(attempt: Attempt) -> Self {
        Self {
            attempt,
            writes: None,
        }
    }

    /// Has the epoll wait for what the attempt waits for.
    fn watch(&mut self, epoll: &OwnedFd) -> Result<(), Errno> {
        let writes = self.attempt.wants_write();
        let Some(fd) = self.attempt.fd().filter(|_| self.writes != Some(writes)) else {
            return Ok(());
        };
        let mut flags = epoll::EventFlags::IN;
        flags.set(epoll::EventFlags::OUT, writes);
        let data = epoll::EventData::new_u64(0);
        match self.writes {
            Some(_) => epoll::modify(epoll, fd, data, flags),
            None => epoll::add(epoll, fd, data, flags),
        }?;
        self.writes = Some(writes);
        Ok(())
    }

    /// Takes the socket out: closing it would not, where a process that was forked has it too.
    fn forget(self, epoll: &OwnedFd) {
        if let Some(fd) = self.attempt.fd().filter(|_| self.writes.is_some()) {
            // One that is not in there need not be taken out.
            let _ = epoll::delete(epoll, fd);
        }
    }
}

struct Race {
    /// When the addresses were known.
    began: Instant,
    config: Arc<StreamConfig>,
    /// Addresses that TCP has not tried, in order.
    addresses: std::vec::IntoIter<SocketAddr>,
    attempts: Vec<Watched>,
    /// When TCP tries the next address.
    next: Instant,
    /// Whether TCP is spoken at all.
    tcp: bool,
    /// The reason to tell when nothing is left to try.
    failure: Option<Error>,
    /// What won.
    ready: Option<Box<Ready>>,
}

impl Race {
    /// `named` is for [`tunnel`].
    fn new(
        options: &ConnectOptions,
        addresses: Vec<SocketAddr>,
        named: Option<IpAddr>,
    ) -> Result<Self, Error> {
        let began = Instant::now();
        let quic = options.secure
            && options.proxy.is_none()
            && options.unix.is_none()
            && options.versions.contains(&Version::H3);
        let tcp = !options.secure || options.versions.iter().any(|v| *v != Version::H3);
        let config = Arc::new(configure(options, named)?);
        let mut attempts = Vec::new();
        let mut failure = None;
        let mut next = began;
        if quic {
            let mut candidates = addresses.iter();
            for address in candidates.by_ref() {
                match UdpAttempt::open(*address, options, began) {
                    Ok(attempt) => {
                        attempts.push(Watched::new(Attempt::Udp(Box::new(attempt))));
                        next += options.race.min(LONGEST_RACE);
                        break;
                    }
                    // The caller's own mistake would be passed over where TCP is there too.
                    Err(error) if error.kind == Kind::Local => return Err(error),
                    Err(error) => failure = Some(error),
                }
            }
        }
        Ok(Self {
            began,
            config,
            addresses: addresses.into_iter(),
            attempts,
            next,
            tcp,
            failure,
            ready: None,
        })
    }

    /// Goes on as far as it goes without waiting; `ready` has what has won.
    fn step(&mut self, options: &ConnectOptions, epoll: &OwnedFd) -> Result<(), Error> {
        loop {
            self.start_due(options);
            let mut index = 0;
            let mut lost = false;
            while index < self.attempts.len() {
                match self.attempts[index].attempt.step() {
                    Step::Ready(ready) => {
                        self.ready = Some(ready);
                        return Ok(());
                    }
                    Step::Pending => index += 1,
                    Step::Failed(error) => {
                        self.attempts.swap_remove(index).forget(epoll);
                        self.lost(error);
                        lost = true;
                    }
                }
            }
            self.narrow(epoll);
            if self.attempts.is_empty() && (!self.tcp || self.addresses.len() == 0) {
                return Err(self.failure.take().unwrap_or_else(|| {
                    let host = &options.host;
                    Error::new(
                        Kind::Connect,
                        format!("{host} has no address to connect to"),
                    )
                }));
            }
            // The next address need not wait for one that has failed.
            if !lost {
                break;
            }
        }
        for watched in &mut self.attempts {
            watched.watch(epoll).map_err(|error| unwatched(&error))?;
        }
        Ok(())
    }

    /// Has TCP try the next address where its time has come.
    fn start_due(&mut self, options: &ConnectOptions) {
        while self.tcp && Instant::now() >= self.next {
            let Some(address) = self.addresses.next() else {
                return;
            };
            match TcpAttempt::open(address, options, &self.config, self.began) {
                Ok(attempt) => {
                    self.attempts
                        .push(Watched::new(Attempt::Tcp(Box::new(attempt))));
                    self.next = Instant::now() + ATTEMPT_DELAY;
                }
                Err(error) => self.lost(error),
            }
        }
    }

    /// One attempt has failed: the next need not wait.
    fn lost(&mut self, error: Error) {
        self.next = Instant::now();
        // A certificate that is not accepted says more than a port that is closed.
        let told = |error: &Error| error.kind == Kind::Tls || error.kind == Kind::Proxy;
        if !self.failure.as_ref().is_some_and(told) || told(&error) {
            self.failure = Some(error.unsent());
        }
    }

    /// Once an address has answered TCP, the others are not tried any more.
    fn narrow(&mut self, epoll: &OwnedFd) {
        let connected = |watched: &Watched| match &watched.attempt {
            Attempt::Tcp(attempt) => attempt.is_connected(),
            Attempt::Udp(_) => false,
        };
        if !self.attempts.iter().any(connected) {
            return;
        }
        self.addresses = Vec::new().into_iter();
        let goes_on =
            |watched: &Watched| connected(watched) || matches!(watched.attempt, Attempt::Udp(_));
        let (kept, left): (Vec<_>, Vec<_>) =
            mem::take(&mut self.attempts).into_iter().partition(goes_on);
        self.attempts = kept;
        for watched in left {
            watched.forget(epoll);
        }
    }

    /// When there is something to do though no socket has anything.
    fn due(&mut self) -> Option<Instant> {
        let timers = self
            .attempts
            .iter_mut()
            .filter_map(|watched| watched.attempt.timeout());
        let next = (self.tcp && self.addresses.len() > 0).then_some(self.next);
        timers.chain(next).min()
    }
}
