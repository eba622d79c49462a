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
    /// Whether there was a field that is no pseudo-field.
    regular: bool,
}

/// What a field line says of the response.
#[derive(Clone, Copy, Debug)]
enum Says {
    Status(u16),
    Length(u64),
    Nothing,
}

/// A line of the last heads that was in order: where it comes again, it is compared and not decoded.
#[derive(Clone, Debug)]
struct Line {
    encoded: Vec<u8>,
    decoded_bytes: usize,
    says: Says,
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
    /// By its place in the head the last line that stood there. Responses to different requests differ
    /// in a length or a tag, and have most of their lines in common.
    lines: Vec<Line>,
    /// How many lines were decoded, not compared.
    #[cfg(test)]
    decoded: usize,
}

impl Sections {
    /// Heads above this size are not remembered, and neither are lines of those.
    const REMEMBERED: usize = 2048;
    /// Lines of a head that are remembered.
    const LINES: usize = 32;

    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            scratch: Vec::new(),
            fields: FieldList::new(),
            last: Vec::new(),
            summary: Summary::default(),
            lines: Vec::new(),
            #[cfg(test)]
            decoded: 0,
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
        let remembers = !keep_fields && section.len() <= Self::REMEMBERED;
        let mut summary = Summary::default();
        let mut lines = qpack::Lines::new(section, self.limit).map_err(line_fault)?;
        self.fields.clear();
        for place in 0.. {
            if remembers
                && let Some(line) = self.lines.get(place)
                && (lines.skip(&line.encoded, line.decoded_bytes)).map_err(line_fault)?
            {
                (summary.add(line.says, line.decoded_bytes)).map_err(Fault::malformed)?;
                continue;
            }
            let encoded = lines.rest();
            let Some((name, value)) = lines.next(&mut self.scratch).map_err(line_fault)? else {
                break;
            };
            #[cfg(test)]
            {
                self.decoded += 1;
            }
            let (says, decoded_bytes) = (says(name, value), name.len() + value.len());
            let says = says.map_err(Fault::malformed)?;
            (summary.add(says, decoded_bytes)).map_err(Fault::malformed)?;
            if keep_fields && !matches!(says, Says::Status(_)) {
                self.fields.push(name, value);
            }
            if remembers && place < Self::LINES {
                let encoded = &encoded[..encoded.len() - lines.rest().len()];
                remember(&mut self.lines, place, encoded, decoded_bytes, says);
            }
        }
        if summary.status == 0 {
            return Err(Fault::malformed("a response without :status"));
        }
        Ok(summary)
    }
}

impl Summary {
    /// Adds a line (RFC 9114 §4.3).
    #[inline]
    fn add(&mut self, says: Says, decoded_bytes: usize) -> Result<(), &'static str> {
        self.decoded_bytes += decoded_bytes;
        match says {
            Says::Status(_) if self.regular => return Err("a pseudo-field after other fields"),
            Says::Status(_) if self.status != 0 => return Err("more than one :status"),
            Says::Status(status) => {
                self.status = status;
                return Ok(());
            }
            Says::Length(length) if self.content_length.is_some_and(|before| before != length) => {
                return Err("different content-length fields");
            }
            Says::Length(length) => self.content_length = Some(length),
            Says::Nothing => (),
        }
        self.regular = true;
        Ok(())
    }
}

/// Keeps a line in the memory of the one that stood in its place before.
fn remember(lines: &mut Vec<Line>, place: usize, encoded: &[u8], decoded_bytes: usize, says: Says) {
    if place == lines.len() {
        lines.push(Line {
            encoded: Vec::new(),
            decoded_bytes,
            says,
        });
    }
    let Some(line) = lines.get_mut(place) else {
        return;
    };
    line.encoded.clear();
    line.encoded.extend_from_slice(encoded);
    (line.decoded_bytes, line.says) = (decoded_bytes, says);
}

/// What a field of a response says.
fn says(name: &[u8], value: &[u8]) -> Result<Says, &'static str> {
    if let Some(pseudo) = name.strip_prefix(b":") {
        if pseudo != b"status" {
            return Err("a pseudo-field that is not of a response");
        }
        let status = parse_status(value).ok_or("a :status that is no status code")?;
        return Ok(Says::Status(status));
    }
    check_field(name, value)?;
    if name == b"content-length" {
        let length = field::parse_content_length(value);
        return length
            .map(Says::Length)
            .ok_or("a content-length that is no length");
    }
    Ok(Says::Nothing)
}

fn line_fault(error: qpack::LineError) -> Fault {
    fault(error.into())
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::Indexing;

    fn section(fields: &[(&str, &str)]) -> Vec<u8> {
        let fields = fields
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes(), Indexing::Without));
        let mut out = Vec::new();
        qpack::encode(fields, &mut out);
        out
    }

    #[test]
    fn heads_that_differ_in_a_line_are_decoded_in_that_line_alone() {
        let head = |length: &str| {
            section(&[
                (":status", "200"),
                ("date", "Mon, 01 Jan 2035 00:00:00 GMT"),
                ("content-length", length),
                ("server", "a"),
            ])
        };
        let mut sections = Sections::new(1 << 16);
        for (length, decoded) in [("1000", 4), ("1001", 5), ("1000", 6), ("11", 7)] {
            let section = head(length);
            let head = sections.head(&section, false).unwrap();
            assert_eq!(
                (head.status, head.content_length),
                (200, length.parse().ok())
            );
            assert_eq!(
                head.decoded_bytes,
                7 + 3 + 4 + 29 + 14 + length.len() + 6 + 1
            );
            assert_eq!(sections.decoded, decoded, "{length}");
        }
        // Where fields are wanted all are decoded.
        let section = head("11");
        assert_eq!(
            sections.head(&section, true).unwrap().fields.iter().count(),
            3
        );
        assert_eq!(sections.decoded, 7 + 4);
    }

    #[test]
    fn lines_that_are_remembered_are_bounded() {
        let mut sections = Sections::new(1 << 16);
        let mut fields = vec![(":status", "200")];
        fields.resize(100, ("a", "b"));
        sections.head(&section(&fields), false).unwrap();
        assert_eq!(sections.lines.len(), Sections::LINES);
        let long = "x".repeat(2 * Sections::REMEMBERED);
        let mut sections = Sections::new(1 << 16);
        let fields = [(":status", "200"), ("a", &long)];
        sections.head(&section(&fields), false).unwrap();
        assert!(sections.lines.is_empty());
    }

    /// Fields of which many are in order, so that heads are taken as well as refused.
    fn any_fields() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
        let rest = prop::sample::select(vec![
            ("content-length", "7"),
            ("content-length", "12"),
            ("content-length", "x"),
            ("content-type", "text/plain"),
            ("server", "a"),
            ("server", "ab"),
            (":status", "200"),
            (":path", "/"),
            ("Upper", "case"),
        ]);
        let status = prop::sample::select(vec!["200", "404", "99"]);
        (status, prop::collection::vec(rest, 0..5)).prop_map(|(status, rest)| {
            let mut fields = vec![(":status", status)];
            fields.extend(rest);
            fields
        })
    }

    proptest! {
        #[test]
        fn what_was_remembered_changes_no_head(
            heads in prop::collection::vec((any_fields(), any::<Option<(u8, u8)>>()), 1..8),
            limit in 100_u64..300,
        ) {
            let mut used = Sections::new(limit);
            for (fields, broken) in heads {
                let mut section = section(&fields);
                if let Some((at, byte)) = broken {
                    let at = usize::from(at) % section.len();
                    section[at] = byte;
                }
                let mut fresh = Sections::new(limit);
                let told = |sections: &mut Sections| {
                    let head = sections.head(&section, false);
                    let head = head.map(|head| (head.status, head.content_length, head.decoded_bytes));
                    format!("{head:?}")
                };
                prop_assert_eq!(told(&mut used), told(&mut fresh), "{:?}", section);
            }
        }
    }
}
