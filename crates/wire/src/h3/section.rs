//! Field sections of responses: what QPACK decoded, judged by RFC 9114 §4.2 and §4.3.

use super::code;
use crate::field::{self, FieldList, Fields};
use crate::{ConnectionError, ErrorKind, Head, StreamError, Unprocessed, qpack};

/// What ends a request, or the connection with it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// The stream ends, with the error's code on it.
    Stream(StreamError),
    Connection(ConnectionError),
}

impl Fault {
    /// A malformed message (RFC 9114 §4.1.2).
    pub(super) fn malformed(reason: &'static str) -> Self {
        Self::stream(ErrorKind::Protocol, code::MESSAGE_ERROR, reason)
    }

    pub(super) fn stream(kind: ErrorKind, code: u64, reason: &'static str) -> Self {
        Fault::Stream(StreamError {
            kind,
            unprocessed: Unprocessed::Unknown,
            code: Some(code),
            reason,
        })
    }

    pub(super) fn connection(code: u64, reason: &'static str) -> Self {
        let kind = if code == code::EXCESSIVE_LOAD {
            ErrorKind::Limit
        } else {
            ErrorKind::Protocol
        };
        Fault::Connection(ConnectionError { kind, code, reason })
    }
}

/// What is remembered of a section, apart from its fields.
#[derive(Clone, Copy, Debug, Default)]
struct Summary {
    status: u16,
    content_length: Option<u64>,
    decoded_bytes: usize,
}

/// Decodes the sections of one connection.
#[derive(Debug)]
pub(super) struct Sections {
    limit: u64,
    scratch: Vec<u8>,
    fields: FieldList,
    /// The last head and its bytes. Servers repeat themselves: the same bytes mean the same head,
    /// because no table stands behind them.
    last: Vec<u8>,
    summary: Summary,
}

impl Sections {
    /// Heads above this size are not remembered.
    const REMEMBERED: usize = 2048;

    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            scratch: Vec::new(),
            fields: FieldList::new(),
            last: Vec::new(),
            summary: Summary::default(),
        }
    }

    /// The largest encoded section that is worth taking in.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// The head of a response. Fields are kept only where `keep_fields` asks for them.
    pub(super) fn head(&mut self, section: &[u8], keep_fields: bool) -> Result<Head<'_>, Fault> {
        if keep_fields || self.last.is_empty() || self.last != section {
            self.summary = self.decode_head(section, keep_fields)?;
            self.last.clear();
            if section.len() <= Self::REMEMBERED {
                self.last.extend_from_slice(section);
            }
        }
        Ok(Head {
            status: self.summary.status,
            content_length: self.summary.content_length,
            encoded_bytes: section.len(),
            decoded_bytes: self.summary.decoded_bytes,
            reason: &[],
            http_1_0: false,
            fields: if keep_fields {
                self.fields.as_fields()
            } else {
                Fields::empty()
            },
        })
    }

    /// A trailer section, checked, and its fields where `keep_fields` asks for them.
    pub(super) fn trailers(
        &mut self,
        section: &[u8],
        keep_fields: bool,
    ) -> Result<FieldList, Fault> {
        let mut kept = FieldList::new();
        let visit = |name: &[u8], value: &[u8]| {
            if name.starts_with(b":") {
                return Err("a pseudo-field in a trailer section");
            }
            check_field(name, value)?;
            if keep_fields {
                kept.push(name, value);
            }
            Ok(())
        };
        qpack::decode(section, self.limit, &mut self.scratch, visit).map_err(fault)?;
        Ok(kept)
    }

    fn decode_head(&mut self, section: &[u8], keep_fields: bool) -> Result<Summary, Fault> {
        let Self {
            limit,
            scratch,
            fields,
            ..
        } = self;
        let mut summary = Summary::default();
        let mut regular = false;
        fields.clear();
        let visit = |name: &[u8], value: &[u8]| {
            summary.decoded_bytes += name.len() + value.len();
            if let Some(pseudo) = name.strip_prefix(b":") {
                if regular {
                    return Err("a pseudo-field after other fields");
                }
                if pseudo != b"status" {
                    return Err("a pseudo-field that is not of a response");
                }
                if summary.status != 0 {
                    return Err("more than one :status");
                }
                summary.status = parse_status(value).ok_or("a :status that is no status code")?;
                return Ok(());
            }
            regular = true;
            check_field(name, value)?;
            if name == b"content-length" {
                let length = field::parse_content_length(value);
                let length = length.ok_or("a content-length that is no length")?;
                if summary
                    .content_length
                    .is_some_and(|before| before != length)
                {
                    return Err("different content-length fields");
                }
                summary.content_length = Some(length);
            }
            if keep_fields {
                fields.push(name, value);
            }
            Ok(())
        };
        qpack::decode(section, *limit, scratch, visit).map_err(fault)?;
        if summary.status == 0 {
            return Err(Fault::malformed("a response without :status"));
        }
        Ok(summary)
    }
}

fn fault(error: qpack::DecodeError<&'static str>) -> Fault {
    match error {
        qpack::DecodeError::Decompression(reason) => {
            Fault::connection(code::QPACK_DECOMPRESSION_FAILED, reason)
        }
        qpack::DecodeError::TooLarge => too_large(),
        qpack::DecodeError::Field(reason) => Fault::malformed(reason),
    }
}

/// A section above the limit. RFC 9114 §4.2.2 leaves the answer open: the response is given up.
pub(super) fn too_large() -> Fault {
    Fault::stream(
        ErrorKind::Limit,
        code::EXCESSIVE_LOAD,
        "a field section larger than the limit that was announced",
    )
}

fn parse_status(value: &[u8]) -> Option<u16> {
    let &[a @ b'1'..=b'9', b, c] = value else {
        return None;
    };
    if !b.is_ascii_digit() || !c.is_ascii_digit() {
        return None;
    }
    Some(u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0'))
}

/// RFC 9114 §4.2: names are tokens in lower case, values have no control characters, and fields
/// about an HTTP/1.1 connection do not exist.
fn check_field(name: &[u8], value: &[u8]) -> Result<(), &'static str> {
    if name.is_empty()
        || !name
            .iter()
            .all(|&b| field::is_token(b) && !b.is_ascii_uppercase())
    {
        return Err("a field name that is not a token in lower case");
    }
    if !field::is_field_value(value) {
        return Err("a field value with control characters");
    }
    if field::is_connection_specific(name) {
        return Err("a connection-specific field");
    }
    Ok(())
}
