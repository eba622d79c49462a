//! What a request is answered with.

use std::sync::Arc;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE},
};
use tonic::{Status, body::Body};
use trilane_transcode::{Format, Problem, connect, http_status, status_content};

use crate::{app::Reply, connection::Connection, rpc::Call, services::Services};

pub(super) type Outcome = Result<Answered, Refusal>;
pub(super) type Fields = Vec<(HeaderName, HeaderValue)>;

/// A response to be.
pub(super) struct Answered {
    status: StatusCode,
    fields: Fields,
    content: Content,
}

pub(super) enum Content {
    None,
    Bytes(Bytes),
    Stream(Body),
}

/// A reason not to give the response that was asked for.
pub(super) struct Refusal {
    http: StatusCode,
    status: Status,
    fields: Fields,
}

impl Answered {
    pub(super) fn new(kind: HeaderValue, content: Content) -> Self {
        Self {
            status: StatusCode::OK,
            fields: vec![(CONTENT_TYPE, kind)],
            content,
        }
    }

    /// One that does not say what its content is.
    pub(super) fn without_type(content: Content) -> Self {
        Self {
            status: StatusCode::OK,
            fields: Fields::new(),
            content,
        }
    }

    pub(super) fn empty(status: StatusCode) -> Self {
        Self {
            status,
            fields: Fields::new(),
            content: Content::None,
        }
    }

    pub(super) fn content(&self) -> &Content {
        &self.content
    }

    /// With other bytes for its content.
    pub(super) fn coded(mut self, content: Bytes) -> Self {
        self.content = Content::Bytes(content);
        self
    }

    pub(super) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(super) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.fields.push((name, value));
        self
    }

    pub(super) fn with_all(mut self, fields: Fields) -> Self {
        self.fields.extend(fields);
        self
    }

    /// With the fields that every response has.
    pub(super) fn into_response<B>(
        self,
        mut fields: HeaderMap,
        connection: &Arc<Connection>,
        is_head: bool,
    ) -> Response<Reply<B>> {
        // Metadata may have several values of one name, and `vary` several reasons.
        for (name, value) in self.fields {
            fields.append(name, value);
        }
        let body = match self.content {
            Content::None => Reply::Bytes(Bytes::new()),
            Content::Bytes(bytes) => {
                fields.insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
                Reply::Bytes(bytes)
            }
            Content::Stream(body) => Reply::Call(Call::new(body, connection.clone())),
        };
        // RFC 9110 section 9.3.2: the fields of GET, and no content.
        let mut response = Response::new(match is_head {
            true => Reply::Bytes(Bytes::new()),
            false => body,
        });
        *response.status_mut() = self.status;
        *response.headers_mut() = fields;
        response
    }
}

impl Refusal {
    pub(super) fn new(http: StatusCode, status: Status) -> Self {
        Self {
            http,
            status,
            fields: Fields::new(),
        }
    }

    /// With the HTTP status that goes with the code.
    pub(super) fn of(status: Status) -> Self {
        let code = status.code() as u32;
        let http = StatusCode::from_u16(http_status(code));
        Self::new(http.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), status)
    }

    pub(super) fn unsupported(expected: &str) -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Status::invalid_argument(format!(
                "the content has to be {expected}, and content-type has to say so"
            )),
        )
    }

    pub(super) fn not_acceptable(there_is: &str) -> Self {
        Self::new(
            StatusCode::NOT_ACCEPTABLE,
            Status::invalid_argument(format!("accept names none of {there_is}")),
        )
    }

    pub(super) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.fields.push((name, value));
        self
    }

    pub(super) fn with_all(mut self, fields: Fields) -> Self {
        self.fields.extend(fields);
        self
    }

    pub(super) fn status(&self) -> &Status {
        &self.status
    }

    /// Says where the reason stands: in a line, or a message, of this number.
    pub(super) fn at(mut self, unit: &str, number: u64) -> Self {
        let text = format!("{unit} {number}: {}", self.status.message());
        self.status = Status::new(self.status.code(), text);
        self
    }

    /// The response with Connect's error as content, whose details `services` know.
    pub(super) fn into_connect(self, services: &Services) -> Answered {
        let status = &self.status;
        let (code, details) = (status.code() as u32, status.details());
        let content = connect::error(code, status.message(), details, services.pool()).into();
        let mut answered = Answered::new(media_type(Format::Json), Content::Bytes(content));
        answered.status = self.http;
        answered.with_all(self.fields)
    }

    /// The response with `google.rpc.Status` as content, whose details `services` know.
    pub(super) fn into_answered(self, services: &Services, format: Format) -> Answered {
        let content = error(services, &self.status, format).into();
        let mut answered = Answered::new(media_type(format), Content::Bytes(content));
        answered.status = self.http;
        answered.with_all(self.fields)
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::of(status)
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::of(self::status(problem))
    }
}

pub(super) fn status(problem: Problem) -> Status {
    // The codes are those of gRPC.
    Status::new((problem.code as i32).into(), problem.message)
}

/// `google.rpc.Status`.
pub(super) fn error(services: &Services, status: &Status, format: Format) -> Vec<u8> {
    status_content(
        status.code() as u32,
        status.message(),
        status.details(),
        services.pool(),
        format,
    )
}

pub(super) fn media_type(format: Format) -> HeaderValue {
    HeaderValue::from_static(format.media_type())
}
