//! Servers that break rules: every case of `tests/conformance`, over connections in memory.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::time::{Duration, Instant};

use bytes::BytesMut;
use rustix::io::Errno;
use trilane_conformance::{Case, Expected, Played, QuicPlay, Said, StreamPlay, cases};
use trilane_connection::{Batch, Quic, QuicConfig, Taken};
use trilane_quic_peer::{Identity, QuicPeer, TransportConfig};
use trilane_wire::{Content, Unprocessed, h3};

use crate::connection::Ready;
use crate::link::{self, Link, Socket, Turn};
use crate::slots::{Sink, Slots};
use crate::state::State;
use crate::{
    Connection, Error, Exchange, Facts, FieldList, Flush, Patience, Submission, Tls, TlsOptions,
    Version,
};

/// As many informational responses as are kept.
const INFORMATIONAL: usize = 16;
/// From one end to the other.
const WAY: Duration = Duration::from_millis(1);
/// Longer than QUIC waits to send again, and shorter than it waits for a peer that is gone.
const PATIENCE: Duration = Duration::from_secs(2);

#[test]
fn every_case_of_http_1_1_is_taken_for_what_it_is() {
    for case in cases(trilane_conformance::Version::H1) {
        play(case, |_| Server::stream(case, Version::H1));
    }
}

#[test]
fn every_case_of_http_2_is_taken_for_what_it_is() {
    for case in cases(trilane_conformance::Version::H2) {
        play(case, |_| Server::stream(case, Version::H2));
    }
}

#[test]
fn every_case_of_http_3_is_taken_for_what_it_is() {
    let identity = Identity::forgetful("a.example");
    let tls = Tls::new(TlsOptions {
        insecure: true,
        ..TlsOptions::default()
    });
    let config = QuicConfig {
        quic: tls.unwrap().quic().unwrap(),
        h3: h3::Config::default(),
        server_name: "a.example".into(),
    };
    for case in cases(trilane_conformance::Version::H3) {
        play(case, |played| {
            Server::quic(case, &config, &identity, played)
        });
    }
}

/// Sends the requests of a case, each on the connection of the one before where that can be used.
fn play(case: &'static Case, connect: impl Fn(&mut Played) -> Server) {
    let Some(expected) = &case.client else {
        return;
    };
    let (mut played, mut server) = (Played::default(), None);
    for _ in 0..case.requests {
        loop {
            let usable = server.take_if(|server: &mut Server| !server.connection.is_closing());
            let server = server.insert(usable.unwrap_or_else(|| connect(&mut played)));
            let exchange = server.request(&case.method);
            server.carry(&mut played);
            let most = case.requests + usize::from(case.once);
            assert!(played.requests <= most, "{}: sent again", case.name);
            let response = response(&exchange);
            // Nothing was done for it: whoever has the connection sends it again.
            if !matches!(&response, Err(error) if error.unprocessed == Unprocessed::Proved) {
                judge(case, expected, &exchange, response);
                break;
            }
        }
    }
    if let Some(server) = &mut server {
        server.connection.close();
        server.carry(&mut played);
    }
    case.judge(&played, expected);
}

/// What has come; where the end is missing and may come, a caller runs out of patience.
fn response(exchange: &Exchange) -> Result<(u16, Vec<u8>), Error> {
    let now = Some(Duration::ZERO);
    let status = exchange.head(now, &mut Never)?;
    Ok((status, exchange.read_all(now, &mut Never)?))
}

fn judge(
    case: &Case,
    expected: &Expected,
    exchange: &Exchange,
    response: Result<(u16, Vec<u8>), Error>,
) {
    let name = &case.name;
    match (expected, response) {
        (Expected::Failed { failure, .. }, Err(error)) => {
            assert_eq!(error.kind.name(), failure, "{name}: {error:?}");
            assert!(!error.message.is_empty(), "{name}");
            assert_eq!(error.code, case.code, "{name}: {error:?}");
        }
        (
            Expected::Taken {
                status,
                content,
                fields,
                trailers,
                informational,
                ..
            },
            Ok(response),
        ) => {
            assert_eq!(response, (*status, content.0.clone()), "{name}");
            let mut found = text(&exchange.fields());
            found.retain(|(name, _)| fields.iter().any(|(other, _)| name == other));
            assert_eq!(&found, fields, "{name}");
            let found = exchange.trailers().unwrap_or_default();
            assert_eq!(&text(&found), trailers, "{name}");
            let found = exchange.informational().into_iter();
            let found: Vec<_> = found.map(|(status, _)| status).collect();
            let kept = informational.len().min(INFORMATIONAL);
            assert_eq!(found, informational[..kept], "{name}");
        }
        (_, response) => panic!("{name}: {response:?}"),
    }
}

/// Fields with names in lower case.
fn text(fields: &FieldList) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| -> String { bytes.iter().copied().map(char::from).collect() };
    let fields = fields.iter();
    fields
        .map(|(name, value)| (text(name).to_ascii_lowercase(), text(value)))
        .collect()
}

/// Nobody waits.
struct Never;

impl Patience for Never {
    fn exhausted(&mut self) -> bool {
        true
    }

    fn slice(&self) -> Option<Duration> {
        None
    }
}

/// A connection and its other end.
struct Server {
    connection: Connection,
    end: End,
}

enum End {
    Stream(StreamPlay),
    Quic(Box<QuicEnd>),
}

/// The server's end over QUIC, and what time it is.
struct QuicEnd {
    peer: QuicPeer,
    play: QuicPlay,
    now: Instant,
}

impl Server {
    fn stream(case: &'static Case, version: Version) -> Self {
        Self {
            connection: Connection::memory(version, "http", "a.example").unwrap(),
            end: End::Stream(StreamPlay::new(case)),
        }
    }

    fn quic(
        case: &'static Case,
        config: &QuicConfig,
        identity: &Identity,
        played: &mut Played,
    ) -> Self {
        let now = Instant::now();
        let quic = Quic::new(config, ([192, 0, 2, 1], 443).into(), now).unwrap();
        let ready = Ready {
            socket: Socket::None,
            link: Link::Quic(Box::new(quic)),
            slots: Slots::default(),
            facts: Facts::default(),
            proxy_fields: None,
        };
        let connection = Connection::new(ready, "https", "a.example".into(), true, None).unwrap();
        let peer = QuicPeer::new(identity, TransportConfig::default(), Vec::new());
        let play = QuicPlay::new(case);
        let end = End::Quic(Box::new(QuicEnd { peer, play, now }));
        let mut server = Self { connection, end };
        server.carry(played);
        server
    }

    fn request(&self, method: &str) -> Exchange {
        let submission = Submission {
            method,
            target: "/",
            authority: None,
            fields: &[],
            content: Content::Whole([].into()),
            flush: Flush::Later,
            timed: false,
        };
        self.connection.submit(submission).unwrap()
    }

    /// Carries what both say until neither has more to say.
    fn carry(&mut self, played: &mut Played) {
        match &mut self.end {
            End::Stream(play) => carry_bytes(&self.connection, play, played),
            End::Quic(end) => end.carry(&self.connection, played),
        }
    }
}

fn carry_bytes(connection: &Connection, play: &mut StreamPlay, played: &mut Played) {
    loop {
        let out = connection.output();
        if out.is_empty() {
            break;
        }
        for said in play.receive(&out, played) {
            let mut state = connection.shared.lock();
            // Nobody reads a connection that has failed.
            if state.failure.is_some() {
                break;
            }
            match said {
                Said::Bytes(bytes) => {
                    drop(state);
                    // The exchange has the error.
                    let _ = connection.receive(&bytes);
                }
                Said::End => {
                    drop(state);
                    connection.eof();
                }
                Said::Reset => {
                    let State { link, slots, .. } = &mut *state;
                    let Link::Stream(link) = link else {
                        unreachable!("a byte stream")
                    };
                    let error = link::eof(link, Some(Errno::CONNRESET), slots);
                    state.over(error);
                }
            }
        }
    }
}

impl QuicEnd {
    fn carry(&mut self, connection: &Connection, played: &mut Played) {
        let until = self.now + PATIENCE;
        let (mut scratch, mut out) = (Vec::new(), Vec::new());
        loop {
            let state = &mut *connection.shared.lock();
            state.settle();
            let mut said = Vec::new();
            quic(state).transmit(self.now, 1, &mut scratch, |bytes, _| {
                said.push(bytes.to_vec());
                Taken::Sent
            });
            for datagram in &said {
                self.peer.receive(self.now, datagram);
                self.play.hear(&mut self.peer, played);
            }
            let mut answers = Vec::new();
            loop {
                while self.peer.transmit(self.now, &mut out) {
                    answers.push(BytesMut::from(&out[..]));
                }
                if !self.play.go_on(self.now, &mut self.peer) {
                    break;
                }
            }
            self.now += WAY;
            let quiet = said.is_empty() && answers.is_empty();
            for bytes in answers {
                receive(state, self.now, bytes);
            }
            if quiet && !self.pass_time(state, until) {
                break;
            }
        }
    }

    /// Goes on to the next timer of either end. False where there is none in time.
    fn pass_time(&mut self, state: &mut State, until: Instant) -> bool {
        let timers = [quic(state).timeout(), self.peer.timeout()];
        let Some(next) = timers
            .into_iter()
            .flatten()
            .min()
            .filter(|next| *next < until)
        else {
            return false;
        };
        self.now = self.now.max(next);
        self.peer.handle_timeout(self.now);
        if let Turn::Over(error) = state.link.handle_timeout(self.now, &mut state.slots) {
            state.over(error);
        }
        true
    }
}

fn quic(state: &mut State) -> &mut Quic {
    match &mut state.link {
        Link::Quic(quic) => quic,
        Link::Stream(_) => unreachable!("over QUIC"),
    }
}

fn receive(state: &mut State, now: Instant, bytes: BytesMut) {
    let State { link, slots, .. } = state;
    let Link::Quic(quic) = link else {
        unreachable!("over QUIC")
    };
    let batch = Batch {
        segment_size: bytes.len(),
        bytes,
        ecn: 0,
    };
    quic.receive(now, batch, &mut Sink(slots));
    if let Some(error) = quic.error().map(link::quic_failure) {
        quic.abandon(&mut Sink(slots));
        state.over(error);
    }
}
