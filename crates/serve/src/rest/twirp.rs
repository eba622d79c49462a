//! Twirp (<https://twitchtv.github.io/twirp/docs/spec_v7.html>): the services' methods of one message and one
//! answer, under `/twirp` and gRPC's path, or under that path alone where the caller says `Twirp-Version`.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, StatusCode, header::CONTENT_TYPE};
use hyper::body::Body as HttpBody;
use prost_reflect::MethodDescriptor;
use tokio::time::timeout;
use tonic::{Code, Status};
use trilane_transcode::{Format, Found, twirp};

use super::{
    Exchange,
    answer::{Answered, Content, Refusal, media_type},
    call::{self, Messages},
    coding, connect as connect_calls, upload,
};
use crate::{
    app::{Answer, BoxError, drain},
    connection::LINGER,
    upstream,
};

/// Before the path of gRPC, as Twirp's clients have it where nobody says another.
pub(crate) const PREFIX: &str = "/twirp/";
const VERSION: HeaderName = HeaderName::from_static("twirp-version");

/// Why there is no message to answer with.
struct Failure {
    code: &'static str,
    message: String,
    /// The route that there is not.
    route: Option<String>,
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::new(twirp::code(status.code() as u32), status.message())
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let status = refusal.status();
        match status.code() {
            // Of content that is not what it says to be.
            Code::InvalidArgument => Self::new(twirp::MALFORMED, status.message()),
            _ => status.clone().into(),
        }
    }
}

impl Failure {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            route: None,
        }
    }

    fn into_answered(self) -> Answered {
        let content = twirp::error(self.code, &self.message, self.route.as_deref());
        let status = StatusCode::from_u16(twirp::http_status(self.code));
        Answered::new(media_type(Format::Json), Content::Bytes(content.into()))
            .with_status(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
    }
}

/// Answers a request of Twirp for the method that gRPC has at `path`.
pub(super) fn handle<B>(
    exchange: Exchange,
    path: String,
    mut body: B,
    fields: HeaderMap,
) -> Answer<B>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let waiting = exchange.connection.wait();
    Answer::later(async move {
        let _waiting = waiting;
        let answered = match exchange.twirp(&path, &mut body).await {
            Ok(answered) => answered,
            Err(failure) => {
                // For clients that read no answer before they have written all.
                let _ = timeout(LINGER, drain(body)).await;
                failure.into_answered()
            }
        };
        let is_head = exchange.head.method == Method::HEAD;
        let answered = coding::encode(&exchange.head.headers, answered);
        Ok(answered.into_response(fields, &exchange.connection, is_head))
    })
}

impl Exchange {
    /// gRPC's path of the method, where the request is one of Twirp. A rule that has the path goes first.
    pub(super) fn wants_twirp(&self) -> Option<String> {
        let path = self.head.uri.path();
        let services = &self.gateway.services;
        if path.starts_with(PREFIX) {
            let method = self.head.method.as_str();
            let is_free = matches!(services.router().find(method, path), Found::Nothing);
            return is_free.then(|| path[PREFIX.len() - 1..].to_owned());
        }
        let says_so = self.head.headers.contains_key(VERSION);
        (says_so && services.method(path).is_some()).then(|| path.to_owned())
    }

    async fn twirp<B>(&self, path: &str, body: &mut B) -> Result<Answered, Failure>
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        let (method, format) = self.twirp_route(path)?;
        let most = self.max_message();
        let content = upload::collect(body, most).await?;
        let content = coding::decode(&self.head.headers, content, most)?;
        let message = match format {
            Format::Protobuf => content,
            // Fields that a caller's newer schema has are passed over, as Twirp's servers do it.
            Format::Json => connect_calls::encoded(&method.input(), &content)
                .map_err(|status| Failure::new(twirp::MALFORMED, status.message()))?,
        };
        let metadata = upstream::of_connect(&self.head.headers);
        let requests = call::whole(&message);
        let called = call::invoke(self, path, metadata, requests).await?;
        if let Some(status) = call::status_of(called.headers()) {
            return Err(connect_calls::or_internal(status).into());
        }
        let fields = upstream::to_connect(called.headers(), "");
        let answer = call::one_of(&mut Messages::new(called, most)).await?;
        let content = match format {
            Format::Protobuf => answer,
            Format::Json => connect_calls::written(&method.output(), &answer)?,
        };
        let answered = Answered::new(media_type(format), Content::Bytes(content));
        Ok(answered.with_all(fields))
    }

    fn twirp_route(&self, path: &str) -> Result<(MethodDescriptor, Format), Failure> {
        let shown = |text: &str| text.chars().take(200).collect::<String>();
        let bad = |message: String| Failure {
            route: Some(format!(
                "{} {}",
                shown(self.head.method.as_str()),
                shown(self.head.uri.path())
            )),
            ..Failure::new(twirp::BAD_ROUTE, message)
        };
        let method = self
            .gateway
            .services
            .method(path)
            .ok_or_else(|| bad(format!("method {} not found", shown(path))))?;
        if self.head.method != Method::POST {
            return Err(bad("Twirp calls are POST requests".to_owned()));
        }
        if method.is_client_streaming() || method.is_server_streaming() {
            let text = format!("{} streams: use gRPC or Connect", method.full_name());
            return Err(Failure::new(twirp::code(Code::Unimplemented as u32), text));
        }
        let kind = self.field(CONTENT_TYPE).unwrap_or_default();
        let format = Format::of_media_type(kind).ok_or_else(|| {
            let kind = shown(kind);
            bad(format!(
                "content-type is {kind:?}: send application/json or application/protobuf"
            ))
        })?;
        Ok((method, format))
    }
}
