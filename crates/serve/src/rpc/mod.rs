//! gRPC: the services, and how a request reaches them.
//!
//! The services are tonic's; its own transport and router are not used, because `app` has both
//! already. What tonic's transport does beside carrying messages stands here: deadlines, and when
//! to compress.

mod body;
mod deadline;
mod scan;
mod web;

use std::{collections::HashSet, convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version,
    header::{ALLOW, CONTENT_TYPE},
};
use hyper::body::Body as HttpBody;
use tokio::{sync::watch, time::Instant};
use tonic::{Status, body::Body, codec::CompressionEncoding::Gzip, server::NamedService};
use tonic_health::{
    ServingStatus,
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};
use tonic_reflection::server::Builder;
use tower_service::Service;

pub(crate) use body::{Call, Patient};
use scan::Scan;

use crate::{
    Error,
    app::{Answer, BoxError, Reply, refusal},
    caller::Caller,
    connection::{Connection, PATIENCE},
    library::{self, Library, proto::library_server::LibraryServer},
    services::Services,
    upstream::{self, Upstreams},
    worker::Signal,
};

/// Largest message in bytes, in either direction, where no flag says another: what gRPC implementations take by
/// default.
pub(crate) const MAX_MESSAGE: usize = 4 << 20;
/// A caller that streams may think this long between two messages.
pub(crate) const THOUGHT: Duration = Duration::from_secs(300);

type LibraryService = LibraryServer<library::Service>;
/// The full name of the embedded service.
pub(crate) const LIBRARY: &str = LibraryService::NAME;
/// A service whose type tonic keeps to itself.
type Opaque = Arc<dyn Fn(Request<Body>) -> Calling + Send + Sync>;
/// A response in the making.
pub(crate) type Calling = tonic::codegen::BoxFuture<Response<Body>, Infallible>;

/// The services of one worker: those of this process, and those of others.
#[derive(Clone)]
pub(crate) struct Rpc {
    own: Option<Own>,
    upstreams: Arc<Upstreams>,
    reflection: Opaque,
    reflection_alpha: Opaque,
    streams: Arc<HashSet<Box<str>>>,
}

/// The services of this process.
#[derive(Clone)]
struct Own {
    library: LibraryService,
    health: HealthServer<HealthService>,
    reporter: HealthReporter,
}

/// What a request asks for, by its content type.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Grpc,
    Web,
    /// gRPC-Web with messages in another format than Protocol Buffers, such as JSON.
    OtherWeb,
}

impl Rpc {
    pub(crate) fn new(
        library: Option<Arc<Library>>,
        upstreams: Upstreams,
        services: &Services,
        stop: watch::Receiver<Signal>,
    ) -> Result<Self, Error> {
        let [reflection, reflection_alpha] = reflection(services)?;
        Ok(Self {
            own: library.map(|library| Own::new(library, stop)),
            upstreams: Arc::new(upstreams),
            reflection,
            reflection_alpha,
            streams: streams(services),
        })
    }

    /// The same, with other services of upstreams: `of_upstreams` has the names of each.
    pub(crate) fn with_services(
        &self,
        services: &Services,
        of_upstreams: &[Vec<String>],
    ) -> Result<Self, Error> {
        let [reflection, reflection_alpha] = reflection(services)?;
        Ok(Self {
            own: self.own.clone(),
            upstreams: Arc::new(self.upstreams.with_services(of_upstreams)),
            reflection,
            reflection_alpha,
            streams: streams(services),
        })
    }

    /// Tells those who watch the health, and ends their streams.
    pub(crate) async fn leave(&self) {
        if let Some(own) = &self.own {
            own.leave().await;
        }
    }

    /// Calls a method for a caller, with a gRPC message or stream of them as content.
    pub(crate) fn call(&self, caller: &Caller, mut request: Request<Body>) -> Calling {
        let mut deadline = match deadline::read(request.headers()) {
            Ok(deadline) => deadline,
            Err(status) => return refused(status),
        };
        let path = request.uri().path();
        let called = if let Some(service) = self.upstreams.find(path) {
            let limits = self.upstreams.limits();
            let Some(place) = caller.place(limits.caller) else {
                return refused(too_many(caller, limits.caller));
            };
            if deadline.is_none() && limits.timeout.is_none() && !self.streams.contains(path) {
                deadline = Instant::now().checked_add(upstream::TIMEOUT);
            }
            upstream::of_call(request.headers_mut());
            if let (None, Some(timeout)) = (deadline, limits.timeout) {
                deadline = deadline::set(request.headers_mut(), timeout);
            }
            service.call(request, place)
        } else if path.starts_with("/grpc.reflection.v1.ServerReflection/") {
            compress_in_kind(request.headers_mut());
            (self.reflection)(request)
        } else if path.starts_with("/grpc.reflection.v1alpha.ServerReflection/") {
            compress_in_kind(request.headers_mut());
            (self.reflection_alpha)(request)
        } else if let Some(own) = &self.own {
            own.call(request)
        } else {
            return refused(unknown(path));
        };
        match deadline {
            Some(deadline) => Box::pin(deadline::keep(deadline, called)),
            None => called,
        }
    }

    /// Most bytes of a message that is read here, and does not just pass. A lower limit than the usual one is for
    /// the messages that go on, which are shorter than their JSON.
    pub(crate) fn max_message(&self) -> usize {
        let limit = self.upstreams.limits().message.unwrap_or_default();
        MAX_MESSAGE.max(limit as usize)
    }

    /// What looks at the messages of a call. Those for others' services pass as they are.
    fn scan(&self, path: &str) -> Option<Scan> {
        let is_own = self.upstreams.find(path).is_none();
        is_own.then(|| Scan::new(!self.may_stream(path)))
    }

    /// Whether the caller may send more than one message, at its own pace.
    fn may_stream(&self, path: &str) -> bool {
        let own = ["/LookUpBooks", "/ImportBooks", "/ServerReflectionInfo"];
        own.iter().any(|method| path.ends_with(method)) || self.upstreams.find(path).is_some()
    }
}

impl Own {
    fn new(library: Arc<Library>, stop: watch::Receiver<Signal>) -> Self {
        let service = library::Service::new(library, stop);
        let reporter = HealthReporter::new();
        reporter
            .set_service_status(LibraryService::NAME, ServingStatus::Serving)
            .now_or_never()
            .expect("nobody else has the reporter yet");
        Self {
            library: LibraryServer::new(service)
                .accept_compressed(Gzip)
                .send_compressed(Gzip)
                .max_decoding_message_size(MAX_MESSAGE)
                .max_encoding_message_size(MAX_MESSAGE),
            health: HealthServer::new(HealthService::from_health_reporter(reporter.clone()))
                .max_decoding_message_size(MAX_MESSAGE),
            reporter,
        }
    }

    async fn leave(&self) {
        let mut reporter = self.reporter.clone();
        for service in ["", LibraryService::NAME] {
            reporter
                .set_service_status(service, ServingStatus::NotServing)
                .await;
            reporter.clear_service_status(service).await;
        }
    }

    fn call(&self, mut request: Request<Body>) -> Calling {
        compress_in_kind(request.headers_mut());
        let path = request.uri().path();
        if is_of::<LibraryService>(path) {
            self.library.clone().call(request)
        } else if is_of::<HealthServer<HealthService>>(path) {
            self.health.clone().call(request)
        } else {
            refused(unknown(path))
        }
    }
}

fn refused(status: Status) -> Calling {
    Box::pin(async move { Ok(status.into_http()) })
}

fn too_many(caller: &Caller, most: usize) -> Status {
    Status::resource_exhausted(format!(
        "{} has {most} calls under way, which is the most (--calls-per-caller)",
        caller.peer.ip()
    ))
}

/// The paths of methods that stream in either direction.
fn streams(services: &Services) -> Arc<HashSet<Box<str>>> {
    let methods = services.pool().services();
    let methods = methods.flat_map(|service| service.methods().collect::<Vec<_>>());
    let streams = methods
        .filter(|method| method.is_client_streaming() || method.is_server_streaming())
        .map(|method| format!("/{}/{}", method.parent_service().full_name(), method.name()));
    let health = "/grpc.health.v1.Health/Watch".to_owned();
    Arc::new(streams.chain([health]).map(String::into).collect())
}

/// Server reflection, versions 1 and 1alpha.
fn reflection(services: &Services) -> Result<[Opaque; 2], Error> {
    let reflected = |itself| {
        let mut builder = Builder::configure()
            .register_encoded_file_descriptor_set(services.described())
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
        let names = services.names();
        for name in names {
            builder = builder.with_service_name(name);
        }
        match names {
            [] => builder,
            _ => builder.with_service_name(itself),
        }
    };
    let wrong = |error: tonic_reflection::server::Error| {
        Error::Config(format!("the services cannot be described: {error}"))
    };
    let v1 = reflected("grpc.reflection.v1.ServerReflection").build_v1();
    let v1alpha = reflected("grpc.reflection.v1alpha.ServerReflection").build_v1alpha();
    let (v1, v1alpha) = (v1.map_err(wrong)?, v1alpha.map_err(wrong)?);
    Ok([
        opaque(v1.accept_compressed(Gzip).send_compressed(Gzip)),
        opaque(v1alpha.accept_compressed(Gzip).send_compressed(Gzip)),
    ])
}

fn opaque<S>(service: S) -> Opaque
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future = Calling>
        + Clone
        + Send
        + Sync
        + 'static,
{
    Arc::new(move |request| service.clone().call(request))
}

fn is_of<S: NamedService>(path: &str) -> bool {
    path.strip_prefix('/')
        .and_then(|path| path.strip_prefix(S::NAME))
        .is_some_and(|rest| rest.starts_with('/'))
}

fn unknown(path: &str) -> Status {
    let shown: String = path.chars().take(200).collect();
    Status::unimplemented(format!(
        "there is no method {shown:?}; reflection lists the services"
    ))
}

/// Whether a request is a call, whatever its path.
pub(crate) fn is_call(fields: &HeaderMap) -> bool {
    form(fields).is_some()
}

fn form(fields: &HeaderMap) -> Option<Form> {
    let kind = fields.get(CONTENT_TYPE)?.to_str().ok()?;
    let rest = kind.strip_prefix("application/grpc")?;
    if let Some(rest) = rest.strip_prefix("-web") {
        let rest = rest.strip_prefix("-text").unwrap_or(rest);
        let codec = rest.split(';').next().unwrap_or_default().trim_end();
        return Some(match codec {
            "" | "+proto" => Form::Web,
            _ => Form::OtherWeb,
        });
    }
    (rest.is_empty() || rest.starts_with('+') || rest.starts_with(';')).then_some(Form::Grpc)
}

/// Answers a call.
pub(crate) fn handle<B>(
    rpc: &Rpc,
    connection: &Arc<Connection>,
    request: Request<B>,
    fields: HeaderMap,
) -> Answer<B>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let form = match refuse(rpc, &request) {
        Ok(form) => form,
        Err((status, text)) => {
            let mut response = refusal(fields, status, text);
            if status == StatusCode::METHOD_NOT_ALLOWED {
                response
                    .headers_mut()
                    .insert(ALLOW, HeaderValue::from_static("POST"));
            }
            return Answer::now(response);
        }
    };
    let path = request.uri().path();
    let patience = match rpc.may_stream(path) {
        true => THOUGHT,
        false => PATIENCE,
    };
    // The frames of gRPC-Web may be in base64 here.
    let scan = match form {
        Form::Grpc => rpc.scan(path),
        Form::Web | Form::OtherWeb => None,
    };
    // Bodies of the later versions are streams of their own, which end alone.
    let lingers = request.version() < Version::HTTP_2;
    let request =
        request.map(|body| Body::new(Patient::new(body, patience, lingers).scanned(scan)));
    let called = match form {
        Form::Grpc => in_kind(rpc, &connection.caller, request),
        Form::Web | Form::OtherWeb => web::call(rpc, connection, request),
    };
    answer(connection, called, fields)
}

/// Calls a method, and answers without messages in the content type of the call, such as
/// application/grpc+json: our own answers, of a deadline for one, are application/grpc.
fn in_kind(rpc: &Rpc, caller: &Caller, request: Request<Body>) -> Calling {
    let kind = request.headers().get(CONTENT_TYPE).cloned();
    let called = rpc.call(caller, request);
    Box::pin(async move {
        let Ok(mut response) = called.await;
        let fields = response.headers_mut();
        if let Some(kind) = kind
            && fields.contains_key("grpc-status")
        {
            fields.insert(CONTENT_TYPE, kind);
        }
        Ok(response)
    })
}

/// The response of a service, with the fields that every response has.
fn answer<B>(connection: &Arc<Connection>, called: Calling, fields: HeaderMap) -> Answer<B> {
    let waiting = connection.wait();
    let connection = connection.clone();
    Answer::later(async move {
        let _waiting = waiting;
        let Ok(response) = called.await;
        let mut response = response.map(|body| Reply::Call(Call::new(body, connection)));
        response.headers_mut().extend(fields);
        Ok(response)
    })
}

fn refuse<B>(rpc: &Rpc, request: &Request<B>) -> Result<Form, (StatusCode, &'static str)> {
    let Some(form) = form(request.headers()) else {
        return Err((
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "this is a method of a gRPC service: send application/grpc, application/grpc-web, or \
             application/json as Connect has it",
        ));
    };
    if request.method() != Method::POST {
        return Err((
            StatusCode::METHOD_NOT_ALLOWED,
            "gRPC calls are POST requests",
        ));
    }
    // Those for others' services pass as they are.
    if form == Form::OtherWeb && rpc.upstreams.find(request.uri().path()).is_none() {
        return Err((
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "messages of gRPC-Web are application/grpc-web+proto or application/grpc-web-text+proto",
        ));
    }
    if form == Form::Grpc && request.version() < Version::HTTP_2 {
        return Err((
            StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            "gRPC needs HTTP/2 or HTTP/3; gRPC-Web (application/grpc-web) does not",
        ));
    }
    Ok(form)
}

/// Compresses where the caller does, as gRPC servers commonly do; tonic would wherever the caller
/// could read it, and many announce that by default.
fn compress_in_kind(fields: &mut HeaderMap) {
    let compressed = fields
        .get("grpc-encoding")
        .is_some_and(|coding| coding != "identity");
    if !compressed {
        fields.remove("grpc-accept-encoding");
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll};

    use tokio::time::{advance, timeout};
    use tonic::Code;

    use super::*;
    use crate::{
        InProcess, Limits, Place, Upstream,
        caller::{Callers, Share},
    };

    /// A service that answers nothing.
    #[derive(Clone)]
    struct Silent;

    impl Service<Request<Body>> for Silent {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = Calling;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Calling {
            Box::pin(std::future::pending())
        }
    }

    /// The code that a call ends with, and after which time; `None` where it has not ended after an hour.
    async fn ended(method: &str, limits: Limits) -> Option<(Code, Duration)> {
        let upstream = Upstream {
            place: Place::Process(InProcess::new(Silent)),
            tls: None,
            name: None,
            services: vec![LIBRARY.to_owned()],
        };
        let upstreams = Upstreams::new(&[upstream], limits, None).unwrap();
        let (_signal, watcher) = watch::channel(Signal::Serve);
        let rpc = Rpc::new(None, upstreams, &Services::library(), watcher).unwrap();
        let caller = Callers::default().of(([127, 0, 0, 1], 1).into(), Share::default());
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = format!("/{LIBRARY}/{method}").parse().unwrap();
        let start = Instant::now();
        let called = timeout(Duration::from_secs(3600), rpc.call(&caller, request));
        let Ok(response) = called.await.ok()?;
        let status = upstream::status_of(response.headers()).unwrap();
        Some((status.code(), start.elapsed()))
    }

    #[tokio::test(start_paused = true)]
    async fn calls_of_one_message_have_an_end_where_nobody_says_one() {
        // Off the beat of the clock.
        advance(Duration::from_micros(300)).await;
        let (code, after) = ended("GetBook", Limits::default()).await.unwrap();
        assert_eq!(code, Code::DeadlineExceeded);
        assert_eq!(after.as_secs(), upstream::TIMEOUT.as_secs());
        for stream in ["WatchBooks", "ImportBooks", "LookUpBooks"] {
            assert_eq!(ended(stream, Limits::default()).await, None, "{stream}");
        }
        let limits = Limits {
            timeout: Some(Duration::from_secs(7)),
            ..Limits::default()
        };
        for method in ["GetBook", "WatchBooks"] {
            let (_, after) = ended(method, limits).await.unwrap();
            assert_eq!(after.as_secs(), 7, "{method}");
        }
    }
}
