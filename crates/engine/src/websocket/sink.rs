//! The sink of sessions: reads what the server says and finds out how a session ended.

use trilane_wire::websocket::{self, Kind, Messages, code};
use trilane_wire::{Events, Fields, Head, StreamError, StreamId};

use super::plan::{SocketPlan, WebSocketMode};
use super::session::Talk;
use crate::events::{EventStreams, EventsPlan};
use crate::exchanges::Exchanges;
use crate::failure::FailureKind;
use crate::record::Recorder;
use crate::tally::Tally;

/// The status of HTTP/1.1 by which a server accepts (RFC 6455 §4.2.2); over HTTP/2 any of success does
/// (RFC 8441 §5).
const SWITCHING_PROTOCOLS: u16 = 101;

/// How a session ended.
type Verdict = Result<(), (FailureKind, String)>;

/// The sink of one call of `receive` where requests are WebSocket sessions.
pub(crate) struct SocketSink<'a, 'p> {
    pub(crate) now: u64,
    pub(crate) plan: &'p SocketPlan,
    pub(crate) exchanges: &'a mut Exchanges,
    pub(crate) tally: &'a mut Tally<'p>,
    /// What the transport said when it failed, for messages.
    pub(crate) cause: Option<&'a str>,
}

impl SocketSink<'_, '_> {
    /// Gives the verdict: the slot is free for another session, and what else comes is not looked at.
    fn finish(&mut self, id: StreamId, verdict: Verdict) {
        let (at, _) = self.exchanges.complete(id);
        let recorder = &mut self.tally.recorder;
        if let Some(plan) = &self.tally.plan.events {
            let times = (at.start, self.now);
            self.exchanges
                .events
                .end(plan, id, times, recorder.events());
        }
        match verdict {
            Ok(()) => recorder.ok(self.now, at),
            Err((kind, text)) => recorder.failed(kind, self.now, Some(at), || text),
        }
    }
}

impl Events for SocketSink<'_, '_> {
    // The handshake is answered by fields.
    const FIELDS: bool = true;

    fn head(&mut self, id: StreamId, head: Head<'_>) {
        self.exchanges.head(id, self.now, &head, self.tally);
        self.tally.know_server(head.fields);
        let Some(session) = self.exchanges.sessions.live(id) else {
            return;
        };
        let status = head.status;
        let accepted = match session.key {
            Some(key) if status == SWITCHING_PROTOCOLS => switched(&key, head.fields),
            None if matches!(status, 200..=299) => without_extensions(head.fields),
            _ => {
                session.talk.broken = Some((
                    FailureKind::Status,
                    format!("the server answered the opening handshake with status {status}"),
                ));
                return;
            }
        };
        session.talk.is_open = accepted.is_ok();
        self.exchanges.sessions.is_due(id);
        if let Err(text) = accepted {
            self.finish(id, Err((FailureKind::Protocol, text)));
        }
    }

    fn data(&mut self, id: StreamId, bytes: &[u8]) {
        self.exchanges.data(id, bytes.len(), self.tally);
        let (plan, now) = (self.plan, self.now);
        let start = self.exchanges.started(id);
        let Some(session) = self.exchanges.sessions.live(id) else {
            return;
        };
        // The content of an answer that did not accept.
        if !session.talk.is_open {
            return;
        }
        let talk = &mut session.talk;
        let mut reader = Reader {
            plan,
            id,
            at: (start, now),
            talk,
            recorder: &mut self.tally.recorder,
            events: self.tally.plan.events.as_ref(),
            streams: &mut self.exchanges.events,
        };
        let result = session.decoder.receive(bytes, &mut reader);
        let talk = &mut session.talk;
        if let Err(violation) = result {
            talk.farewell = Some(violation.code);
            let kind = match violation.code {
                code::TOO_BIG => FailureKind::Limit,
                _ => FailureKind::Protocol,
            };
            talk.broken.get_or_insert((kind, violation.to_string()));
        } else if talk.broken.is_some() {
            talk.farewell.get_or_insert(code::NORMAL);
        } else if talk.closed.is_some() {
            // RFC 6455 §5.5.1: it is answered in kind.
            talk.farewell.get_or_insert(code::NORMAL);
        }
        let has_more = talk.has_more(plan);
        let is_over = talk.broken.is_some() || talk.closed.is_some();
        let verdict = is_over.then(|| talk.verdict(plan));
        if has_more {
            self.exchanges.sessions.is_due(id);
        }
        if let Some(verdict) = verdict {
            self.finish(id, verdict);
        }
    }

    fn end(&mut self, id: StreamId, _trailers: Option<Fields<'_>>) {
        let Some(session) = self.exchanges.sessions.live(id) else {
            return;
        };
        let verdict = session.talk.broken.take().unwrap_or_else(|| {
            let received = session.talk.received;
            let what = if self.plan.is_multiplexed() {
                "stream"
            } else {
                "connection"
            };
            let text =
                format!("the {what} ended without a Close frame (1006), after {received} messages");
            (FailureKind::Closed, text)
        });
        self.finish(id, Err(verdict));
    }

    fn goaway(&mut self, code: u64, debug: &[u8]) {
        self.tally.know_goaway(code, debug);
    }

    fn fail(&mut self, id: StreamId, error: StreamError) {
        if self.exchanges.sessions.live(id).is_some() {
            self.exchanges
                .fail(id, error, self.now, self.cause, self.tally);
        }
    }
}

/// Whether the server has accepted the handshake of HTTP/1.1 with `key` (RFC 6455 §4.1).
fn switched(key: &[u8], fields: Fields<'_>) -> Result<(), String> {
    let upgrade = fields.first(b"upgrade").unwrap_or_default();
    if !upgrade.eq_ignore_ascii_case(b"websocket") {
        return Err("status 101 without Upgrade: websocket".to_owned());
    }
    if fields.first(b"sec-websocket-accept") != Some(&websocket::accept(key)) {
        return Err(
            "Sec-WebSocket-Accept is not the answer to our key: this is no WebSocket server"
                .to_owned(),
        );
    }
    without_extensions(fields)
}

/// Whether the server, which has accepted, uses no extension, as none was offered (RFC 6455 §9.1).
fn without_extensions(fields: Fields<'_>) -> Result<(), String> {
    match fields.first(b"sec-websocket-extensions") {
        Some(_) => Err("the server uses an extension that was not offered".to_owned()),
        None => Ok(()),
    }
}

impl Talk {
    /// How a session went that the server has closed, or that was broken off.
    fn verdict(&mut self, plan: &SocketPlan) -> Verdict {
        if let Some(broken) = self.broken.take() {
            return Err(broken);
        }
        let (code, reason) = self.closed.take().unwrap_or_default();
        let is_done = match plan.mode {
            WebSocketMode::Echo => self.received == plan.sends(),
            WebSocketMode::Subscribe => true,
        };
        // After our own Close frame the server repeats its code, or has no other to give.
        if is_done && (self.said_farewell || matches!(code, None | Some(code::NORMAL))) {
            return Ok(());
        }
        let code = code.map_or_else(|| "no code".to_owned(), |code| format!("code {code}"));
        let reason = if reason.is_empty() {
            reason
        } else {
            format!(" ({reason})")
        };
        let received = self.received;
        Err((
            FailureKind::Closed,
            format!("the server closed with {code}{reason} after {received} messages"),
        ))
    }

    /// Notes the first thing that is wrong.
    #[cold]
    fn break_off(&mut self, text: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some((FailureKind::Body, text()));
        }
    }
}

/// Takes the messages of one session.
struct Reader<'a> {
    plan: &'a SocketPlan,
    id: StreamId,
    /// When its handshake was sent, and now.
    at: (u64, u64),
    talk: &'a mut Talk,
    recorder: &'a mut Recorder,
    events: Option<&'a EventsPlan>,
    streams: &'a mut EventStreams,
}

impl Messages for Reader<'_> {
    fn piece(&mut self, _kind: Kind, bytes: &[u8]) {
        match self.plan.mode {
            WebSocketMode::Echo => {
                let begin = self.talk.matched;
                let expected = self.plan.payload.get(begin..begin + bytes.len());
                if expected != Some(bytes) {
                    self.talk
                        .break_off(|| "a message is not the echo of the one sent".to_owned());
                }
                self.talk.matched = begin.saturating_add(bytes.len());
            }
            WebSocketMode::Subscribe => {
                if let Some(plan) = self.events {
                    self.streams.text(plan, self.id, bytes);
                }
            }
        }
    }

    fn end(&mut self, kind: Kind) {
        // After our Close frame nothing is awaited any more.
        if self.talk.said_farewell {
            return;
        }
        self.talk.received += 1;
        let counts = self.recorder.websocket();
        counts.received += 1;
        match self.plan.mode {
            WebSocketMode::Echo => {
                let whole = std::mem::take(&mut self.talk.matched) == self.plan.payload.len();
                match self.talk.waiting.pop_front() {
                    None => self
                        .talk
                        .break_off(|| "a message came that is the echo of none".to_owned()),
                    Some(_) if !whole || kind != self.plan.kind => self
                        .talk
                        .break_off(|| "a message is not the echo of the one sent".to_owned()),
                    Some(since) => counts.round_trip.record(self.at.1.saturating_sub(since)),
                }
            }
            WebSocketMode::Subscribe => {
                if let Some(plan) = self.events {
                    let counts = self.recorder.events();
                    self.streams.message(plan, self.id, self.at, counts);
                }
            }
        }
    }

    fn ping(&mut self, payload: &[u8]) {
        self.talk.ping = Some(payload.to_vec());
    }

    fn close(&mut self, code: Option<u16>, reason: &str) {
        self.talk.closed = Some((code, reason.to_owned()));
    }
}
