//! Connect (<https://connectrpc.com/docs/protocol>): the services' methods under gRPC's paths, without
//! its frames and trailers for calls of one message, and with its own envelopes for streams.
//!
//! A message of Protocol Buffers goes on as it is; one in JSON becomes one by descriptor.

mod answers;
mod envelope;
mod form;
mod get;

use std::time::Duration;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version,
    header::{ACCEPT_ENCODING, ALLOW, CONTENT_ENCODING, VARY},
};
use hyper::body::Body as HttpBody;
use prost_reflect::{DynamicMessage, MessageDescriptor, MethodDescriptor};
use tokio::time::timeout;
use tonic::{Code, Status, body::Body};
use trilane_grpc::{
    gzip::{self, GzipError},
    timeout as grpc_timeout,
};
use trilane_transcode::{Format, Found, connect, is_without_side_effects};

use self::{
    answers::Answers,
    envelope::{Envelopes, Fault},
    form::{Form, form},
};
use super::{
    Exchange,
    answer::{Answered, Content, Outcome, Refusal, status},
    call::{self, Messages},
    upload,
};
use crate::{
    app::{self, Answer, BoxError, drain},
    connection::{LINGER, PATIENCE},
    rpc::{Patient, THOUGHT},
    upstream,
};

pub(crate) use form::is_likely;

const VERSION: HeaderName = HeaderName::from_static("connect-protocol-version");
const TIMEOUT: HeaderName = HeaderName::from_static("connect-timeout-ms");
const STREAM_ENCODING: HeaderName = HeaderName::from_static("connect-content-encoding");
const STREAM_ACCEPT: HeaderName = HeaderName::from_static("connect-accept-encoding");
const ACCEPT_POST: HeaderName = HeaderName::from_static("accept-post");
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
const GZIP: HeaderValue = HeaderValue::from_static("gzip");
/// Before the names of trailers of a call of one message.
const TRAILER: &str = "trailer-";

/// Answers a request of Connect.
pub(super) fn handle<B>(exchange: Exchange, form: Form, body: B, fields: HeaderMap) -> Answer<B>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let waiting = exchange.connection.wait();
    Answer::later(async move {
        let _waiting = waiting;
        let answered = exchange.connect(form, body).await;
        let is_head = exchange.head.method == Method::HEAD;
        Ok(answered.into_response(fields, &exchange.connection, is_head))
    })
}

/// What a stream's messages are written as.
#[derive(Clone)]
struct Codec {
    format: Format,
    /// Whether messages may be compressed that come.
    gunzip: bool,
    /// Whether messages may be compressed that go.
    gzip: bool,
    /// Most bytes of a message.
    most: usize,
}

impl Exchange {
    /// How the request brings its messages, where it is one of Connect.
    ///
    /// `POST /package.Service/Method` with JSON is one of Connect where it says so by its version, or
    /// where no rule has the path.
    pub(super) fn wants_connect(&self) -> Option<Form> {
        let form = form(&self.head)?;
        let is_one = match form {
            Form::Unary(Format::Json) if !self.head.headers.contains_key(VERSION) => {
                matches!(self.posted(), Found::Nothing) && self.method().is_some()
            }
            Form::Query => self.method().is_some(),
            // Under a path of a rule that may be the content of an HttpBody.
            _ => self.method().is_some() || matches!(self.posted(), Found::Nothing),
        };
        is_one.then_some(form)
    }

    fn posted(&self) -> Found<'_> {
        let router = self.gateway.services.router();
        router.find("POST", self.head.uri.path())
    }

    fn method(&self) -> Option<MethodDescriptor> {
        self.gateway.services.method(self.head.uri.path())
    }

    async fn connect<B>(&self, form: Form, mut body: B) -> Answered
    where
        B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let outcome = match self.routed(form) {
            Ok(method) => match form {
                Form::Stream(format) => return self.connect_stream(&method, format, body).await,
                Form::Unary(format) => self.connect_unary(&method, format, &mut body).await,
                Form::Query | Form::Other => self.connect_query(&method).await,
            },
            Err(refusal) => Err(refusal),
        };
        match outcome {
            Ok(answered) => answered,
            Err(refusal) => {
                // For clients that read no answer before they have written all.
                let _ = timeout(LINGER, drain(body)).await;
                refusal.into_connect(&self.gateway.services)
            }
        }
    }

    /// The method that the request is for, where it may be called so.
    fn routed(&self, form: Form) -> Result<MethodDescriptor, Refusal> {
        let Some(method) = self.method() else {
            let shown: String = self.head.uri.path().chars().take(200).collect();
            let status = Status::unimplemented(format!("there is no method {shown:?}"));
            return Err(Refusal::new(StatusCode::NOT_FOUND, status));
        };
        let streams = method.is_client_streaming() || method.is_server_streaming();
        let may_get = !streams && is_without_side_effects(&method);
        let fits = match form {
            Form::Query => may_get,
            _ => self.head.method == Method::POST,
        };
        if !fits {
            let allowed = match may_get {
                true => "GET, HEAD, POST",
                false => "POST",
            };
            let status = Status::unknown(format!("{} is called by {allowed}", method.full_name()));
            return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, status)
                .with(ALLOW, HeaderValue::from_static(allowed)));
        }
        let accepted = match streams {
            true => "application/connect+proto, application/connect+json",
            false => "application/proto, application/json",
        };
        if form == Form::Other || streams != matches!(form, Form::Stream(_)) {
            let status = Status::unknown(format!(
                "{} takes content of type {accepted}",
                method.full_name()
            ));
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, status)
                .with(ACCEPT_POST, HeaderValue::from_static(accepted)));
        }
        match self.head.headers.get(VERSION) {
            Some(version) if version != "1" => Err(Refusal::of(Status::invalid_argument(format!(
                "connect-protocol-version is {version:?}; 1 is the one version"
            )))),
            _ => Ok(method),
        }
    }

    async fn connect_unary<B>(
        &self,
        method: &MethodDescriptor,
        format: Format,
        body: &mut B,
    ) -> Outcome
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        let is_compressed = is_gzip(&self.head.headers, &CONTENT_ENCODING)?;
        let content = upload::collect(body, self.max_message()).await;
        // With the HTTP status that Connect has for the code.
        let mut content = content.map_err(|refusal| Refusal::of(refusal.status().clone()))?;
        if is_compressed && !content.is_empty() {
            content = gunzip(&content, self.max_message())?;
        }
        self.connect_one(method, format, content).await
    }

    async fn connect_query(&self, method: &MethodDescriptor) -> Outcome {
        let (format, message) = get::message(self.head.uri.query(), self.max_message())?;
        self.connect_one(method, format, message).await
    }

    /// Calls a method with its one message, and answers with its one message.
    async fn connect_one(
        &self,
        method: &MethodDescriptor,
        format: Format,
        content: Bytes,
    ) -> Outcome {
        let metadata = self.connect_metadata()?;
        let message = match format {
            Format::Protobuf => content,
            Format::Json => encoded(&method.input(), &content)?,
        };
        let requests = call::whole(&message);
        let called = self.connect_call(metadata, requests).await?;
        if let Some(status) = call::status_of(called.headers()) {
            let trailers = upstream::to_connect(called.headers(), TRAILER);
            return Err(Refusal::of(or_internal(status)).with_all(trailers));
        }
        let mut fields = upstream::to_connect(called.headers(), "");
        let mut messages = Messages::new(called, self.max_message());
        let answer = call::one_of(&mut messages).await;
        fields.extend(upstream::to_connect(messages.trailers(), TRAILER));
        match answer.and_then(|message| self.connect_content(method, format, message)) {
            Ok(answered) => Ok(answered.with_all(fields)),
            Err(status) => Err(Refusal::of(status).with_all(fields)),
        }
    }

    /// The content that a response's message becomes.
    fn connect_content(
        &self,
        method: &MethodDescriptor,
        format: Format,
        message: Bytes,
    ) -> Result<Answered, Status> {
        let (content, kind) = match format {
            Format::Protobuf => (message, "application/proto"),
            Format::Json => (written(&method.output(), &message)?, "application/json"),
        };
        let is_long = content.len() >= app::MIN_GZIP;
        let compress = is_long && app::accepts_gzip(&self.head.headers, &ACCEPT_ENCODING);
        let content = match compress {
            true => gzip::compress(&content).into(),
            false => content,
        };
        let answered = Answered::new(HeaderValue::from_static(kind), Content::Bytes(content))
            .with(VARY, HeaderValue::from_static("accept-encoding"));
        Ok(match compress {
            true => answered.with(CONTENT_ENCODING, GZIP),
            false => answered,
        })
    }

    async fn connect_stream<B>(
        &self,
        method: &MethodDescriptor,
        format: Format,
        body: B,
    ) -> Answered
    where
        B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let kind = HeaderValue::from_static(match format {
            Format::Protobuf => "application/connect+proto",
            Format::Json => "application/connect+json",
        });
        let opened = is_gzip(&self.head.headers, &STREAM_ENCODING)
            .and_then(|gunzip| Ok((gunzip, self.connect_metadata()?)));
        let (gunzip, metadata) = match opened {
            Ok(opened) => opened,
            Err(status) => {
                let _ = timeout(LINGER, drain(body)).await;
                return self.connect_end(kind, &status, &HeaderMap::new());
            }
        };
        let codec = Codec {
            format,
            gunzip,
            gzip: app::accepts_gzip(&self.head.headers, &STREAM_ACCEPT),
            most: self.max_message(),
        };
        let fault = Fault::default();
        let patience = match method.is_client_streaming() {
            true => THOUGHT,
            false => PATIENCE,
        };
        let lingers = self.head.version < Version::HTTP_2;
        let body = Patient::new(body, patience, lingers);
        let mut envelopes = Envelopes::new(body, codec.clone(), method.input(), fault.clone());
        let requests = match method.is_client_streaming() {
            true => Body::new(envelopes),
            false => match envelopes.only().await {
                Ok(message) => call::framed(message),
                Err(status) => return self.connect_end(kind, &status, &HeaderMap::new()),
            },
        };
        let called = match self.connect_call(metadata, requests).await {
            Ok(called) => called,
            Err(status) => {
                return self.connect_end(kind, &fault.or(status), &HeaderMap::new());
            }
        };
        if let Some(status) = call::status_of(called.headers()) {
            return self.connect_end(kind, &fault.or(status), called.headers());
        }
        let fields = upstream::to_connect(called.headers(), "");
        let compresses = codec.gzip;
        let answers = Answers::new(
            Messages::new(called, self.max_message()),
            codec,
            method.output(),
            self.gateway.services.clone(),
            fault,
        );
        let answered = Answered::new(kind, Content::Stream(Body::new(answers))).with_all(fields);
        match compresses {
            true => answered.with(STREAM_ENCODING, GZIP),
            false => answered,
        }
    }

    /// A stream without messages: its end with a status, and with metadata that came after them.
    fn connect_end(&self, kind: HeaderValue, status: &Status, metadata: &HeaderMap) -> Answered {
        let mut content = Vec::new();
        let services = &self.gateway.services;
        answers::end(services, Some(status), metadata, &mut content);
        Answered::new(kind, Content::Bytes(content.into()))
    }

    async fn connect_call(
        &self,
        metadata: HeaderMap,
        requests: Body,
    ) -> Result<http::Response<Body>, Status> {
        let path = self.head.uri.path();
        call::invoke(self, path, metadata, requests).await
    }

    /// What goes along as metadata, with the deadline as gRPC has it.
    fn connect_metadata(&self) -> Result<HeaderMap, Status> {
        let mut metadata = upstream::of_connect(&self.head.headers);
        if let Some(value) = self.head.headers.get(TIMEOUT) {
            let limit = value.to_str().ok().and_then(milliseconds).ok_or_else(|| {
                Status::invalid_argument(format!(
                    "connect-timeout-ms is {value:?}: give at most 10 digits"
                ))
            })?;
            let text = grpc_timeout::encode(limit);
            let value = HeaderValue::from_str(&text)
                .map_err(|_| Status::internal("the deadline is no field"))?;
            metadata.insert(GRPC_TIMEOUT, value);
        }
        Ok(metadata)
    }
}

fn milliseconds(text: &str) -> Option<Duration> {
    let is_number =
        (1..=10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let count = is_number.then(|| text.parse().ok())??;
    Some(Duration::from_millis(count))
}

/// Whether a field says that content is compressed by gzip; another coding is an error.
fn is_gzip(fields: &HeaderMap, name: &HeaderName) -> Result<bool, Status> {
    match fields.get(name).map(HeaderValue::as_bytes) {
        None | Some(b"" | b"identity") => Ok(false),
        Some(b"gzip") => Ok(true),
        Some(other) => {
            let shown: String = String::from_utf8_lossy(other).chars().take(50).collect();
            Err(Status::unimplemented(format!(
                "{name} is {shown:?}; supported are gzip and identity"
            )))
        }
    }
}

fn gunzip(content: &[u8], most: usize) -> Result<Bytes, Status> {
    match gzip::decompress(content, most) {
        Ok(content) => Ok(content.into()),
        Err(error @ GzipError::Limit(_)) => Err(Status::resource_exhausted(error.to_string())),
        Err(error) => Err(Status::invalid_argument(error.to_string())),
    }
}

/// A message of JSON in Protocol Buffers.
pub(super) fn encoded(input: &MessageDescriptor, content: &[u8]) -> Result<Bytes, Status> {
    let message = connect::read(input, Format::Json, content).map_err(status)?;
    Ok(trilane_grpc::encode(&message).into())
}

/// A message of Protocol Buffers in JSON.
pub(super) fn written(output: &MessageDescriptor, message: &[u8]) -> Result<Bytes, Status> {
    let decoded = DynamicMessage::decode(output.clone(), message)
        .map_err(|reason| Status::internal(format!("the service's message is none: {reason}")))?;
    let mut out = Vec::with_capacity(message.len() * 3);
    connect::write(&decoded, Format::Json, &mut out).map_err(status)?;
    Ok(out.into())
}

/// The status of a call that should have had a message.
pub(super) fn or_internal(status: Status) -> Status {
    match status.code() {
        Code::Ok => Status::internal("the service ended the call without a message"),
        _ => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_milliseconds() {
        assert_eq!(milliseconds("0"), Some(Duration::ZERO));
        assert_eq!(
            milliseconds("9999999999"),
            Some(Duration::from_millis(9_999_999_999))
        );
        for text in ["", "-1", "1.5", "10000000000", " 1", "1s"] {
            assert_eq!(milliseconds(text), None, "{text}");
        }
    }
}
