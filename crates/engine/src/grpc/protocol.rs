//! The protocols in which calls are made: gRPC, gRPC-Web and Connect. They differ in the fields of a request, in
//! whether a message has a prefix, and in where the status stands.

use serde::Deserialize;
use trilane_grpc::RpcKind;
use trilane_grpc::status::{self, Code};

/// How calls are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// gRPC over HTTP/2, and the same over HTTP/3.
    #[default]
    Grpc,
    /// [gRPC-Web](https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md): trailers are the last message.
    GrpcWeb,
    /// [Connect](https://connectrpc.com/docs/protocol): a unary call is a request whose content is the message.
    Connect,
}

/// The flag of a message that has trailers (gRPC-Web), and of the one that ends a stream (Connect).
pub(super) const TRAILERS: u8 = 0x80;
pub(super) const END_STREAM: u8 = 0x02;

impl Protocol {
    /// The name in flags and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::GrpcWeb => "grpc-web",
            Self::Connect => "connect",
        }
    }

    /// Whether messages of a call of this kind have a prefix.
    pub(super) fn frames(self, kind: RpcKind) -> bool {
        self != Self::Connect || kind != RpcKind::Unary
    }

    /// Flags that messages may have beside that of compression.
    pub(super) fn flags(self) -> u8 {
        match self {
            Self::Grpc => 0,
            Self::GrpcWeb => TRAILERS,
            Self::Connect => END_STREAM,
        }
    }

    /// The content-type of requests, and of good responses, of a call of this kind.
    pub(super) fn content_type(self, kind: RpcKind) -> &'static str {
        match (self, kind) {
            (Self::Grpc, _) => "application/grpc",
            (Self::GrpcWeb, _) => "application/grpc-web+proto",
            (Self::Connect, RpcKind::Unary) => "application/proto",
            (Self::Connect, _) => "application/connect+proto",
        }
    }

    /// The fields that say how the messages of a call of this kind are compressed: of those that are sent, and
    /// of those that are accepted.
    pub(super) fn encoding_fields(self, kind: RpcKind) -> (&'static str, &'static str) {
        match (self, kind) {
            (Self::Grpc | Self::GrpcWeb, _) => ("grpc-encoding", "grpc-accept-encoding"),
            (Self::Connect, RpcKind::Unary) => ("content-encoding", "accept-encoding"),
            (Self::Connect, _) => ("connect-content-encoding", "connect-accept-encoding"),
        }
    }

    /// Whether a response has the content-type of a call of this kind.
    pub(super) fn is_answer(self, kind: RpcKind, content_type: &[u8]) -> bool {
        let begin: &[u8] = match self {
            Self::Grpc => b"application/grpc",
            Self::GrpcWeb => b"application/grpc-web",
            Self::Connect => self.content_type(kind).as_bytes(),
        };
        content_type
            .strip_prefix(begin)
            .is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
    }
}

impl Protocol {
    /// Whether a response that is no answer is one whose messages are written in another way than was asked for, as
    /// Connect has it.
    pub(super) fn is_other_codec(self, kind: RpcKind, content_type: &[u8]) -> bool {
        let begin: &[u8] = match (self, kind) {
            (Self::Connect, RpcKind::Unary) => b"application/",
            (Self::Connect, _) => b"application/connect+",
            (Self::Grpc | Self::GrpcWeb, _) => return false,
        };
        content_type.starts_with(begin)
    }
}

/// Name and value of each of the trailers in a message: a block of fields as those of HTTP/1.1.
pub(super) fn block(block: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = block.split(|byte| *byte == b'\n');
    lines.filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((line[..colon].trim_ascii(), line[colon + 1..].trim_ascii()))
    })
}

/// `grpc-status` and `grpc-message` of trailers in a message.
pub(super) fn trailers(message: &[u8]) -> (Option<&[u8]>, Option<&[u8]>) {
    let (mut code, mut message_text) = (None, None);
    for (name, value) in block(message) {
        if name.eq_ignore_ascii_case(b"grpc-status") {
            code = code.or(Some(value));
        } else if name.eq_ignore_ascii_case(b"grpc-message") {
            message_text = message_text.or(Some(value));
        }
    }
    (code, message_text)
}

/// An error of Connect.
#[derive(Debug, Deserialize)]
struct ConnectError {
    code: Option<String>,
    #[serde(default)]
    message: String,
}

/// The last message of a stream of Connect.
#[derive(Debug, Deserialize)]
struct EndOfStream {
    error: Option<ConnectError>,
}

/// The status in the last message of a stream of Connect, with what it says; `None` where it is no JSON of that
/// form.
pub(super) fn end_of_stream(json: &[u8]) -> Option<(Code, String)> {
    let end: EndOfStream = serde_json::from_slice(json).ok()?;
    Some(match end.error {
        None => (Code::Ok, String::new()),
        Some(error) => error.told(Code::Unknown),
    })
}

/// The status of a unary response of Connect with an HTTP status other than 200, with what its content says.
pub(super) fn unary_error(http: u16, content: &[u8]) -> (Code, String) {
    let otherwise = status::of_http(http);
    let error: Result<ConnectError, _> = serde_json::from_slice(content);
    match error {
        Ok(error) => error.told(otherwise),
        Err(_) => {
            let text = format!("HTTP status {http}, which is {otherwise} in Connect");
            (otherwise, text)
        }
    }
}

impl ConnectError {
    fn told(self, otherwise: Code) -> (Code, String) {
        let named = self.code.as_deref().map(|name| match name {
            // Connect spells it as the rest of the world does not.
            "canceled" => Some(Code::Cancelled),
            name => Code::named(name).filter(|_| !name.starts_with(|c: char| c.is_ascii_digit())),
        });
        let code = named.flatten().filter(|code| *code != Code::Ok);
        let code = code.unwrap_or(otherwise);
        let message = status::message(self.message.as_bytes());
        let text = match message.as_str() {
            "" => format!("Connect error {code}"),
            message => format!("Connect error {code}: {message}"),
        };
        (code, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_are_a_block_of_fields() {
        let block = b"Grpc-Status: 5\r\ngrpc-message:no such%20book\r\nx: y\r\n";
        assert_eq!(
            trailers(block),
            (Some(&b"5"[..]), Some(&b"no such%20book"[..]))
        );
        assert_eq!(trailers(b"nothing"), (None, None));
    }

    #[test]
    fn errors_of_connect_have_names() {
        let told = |json: &str| end_of_stream(json.as_bytes());
        assert_eq!(told("{}"), Some((Code::Ok, String::new())));
        let (code, text) =
            told(r#"{"error": {"code": "not_found", "message": "no book"}}"#).unwrap();
        assert_eq!(
            (code, &text[..]),
            (Code::NotFound, "Connect error NOT_FOUND: no book")
        );
        let (code, _) = told(r#"{"error": {"code": "canceled"}, "metadata": {}}"#).unwrap();
        assert_eq!(code, Code::Cancelled);
        assert_eq!(told("<html>"), None);
        let (code, _) = unary_error(503, b"busy");
        assert_eq!(code, Code::Unavailable);
        let (code, _) = unary_error(404, br#"{"code": "not_found"}"#);
        assert_eq!(code, Code::NotFound);
    }

    #[test]
    fn content_types_are_those_of_the_protocol() {
        let unary = RpcKind::Unary;
        assert!(Protocol::Grpc.is_answer(unary, b"application/grpc+proto"));
        assert!(!Protocol::Grpc.is_answer(unary, b"application/grpc-web"));
        assert!(Protocol::GrpcWeb.is_answer(unary, b"application/grpc-web+proto"));
        assert!(Protocol::Connect.is_answer(unary, b"application/proto"));
        assert!(!Protocol::Connect.is_answer(unary, b"application/connect+proto"));
        let other =
            |kind, content_type: &[u8]| Protocol::Connect.is_other_codec(kind, content_type);
        assert!(other(unary, b"application/json") && !other(unary, b"text/html"));
        let stream = RpcKind::ServerStreaming;
        assert!(other(stream, b"application/connect+json") && !other(stream, b"application/json"));
        assert!(Protocol::Connect.is_answer(stream, b"application/connect+proto"));
    }
}
