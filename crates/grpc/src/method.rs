//! A method: what goes in, what comes out.

use std::fmt;

use prost_reflect::{DynamicMessage, MessageDescriptor, MethodDescriptor};

use crate::{JsonError, json};

/// Who sends how many messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RpcKind {
    /// One each.
    Unary,
    /// One request, any number of responses.
    ServerStreaming,
    /// Any number of requests, one response.
    ClientStreaming,
    /// Any number each.
    Bidirectional,
}

impl RpcKind {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            RpcKind::Unary => "unary",
            RpcKind::ServerStreaming => "server_streaming",
            RpcKind::ClientStreaming => "client_streaming",
            RpcKind::Bidirectional => "bidi_streaming",
        }
    }

    /// Whether the caller sends a stream.
    pub fn streams_requests(self) -> bool {
        matches!(self, RpcKind::ClientStreaming | RpcKind::Bidirectional)
    }

    /// Whether the server sends a stream.
    pub fn streams_responses(self) -> bool {
        matches!(self, RpcKind::ServerStreaming | RpcKind::Bidirectional)
    }
}

/// A response that is no message of its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    message: String,
    reason: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message, reason } = self;
        write!(f, "the bytes are no {message}: {reason}")
    }
}

impl std::error::Error for DecodeError {}

/// A method of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method {
    descriptor: MethodDescriptor,
    /// With the slash at its beginning.
    path: String,
}

impl Method {
    pub(crate) fn new(descriptor: MethodDescriptor) -> Self {
        let service = descriptor.parent_service().full_name();
        let path = format!("/{service}/{}", descriptor.name());
        Self { descriptor, path }
    }

    /// The path of its requests, `/pkg.Service/Method`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// `pkg.Service/Method`.
    pub fn full_name(&self) -> &str {
        &self.path[1..]
    }

    /// Who sends how many messages.
    pub fn kind(&self) -> RpcKind {
        match (
            self.descriptor.is_client_streaming(),
            self.descriptor.is_server_streaming(),
        ) {
            (false, false) => RpcKind::Unary,
            (false, true) => RpcKind::ServerStreaming,
            (true, false) => RpcKind::ClientStreaming,
            (true, true) => RpcKind::Bidirectional,
        }
    }

    /// The type of the requests.
    pub fn input(&self) -> MessageDescriptor {
        self.descriptor.input()
    }

    /// The type of the responses.
    pub fn output(&self) -> MessageDescriptor {
        self.descriptor.output()
    }

    /// The messages of one or more JSON values, written one after the other; of nothing, one empty
    /// message. JSON is read by the
    /// [rules of protobuf](https://protobuf.dev/programming-guides/json/), and unknown fields are
    /// errors.
    pub fn requests(&self, json: &str) -> Result<Vec<DynamicMessage>, JsonError> {
        json::messages(&self.input(), json)
    }

    /// A request, from its bytes without prefix and compression.
    pub fn decode_request(&self, bytes: &[u8]) -> Result<DynamicMessage, DecodeError> {
        decode(self.input(), bytes)
    }

    /// A response, from its bytes without prefix and compression.
    pub fn decode(&self, bytes: &[u8]) -> Result<DynamicMessage, DecodeError> {
        decode(self.output(), bytes)
    }
}

fn decode(descriptor: MessageDescriptor, bytes: &[u8]) -> Result<DynamicMessage, DecodeError> {
    DynamicMessage::decode(descriptor.clone(), bytes).map_err(|error| DecodeError {
        message: descriptor.full_name().to_owned(),
        reason: error.to_string(),
    })
}
