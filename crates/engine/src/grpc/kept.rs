//! The response of the only call of a run, kept as it came: for whoever shows it.

use serde::Deserialize;
use trilane_grpc::RpcKind;
use trilane_wire::{FieldList, Fields};

use super::protocol::Protocol;

/// What is kept of the messages of a response, in bytes.
const LONGEST: usize = 16 << 20;
/// What is kept of content that is no message, in bytes.
const LONGEST_TEXT: usize = 64 << 10;

/// The response of one call. Nothing in it has been judged: what is wrong with it is in the outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub http: u16,
    /// The fields of its head.
    pub head: FieldList,
    /// Its messages, decompressed.
    pub messages: Vec<Vec<u8>>,
    /// What came behind the messages: fields, in HTTP's trailers or in the last message of gRPC-Web; the metadata
    /// in the last message of Connect.
    pub trailers: FieldList,
    /// What says in JSON how a call of Connect ended: the content of a unary error, or the last message of a
    /// stream; else the beginning of content that is no message.
    pub content: Vec<u8>,
    /// Whether more messages came than are kept.
    pub is_cut: bool,
    /// Bytes of the messages so far.
    kept: usize,
}

/// The metadata in the last message of a stream of Connect.
#[derive(Debug, Deserialize)]
struct EndOfStream {
    #[serde(default)]
    metadata: serde_json::Map<String, serde_json::Value>,
}

impl Response {
    /// Of a response that begins so.
    pub(super) fn new(http: u16, head: Fields<'_>) -> Self {
        Self {
            http,
            head: list(head),
            ..Self::default()
        }
    }

    /// A message has come.
    pub(super) fn message(&mut self, message: Vec<u8>) {
        if self.kept + message.len() > LONGEST {
            self.is_cut = true;
            return;
        }
        self.kept += message.len();
        self.messages.push(message);
    }

    /// Content has come that is no message.
    pub(super) fn text(&mut self, bytes: &[u8]) {
        let room = LONGEST_TEXT.saturating_sub(self.content.len());
        self.content
            .extend_from_slice(&bytes[..room.min(bytes.len())]);
    }

    /// The trailers of HTTP have come.
    pub(super) fn trailers(&mut self, fields: Fields<'_>) {
        for (name, value) in fields.iter() {
            self.trailers.push(name, value);
        }
    }

    /// The message that ends a stream has come.
    pub(super) fn end(&mut self, protocol: Protocol, block: &[u8]) {
        if protocol != Protocol::Connect {
            for (name, value) in super::protocol::block(block) {
                self.trailers.push_lowercase(name, value);
            }
            return;
        }
        self.text(block);
        let end: Result<EndOfStream, _> = serde_json::from_slice(block);
        for (name, values) in end.map(|end| end.metadata).unwrap_or_default() {
            let values = values.as_array().into_iter().flatten();
            for value in values.filter_map(serde_json::Value::as_str) {
                self.trailers
                    .push_lowercase(name.as_bytes(), value.as_bytes());
            }
        }
    }

    /// The error in JSON with which a call of Connect of this kind ended; `None` where there is none.
    pub fn connect_error(&self, kind: RpcKind) -> Option<serde_json::Value> {
        let content: serde_json::Value = serde_json::from_slice(&self.content).ok()?;
        match kind {
            RpcKind::Unary => Some(content),
            _ => content.get("error").cloned(),
        }
    }
}

fn list(fields: Fields<'_>) -> FieldList {
    let mut list = FieldList::new();
    for (name, value) in fields.iter() {
        list.push(name, value);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(fields: &FieldList) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fields = fields.iter();
        fields
            .map(|(name, value)| (text(name), text(value)))
            .collect()
    }

    #[test]
    fn metadata_of_the_last_message_are_trailers() {
        let mut kept = Response::default();
        kept.end(Protocol::GrpcWeb, b"Grpc-Status: 0\r\nX-A: 1\r\nx-a: 2\r\n");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let web = [pair("grpc-status", "0"), pair("x-a", "1"), pair("x-a", "2")];
        assert_eq!(shown(&kept.trailers), web);
        assert!(kept.content.is_empty());
        let mut kept = Response::default();
        let json = br#"{"metadata": {"X-B": ["1", "2"]}, "error": {"code": "aborted"}}"#;
        kept.end(Protocol::Connect, json);
        assert_eq!(shown(&kept.trailers), [pair("x-b", "1"), pair("x-b", "2")]);
        let error = kept.connect_error(RpcKind::ServerStreaming).unwrap();
        assert_eq!(error["code"], "aborted");
    }

    #[test]
    fn what_is_kept_has_an_end() {
        let mut kept = Response::default();
        for _ in 0..20 {
            kept.message(vec![0; 1 << 20]);
            kept.text(&[b'x'; 10 << 10]);
        }
        assert!(kept.is_cut);
        assert_eq!((kept.messages.len(), kept.content.len()), (16, 64 << 10));
    }
}
