//! A request: prepared once and sent many times, over any version, or made to be sent once.

mod one_off;
mod refusal;
mod varying;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::field::{self, FieldList};
use crate::h3::Opening;
use crate::{hpack, qpack, websocket};

pub use one_off::{Content, Encoding, OneOff};
pub(crate) use one_off::{Framing, Streamed};
pub use refusal::RequestError;
use refusal::check;
pub use varying::Varying;

/// So many requests may be `repeated` on a connection: as many it keeps encoded, and their paths find
/// room in an HPACK table of 4096 bytes.
pub const REPEATED: usize = 16;

/// What asks for WebSocket, beside the key that stands behind it (RFC 6455 §4.1).
const UPGRADE: [(&str, &str); 3] = [
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
];
const WEBSOCKET_KEY: &str = "Sec-WebSocket-Key";

/// Where `:path` stands among the fields: the last of the pseudo-fields.
pub(crate) const PATH: usize = 3;

/// What a request is made of.
#[derive(Clone, Debug)]
pub struct RequestParts<'a> {
    /// The method, case-sensitive.
    pub method: &'a str,
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Host and, unless it is the scheme's default, port.
    pub authority: &'a str,
    /// Path and query, beginning with `/` (or `*`).
    pub path: &'a str,
    /// Fields in order. A `host` field replaces the authority. `content-length` is added where the
    /// body or the method asks for one.
    pub fields: &'a [(String, String)],
    /// The content, possibly empty.
    pub body: Arc<[u8]>,
    /// Whether `:path` may enter the HPACK dynamic table: right for one of up to [`REPEATED`] that
    /// are sent again and again, wasteful for one of many.
    pub repeated: bool,
}

/// Whether a field may enter a compression table (RFC 7541 §6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexing {
    /// Literal with incremental indexing: the next request names it by its index.
    Incremental,
    /// Literal without indexing.
    Without,
    /// Never indexed, by us or by an intermediary: secrets (RFC 7541 §7.1.3).
    Never,
}

/// Methods that change what a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MethodKind {
    Ordinary,
    /// The response has no content.
    Head,
    /// A response of success opens a tunnel (RFC 9110 §9.3.6).
    Connect,
    /// Asks for another protocol, which a response with status 101 opens on the connection (RFC 9110 §7.8),
    /// or one of success on the stream (RFC 8441 §4).
    Upgrade,
}

impl MethodKind {
    fn of(method: &str) -> Self {
        match method {
            "HEAD" => Self::Head,
            "CONNECT" => Self::Connect,
            _ => Self::Ordinary,
        }
    }
}

/// A request, encoded once: the HTTP/1.1 text, the HTTP/2 field list, the HTTP/3 field section.
#[derive(Clone, Debug)]
pub struct Request {
    id: u64,
    template: u64,
    repeated: bool,
    h1: Vec<u8>,
    /// Of one that is [`Varying`] those that stay, and `:path` as it was first.
    fields: FieldList,
    indexing: Box<[Indexing]>,
    /// `:path` for HTTP/2, and behind it the other fields that change.
    hpack_path: Vec<u8>,
    h3: Opening,
    decoded_bytes: usize,
    section_size: u64,
    body: Arc<[u8]>,
    streamed: Option<Streamed>,
    has_content: bool,
    kind: MethodKind,
    idempotent: bool,
    closes: bool,
}

impl Request {
    /// Prepares a request, checking every part against RFC 9110 so that no input can split it.
    pub fn new(parts: &RequestParts<'_>) -> Result<Self, RequestError> {
        Self::prepare(parts, None, true)
    }

    /// Prepares a request whose content follows by `write`, of a length that is not known: HTTP/1.1
    /// sends it in chunks (RFC 9112 §7.1). The body of `parts` is not sent.
    pub fn streamed(parts: &RequestParts<'_>) -> Result<Self, RequestError> {
        Self::without_length(parts, Framing::Chunked)
    }

    /// Content of a length that is not known follows; the body of `parts` is not sent.
    fn without_length(parts: &RequestParts<'_>, framing: Framing) -> Result<Self, RequestError> {
        let parts = RequestParts {
            body: Arc::default(),
            ..parts.clone()
        };
        Self::prepare(&parts, Some(Streamed::unknown(framing)), false)
    }

    /// Prepares the opening handshake of a WebSocket over HTTP/1.1 (RFC 6455 §4.1), with the fields that it
    /// has beside those of `parts`, whose method is GET. What goes each way behind status 101 is content:
    /// of the request by `write`, once that status is there, and of the response.
    pub fn websocket(parts: &RequestParts<'_>) -> Result<Self, RequestError> {
        let mut request = Self::without_length(parts, Framing::Nothing)?;
        request.kind = MethodKind::Upgrade;
        let empty_line = request.h1.len() - 2;
        request.h1.truncate(empty_line);
        let key = websocket::key([0; 16]);
        let fields = UPGRADE.map(|(name, value)| (name, value.as_bytes()));
        for (name, value) in fields.into_iter().chain([(WEBSOCKET_KEY, &key[..])]) {
            for piece in [name.as_bytes(), b": ", value, b"\r\n"] {
                request.h1.extend_from_slice(piece);
            }
            request.decoded_bytes += name.len() + value.len();
        }
        request.h1.extend_from_slice(b"\r\n");
        Ok(request)
    }

    /// Prepares a request of HTTP/2 for `protocol`, such as `websocket`, on a stream (RFC 8441 §4), with the
    /// fields of `parts`; the method is CONNECT, whatever theirs is. What goes each way behind a response of
    /// success is content: of the request by `write`, and of the response.
    pub fn extended_connect(
        parts: &RequestParts<'_>,
        protocol: &str,
    ) -> Result<Self, RequestError> {
        if protocol.is_empty() || !protocol.bytes().all(field::is_token) {
            return Err(RequestError::FieldValue(":protocol".to_owned()));
        }
        let mut request = Self::without_length(parts, Framing::Nothing)?;
        let (mut fields, mut indexing) = (FieldList::new(), Vec::new());
        for (at, (name, value, how)) in request.fields().enumerate() {
            let is_method = name == b":method";
            fields.push(name, if is_method { b"CONNECT" } else { value });
            indexing.push(how);
            if at == PATH {
                fields.push(b":protocol", protocol.as_bytes());
                indexing.push(Indexing::Incremental);
            }
        }
        // Other versions ask in other words.
        request.h1.clear();
        request.h3 = Opening::default();
        request.section_size = fields.section_size();
        request.decoded_bytes = fields.iter().map(|(n, v)| n.len() + v.len()).sum();
        request.fields = fields;
        request.indexing = indexing.into();
        request.kind = MethodKind::Upgrade;
        request.idempotent = false;
        Ok(request)
    }

    /// Gives a request of [`Self::websocket`] another `sec-websocket-key`: each connection has its own.
    pub fn set_websocket_key(&mut self, key: &[u8; websocket::KEY_LENGTH]) {
        if self.kind == MethodKind::Upgrade && !self.h1.is_empty() {
            let end = self.h1.len() - 4;
            self.h1[end - key.len()..end].copy_from_slice(key);
        }
    }

    /// `tells_length`: whether `content-length` is added where it belongs.
    fn prepare(
        parts: &RequestParts<'_>,
        streamed: Option<Streamed>,
        tells_length: bool,
    ) -> Result<Self, RequestError> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        check(parts)?;

        let host = parts
            .fields
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let authority = host.map_or(parts.authority, |(_, value)| value.as_str());
        let length = parts.body.len().to_string();
        let announces_length = tells_length
            && (!parts.body.is_empty() || matches!(parts.method, "POST" | "PUT" | "PATCH"))
            && !parts
                .fields
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case("content-length"));

        let mut h1 = format!(
            "{} {} HTTP/1.1\r\nHost: {authority}\r\n",
            parts.method, parts.path
        );
        let mut fields = FieldList::new();
        let mut indexing = Vec::new();
        let mut add = |name: &[u8], value: &[u8], how| {
            fields.push_lowercase(name, value);
            indexing.push(how);
        };
        let path_indexing = if parts.repeated {
            Indexing::Incremental
        } else {
            Indexing::Without
        };
        add(b":method", parts.method.as_bytes(), Indexing::Incremental);
        add(b":scheme", parts.scheme.as_bytes(), Indexing::Incremental);
        add(b":authority", authority.as_bytes(), Indexing::Incremental);
        add(b":path", parts.path.as_bytes(), path_indexing);
        for (name, value) in parts.fields {
            if name.eq_ignore_ascii_case("host") {
                continue;
            }
            h1.extend([name, ": ", value, "\r\n"]);
            let lower = name.to_ascii_lowercase();
            if field::is_connection_specific(lower.as_bytes()) {
                continue;
            }
            add(
                lower.as_bytes(),
                value.as_bytes(),
                indexing_of(lower.as_bytes()),
            );
        }
        if announces_length {
            h1.extend(["Content-Length: ", &length, "\r\n"]);
            add(b"content-length", length.as_bytes(), Indexing::Incremental);
        }
        if streamed.is_some_and(|streamed| streamed.framing == Framing::Chunked) {
            h1.push_str("Transfer-Encoding: chunked\r\n");
        }
        h1.push_str("\r\n");

        let mut section = Vec::new();
        qpack::encode(
            fields.iter().zip(&indexing).map(|((n, v), i)| (n, v, *i)),
            &mut section,
        );
        let mut hpack_path = Vec::new();
        if !parts.repeated {
            hpack::encode_without_table(
                b":path",
                parts.path.as_bytes(),
                path_indexing,
                &mut hpack_path,
            );
        }
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            id,
            template: id,
            repeated: parts.repeated,
            h1: h1.into_bytes(),
            section_size: fields.section_size(),
            decoded_bytes: fields.iter().map(|(n, v)| n.len() + v.len()).sum(),
            fields,
            indexing: indexing.into(),
            hpack_path,
            h3: Opening::new(&section, &parts.body, streamed.is_some()),
            body: Arc::clone(&parts.body),
            streamed,
            has_content: streamed.is_some() || !parts.body.is_empty(),
            kind: MethodKind::of(parts.method),
            idempotent: is_idempotent(parts.method),
            closes: parts.fields.iter().any(|(name, value)| {
                name.eq_ignore_ascii_case("connection") && says_close(value.as_bytes())
            }),
        })
    }

    /// Finds out which requests differ from the first in nothing but a `:path` that is not `repeated`:
    /// a connection of HTTP/2 encodes what they share once, not for each of them.
    pub fn share_fields(requests: &mut [Self]) {
        let Some((first, others)) = requests.split_first_mut() else {
            return;
        };
        for other in others {
            let has_paths = !first.hpack_path.is_empty() && !other.hpack_path.is_empty();
            if has_paths && first.fields_but_path().eq(other.fields_but_path()) {
                other.template = first.template;
            }
        }
    }

    fn fields_but_path(&self) -> impl Iterator<Item = (&[u8], &[u8], Indexing)> {
        let fields = self.fields().enumerate();
        fields.filter_map(|(at, field)| (at != PATH).then_some(field))
    }

    /// A number that no other request of this process has: the key of caches. 0 for
    /// [`Self::one_off`], of which they keep nothing.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// What requests have in common that a connection of HTTP/2 encodes together: the [`Self::id`] of
    /// the first of them; see [`Self::share_fields`].
    #[inline]
    pub fn template(&self) -> u64 {
        self.template
    }

    /// `:path`, and what else changes, as it may stand in any block of HTTP/2; empty where it is to
    /// enter the table.
    #[inline]
    pub(crate) fn hpack_path(&self) -> &[u8] {
        &self.hpack_path
    }

    /// Whether it is one of a few that are sent again and again.
    #[inline]
    pub(crate) fn is_repeated(&self) -> bool {
        self.repeated
    }

    /// What its stream begins with in HTTP/3.
    #[inline]
    pub(crate) fn h3_opening(&self) -> &Opening {
        &self.h3
    }

    /// The HTTP/1.1 head, with the empty line.
    pub fn h1_head(&self) -> &[u8] {
        &self.h1
    }

    /// The fields for HTTP/2, pseudo-fields first, each with the way it may be indexed. Of a
    /// [`Varying`] request those that stay, and `:path` as it was first.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8], Indexing)> {
        self.fields
            .iter()
            .zip(&self.indexing)
            .map(|((n, v), i)| (n, v, *i))
    }

    /// The encoded field section for HTTP/3 (static table only), with its prefix.
    pub fn qpack_section(&self) -> &[u8] {
        self.h3.section()
    }

    /// Bytes of the field section uncompressed, in every version alike: name and value of each field, the
    /// pseudo-fields of HTTP/2 among them; the size of RFC 7541 §4.1 without its 32 for each field.
    pub fn decoded_bytes(&self) -> usize {
        self.decoded_bytes
    }

    /// Size of the field section as the peer's limit counts it; see [`FieldList::section_size`].
    #[inline]
    pub fn section_size(&self) -> u64 {
        self.section_size
    }

    /// The content, possibly empty; empty where it is streamed.
    pub fn body(&self) -> &Arc<[u8]> {
        &self.body
    }

    /// How many bytes of streamed content were announced; `None` where it is not known.
    pub fn streamed_length(&self) -> Option<u64> {
        self.streamed.and_then(|streamed| streamed.length)
    }

    /// Whether content follows the head: a body that is not empty, or one that is streamed.
    #[inline]
    pub(crate) fn has_content(&self) -> bool {
        self.has_content
    }

    /// The content that follows by `write`.
    #[inline]
    pub(crate) fn streamed_content(&self) -> Option<Streamed> {
        self.streamed
    }

    #[inline]
    pub(crate) fn kind(&self) -> MethodKind {
        self.kind
    }

    /// Whether the method is HEAD, so that the response has no content.
    pub fn is_head(&self) -> bool {
        self.kind == MethodKind::Head
    }

    /// Whether the method is idempotent (RFC 9110 §9.2.2).
    pub fn is_idempotent(&self) -> bool {
        self.idempotent
    }

    /// Whether the request asks for `Connection: close`, so that it is the last one on an HTTP/1.1
    /// connection (RFC 9112 §9.6).
    pub fn closes(&self) -> bool {
        self.closes
    }
}

/// How a field of a request that is sent again and again may be indexed. `name` is in lower case.
fn indexing_of(name: &[u8]) -> Indexing {
    match name {
        b"authorization" | b"proxy-authorization" | b"cookie" => Indexing::Never,
        _ => Indexing::Incremental,
    }
}

/// Whether a `connection` field has the option `close`.
fn says_close(value: &[u8]) -> bool {
    value
        .split(|&b| b == b',')
        .any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}

/// RFC 9110 §9.2.2.
fn is_idempotent(method: &str) -> bool {
    matches!(
        method,
        "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE"
    )
}

#[cfg(test)]
mod tests;
