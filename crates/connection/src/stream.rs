//! A connection over a byte stream: a proxy's tunnel, TLS, then HTTP/1.1 or HTTP/2.

mod outer;
mod requests;
mod sealing;
mod state;

use std::sync::Arc;
use std::time::Instant;

use trilane_transport::tls;
use trilane_wire::{End, Events, FieldList};

use crate::Version;
use crate::codec::Codec;
use crate::phase::{Over, Phase, Progress, StreamConfig, TlsConfig};
use crate::queue::SendQueue;
use crate::tunnel::Asking;
use crate::unsent::Unsent;
use outer::Outer;

/// Room for one cut TLS record, in bytes: see [`Stream::restore`].
pub const HEADROOM: usize = 17 * 1024;

/// One connection over a byte stream.
#[derive(Debug)]
pub struct Stream {
    config: Arc<StreamConfig>,
    phase: Phase,
    /// When the phase began.
    since: Instant,
    asking: Option<Box<Asking>>,
    /// TLS with the proxy, where it is spoken.
    outer: Option<Box<Outer>>,
    /// What goes to the origin before anything else.
    announced: Vec<u8>,
    /// The fields of the answer by which a proxy made the tunnel.
    proxy_fields: Option<Box<FieldList>>,
    tls: Option<Box<tls::Session>>,
    /// From [`Phase::Open`] on, or from the handshake on where requests may go in early data.
    codec: Option<Codec>,
    /// What has gone in early data, until it is known whether the server has taken it.
    early: Vec<u8>,
    /// What the codec has written and TLS has not sealed. Empty without TLS.
    plain: SendQueue,
    /// What goes to the peer, or through the proxy's TLS.
    queue: SendQueue,
    /// HTTP/2: most streams open before the peer's SETTINGS have come, where it is not the configured number.
    streams_before_settings: Option<u32>,
    /// HTTP/1.1: whether the reader of the response is behind.
    paused: bool,
    /// Whether the byte stream takes nothing any more.
    broken: bool,
    /// Whether the peer has ended its direction, or the byte stream has failed.
    ended: bool,
}

impl Stream {
    /// A connection whose byte stream is being made.
    pub fn new(config: Arc<StreamConfig>, now: Instant) -> Self {
        Self {
            config,
            phase: Phase::Connecting,
            since: now,
            asking: None,
            outer: None,
            announced: Vec::new(),
            proxy_fields: None,
            tls: None,
            codec: None,
            early: Vec::new(),
            plain: SendQueue::default(),
            queue: SendQueue::default(),
            streams_before_settings: None,
            paused: false,
            broken: false,
            ended: false,
        }
    }

    /// What the origin gets before anything else, in front of TLS and behind a proxy's tunnel: the header of
    /// the PROXY protocol. Say so before [`Self::connected`].
    pub fn announce(&mut self, header: Vec<u8>) {
        self.announced = header;
    }

    /// HTTP/2: the peer has allowed so many streams on an earlier connection, and is taken to allow as many before
    /// its SETTINGS say so. Where none are sent before these, none are. Say so before [`Self::connected`].
    pub fn expect_streams(&mut self, allowed: u32) {
        if self.config.h2.streams_before_settings > 0 {
            self.streams_before_settings = Some(allowed);
        }
    }

    /// Whether it connects to a proxy, and asks it for a tunnel.
    pub fn is_to_proxy(&self) -> bool {
        self.config.tunnel.is_some()
    }

    /// Takes the fields of the answer by which a proxy made the tunnel, once.
    pub fn take_proxy_fields(&mut self) -> Option<FieldList> {
        self.proxy_fields.take().map(|fields| *fields)
    }

    /// The byte stream is there.
    pub fn connected(&mut self, now: Instant) -> Result<Progress, Over> {
        self.since = now;
        let Some(tunnel) = &self.config.tunnel else {
            return self.greet(now);
        };
        if let Some(tls) = &self.config.proxy_tls {
            let outer = Outer::new(tls).map_err(Over::Tls)?;
            self.outer = Some(Box::new(outer));
        }
        let asking = Asking::new(tunnel, self.queue.tail())
            .map_err(|refused| Over::Tunnel(None, refused.to_string()))?;
        self.asking = Some(Box::new(asking));
        self.phase = Phase::Tunnelling;
        Ok(Progress::Same)
    }

    /// The way to the origin is free: TLS begins, or HTTP.
    fn greet(&mut self, now: Instant) -> Result<Progress, Over> {
        self.since = now;
        self.queue.tail().append(&mut self.announced);
        let Some(TlsConfig {
            config,
            server_name,
        }) = &self.config.tls
        else {
            let version = self.config.versions.first().copied();
            self.open(version.unwrap_or(Version::H1), now);
            return Ok(Progress::Opened);
        };
        self.phase = Phase::Handshaking;
        let mut session = tls::Session::new(config, server_name).map_err(Over::Tls)?;
        session.start(self.queue.tail()).map_err(Over::Tls)?;
        let early = session.offers_early_data();
        self.tls = Some(Box::new(session));
        // Which version it is to be is known before ALPN has told only where one is offered.
        if let (true, &[version]) = (early, &self.config.versions[..]) {
            self.speak(version);
        }
        Ok(Progress::Same)
    }

    fn open(&mut self, version: Version, now: Instant) {
        self.phase = Phase::Open;
        self.since = now;
        if self.codec.is_none() {
            self.speak(version);
        }
    }

    fn speak(&mut self, version: Version) {
        let out = match self.tls {
            Some(_) => &mut self.plain,
            None => &mut self.queue,
        };
        let mut config = self.config.h2;
        if let Some(streams) = self.streams_before_settings {
            config.streams_before_settings = streams;
        }
        self.codec = Some(Codec::new(version, &config, out.tail()));
    }

    /// Takes what came from the peer; TLS decrypts it in place. Begin where [`Self::restore`] says.
    #[inline]
    pub fn receive<E: Events>(
        &mut self,
        now: Instant,
        bytes: &mut [u8],
        events: &mut E,
    ) -> Result<Progress, Over> {
        if self.outer.is_some() {
            return self.receive_through(now, bytes, events);
        }
        self.receive_inner(now, bytes, events)
    }

    /// As [`Self::receive`], what came through the proxy's TLS where there is one.
    #[inline]
    fn receive_inner<E: Events>(
        &mut self,
        now: Instant,
        bytes: &mut [u8],
        events: &mut E,
    ) -> Result<Progress, Over> {
        if self.tls.is_some() {
            return self.unseal(now, bytes, events);
        }
        if let Some(codec) = &mut self.codec {
            let (out, queue) = self.queue.tail_and_content();
            let plain = self.plain.content();
            let events = &mut Unsent {
                events,
                plain,
                queue,
            };
            codec.receive(bytes, events, out).map_err(Over::Protocol)?;
            return Ok(Progress::Same);
        }
        let Some(asking) = &mut self.asking else {
            return Ok(Progress::Same);
        };
        let taken = match asking.receive(bytes, self.queue.tail()) {
            Ok(Some(taken)) => taken,
            Ok(None) => return Ok(Progress::Same),
            Err((status, reason)) => return Err(Over::Tunnel(status, reason)),
        };
        self.proxy_fields = self
            .asking
            .take()
            .and_then(|asking| asking.into_fields())
            .map(Box::new);
        let greeted = self.greet(now)?;
        match &mut bytes[taken..] {
            [] => Ok(greeted),
            // A server of HTTP/2 without TLS may speak first.
            behind => match self.receive_inner(now, behind, events)? {
                Progress::Same => Ok(greeted),
                opened => Ok(opened),
            },
        }
    }

    /// Bytes that the byte stream may throw away instead of handing them to [`Self::receive`]: of a body
    /// over HTTP/1.1 without TLS.
    pub fn discardable(&self) -> u64 {
        match &self.codec {
            Some(Codec::H1(codec)) if self.tls.is_none() && self.outer.is_none() => {
                codec.discardable()
            }
            _ => 0,
        }
    }

    /// The byte stream has thrown away the next `count` bytes, no more than [`Self::discardable`].
    pub fn discard<E: Events>(&mut self, count: u64, events: &mut E) {
        if let Some(Codec::H1(codec)) = &mut self.codec {
            let events = &mut Unsent {
                events,
                plain: self.plain.content(),
                queue: self.queue.content(),
            };
            codec.discard(count, events);
        }
    }

    fn unseal<E: Events>(
        &mut self,
        now: Instant,
        bytes: &mut [u8],
        events: &mut E,
    ) -> Result<Progress, Over> {
        let Self {
            tls: Some(session),
            codec,
            plain,
            queue,
            ..
        } = self
        else {
            return Ok(Progress::Same);
        };
        let mut result = Ok(());
        let (sealed, queue) = queue.tail_and_content();
        let open = self.phase == Phase::Open;
        // A server may send its SETTINGS behind its Finished, before ALPN is known here.
        let mut behind = Vec::new();
        session
            .receive(
                bytes,
                |plaintext| match codec {
                    Some(codec) if open && result.is_ok() => {
                        let (out, plain) = plain.tail_and_content();
                        let events = &mut Unsent {
                            events: &mut *events,
                            plain,
                            queue,
                        };
                        result = codec.receive(plaintext, events, out);
                    }
                    Some(_) if open => (),
                    _ => behind.extend_from_slice(plaintext),
                },
                sealed,
            )
            .map_err(Over::Tls)?;
        let begins = self.phase != Phase::Open && !self.is_handshaking();
        let progress = match result {
            Err(error) => Err(Over::Protocol(error)),
            Ok(()) if begins => self.begin(&behind, now, events),
            Ok(()) => Ok(Progress::Same),
        };
        if self.peer_closed() && !self.is_handshaking() {
            // The peer's direction has ended (RFC 8446 §6.1). Some peers keep the socket until they
            // have our close_notify as well.
            self.seal()?;
            if let Some(session) = &mut self.tls {
                session.close(self.queue.tail());
            }
        }
        progress
    }

    /// TLS is done, and `behind` came with its end: HTTP begins.
    fn begin<E: Events>(
        &mut self,
        behind: &[u8],
        now: Instant,
        events: &mut E,
    ) -> Result<Progress, Over> {
        let version = self.agreed()?;
        self.open(version, now);
        self.repeat_early_data()?;
        if let Some(codec) = self.codec.as_mut().filter(|_| !behind.is_empty()) {
            let (out, plain) = self.plain.tail_and_content();
            let events = &mut Unsent {
                events,
                plain,
                queue: self.queue.content(),
            };
            codec.receive(behind, events, out).map_err(Over::Protocol)?;
        }
        Ok(Progress::Opened)
    }

    fn is_handshaking(&self) -> bool {
        self.tls
            .as_ref()
            .is_some_and(|session| session.is_handshaking())
    }

    /// The version that ALPN chose; HTTP/1.1 where it chose none (RFC 7301 §3.2).
    fn agreed(&self) -> Result<Version, Over> {
        let info = self.tls_info().unwrap_or_default();
        let version = match &info.alpn[..] {
            b"h2" => Version::H2,
            _ => Version::H1,
        };
        if self.config.versions.contains(&version) {
            Ok(version)
        } else {
            Err(Over::Version(version))
        }
    }

    /// The peer has ended its direction, or the byte stream has failed: what is outstanding ends or
    /// fails with it.
    pub fn eof<E: Events>(&mut self, failed: bool, events: &mut E) -> Over {
        self.ended = true;
        match self.phase {
            Phase::Open => {
                let session = self.tls.as_deref().or(self.proxy_session());
                let end = tls::end_of_stream(session, failed);
                self.abandon(end, events);
                Over::Ended(end)
            }
            Phase::Handshaking if !failed => match self.tls.as_ref().map(|tls| tls.eof()) {
                Some(Err(error)) => Over::Tls(error),
                _ => Over::Early(Phase::Handshaking),
            },
            phase => Over::Early(phase),
        }
    }

    /// Ends or fails what is outstanding, as at this end of the byte stream.
    pub fn abandon<E: Events>(&mut self, end: End, events: &mut E) {
        if let Some(codec) = &mut self.codec {
            let events = &mut Unsent {
                events,
                plain: self.plain.content(),
                queue: self.queue.content(),
            };
            codec.eof(end, events);
        }
    }

    /// Puts the TLS record that the last [`Self::receive`] found cut right before `at` in `buffer`,
    /// behind which bytes were read or will be, and says where it begins: receive all from there.
    /// [`HEADROOM`] bytes before `at` have room for any.
    #[inline]
    pub fn restore(&mut self, buffer: &mut [u8], at: usize) -> usize {
        if let Some(outer) = &mut self.outer {
            return outer.session.restore(buffer, at);
        }
        self.tls
            .as_mut()
            .map_or(at, |session| session.restore(buffer, at))
    }

    /// What goes to the peer next; empty when nothing does now. Tell [`Self::sent`] how much went.
    #[inline]
    pub fn transmit(&mut self) -> Result<&[u8], Over> {
        self.fill()?;
        Ok(self.outgoing().first())
    }

    /// As [`Self::transmit`], all that waits, for one write of several slices: bodies lie where the
    /// caller made them.
    #[inline]
    pub fn transmit_slices(&mut self) -> Result<impl Iterator<Item = &[u8]>, Over> {
        self.fill()?;
        Ok(self.outgoing().slices())
    }

    /// The first `count` bytes of [`Self::transmit`], or [`Self::transmit_slices`], have gone.
    #[inline]
    pub fn sent(&mut self, count: usize) {
        match &mut self.outer {
            None => self.queue.advance(count),
            Some(outer) => outer.queue.advance(count),
        }
    }

    /// Where nothing waits for the socket, has codec and TLS write more.
    #[inline]
    fn fill(&mut self) -> Result<(), Over> {
        if self.broken {
            self.drop_output();
        } else if self.outgoing().is_empty() {
            if self.queue.is_empty() {
                if self.plain.is_empty() {
                    self.produce();
                }
                self.seal()?;
            }
            self.seal_outer()?;
        }
        Ok(())
    }

    /// The byte stream takes nothing any more. What waits is dropped, and nothing is added; a response
    /// may have come all the same, and reading tells how the connection ended.
    pub fn broke(&mut self) {
        self.broken = true;
        self.drop_output();
    }

    fn drop_output(&mut self) {
        self.queue.abandon();
        self.plain.abandon();
        if let Some(outer) = &mut self.outer {
            outer.queue.abandon();
        }
    }

    /// Has the codec write more of pending content.
    #[inline]
    pub fn produce(&mut self) {
        self.with_codec((), |codec, out| {
            if codec.has_output() {
                codec.produce(out);
            }
        });
    }

    /// Says goodbye: GOAWAY and close_notify, where there are such.
    pub fn close(&mut self) {
        self.with_codec((), |codec, out| codec.close(out.tail()));
        // Nobody waits for a session that cannot seal.
        let _ = self.seal();
        if let Some(session) = &mut self.tls {
            session.close(self.queue.tail());
        }
        let _ = self.seal_outer();
        if let Some(outer) = &mut self.outer {
            outer.session.close(outer.queue.tail());
        }
    }

    /// Calls the codec with the place where it writes; `otherwise` before HTTP is spoken.
    #[inline]
    fn with_codec<T>(
        &mut self,
        otherwise: T,
        call: impl FnOnce(&mut Codec, &mut SendQueue) -> T,
    ) -> T {
        let out = match self.tls {
            Some(_) => &mut self.plain,
            None => &mut self.queue,
        };
        match &mut self.codec {
            Some(codec) => call(codec, out),
            None => otherwise,
        }
    }
}
