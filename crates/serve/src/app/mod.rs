//! The handler: what each path answers, the same over every version of HTTP.
//!
//! Any endpoint takes any method and any body. The body is read to its end, and thrown away,
//! before the answer is given; only `/echo` gives it back.

mod answer;
mod authority;
mod bookstore;
mod cors;
mod cross_origin;
mod gzip;
mod hosts;
mod malformed;
mod pattern;
mod prose;
mod reply;
mod route;
mod site;

use std::{
    error, fmt,
    future::poll_fn,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version,
    header::{ALT_SVC, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, SERVER},
    request::Parts,
};
use hyper::body::Body;
use tokio::time::{sleep, timeout};

pub(crate) use answer::Answer;
pub(crate) use cors::Cors;
pub(crate) use gzip::{MIN_LENGTH as MIN_GZIP, is_accepted_by as accepts_gzip};
pub(crate) use hosts::Hosts;
pub(crate) use reply::Reply;
pub(crate) use route::is_page;

use crate::{
    SERVER_NAME,
    caller::{Caller, Callers, Connections, Share},
    connection::{Connection, PATIENCE},
    cost::Tally,
    rest::{self, Gateway},
    rpc,
    services::{self, Owner},
};

const MALFORMED: &str = "the request's body is malformed, or was cut short";
const NOT_OURS: &str =
    "this server has no such host name; to serve it under one, start it with --allow-host NAME";
const TOO_EARLY: &str = "early data may be a replay: repeat the request behind the handshake";
const STALLED: &str = "the request's body stalled";

/// An error of somebody else's making.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What the connections of one worker share.
pub(crate) struct App {
    tally: Arc<Tally>,
    alt_svc: HeaderValue,
    station: site::Site,
    profiles: site::Site,
    /// Replaced where upstreams have other services than before.
    gateway: RwLock<Arc<Gateway>>,
    /// Whether calls are all that is answered.
    calls_alone: bool,
    hosts: Hosts,
    callers: Callers,
    /// Those over QUIC, where the connections of a caller are bounded.
    quic: Option<Arc<Connections>>,
    /// The origins whose pages may read answers.
    cors: Option<Cors>,
}

impl App {
    pub(crate) fn new(
        tls_port: u16,
        tally: Arc<Tally>,
        gateway: Arc<Gateway>,
        calls_alone: bool,
        hosts: Hosts,
        cors: Option<Cors>,
        quic: Option<Arc<Connections>>,
    ) -> Arc<Self> {
        let alt_svc = HeaderValue::from_str(&format!("h3=\":{tls_port}\"; ma=86400"))
            .expect("a number between quotes is a field value");
        Arc::new(Self {
            tally,
            alt_svc,
            station: site::Site::station(),
            profiles: site::Site::profiles(),
            gateway: RwLock::new(gateway),
            calls_alone,
            hosts,
            callers: Callers::default(),
            quic,
            cors,
        })
    }

    /// Counts a connection on which requests may come, and says whose it is. `share` is kept with it.
    pub(crate) fn count_connection(&self, peer: SocketAddr, share: Share) -> Caller {
        self.tally.count_connection();
        self.callers.of(peer, share)
    }

    /// The same of a connection over QUIC; `None` where its caller has as many as it may.
    pub(crate) fn count_quic(&self, peer: SocketAddr) -> Option<Caller> {
        let admission = match &self.quic {
            Some(connections) => Some(connections.admit(peer)?),
            None => None,
        };
        Some(self.count_connection(peer, Share::new(None, admission)))
    }

    /// Ends what would go on for ever.
    pub(crate) async fn leave(&self) {
        let gateway = self.gateway();
        gateway.leave().await;
    }

    pub(crate) fn gateway(&self) -> Arc<Gateway> {
        let gateway = self.gateway.read();
        gateway.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has requests that come from now on go by another way; those that are there go on by theirs.
    pub(crate) fn put_gateway(&self, gateway: Arc<Gateway>) {
        let known = self.gateway.write();
        *known.unwrap_or_else(PoisonError::into_inner) = gateway;
    }

    /// Fields that every response has.
    fn fields(&self, secure: bool, version: Version) -> HeaderMap {
        // Room for what the endpoint and the protocol add.
        let mut fields = HeaderMap::with_capacity(8);
        fields.insert(SERVER, HeaderValue::from_static(SERVER_NAME));
        // RFC 7838: on the TLS port, tell those who came over TCP that HTTP/3 is spoken there.
        if secure && version < Version::HTTP_3 {
            fields.insert(ALT_SVC, self.alt_svc.clone());
        }
        fields
    }
}

/// Makes what takes long to make, before somebody asks for it.
pub(crate) fn prepare() {
    bookstore::shared();
    pattern::shared();
    services::prepare();
}

/// Answers one request.
pub(crate) fn handle<B>(app: &App, connection: &Arc<Connection>, request: Request<B>) -> Answer<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    app.tally.count_request();
    let (head, body) = request.into_parts();
    let is_head = head.method == Method::HEAD;
    let mut fields = app.fields(connection.tls.is_some(), head.version);
    if let Some(cors) = &app.cors {
        cors.allow(&head, &mut fields);
        fields = match Cors::preflight(&head, fields) {
            Ok(response) => return Answer::now(response),
            Err(fields) => fields,
        };
    }

    // Most requests of a connection name the host that the first one did.
    let is_known = authority::only(&head).is_some_and(|named| connection.has_served_as(named));
    if let Some(text) = malformed::reason(&head, is_known) {
        let mut response = rejection(fields, head.version, StatusCode::BAD_REQUEST, text);
        if is_head {
            *response.body_mut() = Reply::Bytes(Bytes::new());
        }
        return Answer::now(response);
    }
    if let Some((status, text)) = unwelcome(app, connection, &head, is_known) {
        return Answer::now(rejected(fields, &head, &body, status, text));
    }
    let gateway = app.gateway();
    if app.calls_alone {
        return match rpc::is_call(&head.headers) {
            true => {
                let request = Request::from_parts(head, body);
                rpc::handle(gateway.rpc(), connection, request, fields)
            }
            false => rest::handle(&gateway, connection, head, body, fields),
        };
    }
    if head.uri.path() == "/echo" && !is_head {
        return echo(&gateway, connection, head, body, fields);
    }

    let is_for_services = match gateway.services().owner(head.uri.path()) {
        Owner::Services if !rpc::is_call(&head.headers) => {
            return rest::handle(&gateway, connection, head, body, fields);
        }
        Owner::Calls if rest::connect::is_likely(&head) && !rpc::is_call(&head.headers) => {
            return rest::handle(&gateway, connection, head, body, fields);
        }
        Owner::Services | Owner::Calls => true,
        Owner::Others => false,
    };
    if is_for_services {
        let request = Request::from_parts(head, body);
        return rpc::handle(gateway.rpc(), connection, request, fields);
    }

    let page = route::page(app, connection, &head);
    if page.is_missing() && rpc::is_call(&head.headers) {
        // A call of a service that is not there is answered in gRPC's way.
        let request = Request::from_parts(head, body);
        return rpc::handle(gateway.rpc(), connection, request, fields);
    }
    let wait = page.wait;
    let mut response = page.into_response(fields);
    if is_head {
        // RFC 9110 section 9.3.2: the fields of GET, and no content.
        *response.body_mut() = Reply::Bytes(Bytes::new());
    }
    if body.is_end_stream() && wait.is_zero() {
        return Answer::now(response);
    }
    after_content(connection, head.version, body, wait, response)
}

/// Why a request that is in order is not for this server, if it is not.
fn unwelcome(
    app: &App,
    connection: &Connection,
    head: &Parts,
    is_known: bool,
) -> Option<(StatusCode, &'static str)> {
    if !is_known {
        if !app.hosts.allow(head) {
            // RFC 9110 section 15.5.20.
            return Some((StatusCode::MISDIRECTED_REQUEST, NOT_OURS));
        }
        if let Some(named) = authority::only(head) {
            connection.serve_as(named);
        }
    }
    let foreign = cross_origin::refusal(head, app.cors.as_ref());
    let is_early = || !head.method.is_safe() && connection.is_early(&head.headers);
    foreign.or_else(|| is_early().then_some((StatusCode::TOO_EARLY, TOO_EARLY)))
}

/// Gives the request's content back.
fn echo<B>(
    gateway: &Arc<Gateway>,
    connection: &Arc<Connection>,
    head: Parts,
    body: B,
    fields: HeaderMap,
) -> Answer<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    if rest::websocket::is_asked(&head) {
        return rest::websocket::echo(gateway, connection, head, fields);
    }
    let length = body.size_hint().exact();
    let mut response = Response::new(Reply::Echo(body));
    *response.headers_mut() = fields;
    if let Some(length) = length {
        add_length(response.headers_mut(), length);
    }
    let kind = match head.headers.get(CONTENT_TYPE) {
        Some(kind) => kind.clone(),
        None => HeaderValue::from_static("application/octet-stream"),
    };
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Answer::now(response)
}

/// Gives `response` once the request's content has been read, and `wait` is over.
fn after_content<B>(
    connection: &Arc<Connection>,
    version: Version,
    body: B,
    wait: Duration,
    response: Response<Reply<B>>,
) -> Answer<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let waiting = connection.wait();
    Answer::later(async move {
        let _waiting = waiting;
        if let Err(error) = drain(body).await {
            if version >= Version::HTTP_2 {
                // The stream is reset, which says the same.
                return Err(error);
            }
            let (status, text) = match error.is::<Stalled>() {
                true => (StatusCode::REQUEST_TIMEOUT, STALLED),
                false => (StatusCode::BAD_REQUEST, MALFORMED),
            };
            let mut fields = HeaderMap::new();
            fields.insert(SERVER, HeaderValue::from_static(SERVER_NAME));
            return Ok(rejection(fields, version, status, text));
        }
        if !wait.is_zero() {
            sleep(wait).await;
        }
        Ok(response)
    })
}

/// A response that says in one sentence why there is no other.
pub(crate) fn refusal<B>(
    mut fields: HeaderMap,
    status: StatusCode,
    text: &'static str,
) -> Response<Reply<B>> {
    fields.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain;charset=utf-8"),
    );
    add_length(&mut fields, text.len() as u64);
    let mut response = Response::new(Reply::Bytes(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    *response.headers_mut() = fields;
    response
}

/// A refusal after which an HTTP/1.1 connection is closed: where its next request begins is not
/// known for sure.
fn rejection<B>(
    mut fields: HeaderMap,
    version: Version,
    status: StatusCode,
    text: &'static str,
) -> Response<Reply<B>> {
    if version < Version::HTTP_2 {
        fields.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    refusal(fields, status, text)
}

/// A refusal for which content is not read: an HTTP/1.1 connection is closed where there is some.
fn rejected<B: Body>(
    fields: HeaderMap,
    head: &Parts,
    body: &B,
    status: StatusCode,
    text: &'static str,
) -> Response<Reply<B>> {
    let mut response = match body.is_end_stream() {
        true => refusal(fields, status, text),
        false => rejection(fields, head.version, status, text),
    };
    if head.method == Method::HEAD {
        *response.body_mut() = Reply::Bytes(Bytes::new());
    }
    response
}

/// Adds `content-length`, over every version alike: none of them adds it to all bodies.
fn add_length(fields: &mut HeaderMap, length: u64) {
    let value = match length {
        // Saves making the text for the commonest answer.
        11 => HeaderValue::from_static("11"),
        length => HeaderValue::from(length),
    };
    fields.insert(CONTENT_LENGTH, value);
}

/// RFC 9110 section 6.4.1.
fn has_content(status: StatusCode) -> bool {
    status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED
}

/// Reads a request's body to its end, one piece at a time.
pub(crate) async fn drain<B>(mut body: B) -> Result<(), BoxError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    while !body.is_end_stream() {
        let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
        match timeout(PATIENCE, frame).await {
            Ok(Some(Ok(_))) => {}
            Ok(Some(Err(error))) => return Err(error.into()),
            Ok(None) => break,
            Err(_) => return Err(Stalled.into()),
        }
    }
    Ok(())
}

/// A body of which nothing came for [`PATIENCE`].
#[derive(Debug)]
struct Stalled;

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STALLED)
    }
}

impl error::Error for Stalled {}
