//! What a response head says: the way through it that checks everything and judges.

use std::borrow::Cow;
use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Response, Status};

use super::{Fault, Limits};
use crate::field::{self, FieldList};
use crate::request::MethodKind;

/// Fields of one section that there is room for on the stack.
pub(super) const MAX_FIELDS: usize = 256;

/// What matters of a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) status: u16,
    pub(super) content_length: Option<u64>,
    pub(super) transfer: Transfer,
    /// Whether the connection may be used again.
    pub(super) keep_alive: bool,
    pub(super) http_1_0: bool,
    /// Names and values of all fields, in bytes.
    pub(super) field_bytes: usize,
}

/// Where fields go, and how.
pub(super) struct Wanted<'a> {
    pub(super) fields: &'a mut FieldList,
    pub(super) original_case: bool,
}

/// The `transfer-encoding`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Transfer {
    #[default]
    None,
    Chunked,
    /// Anything but `chunked` once.
    Other,
}

/// Where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Length(u64),
    Chunked,
    UntilClose,
    /// What follows is not HTTP (RFC 9110 §9.3.6).
    Tunnel,
}

impl Parsed {
    /// The body of this final response (RFC 9112 §6.3).
    pub(super) fn body(&self, method: MethodKind) -> Result<Body, Fault> {
        match method {
            MethodKind::Head => return Ok(Body::Length(0)),
            MethodKind::Connect if matches!(self.status, 200..=299) => return Ok(Body::Tunnel),
            MethodKind::Connect | MethodKind::Ordinary | MethodKind::Upgrade => {}
        }
        if matches!(self.status, 204 | 304) {
            return Ok(Body::Length(0));
        }
        match (self.transfer, self.content_length) {
            (Transfer::Other, _) => Err(Fault::protocol("the transfer coding is not chunked")),
            (Transfer::Chunked, _) => Ok(Body::Chunked),
            (Transfer::None, Some(length)) => Ok(Body::Length(length)),
            (Transfer::None, None) => Ok(Body::UntilClose),
        }
    }
}

/// What the fields of a head say about the message and the connection, one field after another.
#[derive(Debug, Default)]
pub(super) struct Meaning {
    content_length: Option<u64>,
    transfer: Transfer,
    close: bool,
    keep_alive: bool,
    field_bytes: usize,
}

impl Meaning {
    /// Counts a field; `value` has no blanks around it.
    pub(super) fn count(&mut self, name: &[u8], value: &[u8]) {
        self.field_bytes += name.len() + value.len();
    }

    /// Takes note of a field; `value` has no blanks around it.
    pub(super) fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), Fault> {
        match name.len() {
            10 if name.eq_ignore_ascii_case(b"connection") => {
                for option in elements(value) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                for element in value.split(|&b| b == b',') {
                    let Some(length) = field::parse_content_length(element.trim_ascii()) else {
                        return Err(Fault::protocol("the Content-Length is not a number"));
                    };
                    if self.content_length.is_some_and(|other| other != length) {
                        return Err(Fault::protocol("two values of Content-Length differ"));
                    }
                    self.content_length = Some(length);
                }
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                for coding in elements(value) {
                    let chunked = coding.eq_ignore_ascii_case(b"chunked");
                    self.transfer = match self.transfer {
                        Transfer::None if chunked => Transfer::Chunked,
                        _ => Transfer::Other,
                    };
                }
                // A field that names no coding is still a field that others may act upon.
                if self.transfer == Transfer::None {
                    self.transfer = Transfer::Other;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The sum of the fields of a response in HTTP/1.`minor`.
    pub(super) fn conclude(self, status: u16, minor: u8) -> Result<Parsed, Fault> {
        if self.transfer != Transfer::None {
            // Both are a sign of response smuggling (RFC 9112 §6.1).
            if self.content_length.is_some() {
                return Err(Fault::protocol(
                    "both Transfer-Encoding and Content-Length are there",
                ));
            }
            if minor == 0 {
                return Err(Fault::protocol(
                    "Transfer-Encoding in a response of HTTP/1.0",
                ));
            }
        }
        Ok(Parsed {
            status,
            content_length: self.content_length,
            transfer: self.transfer,
            keep_alive: !self.close && (minor == 1 || self.keep_alive),
            http_1_0: minor == 0,
            field_bytes: self.field_bytes,
        })
    }
}

/// The elements of a comma-separated list (RFC 9110 §5.6.1), empty ones left out.
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&b| b == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|element| !element.is_empty())
}

/// Checks the beginning of a status line, as much of it as there is, down to the status code.
pub(super) fn check_start(head: &[u8]) -> Result<(), Fault> {
    for (at, &byte) in head.iter().take(12).enumerate() {
        let fits = match at {
            0..7 => byte == b"HTTP/1."[at],
            7 => matches!(byte, b'0' | b'1'),
            8 => byte == b' ',
            9 => matches!(byte, b'1'..=b'9'),
            _ => byte.is_ascii_digit(),
        };
        if !fits {
            return Err(Fault::protocol(match (at, byte) {
                (0, 0x15) => "the server answered with TLS: try https",
                (0, 0x00) => "the server answered with HTTP/2 frames",
                (0..8, _) => "the response does not begin with HTTP/1.0 or HTTP/1.1",
                _ => "the status code is not a number of three digits",
            }));
        }
    }
    Ok(())
}

/// Reads a whole head, empty line included, of which [`check_start`] has seen the beginning and in
/// which every line ends with LF. The fields go to `fields`, where they are wanted.
pub(super) fn parse(
    head: &[u8],
    limits: &Limits,
    wanted: Option<Wanted<'_>>,
) -> Result<Parsed, Fault> {
    let mut room = [const { MaybeUninit::<Header<'_>>::uninit() }; MAX_FIELDS];
    let mut response = Response::new(&mut []);
    // No field stands before the first field line, which a fold could continue.
    let fields = head.iter().position(|&b| b == b'\n').map_or(0, |at| at + 1);
    let head = &*unfolded(head, fields);
    let result = ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        head,
        &mut room[..limits.fields.min(MAX_FIELDS)],
    );
    match result {
        Ok(Status::Complete(length)) if length == head.len() => {}
        Ok(_) => return Err(Fault::protocol("the response head is malformed")),
        Err(error) => return Err(fault(error)),
    }
    // Both are there when httparse says that the head is complete.
    let (Some(status), Some(minor)) = (response.code, response.version) else {
        return Err(Fault::protocol("the response head is malformed"));
    };
    let mut meaning = Meaning::default();
    for header in response.headers.iter() {
        let name = header.name.as_bytes();
        meaning.count(name, header.value.trim_ascii());
        meaning.add(name, header.value)?;
    }
    if let Some(wanted) = wanted {
        wanted.collect(response.headers);
    }
    meaning.conclude(status, minor)
}

/// Reads whole trailers, empty line included, and says how many fields they have.
pub(super) fn parse_trailers(
    section: &[u8],
    limits: &Limits,
    wanted: Option<Wanted<'_>>,
) -> Result<usize, Fault> {
    if section == b"\r\n" {
        return Ok(0);
    }
    // Here a bare LF is part of the framing of the content, and refused as in the lines of chunks.
    if bare_line_feed(section) {
        return Err(Fault::protocol(
            "a trailer line ends with LF instead of CRLF",
        ));
    }
    let mut room = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let section = &*unfolded(section, 0);
    match httparse::parse_headers(section, &mut room[..limits.fields.min(MAX_FIELDS)]) {
        Ok(Status::Complete((length, headers))) if length == section.len() => {
            if let Some(wanted) = wanted {
                wanted.collect(headers);
            }
            Ok(headers.len())
        }
        Ok(_) => Err(Fault::protocol("the trailers are malformed")),
        Err(error) => Err(fault(error)),
    }
}

impl Wanted<'_> {
    fn collect(self, headers: &[Header<'_>]) {
        self.fields.clear();
        for header in headers {
            let (name, value) = (header.name.as_bytes(), header.value);
            if self.original_case {
                self.fields.push(name, value);
            } else {
                self.fields.push_lowercase(name, value);
            }
        }
    }
}

/// A section in which every fold, and the blanks around it, is replaced by one blank, as a user agent
/// must before it looks at a value (RFC 9112 §5.2). The field lines begin at `fields`.
fn unfolded(section: &[u8], fields: usize) -> Cow<'_, [u8]> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let is_fold = |at: usize| section[at] == b'\n' && section.get(at + 1).is_some_and(is_blank);
    if !(fields..section.len()).any(is_fold) {
        return Cow::Borrowed(section);
    }
    let mut whole = section[..fields].to_vec();
    let mut at = fields;
    while at < section.len() {
        if is_fold(at) {
            whole.pop_if(|byte| *byte == b'\r');
            while whole.len() > fields && whole.pop_if(|byte| is_blank(byte)).is_some() {}
            whole.push(b' ');
            at += 1 + section[at + 1..].iter().take_while(|b| is_blank(b)).count();
        } else {
            whole.push(section[at]);
            at += 1;
        }
    }
    Cow::Owned(whole)
}

fn bare_line_feed(section: &[u8]) -> bool {
    section
        .split_inclusive(|&b| b == b'\n')
        .any(|line| !line.ends_with(b"\r\n"))
}

/// The reason phrase of a whole head that [`parse`] has accepted: behind `HTTP/1.1 200 `.
pub(super) fn reason(head: &[u8]) -> &[u8] {
    let line = head.split(|&b| b == b'\n').next().unwrap_or_default();
    line.get(13..).unwrap_or_default().trim_ascii_end()
}

fn fault(error: httparse::Error) -> Fault {
    match error {
        httparse::Error::TooManyHeaders => Fault::limit("more fields than the limit"),
        httparse::Error::HeaderName => Fault::protocol("a field name is not a token"),
        httparse::Error::HeaderValue => Fault::protocol("a field value has a control character"),
        httparse::Error::Status => Fault::protocol("the status line is malformed"),
        _ => Fault::protocol("the response head is malformed"),
    }
}
