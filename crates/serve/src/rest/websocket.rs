//! Streams over WebSocket, as larking has them: messages in JSON as text frames in both directions,
//! and the status as the close frame's code and reason.
//!
//! A method that only the server streams takes its one message from the path and the query. Where
//! only the caller streams, an empty text frame ends the messages: a WebSocket cannot be closed in
//! one direction.

use std::{future::pending, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version,
    header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE},
    request::Parts,
};
use hyper::{ext::Protocol, upgrade::OnUpgrade, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use tokio::{
    io::AsyncWriteExt,
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval_at, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message, Utf8Bytes,
        handshake::derive_accept_key,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};
use tonic::{Code, Status, body::Body};
use trilane_transcode::{Format, Found, Match};

use super::{
    Exchange, Gateway,
    answer::{Refusal, status},
    call::{self, Messages, Sent},
};
use crate::{
    app::{Answer, Reply},
    connection::{Connection, HANDSHAKE_TIMEOUT, PATIENCE},
    rpc::MAX_MESSAGE,
};

/// How long the peer's part of closing may take.
pub(super) const FAREWELL: Duration = Duration::from_secs(2);
/// A peer that says nothing is asked whether it is there this often,
const PING: Duration = Duration::from_secs(20);
/// and is given up after this long.
const SILENCE: Duration = Duration::from_secs(60);
/// RFC 6455 section 5.5: a control frame has 125 bytes, of which the code takes 2.
const MAX_REASON: usize = 123;
const WEBSOCKET: &str = "websocket";

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// RFC 6455 section 4.1.
fn is_upgrade(head: &Parts) -> bool {
    head.method == Method::GET
        && head.version < Version::HTTP_2
        && has_token(&head.headers, &UPGRADE, WEBSOCKET)
        && has_token(&head.headers, &CONNECTION, "upgrade")
}

/// RFC 8441 section 5.
fn is_extended_connect(head: &Parts) -> bool {
    head.method == Method::CONNECT
        && head
            .extensions
            .get::<Protocol>()
            .is_some_and(|protocol| protocol.as_str().eq_ignore_ascii_case(WEBSOCKET))
}

fn has_token(fields: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    fields
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|one| one.trim().eq_ignore_ascii_case(token))
}

/// Whether a request asks for a WebSocket.
pub(crate) fn is_asked(head: &Parts) -> bool {
    is_upgrade(head) || is_extended_connect(head)
}

impl Exchange {
    /// The method that a WebSocket was asked for, if one was and there is one.
    pub(super) fn wants_websocket(&self) -> Option<Match> {
        if !is_asked(&self.head) {
            return None;
        }
        let path = self.head.uri.path();
        let router = self.gateway.services.router();
        ["WEBSOCKET", "GET", "POST"].into_iter().find_map(|method| {
            let Found::Match(found) = router.find(method, path) else {
                return None;
            };
            let method = found.binding.method();
            (method.is_client_streaming() || method.is_server_streaming()).then_some(found)
        })
    }

    /// Accepts a WebSocket, and talks over it in a task of its own.
    pub(super) fn upgrade<B>(mut self, found: Match, fields: HeaderMap) -> Answer<B> {
        let (key, upgrade) = match accept(&mut self.head) {
            Ok(accepted) => accepted,
            Err(refusal) => return refuse(&self.gateway, refusal, fields, &self.connection),
        };
        let sockets = self.gateway.sockets.clone();
        sockets.spawn(async move {
            let _waiting = self.connection.wait();
            if let Some(socket) = opened(upgrade, self.max_message()).await {
                Session::new(&self, &found, socket).run().await;
            }
        });
        switch(key, fields)
    }
}

/// Accepts a WebSocket, and sends back each message that comes over it.
pub(crate) fn echo<B>(
    gateway: &Gateway,
    connection: &Arc<Connection>,
    mut head: Parts,
    fields: HeaderMap,
) -> Answer<B> {
    let (key, upgrade) = match accept(&mut head) {
        Ok(accepted) => accepted,
        Err(refusal) => return refuse(gateway, refusal, fields, connection),
    };
    let connection = connection.clone();
    gateway.sockets.spawn(async move {
        let _waiting = connection.wait();
        let Some(mut socket) = opened(upgrade, MAX_MESSAGE).await else {
            return;
        };
        // A Close frame is answered by the library, and then nothing more comes.
        while let Ok(Some(Ok(message))) = timeout(SILENCE, socket.next()).await {
            let is_message = matches!(message, Message::Text(_) | Message::Binary(_));
            if is_message && !matches!(timeout(PATIENCE, socket.send(message)).await, Ok(Ok(()))) {
                return;
            }
        }
        // TLS wants to hear of the end too.
        let _ = timeout(FAREWELL, socket.get_mut().shutdown()).await;
    });
    switch(key, fields)
}

/// The key's answer for [`switch`], and what becomes a WebSocket once that is sent.
fn accept(head: &mut Parts) -> Result<(Option<HeaderValue>, OnUpgrade), Refusal> {
    let key = answer_key(head)?;
    match head.extensions.remove::<OnUpgrade>() {
        Some(upgrade) => Ok((key, upgrade)),
        None => Err(Refusal::of(Status::unimplemented(
            "this connection cannot be upgraded",
        ))),
    }
}

/// The response that accepts a WebSocket.
fn switch<B>(key: Option<HeaderValue>, mut fields: HeaderMap) -> Answer<B> {
    let mut response = Response::new(Reply::Bytes(Bytes::new()));
    if let Some(key) = key {
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        fields.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        fields.insert(UPGRADE, HeaderValue::from_static(WEBSOCKET));
        fields.insert(SEC_WEBSOCKET_ACCEPT, key);
    }
    *response.headers_mut() = fields;
    Answer::now(response)
}

fn refuse<B>(
    gateway: &Gateway,
    refusal: Refusal,
    fields: HeaderMap,
    connection: &Arc<Connection>,
) -> Answer<B> {
    let answered = refusal.into_answered(&gateway.services, Format::Json);
    Answer::now(answered.into_response(fields, connection, false))
}

/// The WebSocket; `None` where the peer went away before, which needs no report.
async fn opened(upgrade: OnUpgrade, most: usize) -> Option<Socket> {
    let upgraded = timeout(HANDSHAKE_TIMEOUT, upgrade).await.ok()?.ok()?;
    let config = WebSocketConfig::default()
        .read_buffer_size(4 << 10)
        .write_buffer_size(0)
        .max_write_buffer_size(2 * most)
        .max_message_size(Some(most))
        .max_frame_size(Some(most));
    let io = TokioIo::new(upgraded);
    Some(WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await)
}

/// The `sec-websocket-accept` field of HTTP/1.1; HTTP/2 has none.
fn answer_key(head: &Parts) -> Result<Option<HeaderValue>, Refusal> {
    let refuse = |text: &str| {
        let refusal = Refusal::new(StatusCode::BAD_REQUEST, Status::invalid_argument(text));
        Err(refusal.with(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")))
    };
    let version = head.headers.get(SEC_WEBSOCKET_VERSION);
    if version.is_none_or(|version| version != "13") {
        return refuse("sec-websocket-version has to be 13");
    }
    if head.method == Method::CONNECT {
        return Ok(None);
    }
    let Some(key) = head.headers.get(SEC_WEBSOCKET_KEY) else {
        return refuse("sec-websocket-key is missing");
    };
    match HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
        Ok(accept) => Ok(Some(accept)),
        Err(_) => refuse("sec-websocket-key is none"),
    }
}

/// A conversation.
struct Session<'a> {
    exchange: &'a Exchange,
    found: &'a Match,
    socket: Socket,
    /// Where the caller's messages go; `None` when there are no more.
    requests: Option<mpsc::Sender<Sent>>,
    /// A message that the service does not take yet. The socket is not read while there is one.
    held: Option<Bytes>,
    heard: Instant,
}

/// Why a conversation is over.
enum End {
    /// Of the call: with this status.
    Call(Status),
    /// Of the WebSocket: for this reason.
    Fault(CloseCode, &'static str),
    /// The peer has left, or does not answer.
    Gone,
}

impl<'a> Session<'a> {
    fn new(exchange: &'a Exchange, found: &'a Match, socket: Socket) -> Self {
        Self {
            exchange,
            found,
            socket,
            requests: None,
            held: None,
            heard: Instant::now(),
        }
    }

    async fn run(mut self) {
        let end = match self.begin() {
            Ok(requests) => self.talk(requests).await,
            Err(status) => End::Call(status),
        };
        let (code, reason) = match end {
            End::Call(status) => (close_code(status.code()), reason(&status)),
            End::Fault(code, text) => (code, text.to_owned()),
            End::Gone => return,
        };
        let frame = CloseFrame {
            code,
            reason: reason.into(),
        };
        let _ = timeout(FAREWELL, async {
            self.socket.close(Some(frame)).await?;
            while let Some(message) = self.socket.next().await {
                message?;
            }
            // TLS wants to hear of the end too.
            self.socket.get_mut().shutdown().await?;
            Ok::<_, Error>(())
        })
        .await;
    }

    /// The requests of the call.
    fn begin(&mut self) -> Result<Body, Status> {
        if self.found.binding.method().is_client_streaming() {
            let (sender, requests) = call::channel();
            self.requests = Some(sender);
            return Ok(requests);
        }
        let query = self.exchange.head.uri.query();
        let message = self
            .found
            .message(query, Format::Json, b"")
            .map_err(status)?;
        Ok(call::whole(&trilane_grpc::encode(&message)))
    }

    async fn talk(&mut self, requests: Body) -> End {
        let (exchange, binding) = (self.exchange, &self.found.binding);
        let mut calling = Box::pin(call::start(exchange, binding, requests));
        let mut responses: Option<Messages> = None;
        let mut pings = interval_at(Instant::now() + PING, PING);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let end = tokio::select! {
                called = &mut calling, if responses.is_none() => match called {
                    Ok(response) => {
                        responses = Some(Messages::new(response, exchange.max_message()));
                        None
                    }
                    Err(status) => Some(End::Call(status)),
                },
                response = next(&mut responses) => self.say(response).await,
                permit = reserve(self.requests.clone()), if self.held.is_some() => {
                    match permit {
                        Some(permit) => {
                            permit.send(self.held.take().ok_or_else(lost));
                        }
                        // The service has ended; its status is on the way.
                        None => self.held = None,
                    }
                    None
                },
                message = self.socket.next(), if self.held.is_none() => self.hear(message),
                _ = pings.tick() => self.ping().await,
            };
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// Passes a response on.
    async fn say(&mut self, response: Result<Option<Bytes>, Status>) -> Option<End> {
        let message = match response {
            Ok(Some(message)) => message,
            Ok(None) => return Some(End::Call(Status::ok(""))),
            Err(status) => return Some(End::Call(status)),
        };
        let mut text = Vec::with_capacity(message.len() * 3);
        let written = call::write(&self.found.binding, &message, Format::Json, &mut text);
        if let Err(status) = written {
            return Some(End::Call(status));
        }
        match Utf8Bytes::try_from(text) {
            Ok(text) => self.send(Message::Text(text)).await,
            Err(_) => Some(End::Call(Status::internal("the response is not UTF-8"))),
        }
    }

    async fn ping(&mut self) -> Option<End> {
        if self.heard.elapsed() > SILENCE {
            return Some(End::Gone);
        }
        self.send(Message::Ping(Bytes::new())).await
    }

    async fn send(&mut self, message: Message) -> Option<End> {
        match timeout(PATIENCE, self.socket.send(message)).await {
            Ok(Ok(())) => None,
            _ => Some(End::Gone),
        }
    }

    /// Takes what the peer says.
    fn hear(&mut self, message: Option<Result<Message, Error>>) -> Option<End> {
        self.heard = Instant::now();
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Binary(_))) => {
                return Some(End::Fault(
                    CloseCode::Unsupported,
                    "messages are JSON in text frames",
                ));
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => return None,
            Some(Err(Error::Capacity(_))) => {
                return Some(End::Fault(CloseCode::Size, "messages have 4 MiB at most"));
            }
            Some(Err(Error::Protocol(_))) => {
                return Some(End::Fault(
                    CloseCode::Protocol,
                    "that was no WebSocket frame",
                ));
            }
            Some(Err(Error::Utf8(_))) => {
                return Some(End::Fault(CloseCode::Invalid, "a text frame is UTF-8"));
            }
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Some(End::Gone),
        };
        let method = self.found.binding.method();
        if !method.is_client_streaming() {
            let text = "this method takes its message from the path and the query";
            return Some(End::Fault(CloseCode::Unsupported, text));
        }
        if self.requests.is_none() {
            let text = "a message after the empty one, which ended them";
            return Some(End::Fault(CloseCode::Policy, text));
        }
        if text.is_empty() && !method.is_server_streaming() {
            self.requests = None;
            return None;
        }
        let query = self.exchange.head.uri.query();
        match self.found.message(query, Format::Json, text.as_bytes()) {
            Ok(message) => {
                self.held = Some(call::frame(&trilane_grpc::encode(&message)));
                None
            }
            Err(problem) => Some(End::Call(status(problem))),
        }
    }
}

async fn next(responses: &mut Option<Messages>) -> Result<Option<Bytes>, Status> {
    match responses {
        Some(responses) => responses.next().await,
        None => pending().await,
    }
}

async fn reserve(requests: Option<mpsc::Sender<Sent>>) -> Option<mpsc::OwnedPermit<Sent>> {
    requests?.reserve_owned().await.ok()
}

fn lost() -> Status {
    Status::internal("a message was lost")
}

/// The code that larking closes with for a status.
fn close_code(code: Code) -> CloseCode {
    match code {
        Code::Ok => CloseCode::Normal,
        Code::Cancelled | Code::DeadlineExceeded | Code::AlreadyExists => CloseCode::Away,
        Code::InvalidArgument | Code::Unimplemented => CloseCode::Unsupported,
        Code::Unauthenticated => CloseCode::Policy,
        // A server that stops goes away; larking has no word for it.
        Code::Unavailable => CloseCode::Away,
        _ => CloseCode::Error,
    }
}

/// The status in what room there is.
fn reason(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let end = (0..=MAX_REASON.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_cut_between_characters() {
        let status = Status::internal("é".repeat(100));
        assert_eq!(reason(&status), "é".repeat(61));
        assert_eq!(reason(&Status::internal("short")), "short");
    }
}
