//! A request that is another one each time it is sent: its path, values of fields and its content.

use std::sync::Arc;

use super::{Encoding, Framing, Indexing, PATH, Request, RequestError, RequestParts, Streamed};
use crate::field;
use crate::hpack::ENTRY_OVERHEAD;
use crate::{hpack, qpack};

/// Bodies whose memory is kept for those that follow: as many lengths as a few random numbers have, and
/// those that wait for windows.
const KEPT: usize = 64;

/// A request that is written anew, in the same memory, each time before it is sent.
#[derive(Clone, Debug)]
pub struct Varying {
    /// As it was written last.
    request: Request,
    /// What changes: `:path`, where it does, and fields.
    names: Box<[Name]>,
    /// `:path` as a literal of HTTP/2, and of HTTP/3, where it stays; else nothing.
    staying_path: [Box<[u8]>; 2],
    /// Whether the content changes, so that its length is told each time.
    tells_length: bool,
    /// The HTTP/1.1 head before a path that changes, and behind it up to the fields that do.
    h1: [Box<[u8]>; 2],
    /// The field section of HTTP/3 before `:path`, with its prefix, and behind what changes.
    qpack: [Box<[u8]>; 2],
    /// Bytes of the names and values that stay, and how many fields these are.
    staying: (usize, usize),
    /// What changes, encoded for HTTP/3.
    changed: Vec<u8>,
    /// Content that was sent, of which the memory is taken again.
    bodies: Vec<Arc<[u8]>>,
}

/// The name of a field.
#[derive(Clone, Debug)]
struct Name {
    written: Box<[u8]>,
    /// What comes before the value in a literal of HTTP/2, and of HTTP/3.
    literals: [Box<[u8]>; 2],
}

const LENGTH: &[u8] = b"content-length";

impl Varying {
    /// Prepares a request: `parts` has what stays, `names` are those of the fields whose values change;
    /// with `path_varies` its path does too, and with `content_varies` its content. Until it is written
    /// it is sent as `parts` say.
    pub fn new(
        parts: &RequestParts<'_>,
        path_varies: bool,
        names: &[&str],
        content_varies: bool,
    ) -> Result<Self, RequestError> {
        Self::prepare(parts, path_varies, names, content_varies, None)
    }

    /// Prepares a request whose content follows by `write`, of a length that is not known, as
    /// [`Request::streamed`] does; else as [`Self::new`] does. The body of `parts` is not sent.
    pub fn streamed(
        parts: &RequestParts<'_>,
        path_varies: bool,
        names: &[&str],
    ) -> Result<Self, RequestError> {
        let parts = RequestParts {
            body: Arc::default(),
            ..parts.clone()
        };
        let streamed = Streamed::unknown(Framing::Chunked);
        Self::prepare(&parts, path_varies, names, false, Some(streamed))
    }

    fn prepare(
        parts: &RequestParts<'_>,
        path_varies: bool,
        names: &[&str],
        content_varies: bool,
        streamed: Option<Streamed>,
    ) -> Result<Self, RequestError> {
        let parts = RequestParts {
            repeated: false,
            ..parts.clone()
        };
        for name in names {
            let lower = name.to_ascii_lowercase();
            if lower.is_empty() || !lower.bytes().all(field::is_token) {
                return Err(RequestError::FieldName((*name).into()));
            }
            // They say where the request goes and where it ends, in one version or all.
            if matches!(
                lower.as_str(),
                "host" | "content-length" | "transfer-encoding" | "upgrade"
            ) || field::is_connection_specific(lower.as_bytes())
            {
                return Err(RequestError::Forbidden((*name).into()));
            }
        }
        let mut given = parts.fields.iter().map(|(name, _)| name);
        if content_varies
            && let Some(name) = given.find(|name| name.as_bytes().eq_ignore_ascii_case(LENGTH))
        {
            return Err(RequestError::Forbidden(name.clone()));
        }
        let tells_length = !content_varies && streamed.is_none();
        let request = Request::prepare(&parts, streamed, tells_length)?;

        let path = parts.method.len() + 1;
        let varying_path = if path_varies { parts.path.len() } else { 0 };
        let (before, after) = request.h1.split_at(path);
        let after = &after[varying_path..];
        // Without the empty line.
        let after = &after[..after.len() - 2];
        let h1 = [before, after].map(Box::from);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        qpack::encode(request.fields().take(PATH), &mut before);
        qpack::encode_lines(request.fields().skip(PATH + 1), &mut after);
        let staying = request.fields().enumerate();
        let staying = staying
            .filter(|(at, _)| *at != PATH || !path_varies)
            .fold((0, 0), |(bytes, count), (_, (name, value, _))| {
                (bytes + name.len() + value.len(), count + 1)
            });
        let path = Name::new(":path");
        let staying_path = if path_varies {
            <[Box<[u8]>; 2]>::default()
        } else {
            path.literals.clone().map(|begun| {
                let mut literal = begun.into_vec();
                hpack::string(parts.path.as_bytes(), &mut literal);
                literal.into_boxed_slice()
            })
        };
        let fields = names.iter().map(|name| Name::new(name));
        Ok(Self {
            names: path_varies
                .then_some(path)
                .into_iter()
                .chain(fields)
                .collect(),
            staying_path,
            tells_length: content_varies,
            h1,
            qpack: [before, after].map(Vec::into_boxed_slice),
            staying,
            changed: Vec::new(),
            bodies: Vec::new(),
            request,
        })
    }

    /// Refuses a path, or a value for the field in its place, that [`Self::write`] must not be given:
    /// it would split the request, or not be the one that was meant.
    pub fn check<'a>(&self, pieces: impl Iterator<Item = &'a [u8]>) -> Result<(), RequestError> {
        for (name, value) in self.names.iter().zip(pieces) {
            if name.is_path() {
                if !is_path(value) {
                    return Err(RequestError::Path(String::from_utf8_lossy(value).into()));
                }
            } else if !is_value(value) {
                let name = String::from_utf8_lossy(&name.written);
                return Err(RequestError::FieldValue(name.into()));
            }
        }
        Ok(())
    }

    /// Writes the request for `version`: `pieces` are its path, where that changes, and the value of each
    /// field that does, all as [`Self::check`] wants them; `body` is its content, where that changes.
    pub fn write<'a>(
        &mut self,
        version: Encoding,
        pieces: impl Iterator<Item = &'a [u8]>,
        body: &[u8],
    ) -> &Request {
        let mut digits = itoa::Buffer::new();
        let length = self
            .tells_length
            .then(|| digits.format(body.len()).as_bytes());
        if self.tells_length {
            self.keep(body);
        }
        if version == Encoding::H1 {
            self.write_h1(pieces, length);
        } else {
            self.write_section(version, pieces, length);
        }
        &self.request
    }

    fn write_h1<'a>(&mut self, mut pieces: impl Iterator<Item = &'a [u8]>, length: Option<&[u8]>) {
        let head = &mut self.request.h1;
        let fields = match self.names.split_first() {
            Some((first, rest)) if first.is_path() => rest,
            _ => &self.names[..],
        };
        head.clear();
        head.extend_from_slice(&self.h1[0]);
        if fields.len() < self.names.len() {
            let path = pieces.next().unwrap_or_default();
            debug_assert!(is_path(path), "{path:?} has been checked");
            head.extend_from_slice(path);
        }
        head.extend_from_slice(&self.h1[1]);
        let mut line = |name: &[u8], value: &[u8]| {
            for piece in [name, b": ", value, b"\r\n"] {
                head.extend_from_slice(piece);
            }
        };
        for (name, value) in fields.iter().zip(pieces) {
            debug_assert!(is_value(value), "{value:?} has been checked");
            line(&name.written, value);
        }
        if let Some(length) = length {
            line(b"Content-Length", length);
        }
        head.extend_from_slice(b"\r\n");
    }

    fn write_section<'a>(
        &mut self,
        version: Encoding,
        pieces: impl Iterator<Item = &'a [u8]>,
        length: Option<&[u8]>,
    ) {
        let (mut bytes, mut count) = self.staying;
        let coding = usize::from(version == Encoding::H3);
        // In HTTP/2 they stand where `:path` does, between what is the same each time.
        let literals = match version {
            Encoding::H3 => &mut self.changed,
            _ => &mut self.request.hpack_path,
        };
        literals.clear();
        literals.extend_from_slice(&self.staying_path[coding]);
        for (name, value) in self.names.iter().zip(pieces) {
            debug_assert!(is_value(value), "{value:?} has been checked");
            literals.extend_from_slice(&name.literals[coding]);
            hpack::string(value, literals);
            bytes += name.written.len() + value.len();
            count += 1;
        }
        if let Some(length) = length {
            let field = (LENGTH, length, Indexing::Without);
            match version {
                Encoding::H3 => qpack::encode_lines(std::iter::once(field), literals),
                _ => hpack::encode_without_table(LENGTH, length, Indexing::Without, literals),
            }
            bytes += LENGTH.len() + length.len();
            count += 1;
        }
        let request = &mut self.request;
        request.section_size = (bytes + count * ENTRY_OVERHEAD) as u64;
        request.decoded_bytes = bytes;
        if version == Encoding::H3 {
            let section = [&*self.qpack[0], &self.changed, &*self.qpack[1]];
            let is_streamed = request.streamed.is_some();
            request.h3.write(section, &request.body, is_streamed);
        }
    }

    /// Makes `body` the content, in memory that an earlier one has left, where there is some.
    fn keep(&mut self, body: &[u8]) {
        let request = &mut self.request;
        request.has_content = !body.is_empty();
        request.body = Arc::default();
        let mut kept = self
            .bodies
            .iter_mut()
            .filter(|kept| kept.len() == body.len());
        let room = kept.find_map(|kept| {
            Arc::get_mut(kept)?.copy_from_slice(body);
            Some(Arc::clone(kept))
        });
        request.body = room.unwrap_or_else(|| {
            let made: Arc<[u8]> = body.into();
            if self.bodies.len() < KEPT {
                self.bodies.push(Arc::clone(&made));
            }
            made
        });
    }
}

impl Name {
    fn is_path(&self) -> bool {
        *self.written == *b":path"
    }

    fn new(name: &str) -> Self {
        let lower = name.to_ascii_lowercase().into_bytes();
        let indexing = super::indexing_of(&lower);
        let [mut hpack, mut qpack] = [Vec::new(), Vec::new()];
        hpack::begin_without_table(&lower, indexing, &mut hpack);
        qpack::begin_line(&lower, indexing, &mut qpack);
        Self {
            written: name.as_bytes().into(),
            literals: [hpack, qpack].map(Vec::into_boxed_slice),
        }
    }
}

fn is_path(path: &[u8]) -> bool {
    path.first() == Some(&b'/') && path.iter().all(u8::is_ascii_graphic)
}

fn is_value(value: &[u8]) -> bool {
    field::is_field_value(value) && value.trim_ascii() == value
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::h2::{Config, Connection};
    use crate::hpack::Decoder;

    type Field = (Vec<u8>, Vec<u8>);

    fn owned(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        let fields = fields.iter();
        fields
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect()
    }

    fn parts<'a>(path: &'a str, fields: &'a [(String, String)], body: &[u8]) -> RequestParts<'a> {
        RequestParts {
            method: "POST",
            scheme: "https",
            authority: "a.example",
            path,
            fields,
            body: body.into(),
            repeated: true,
        }
    }

    fn varying(path_varies: bool, names: &[&str]) -> Varying {
        let fields = owned(&[("User-Agent", "trilane"), ("Accept", "*/*")]);
        Varying::new(&parts("/0", &fields, b"0"), path_varies, names, true).unwrap()
    }

    /// The fields of two that change, with a path that does and with one that stays.
    fn each() -> [Varying; 2] {
        [true, false].map(|path_varies| varying(path_varies, &["X-Number", "Cookie"]))
    }

    /// What is written, and the request that it is to be.
    fn both(varying: &mut Varying, version: Encoding, number: u32) -> (&Request, Request) {
        let path_varies = varying.names[0].is_path();
        let (mut path, value) = (format!("/x?n={number}"), format!("v{number}"));
        let body = "b".repeat(number as usize % 7);
        let mut pieces = vec![value.as_bytes(), b"secret"];
        if path_varies {
            pieces.insert(0, path.as_bytes());
        }
        let written = varying.write(version, pieces.into_iter(), body.as_bytes());
        if !path_varies {
            path = "/0".to_owned();
        }
        let fields = owned(&[
            ("User-Agent", "trilane"),
            ("Accept", "*/*"),
            ("X-Number", &value),
            ("Cookie", "secret"),
        ]);
        let request = Request::new(&parts(&path, &fields, body.as_bytes())).unwrap();
        (written, request)
    }

    /// The fields of a request that no other way of encoding changes.
    fn expected(request: &Request) -> Vec<Field> {
        let fields = request.fields();
        let mut fields: Vec<_> = fields.map(|(n, v, _)| (n.to_vec(), v.to_vec())).collect();
        fields.sort();
        fields
    }

    #[test]
    fn http_1_text_is_that_of_the_request() {
        let mut each = each();
        for number in 0..40 {
            let (written, request) = both(&mut each[number % 2], Encoding::H1, number as u32);
            assert_eq!(
                String::from_utf8_lossy(written.h1_head()),
                String::from_utf8_lossy(request.h1_head())
            );
            assert_eq!(written.body(), request.body());
            assert_eq!(written.has_content(), number % 7 > 0);
        }
    }

    #[test]
    fn http_2_sends_the_fields_of_the_request() {
        let mut each = each();
        let mut out = Vec::new();
        let mut connection = Connection::new(Config::default(), &mut out);
        let mut decoder = Decoder::new(4096);
        for number in 0..40 {
            out.clear();
            let (written, request) = both(&mut each[number % 2], Encoding::H2, number as u32);
            connection.send(written, 0, &mut out).unwrap();
            assert_eq!(written.section_size(), request.section_size());
            assert_eq!(written.decoded_bytes(), request.decoded_bytes());
            let length = usize::from(out[2]) | usize::from(out[1]) << 8;
            assert_eq!(out[3], 1, "HEADERS");
            let block = &out[9..9 + length];
            let mut fields = Vec::new();
            decoder
                .decode(block, |name, value, _| {
                    fields.push((name.to_vec(), value.to_vec()))
                })
                .unwrap();
            // RFC 9113 §8.3: pseudo-fields come before the others.
            assert!(fields[..4].iter().all(|(name, _)| name[0] == b':'));
            fields.sort();
            assert_eq!(fields, expected(&request));
            let content = &out[9 + length..];
            assert_eq!(content.get(9..).unwrap_or_default(), &**request.body());
            // RFC 7541 §6.2.3, with the name `cookie` of the static table: never indexed.
            assert!(
                block.windows(2).any(|pair| pair == [0x1f, 32 - 15]),
                "{block:02x?}"
            );
        }
    }

    #[test]
    fn http_3_sends_the_fields_of_the_request() {
        let mut each = each();
        for number in 0..40 {
            let (written, request) = both(&mut each[number % 2], Encoding::H3, number as u32);
            assert_eq!(written.section_size(), request.section_size());
            let (mut fields, mut scratch) = (Vec::new(), Vec::new());
            qpack::decode(
                written.qpack_section(),
                4096,
                &mut scratch,
                |name, value| {
                    fields.push((name.to_vec(), value.to_vec()));
                    Ok::<(), Infallible>(())
                },
            )
            .unwrap();
            fields.sort();
            assert_eq!(fields, expected(&request));
            assert!(written.h3_opening().bytes.ends_with(request.body()));
            assert_eq!(
                written.h3_opening().bytes.len(),
                // The order differs, and the static table has neither.
                request.h3_opening().bytes.len()
            );
        }
    }

    #[test]
    fn content_that_is_still_to_be_sent_keeps_its_memory() {
        let mut varying = varying(true, &[]);
        let mut write = |body: &[u8]| {
            let path = [&b"/"[..]].into_iter();
            Arc::clone(varying.write(Encoding::H1, path, body).body())
        };
        let (one, two) = (write(b"one"), write(b"two"));
        assert_eq!((&*one, &*two), (&b"one"[..], &b"two"[..]));
        let memory = one.as_ptr();
        drop(one);
        let three = write(b"thr");
        assert_eq!((three.as_ptr(), &*two), (memory, &b"two"[..]));
        for length in 0..2 * KEPT {
            write(&vec![0; length]);
        }
        assert_eq!(varying.bodies.len(), KEPT);
    }

    #[test]
    fn what_would_split_the_request_is_refused() {
        let of =
            |names: &[&str]| Varying::new(&parts("/", &[], b""), true, names, true).unwrap_err();
        for name in [
            "Host",
            "content-length",
            "Transfer-Encoding",
            "connection",
            "upgrade",
        ] {
            assert_eq!(of(&[name]), RequestError::Forbidden(name.into()));
        }
        assert_eq!(of(&["a b"]), RequestError::FieldName("a b".into()));
        let length = owned(&[("Content-Length", "1")]);
        Varying::new(&parts("/", &length, b"1"), true, &[], true).unwrap_err();
        Varying::new(&parts("/", &length, b"1"), true, &[], false).unwrap();
        let varying = varying(true, &["X"]);
        let check = |pieces: [&str; 2]| varying.check(pieces.into_iter().map(str::as_bytes));
        check(["/x", "a b"]).unwrap();
        for path in ["", "x", "/a b", "/a\r\n", "/é"] {
            assert_eq!(check([path, ""]), Err(RequestError::Path(path.into())));
        }
        for value in [" a", "a\r\nb: c", "a\0"] {
            assert_eq!(
                check(["/", value]),
                Err(RequestError::FieldValue("X".into()))
            );
        }
    }
}
