//! REST: the services' methods under the paths that their `google.api.http` rules give them.
//!
//! A request becomes a message by descriptor, goes to the same service as a gRPC call does, and the
//! response's message becomes JSON or binary Protocol Buffers.

mod answer;
mod call;
mod coding;
pub(crate) mod connect;
mod cut;
mod duplex;
mod raw;
mod stream;
pub(crate) mod twirp;
mod upload;
pub(crate) mod websocket;

use std::sync::Arc;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, StatusCode, Version,
    header::{ACCEPT, ALLOW, CONTENT_TYPE, UPGRADE, VARY},
    request::Parts,
};
use hyper::body::Body as HttpBody;
use prost::Message;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tonic::{Status, body::Body};
use trilane_transcode::{Binding, Format, Found, Match};

use self::{
    answer::{Answered, Content, Outcome, Refusal},
    call::Messages,
    cut::Cut,
    stream::{Framing, HEARTBEAT, Lines},
};
use crate::{
    app::{Answer, BoxError, drain},
    connection::{Connection, LINGER},
    rpc::Rpc,
    services::Services,
};

/// Where the services are described, unless a rule has this path.
const OPENAPI: &str = "/openapi.json";

/// One worker's way from REST to the services.
pub(crate) struct Gateway {
    rpc: Rpc,
    services: Arc<Services>,
    /// WebSockets, and content that is read while its answer is sent: they outlive what began them.
    sockets: TaskTracker,
}

/// One request without its content.
struct Exchange {
    gateway: Arc<Gateway>,
    connection: Arc<Connection>,
    head: Parts,
}

impl Gateway {
    pub(crate) fn new(rpc: Rpc, services: Arc<Services>) -> Arc<Self> {
        Arc::new(Self {
            rpc,
            services,
            sockets: TaskTracker::new(),
        })
    }

    /// The same with other services; WebSockets that are open stay as they are.
    pub(crate) fn with_services(&self, rpc: Rpc, services: Arc<Services>) -> Arc<Self> {
        Arc::new(Self {
            rpc,
            services,
            sockets: self.sockets.clone(),
        })
    }

    pub(crate) fn rpc(&self) -> &Rpc {
        &self.rpc
    }

    pub(crate) fn services(&self) -> &Services {
        &self.services
    }

    /// Ends what would go on for ever.
    pub(crate) async fn leave(&self) {
        self.rpc.leave().await;
        self.sockets.close();
        // They end by themselves, as the streams behind them do; some may wait for their peers.
        let _ = timeout(websocket::FAREWELL, self.sockets.wait()).await;
    }
}

/// Answers a request to such a path.
pub(crate) fn handle<B>(
    gateway: &Arc<Gateway>,
    connection: &Arc<Connection>,
    head: Parts,
    mut body: B,
    fields: HeaderMap,
) -> Answer<B>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let exchange = Exchange {
        gateway: gateway.clone(),
        connection: connection.clone(),
        head,
    };
    let exchange = match exchange.wants_websocket() {
        Some(found) => return exchange.upgrade(found, fields),
        None => exchange,
    };
    if let Some(path) = exchange.wants_twirp() {
        return twirp::handle(exchange, path, body, fields);
    }
    if let Some(form) = exchange.wants_connect() {
        return connect::handle(exchange, form, body, fields);
    }
    if let Some(found) = exchange.wants_duplex() {
        return duplex::handle(exchange, found, body, fields);
    }
    let waiting = connection.wait();
    Answer::later(async move {
        let _waiting = waiting;
        let outcome = exchange.answer(&mut body).await;
        let answered = match outcome {
            Ok(answered) => answered,
            Err(refusal) => {
                // For clients that read no answer before they have written all. Not for long: a
                // stream may have no end.
                let _ = timeout(LINGER, drain(body)).await;
                refusal.into_answered(&exchange.gateway.services, exchange.error_format())
            }
        };
        let is_head = exchange.head.method == Method::HEAD;
        let answered = coding::encode(&exchange.head.headers, answered);
        Ok(answered.into_response(fields, &exchange.connection, is_head))
    })
}

impl Exchange {
    async fn answer<B>(&self, body: &mut B) -> Outcome
    where
        B: HttpBody<Data = Bytes> + Send + Unpin,
        B::Error: Into<BoxError>,
    {
        let path = self.head.uri.path();
        let method = self.head.method.as_str();
        let router = self.gateway.services.router();
        let found = match router.find(method, path) {
            // HEAD is GET without content, where no rule says otherwise.
            Found::Method(_) if self.head.method == Method::HEAD => router.find("GET", path),
            found => found,
        };
        let found = match found {
            Found::Match(found) => found,
            Found::Method(allowed) => return self.other_method(&allowed),
            Found::Nothing if path == OPENAPI => {
                return match method {
                    "GET" | "HEAD" => Ok(self.description()),
                    _ => self.other_method(&["GET"]),
                };
            }
            Found::Nothing => {
                let shown: String = path.chars().take(200).collect();
                return Err(Refusal::of(Status::not_found(format!(
                    "no rule of a service has the path {shown}"
                ))));
            }
        };
        let method = found.binding.method();
        match (method.is_client_streaming(), method.is_server_streaming()) {
            (false, false) => self.unary(&found, body).await,
            (false, true) => self.server_stream(&found, body).await,
            (true, false) => self.client_stream(&found, body).await,
            (true, true) => Err(Refusal::of(Status::unimplemented(
                "this method streams in both directions: use a WebSocket or gRPC",
            ))),
        }
    }

    async fn unary<B>(&self, found: &Match, body: &mut B) -> Outcome
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        let format = self.format_of_response(&found.binding)?;
        let message = self.message(found, body).await?;
        let called = call::start(self, &found.binding, call::whole(&message)).await?;
        let metadata = call::metadata(&called);
        let answer = call::one(called, self.max_message()).await?;
        Ok(call::content(&found.binding, answer, format)?.with_all(metadata))
    }

    async fn server_stream<B>(&self, found: &Match, body: &mut B) -> Outcome
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        if found.binding.gives_raw() {
            let message = self.message(found, body).await?;
            let called = call::start(self, &found.binding, call::whole(&message)).await?;
            let metadata = call::metadata(&called);
            let messages = Messages::new(called, self.max_message());
            let answered = raw::stream(messages, found.binding.clone()).await?;
            return Ok(answered.with_all(metadata));
        }
        let framing = Framing::accepted(self.field(ACCEPT)).ok_or_else(|| {
            Refusal::not_acceptable(
                "application/x-ndjson, application/json, text/event-stream or application/protobuf",
            )
        })?;
        let message = self.message(found, body).await?;
        let called = call::start(self, &found.binding, call::whole(&message)).await?;
        let metadata = call::metadata(&called);
        let (binding, services) = (found.binding.clone(), self.gateway.services.clone());
        let mut messages = Messages::new(called, self.max_message());
        messages.begin(HEARTBEAT).await?;
        let lines = Lines::new(messages, binding, services, framing);
        Ok(
            Answered::new(framing.media_type(), Content::Stream(Body::new(lines)))
                .with(VARY, HeaderValue::from_static("accept"))
                .with_all(metadata),
        )
    }

    async fn client_stream<B>(&self, found: &Match, body: &mut B) -> Outcome
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        let format = self.format_of_response(&found.binding)?;
        let cut = self.content_type().and_then(Cut::of);
        if cut.is_none() && !found.binding.takes_raw() {
            return Err(Refusal::unsupported(
                "application/x-ndjson, application/json or application/protobuf",
            ));
        }
        coding::refuse(&self.head.headers)?;
        let (sender, requests) = call::channel();
        let query = self.head.uri.query();
        let reading = async {
            match cut {
                Some(cut) if !found.binding.takes_raw() => {
                    let read = |format, content: &[u8]| found.message(query, format, content);
                    upload::send(body, self.max_message(), cut, sender, read).await
                }
                _ => {
                    let kind = self.field(CONTENT_TYPE).unwrap_or_default();
                    raw::send(body, sender, found, query, kind).await
                }
            }
        };
        let calling = async {
            let called = call::start(self, &found.binding, requests).await?;
            let metadata = call::metadata(&called);
            Ok::<_, Status>((call::one(called, self.max_message()).await?, metadata))
        };
        tokio::pin!(reading, calling);
        // Both at once: the service reads while the content comes, and may end before that does.
        let called = tokio::select! {
            biased;
            read = &mut reading => {
                read?;
                calling.await
            }
            called = &mut calling => called,
        };
        let (answer, metadata) = called?;
        Ok(call::content(&found.binding, answer, format)?.with_all(metadata))
    }

    /// What the rules serve, as OpenAPI.
    fn description(&self) -> Answered {
        let content = Content::Bytes(self.gateway.services.description());
        Answered::new(HeaderValue::from_static("application/json"), content)
    }

    /// The message of a request that has one.
    async fn message<B>(&self, found: &Match, body: &mut B) -> Result<Vec<u8>, Refusal>
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        let most = self.max_message();
        let content = upload::collect(body, most).await?;
        let content = coding::decode(&self.head.headers, content, most)?;
        let query = self.head.uri.query();
        if found.binding.takes_raw() {
            let kind = self.field(CONTENT_TYPE).unwrap_or_default();
            return Ok(found.raw(query, kind, content)?.encode_to_vec());
        }
        let format = match self.content_type().and_then(Format::of_media_type) {
            Some(format) => format,
            // Nothing has no format.
            None if content.is_empty() => Format::Json,
            None => {
                return Err(Refusal::unsupported(
                    "application/json or application/protobuf",
                ));
            }
        };
        let message = found.request(query, format, &content)?;
        Ok(trilane_grpc::encode(&message))
    }

    /// As [`Exchange::response_format`], where the service does not say itself what its content is.
    fn format_of_response(&self, binding: &Binding) -> Result<Format, Refusal> {
        match binding.gives_raw() {
            true => Ok(self.error_format()),
            false => self.response_format(),
        }
    }

    /// What the caller accepts; the format of its content where it does not say.
    fn response_format(&self) -> Result<Format, Refusal> {
        match self.field(ACCEPT) {
            Some(accept) if accept != "*/*" => Format::accept(accept)
                .ok_or_else(|| Refusal::not_acceptable("application/json or application/protobuf")),
            _ => Ok(self
                .field(CONTENT_TYPE)
                .and_then(Format::of_media_type)
                .unwrap_or(Format::Json)),
        }
    }

    fn error_format(&self) -> Format {
        self.response_format().unwrap_or(Format::Json)
    }

    /// Most bytes of a message.
    fn max_message(&self) -> usize {
        self.gateway.rpc.max_message()
    }

    /// What the content is said to be. `curl -d` says it is a form, and others say nothing: both mean JSON.
    ///
    /// A page of another site that sends either without asking first was refused before (`app::cross_origin`).
    fn content_type(&self) -> Option<&str> {
        let kind = self.field(CONTENT_TYPE);
        let essence = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
        match essence {
            None | Some("" | "application/x-www-form-urlencoded") => {
                Some(Format::Json.media_type())
            }
            Some(_) => kind,
        }
    }

    fn field(&self, name: http::HeaderName) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }

    /// The path is one of a rule; the method is not.
    fn other_method(&self, allowed: &[&str]) -> Outcome {
        if allowed.is_empty() {
            let refusal = Refusal::new(
                StatusCode::UPGRADE_REQUIRED,
                Status::unimplemented("this path is one for a WebSocket"),
            );
            return Err(match self.head.version < Version::HTTP_2 {
                true => refusal.with(UPGRADE, HeaderValue::from_static("websocket")),
                // RFC 9113 section 8.2.2: the later versions do not have the field.
                false => refusal,
            });
        }
        let head = allowed.contains(&"GET").then_some("HEAD");
        let all: Vec<&str> = allowed
            .iter()
            .copied()
            .chain(head)
            .chain(["OPTIONS"])
            .collect();
        let all = all.join(", ");
        let allow = HeaderValue::from_str(&all).expect("methods are tokens");
        if self.head.method == Method::OPTIONS {
            return Ok(Answered::empty(StatusCode::NO_CONTENT).with(ALLOW, allow));
        }
        let method: String = self.head.method.as_str().chars().take(50).collect();
        let status = Status::unimplemented(format!(
            "{method} is no method of this path; there are {all}"
        ));
        Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, status).with(ALLOW, allow))
    }
}
