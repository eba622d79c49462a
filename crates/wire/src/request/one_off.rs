//! A request that is sent once, over a version that is known: the client's.

use std::sync::Arc;

use super::{Indexing, MethodKind, Request, RequestError};
use crate::field::{self, FieldList};
use crate::h3::Opening;
use crate::qpack;

/// What [`Request::one_off`] encodes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// HTTP/1.1.
    H1,
    /// HTTP/2.
    H2,
    /// HTTP/3.
    H3,
}

/// What a request that is sent once is made of.
#[derive(Clone, Debug)]
pub struct OneOff<'a> {
    /// The method, any token, case-sensitive. CONNECT is for HTTP/1.1 alone.
    pub method: &'a str,
    /// `http` or `https`. HTTP/1.1 does not send it.
    pub scheme: &'a str,
    /// Host and, unless it is the scheme's default, port. HTTP/1.1 alone takes an empty one.
    pub authority: &'a str,
    /// The request target (RFC 9112 §3.2): path and query beginning with `/`, or `*`. For HTTP/1.1
    /// also a whole URI for a proxy and, with CONNECT, host and port.
    pub path: &'a str,
    /// Fields in order. Names keep their case in HTTP/1.1; values may have obs-text, and blanks
    /// around them are left out. A `host` field replaces the authority and stands where it was put;
    /// without one, HTTP/1.1 begins with it. HTTP/2 and HTTP/3 leave out connection-specific fields,
    /// and `te` unless it says `trailers`.
    pub fields: &'a [(&'a [u8], &'a [u8])],
    /// The content.
    pub content: Content,
}

/// The content of a [`OneOff`].
#[derive(Clone, Debug)]
pub enum Content {
    /// All of it, possibly nothing. `content-length` is added where there is some, or the method is
    /// POST, PUT or PATCH.
    Whole(Arc<[u8]>),
    /// It follows by `write`, up to `finish`.
    Streamed {
        /// How many bytes. `None`: not known, unless the fields have a `content-length`; HTTP/1.1
        /// then sends chunks (RFC 9112 §7.1).
        length: Option<u64>,
        /// HTTP/1.1 alone: the caller frames the content and says so by a `transfer-encoding` of its
        /// own. Nothing is added, neither to the fields nor to what is written.
        raw: bool,
    },
    /// What is written and read once the server has switched to this protocol, such as `websocket`: by
    /// status 101 in HTTP/1.1, which is asked by the field `upgrade` (RFC 9110 §7.8), and by a status of
    /// success in the others, which are asked by extended CONNECT (RFC 8441 §4, RFC 9220 §3), whatever
    /// the method is. Nothing is to be written before.
    Switched(String),
}

/// Content that follows the head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streamed {
    /// Bytes announced, and later those of them that are left.
    pub(crate) length: Option<u64>,
    pub(crate) framing: Framing,
}

impl Streamed {
    /// Content of a length that is not known.
    pub(crate) fn unknown(framing: Framing) -> Self {
        Self {
            length: None,
            framing,
        }
    }
}

/// How HTTP/1.1 tells where streamed content ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By `content-length`.
    Length,
    /// By chunks that we make.
    Chunked,
    /// By chunks that the caller makes.
    Own,
    /// Not at all: where the caller writes something none the less, the connection ends with it.
    Nothing,
}

/// What the fields say together with the content.
struct Message<'a> {
    /// The `host` field.
    host: Option<&'a [u8]>,
    /// What to add as `content-length`.
    length: Option<u64>,
    body: Arc<[u8]>,
    streamed: Option<Streamed>,
    closes: bool,
    /// The protocol that the server is asked to switch to.
    protocol: Option<&'a str>,
}

impl Request {
    /// Prepares a request that is sent once, for `version` alone, checking every part against
    /// RFC 9110 so that no input can split it. Its [`Request::id`] is 0, and connections keep
    /// nothing of it. To send it on a connection of another version is a mistake.
    pub fn one_off(version: Encoding, parts: &OneOff<'_>) -> Result<Self, RequestError> {
        check_start(version, parts)?;
        let message = Message::read(version, parts)?;
        let switches = message.protocol.is_some();
        let authority = message.host.unwrap_or(parts.authority.as_bytes());
        if !is_authority(authority) || (authority.is_empty() && version != Encoding::H1) {
            return Err(RequestError::Authority(text(authority)));
        }

        let mut request = Self {
            id: 0,
            template: 0,
            repeated: false,
            h1: Vec::new(),
            fields: FieldList::new(),
            indexing: Box::default(),
            hpack_path: Vec::new(),
            h3: Opening::default(),
            decoded_bytes: 0,
            section_size: 0,
            has_content: message.streamed.is_some() || !message.body.is_empty(),
            body: Arc::clone(&message.body),
            streamed: message.streamed,
            kind: if switches {
                MethodKind::Upgrade
            } else {
                MethodKind::of(parts.method)
            },
            idempotent: !switches && super::is_idempotent(parts.method),
            closes: message.closes,
        };
        if version == Encoding::H1 {
            request.h1 = message.text(parts);
            return Ok(request);
        }
        let (fields, indexing) = message.section(parts, authority);
        request.decoded_bytes = fields.iter().map(|(n, v)| n.len() + v.len()).sum();
        if version == Encoding::H3 {
            let mut section = Vec::new();
            let marked = fields.iter().zip(&indexing);
            qpack::encode(marked.map(|((n, v), i)| (n, v, *i)), &mut section);
            request.h3 = Opening::new(&section, &message.body, message.streamed.is_some());
        }
        request.section_size = fields.section_size();
        request.fields = fields;
        request.indexing = indexing.into();
        Ok(request)
    }
}

impl<'a> Message<'a> {
    /// Checks the fields, by themselves and against the content.
    fn read(version: Encoding, parts: &'a OneOff<'a>) -> Result<Self, RequestError> {
        let forbidden = |name: &[u8]| Err(RequestError::Forbidden(text(name)));
        let mut protocol = None;
        let (body, mut streamed, raw) = match &parts.content {
            Content::Whole(body) => (Arc::clone(body), None, false),
            Content::Switched(name) => {
                protocol = Some(name.as_str());
                let streamed = Streamed {
                    length: None,
                    framing: Framing::Nothing,
                };
                (Arc::default(), Some(streamed), false)
            }
            &Content::Streamed { length, raw } => {
                let framing = match length {
                    Some(_) => Framing::Length,
                    None => Framing::Chunked,
                };
                (Arc::default(), Some(Streamed { length, framing }), raw)
            }
        };
        let (mut host, mut closes) = (None, false);
        let (mut given_length, mut given_coding) = (None, None);
        for &(name, value) in parts.fields {
            if name.is_empty() || !name.iter().all(|&b| field::is_token(b)) {
                return Err(RequestError::FieldName(text(name)));
            }
            let value = trim_blanks(value);
            if !field::is_field_value(value) {
                return Err(RequestError::FieldValue(text(name)));
            }
            if name.eq_ignore_ascii_case(b"host") {
                // Two of them are a way to make two servers see two hosts (RFC 9112 §3.2).
                if host.replace(value).is_some() {
                    return forbidden(name);
                }
            } else if name.eq_ignore_ascii_case(b"content-length") {
                let length = field::parse_content_length(value);
                if length.is_none() || given_length.is_some() {
                    return forbidden(name);
                }
                given_length = length;
            } else if name.eq_ignore_ascii_case(b"transfer-encoding") && version == Encoding::H1 {
                if !raw || given_coding.replace(value).is_some() {
                    return forbidden(name);
                }
            } else if name.eq_ignore_ascii_case(b"upgrade") && version == Encoding::H1 {
                return forbidden(name);
            } else if name.eq_ignore_ascii_case(b"connection") {
                closes |= super::says_close(value);
            }
        }

        if let Some(name) = protocol {
            if name.is_empty() || !name.bytes().all(field::is_token) {
                return Err(RequestError::FieldValue(":protocol".to_owned()));
            }
            if given_length.is_some() {
                return forbidden(b"content-length");
            }
        }
        if raw && version != Encoding::H1 {
            return forbidden(b"transfer-encoding");
        }
        if let Some(coding) = given_coding {
            // What ends in another coding ends nowhere, and with a length beside it in two places
            // (RFC 9112 §6.3).
            let last = coding.rsplit(|&b| b == b',').next().unwrap_or_default();
            let length = streamed.is_some_and(|streamed| streamed.length.is_some());
            if !trim_blanks(last).eq_ignore_ascii_case(b"chunked")
                || given_length.is_some()
                || length
            {
                return forbidden(b"transfer-encoding");
            }
        }
        if let Some(streamed) = &mut streamed {
            if given_coding.is_some() {
                streamed.framing = Framing::Own;
            } else if let Some(given) = given_length {
                streamed.framing = Framing::Length;
                if *streamed.length.get_or_insert(given) != given {
                    return forbidden(b"content-length");
                }
            } else if raw {
                *streamed = Streamed {
                    length: None,
                    framing: Framing::Nothing,
                };
            }
        } else if given_length.is_some_and(|given| given != body.len() as u64) {
            return forbidden(b"content-length");
        }
        let length = match streamed {
            Some(streamed) => streamed.length,
            None => (!body.is_empty() || matches!(parts.method, "POST" | "PUT" | "PATCH"))
                .then_some(body.len() as u64),
        };
        if parts.method == "CONNECT" && (streamed.is_some() || !body.is_empty()) {
            // RFC 9110 §9.3.6: what follows is the tunnel's.
            return forbidden(b"content-length");
        }
        Ok(Self {
            host,
            length: length.filter(|_| given_length.is_none()),
            body,
            streamed,
            closes,
            protocol,
        })
    }

    /// The head in HTTP/1.1, empty line included.
    fn text(&self, parts: &OneOff<'_>) -> Vec<u8> {
        let size: usize = parts
            .fields
            .iter()
            .map(|(n, v)| n.len() + v.len() + 4)
            .sum();
        let mut head = Vec::with_capacity(size + parts.path.len() + parts.authority.len() + 96);
        for piece in [parts.method, " ", parts.path, " HTTP/1.1\r\n"] {
            head.extend_from_slice(piece.as_bytes());
        }
        let mut line = |name: &[u8], value: &[u8]| {
            for piece in [name, b": ", value, b"\r\n"] {
                head.extend_from_slice(piece);
            }
        };
        if self.host.is_none() {
            line(b"Host", parts.authority.as_bytes());
        }
        for &(name, value) in parts.fields {
            line(name, trim_blanks(value));
        }
        if let Some(length) = self.length {
            line(b"Content-Length", length.to_string().as_bytes());
        }
        if let Some(protocol) = self.protocol {
            line(b"Connection", b"Upgrade");
            line(b"Upgrade", protocol.as_bytes());
        }
        let framing = self.streamed.map(|streamed| streamed.framing);
        if framing == Some(Framing::Chunked) {
            line(b"Transfer-Encoding", b"chunked");
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    /// The field section of HTTP/2 and HTTP/3, and how each field may be indexed.
    fn section(&self, parts: &OneOff<'_>, authority: &[u8]) -> (FieldList, Vec<Indexing>) {
        let mut fields = FieldList::new();
        let mut indexing = Vec::with_capacity(parts.fields.len() + 5);
        let mut add = |name: &[u8], value: &[u8], how| {
            fields.push(name, value);
            indexing.push(how);
        };
        let method = self.protocol.map_or(parts.method, |_| "CONNECT");
        add(b":method", method.as_bytes(), Indexing::Incremental);
        add(b":scheme", parts.scheme.as_bytes(), Indexing::Incremental);
        add(b":authority", authority, Indexing::Incremental);
        add(b":path", parts.path.as_bytes(), Indexing::Without);
        if let Some(protocol) = self.protocol {
            add(b":protocol", protocol.as_bytes(), Indexing::Incremental);
        }
        let mut lower = Vec::new();
        for &(name, value) in parts.fields {
            let value = trim_blanks(value);
            lower.clear();
            lower.extend_from_slice(name);
            lower.make_ascii_lowercase();
            if lower == b"host"
                || field::is_connection_specific(&lower)
                || (lower == b"te" && !value.eq_ignore_ascii_case(b"trailers"))
            {
                continue;
            }
            add(&lower, value, indexing_of(&lower));
        }
        if let Some(length) = self.length {
            let length = length.to_string();
            add(b"content-length", length.as_bytes(), Indexing::Without);
        }
        (fields, indexing)
    }
}

/// Checks what a request begins with.
fn check_start(version: Encoding, parts: &OneOff<'_>) -> Result<(), RequestError> {
    let connect = parts.method == "CONNECT";
    if parts.method.is_empty()
        || !parts.method.bytes().all(field::is_token)
        || (connect && version != Encoding::H1)
    {
        return Err(RequestError::Method(parts.method.into()));
    }
    let path = parts.path;
    let in_form = if connect {
        !path.is_empty() && is_authority(path.as_bytes())
    } else if version == Encoding::H1 {
        path.starts_with('/') || path == "*" || is_absolute(path)
    } else {
        path.starts_with('/') || (path == "*" && parts.method == "OPTIONS")
    };
    if !in_form || !path.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(RequestError::Path(path.into()));
    }
    if version != Encoding::H1 && !is_scheme(parts.scheme) {
        return Err(RequestError::Scheme(parts.scheme.into()));
    }
    Ok(())
}

/// Fields whose values are never the same twice, or secret, stay out of the table.
fn indexing_of(name: &[u8]) -> Indexing {
    match name {
        b"content-length"
        | b"if-match"
        | b"if-none-match"
        | b"if-modified-since"
        | b"if-unmodified-since"
        | b"if-range"
        | b"range"
        | b"date" => Indexing::Without,
        _ => super::indexing_of(name),
    }
}

/// Whether `text` can be a host with a port: nothing that ends an authority (RFC 3986 §3.2), and no
/// userinfo, which RFC 9110 §4.2.4 has us leave out.
fn is_authority(text: &[u8]) -> bool {
    text.iter()
        .all(|&b| b.is_ascii_graphic() && !matches!(b, b'/' | b'?' | b'#' | b'@' | b'\\'))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

/// Whether `path` is a whole URI, for a proxy (RFC 9112 §3.2.2).
fn is_absolute(path: &str) -> bool {
    path.split_once("://")
        .is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty())
}

fn trim_blanks(value: &[u8]) -> &[u8] {
    let blank = |b: &u8| matches!(b, b' ' | b'\t');
    let Some(start) = value.iter().position(|b| !blank(b)) else {
        return &[];
    };
    let end = value.iter().rposition(|b| !blank(b)).unwrap_or(start);
    &value[start..=end]
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
