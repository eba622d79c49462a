//! From a name to a connection: addresses in turn (RFC 8305), HTTP/3 beside TCP.

mod qlog;
mod resolve;
mod tcp;
mod udp;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use trilane_connection::{StreamConfig, TlsConfig, Tunnel};
use trilane_transport::tls;
use trilane_wire::h2;

use crate::connection::Ready;
use crate::slots::STREAM_WINDOW;
use crate::{ConnectOptions, Error, Kind, Patience, Proxy, ProxyProtocol, Version};
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

/// Connects, and shakes hands.
///
/// A server that cannot open an encrypted hello is asked once more with what it gave instead (RFC 9849 §6.1.6).
pub(crate) fn connect(
    options: &ConnectOptions,
    patience: &mut dyn Patience,
) -> Result<Ready, Error> {
    check(options)?;
    let deadline = options
        .timeout
        .and_then(|timeout| Instant::now().checked_add(timeout));
    let mut offered = None;
    let outcome = connect_once(options, deadline, patience, &mut offered);
    match (outcome, offered.and_then(|tls| tls.ech_retry())) {
        (Err(_), Some(ech)) => {
            let again = ConnectOptions {
                ech,
                ..options.clone()
            };
            connect_once(&again, deadline, patience, &mut None)
        }
        (outcome, _) => outcome,
    }
}

/// `offered` becomes what TLS offered over TCP.
fn connect_once(
    options: &ConnectOptions,
    deadline: Option<Instant>,
    patience: &mut dyn Patience,
    offered: &mut Option<tls::Config>,
) -> Result<Ready, Error> {
    let mut waiting = Waiting {
        deadline,
        patience,
        options,
    };
    if let Some(path) = &options.unix {
        let mut race = Race::new(options, Vec::new(), None)?;
        let attempt = TcpAttempt::unix(path, &race.config, race.began)?;
        race.attempts.push(Attempt::Tcp(Box::new(attempt)));
        return race.run(&mut waiting);
    }
    let began = Instant::now();
    let named = resolved_here(options, &mut waiting)?;
    let (host, port) = match &options.proxy {
        Some(proxy) => (&proxy.host, proxy.port),
        None => (&options.host, options.port),
    };
    let mut addresses = match &options.addresses {
        Some(given) => resolve::in_turn(
            given
                .iter()
                .map(|address| SocketAddr::new(*address, port))
                .collect(),
        ),
        None => resolve::resolve(host, port, &mut waiting)?,
    };
    let asked = named.is_some() || (options.addresses.is_none() && !resolve::is_address(host));
    let dns = asked.then(|| began.elapsed());
    if let Some(source) = options.source {
        addresses.retain(|address| address.is_ipv4() == source.is_ipv4());
        if addresses.is_empty() {
            let message = format!("{host} has no address of the family of {}", source.ip());
            return Err(Error::new(Kind::Connect, message));
        }
    }
    let race = Race::new(options, addresses, named)?;
    *offered = race.config.tls.as_ref().map(|tls| tls.config.clone());
    let mut ready = race.run(&mut waiting)?;
    ready.facts.setup.dns = dns;
    Ok(ready)
}

/// The address of the target, where a SOCKS proxy is not to resolve its name.
fn resolved_here(
    options: &ConnectOptions,
    waiting: &mut Waiting<'_>,
) -> Result<Option<IpAddr>, Error> {
    let protocol = options.proxy.as_ref().map(|proxy| &proxy.protocol);
    let here = ProxyProtocol::is_told_addresses;
    if !protocol.is_some_and(here) || resolve::is_address(&options.host) {
        return Ok(None);
    }
    let addresses = resolve::resolve(&options.host, options.port, waiting)?;
    Ok(addresses.first().map(SocketAddr::ip))
}

/// HTTP on a byte stream without proxy or TLS.
pub(crate) fn stream_config(versions: &[Version]) -> StreamConfig {
    StreamConfig {
        tunnel: None,
        proxy_tls: None,
        tls: None,
        versions: versions.to_vec(),
        h2: h2::Config {
            stream_window: STREAM_WINDOW,
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
            ..stream_config(&[version])
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
        ..stream_config(&versions)
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

/// How long, and who may end it.
pub(super) struct Waiting<'a> {
    deadline: Option<Instant>,
    patience: &'a mut dyn Patience,
    options: &'a ConnectOptions,
}

impl Waiting<'_> {
    /// An error when the time is up or somebody wants it to end.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        if self.patience.exhausted() {
            return Err(Error::new(Kind::Interrupted, "interrupted"));
        }
        if self
            .deadline
            .is_some_and(|deadline| deadline <= Instant::now())
        {
            let ConnectOptions {
                host,
                port,
                timeout,
                ..
            } = self.options;
            let timeout = timeout.unwrap_or_default();
            let message = format!("no connection to {host}:{port} within {timeout:?}");
            return Err(Error::new(Kind::ConnectTimeout, message).unsent());
        }
        Ok(())
    }

    /// How long to wait for something that may come at `due`.
    pub(super) fn slice(&self, due: Option<Instant>) -> Option<Duration> {
        let now = Instant::now();
        let rest = |instant: Instant| instant.saturating_duration_since(now);
        [
            due.map(rest),
            self.deadline.map(rest),
            self.patience.slice(),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

struct Race<'a> {
    options: &'a ConnectOptions,
    /// When the addresses were known.
    began: Instant,
    config: Arc<StreamConfig>,
    /// Addresses that TCP has not tried, in order.
    addresses: std::vec::IntoIter<SocketAddr>,
    attempts: Vec<Attempt>,
    /// When TCP tries the next address.
    next: Instant,
    /// Whether TCP is spoken at all.
    tcp: bool,
    /// The reason to tell when nothing is left to try.
    failure: Option<Error>,
}

impl<'a> Race<'a> {
    /// `named` is for [`tunnel`].
    fn new(
        options: &'a ConnectOptions,
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
                        attempts.push(Attempt::Udp(Box::new(attempt)));
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
            options,
            began,
            config,
            addresses: addresses.into_iter(),
            attempts,
            next,
            tcp,
            failure,
        })
    }

    fn run(mut self, waiting: &mut Waiting<'_>) -> Result<Ready, Error> {
        loop {
            self.start_due();
            let mut index = 0;
            while index < self.attempts.len() {
                match self.attempts[index].step() {
                    Step::Ready(ready) => {
                        // Perhaps it took no waiting, but longer than it may.
                        waiting.check()?;
                        return Ok(*ready);
                    }
                    Step::Pending => index += 1,
                    Step::Failed(error) => {
                        self.attempts.swap_remove(index);
                        self.lost(error);
                    }
                }
            }
            self.narrow();
            if self.attempts.is_empty() && (!self.tcp || self.addresses.len() == 0) {
                return Err(self.failure.unwrap_or_else(|| {
                    let host = &self.options.host;
                    Error::new(
                        Kind::Connect,
                        format!("{host} has no address to connect to"),
                    )
                }));
            }
            self.wait(waiting)?;
            waiting.check()?;
        }
    }

    /// Has TCP try the next address where its time has come.
    fn start_due(&mut self) {
        while self.tcp && Instant::now() >= self.next {
            let Some(address) = self.addresses.next() else {
                return;
            };
            match TcpAttempt::open(address, self.options, &self.config, self.began) {
                Ok(attempt) => {
                    self.attempts.push(Attempt::Tcp(Box::new(attempt)));
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
    fn narrow(&mut self) {
        let connected = |attempt: &Attempt| match attempt {
            Attempt::Tcp(attempt) => attempt.is_connected(),
            Attempt::Udp(_) => false,
        };
        if self.attempts.iter().any(connected) {
            self.addresses = Vec::new().into_iter();
            self.attempts
                .retain(|attempt| connected(attempt) || matches!(attempt, Attempt::Udp(_)));
        }
    }

    fn wait(&mut self, waiting: &Waiting<'_>) -> Result<(), Error> {
        let timers = self.attempts.iter_mut().filter_map(Attempt::timeout).min();
        let next = (self.tcp && self.addresses.len() > 0).then_some(self.next);
        let due = [timers, next].into_iter().flatten().min();
        let timeout = waiting.slice(due).map(|slice| Timespec {
            tv_sec: slice.as_secs() as i64,
            tv_nsec: slice.subsec_nanos().into(),
        });
        let mut fds: Vec<_> = self
            .attempts
            .iter()
            .filter_map(|attempt| {
                let mut flags = PollFlags::IN;
                flags.set(PollFlags::OUT, attempt.wants_write());
                Some(PollFd::from_borrowed_fd(attempt.fd()?, flags))
            })
            .collect();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => {
                let message = format!("waiting for a connection failed: {error}");
                Err(Error::new(Kind::Connect, message))
            }
        }
    }
}
