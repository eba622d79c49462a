//! `trilane_connection::Stream`: HTTP/1.1 and HTTP/2 over a byte stream, with and without a proxy's
//! tunnel, with and without TLS, whose other end is rustls.

use std::io::{Read, Write};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use arbitrary::{Arbitrary, Unstructured};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection};
use trilane_connection::{HEADROOM, Over, Phase, Stream, StreamConfig, TlsConfig, Tunnel, Version};
use trilane_transport::tls;
use trilane_wire::{Encoding, End, FieldList, Refused, Request, StreamId, Unfinished, Upload};

use super::caller::{Call, Caller, Subject};
use super::h1_peer::Part;
use super::h2::config;
use super::h2_frames::Frame;
use super::h2_peer::Peer;
use crate::checker::Streams;
use crate::input::{Bytes, Cut, Rarely, operations};

/// What the connection is made of.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Setup {
    version: Spoken,
    sealed: bool,
    tunnel: bool,
    /// Whether all handshakes are over when the operations begin.
    ready: bool,
    /// Whether the client offers the other version as well.
    both: bool,
    /// Whether the server knows ALPN.
    alpn: bool,
    h2: u8,
}

#[derive(Arbitrary, Clone, Copy, Debug, PartialEq, Eq)]
enum Spoken {
    H1,
    H2,
}

#[derive(Arbitrary, Debug)]
enum Operation<'a> {
    Call(Call),
    /// The server writes, through TLS where there is some.
    H1(Vec<Part<'a>>, Cut),
    H2(Vec<Frame<'a>>, Cut),
    /// Bytes arrive that the server's TLS has not sealed.
    Unsealed(Bytes<'a>, Cut),
    ProxyAnswers(Answer, Cut),
    /// The socket takes so many bytes.
    Transmit(u16),
    Produce,
    CloseNotify(Cut),
    UpdateKeys,
    /// The socket takes nothing any more.
    Broke,
    Time(u16),
    End(Rarely, bool),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Answer {
    Granted,
    Informational,
    Refused,
    Odd,
}

const TIMEOUT: Duration = Duration::from_secs(10);
/// More than any flight of a TLS handshake, in bytes.
const FLIGHT: usize = 4096;

impl Subject for Stream {
    fn version(&self) -> Encoding {
        match Stream::version(self) {
            Some(Version::H2) => Encoding::H2,
            _ => Encoding::H1,
        }
    }
    fn send(&mut self, request: &Request, slot: u32) -> Result<StreamId, Refused> {
        Stream::send(self, request, slot)
    }
    fn write(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        Stream::write(self, stream, bytes)
    }
    fn finish(&mut self, stream: StreamId, trailers: &FieldList) -> Result<(), Unfinished> {
        Stream::finish(self, stream, trailers)
    }
    fn upload(&self, stream: StreamId) -> Upload {
        Stream::upload(self, stream)
    }
    fn pause(&mut self, stream: StreamId) {
        Stream::pause(self, stream);
    }
    fn resume(&mut self, stream: StreamId) {
        Stream::resume(self, stream);
    }
    fn cancel(&mut self, stream: StreamId) -> bool {
        Stream::cancel(self, stream)
    }
    fn close(&mut self) {
        Stream::close(self);
    }
    fn capacity(&self) -> usize {
        Stream::capacity(self)
    }
    fn outstanding(&self) -> usize {
        Stream::outstanding(self)
    }
    fn is_closing(&self) -> bool {
        Stream::is_closing(self)
    }
    fn waiting(&self) -> usize {
        Stream::gathered(self)
    }
}

/// The other end of the byte stream.
struct Server {
    tls: Option<ServerConnection>,
    /// Bytes of the request for a tunnel that the proxy has not had.
    asked: usize,
    /// What is on its way to the client.
    on_its_way: Vec<u8>,
    /// What the server has read, without TLS.
    read: Vec<u8>,
}

impl Server {
    /// Takes what the client has sent.
    fn take(&mut self, bytes: &[u8]) {
        let (_, mut rest) = bytes.split_at(bytes.len().min(self.asked));
        self.asked -= bytes.len() - rest.len();
        let Some(tls) = &mut self.tls else {
            self.read.extend_from_slice(rest);
            return;
        };
        while !rest.is_empty() {
            if tls.read_tls(&mut rest).is_err() {
                return;
            }
            match tls.process_new_packets() {
                Ok(_) => (),
                // The client refused something, and said so.
                Err(rustls::Error::AlertReceived(_)) => return,
                Err(error) => panic!("the client breaks TLS: {error}"),
            }
            let mut buffer = [0; 1 << 14];
            while let Ok(length @ 1..) = tls.reader().read(&mut buffer) {
                self.read.extend_from_slice(&buffer[..length]);
            }
        }
        self.flush();
    }

    /// Writes through TLS, where there is some.
    fn write(&mut self, bytes: &[u8]) {
        match &mut self.tls {
            // What its buffer does not take is lost, in each play the same.
            Some(tls) => drop(tls.writer().write(bytes)),
            None => self.on_its_way.extend_from_slice(bytes),
        }
        self.flush();
    }

    fn flush(&mut self) {
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() && tls.write_tls(&mut self.on_its_way).is_ok() {}
        }
    }
}

/// What must not depend on fields or cuts: the events, how it ended, and what the server has read.
type Played = (Streams, Over, Vec<u8>);

/// A connection that is being played.
struct Play<const FIELDS: bool> {
    stream: Stream,
    server: Server,
    peer: Peer,
    caller: Caller<FIELDS>,
    now: Instant,
    broken: bool,
    cut: bool,
}

impl<const FIELDS: bool> Play<FIELDS> {
    fn new(setup: Setup, cut: bool) -> Self {
        let now = Instant::now();
        let tls = setup
            .sealed
            .then(|| server(setup))
            .map(|config| ServerConnection::new(config).expect("the configuration is whole"));
        Self {
            stream: Stream::new(client(setup), now),
            server: Server {
                tls,
                asked: 0,
                on_its_way: Vec::new(),
                read: Vec::new(),
            },
            peer: Peer::new(),
            caller: Caller::new(),
            now,
            broken: false,
            cut,
        }
    }

    /// Connects, and where `setup` says so goes on until HTTP is spoken.
    fn connect(&mut self, setup: Setup) -> Result<(), Over> {
        assert_eq!(self.stream.deadline(), Some(self.now + TIMEOUT));
        self.stream.connected(self.now)?;
        if setup.tunnel {
            self.server.asked = self.stream.gathered();
        }
        if !setup.ready {
            return Ok(());
        }
        if setup.tunnel {
            self.transmit(usize::MAX)?;
            self.server
                .on_its_way
                .extend_from_slice(Answer::Granted.bytes());
            self.deliver(Cut::NONE)?;
        }
        while self.stream.phase() != Phase::Open {
            self.transmit(usize::MAX)?;
            self.deliver(Cut::NONE)?;
        }
        Ok(())
    }

    fn operate(&mut self, operation: &Operation<'_>) -> Result<(), Over> {
        match operation {
            Operation::Call(call) => {
                self.caller.call(*call, &mut self.stream);
                if let Call::Close(rarely) = call
                    && rarely.now()
                {
                    // Whoever says goodbye leaves.
                    return Err(self.stream.eof(false, &mut self.caller.events));
                }
            }
            Operation::H1(parts, cut) => {
                let mut bytes = Vec::new();
                parts.iter().for_each(|part| part.write(&mut bytes));
                self.server.write(&bytes);
                self.deliver(*cut)?;
            }
            Operation::H2(frames, cut) => {
                let mut bytes = Vec::new();
                for frame in frames {
                    self.peer.write(frame, &self.caller.streams, &mut bytes);
                }
                self.server.write(&bytes);
                self.deliver(*cut)?;
            }
            Operation::Unsealed(bytes, cut) => {
                self.server.on_its_way.extend_from_slice(bytes.0);
                self.deliver(*cut)?;
            }
            Operation::ProxyAnswers(answer, cut) => {
                // Whoever writes first is the proxy.
                self.server
                    .on_its_way
                    .splice(0..0, answer.bytes().iter().copied());
                self.deliver(*cut)?;
            }
            Operation::Transmit(count) => self.transmit(usize::from(*count) * 4)?,
            Operation::Produce => {
                let before = self.stream.gathered();
                self.stream.produce();
                assert!(self.stream.gathered() <= before + 84 * 1024);
            }
            Operation::CloseNotify(cut) => {
                if let Some(tls) = &mut self.server.tls {
                    tls.send_close_notify();
                    self.server.flush();
                    self.deliver(*cut)?;
                }
            }
            Operation::UpdateKeys => {
                if let Some(tls) = &mut self.server.tls {
                    // Before the handshake is over there is nothing to update.
                    let _ = tls.refresh_traffic_keys();
                }
            }
            Operation::Broke => {
                self.stream.broke();
                self.broken = true;
            }
            Operation::Time(milliseconds) => {
                self.now += Duration::from_millis((*milliseconds).into());
            }
            Operation::End(rarely, failed) => {
                if rarely.now() {
                    return Err(self.stream.eof(*failed, &mut self.caller.events));
                }
            }
        }
        self.check();
        if self.stream.is_finished() {
            return Err(self.stream.eof(false, &mut self.caller.events));
        }
        Ok(())
    }

    /// Gives the connection what is on its way, where it reads.
    fn deliver(&mut self, sizes: Cut) -> Result<(), Over> {
        if !self.stream.may_read() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.server.on_its_way);
        let waiting = self.stream.gathered();
        let mut buffer = vec![0; HEADROOM + bytes.len()];
        let sizes = if self.cut { sizes } else { Cut::NONE };
        for piece in sizes.pieces(&bytes) {
            let end = HEADROOM + piece.len();
            buffer[HEADROOM..end].copy_from_slice(piece);
            let begin = self.stream.restore(&mut buffer, HEADROOM);
            let received = &mut buffer[begin..end];
            let stream = &mut self.stream;
            stream.receive(self.now, received, &mut self.caller.events)?;
        }
        assert!(self.stream.gathered() <= waiting + 2 * bytes.len() + FLIGHT);
        Ok(())
    }

    /// The socket takes up to `count` bytes.
    fn transmit(&mut self, mut count: usize) -> Result<(), Over> {
        loop {
            let mut taken = Vec::new();
            for slice in self.stream.transmit_slices()? {
                assert!(!self.broken, "bytes for a broken socket");
                let room = count - taken.len();
                taken.extend_from_slice(&slice[..slice.len().min(room)]);
            }
            if taken.is_empty() {
                assert!(count == 0 || !self.stream.has_output());
                return Ok(());
            }
            self.server.take(&taken);
            self.stream.sent(taken.len());
            count -= taken.len();
        }
    }

    fn check(&mut self) {
        let stream = &self.stream;
        self.caller.check(stream);
        let open = stream.phase() == Phase::Open;
        assert_eq!(stream.version().is_some(), open);
        let deadline = (!open).then(|| stream.since() + TIMEOUT);
        assert_eq!(stream.deadline(), deadline);
        assert!(stream.since() <= self.now);
        let idle = stream.is_closing() && stream.outstanding() == 0;
        if stream.is_finished() {
            assert!(stream.is_closing() && (idle || stream.peer_closed()));
        } else {
            assert!(!idle || self.broken, "what can happen yet?");
        }
        if self.broken {
            assert!(!stream.has_output() && stream.is_closing());
        }
    }

    /// The connection is over: what is left is told, and nothing more comes.
    fn end(&mut self, over: &Over) {
        if let Over::Tls(_) = over {
            self.stream.abandon(End::Reset, &mut self.caller.events);
        }
        self.caller.over();
        assert_eq!(self.stream.outstanding(), 0);
        // The last round: an alert, GOAWAY, close_notify. A session that has failed seals nothing more.
        let _ = self.transmit(usize::MAX);
        self.stream.eof(true, &mut self.caller.events);
        assert_eq!(self.stream.capacity(), 0);
    }
}

impl Answer {
    fn bytes(self) -> &'static [u8] {
        match self {
            Answer::Granted => b"HTTP/1.1 200 OK\r\n\r\n",
            Answer::Informational => b"HTTP/1.1 103 Early Hints\r\n\r\n",
            Answer::Refused => b"HTTP/1.1 407 No\r\nContent-Length: 2\r\n\r\nno",
            Answer::Odd => b"HTTP/1.1 204\r\nContent-Length: 9\r\n\r\n",
        }
    }
}

/// The name of the version in ALPN (RFC 7301 §6).
fn alpn(version: Spoken) -> Vec<u8> {
    match version {
        Spoken::H1 => b"http/1.1".to_vec(),
        Spoken::H2 => b"h2".to_vec(),
    }
}

fn client(setup: Setup) -> Arc<StreamConfig> {
    let (version, other) = match setup.version {
        Spoken::H1 => (Version::H1, Version::H2),
        Spoken::H2 => (Version::H2, Version::H1),
    };
    let versions = if setup.both {
        vec![version, other]
    } else {
        vec![version]
    };
    let offered = if setup.both {
        vec![Spoken::H2, Spoken::H1]
    } else {
        vec![setup.version]
    };
    static TLS: LazyLock<tls::Config> = LazyLock::new(|| {
        tls::Config::new(&tls::Options {
            authorities: Vec::new(),
            platform: false,
            insecure: true,
            client: None,
            password: None,
            pins: Vec::new(),
            alpn: Vec::new(),
            resumption: false,
            early_data: false,
            version: None,
            ciphers: Vec::new(),
            words: tls::Words::LOAD,
        })
        .expect("nothing in it can be wrong")
    });
    Arc::new(StreamConfig {
        tunnel: setup.tunnel.then(|| {
            Tunnel::new("a.example", 443, &[(b"X-Asked", b"1")]).expect("every part is valid")
        }),
        proxy_tls: None,
        tls: setup.sealed.then(|| TlsConfig {
            config: TLS.with_alpn(offered.into_iter().map(alpn).collect()),
            server_name: "localhost".to_owned(),
        }),
        versions,
        h2: config(setup.h2),
        phase_timeout: Some(TIMEOUT),
    })
}

fn server(setup: Setup) -> Arc<ServerConfig> {
    static SERVERS: LazyLock<[Arc<ServerConfig>; 3]> = LazyLock::new(|| {
        let names = vec!["localhost".to_owned()];
        let issued = rcgen::generate_simple_self_signed(names).expect("a name");
        [vec![], vec![alpn(Spoken::H1)], vec![alpn(Spoken::H2)]].map(|alpn| {
            let key = PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der());
            let mut config = ServerConfig::builder()
                .with_no_client_auth()
                .with_single_cert(vec![issued.cert.der().clone()], key.into())
                .expect("the key belongs to the certificate");
            config.alpn_protocols = alpn;
            config.send_half_rtt_data = true;
            Arc::new(config)
        })
    });
    let place = match (setup.alpn, setup.version) {
        (false, _) => 0,
        (true, Spoken::H1) => 1,
        (true, Spoken::H2) => 2,
    };
    Arc::clone(&SERVERS[place])
}

fn play<const FIELDS: bool>(setup: Setup, operations: &[Operation<'_>], cut: bool) -> Played {
    let mut play = Play::<FIELDS>::new(setup, cut);
    let played = play.connect(setup).and_then(|()| {
        play.check();
        operations
            .iter()
            .try_for_each(|operation| play.operate(operation))
    });
    let over = match played {
        Ok(()) => play.stream.eof(false, &mut play.caller.events),
        Err(over) => over,
    };
    play.end(&over);
    (play.caller.events.into_streams(), over, play.server.read)
}

/// Runs one input.
pub(crate) fn target(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let Ok(setup) = Setup::arbitrary(&mut input) else {
        return;
    };
    let operations = operations(&mut input);
    let whole = play::<true>(setup, &operations, false);
    assert_eq!(play::<false>(setup, &operations, false), whole);
    assert_eq!(play::<true>(setup, &operations, true), whole);
    assert_eq!(play::<false>(setup, &operations, true), whole);
}
