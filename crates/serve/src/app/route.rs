//! From a path to a page.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Response, StatusCode, Version,
    header::{CONTENT_ENCODING, CONTENT_TYPE, VARY},
    request::Parts,
};
use serde_json::{Value, json};

use super::{
    App, Reply, add_length, bookstore,
    gzip::{self, Text},
    has_content, pattern,
    reply::Drip,
    site::Site,
};
use crate::{
    connection::Connection,
    value::{parse_bytes, parse_wait, query},
};

/// What there is, as a 404 tells it.
const ENDPOINTS: [(&str, &str); 17] = [
    ("/", "11 bytes, the same as /hello"),
    ("/hello", "11 bytes: hello world"),
    (
        "/bytes/{n}",
        "n bytes, k and m allowed, up to 1g; ?gzip=1 to have them compressed",
    ),
    ("/status/{code}", "an answer with that status, 200 to 599"),
    (
        "/delay/{time}",
        "an answer after that time, such as 50ms or 1.5s",
    ),
    ("/echo", "the request's body; over WebSocket each message"),
    ("/headers", "what arrived, and over which version of HTTP"),
    ("/books", "the ids of 3,000 books"),
    ("/book?id={id}", "one book"),
    ("/site/", "the first of 11 linked pages"),
    ("/profiles/", "the first of 120 linked pages"),
    (
        "/drip?bytes={n}&duration={time}&delay={time}",
        "a slow body",
    ),
    (
        "/trilane.library.v1.Library/{method}",
        "the library service: gRPC (h2c, h2, h3), gRPC-Web and Connect",
    ),
    (
        "/grpc.health.v1.Health/{method}",
        "health; /grpc.reflection.v1.ServerReflection/ServerReflectionInfo lists the services",
    ),
    (
        "/v1/shelves/{shelf}/books/{book}",
        "the library service by its google.api.http rules: GET, PATCH, DELETE; JSON or protobuf",
    ),
    (
        "/v1/shelves/{shelf}/books:watch",
        "a stream: NDJSON, server-sent events, WebSocket; so are /v1/books:import and :lookUp",
    ),
    (
        "/openapi.json",
        "what the library service takes and answers by its rules, in OpenAPI 3.1",
    ),
];

/// First segments of the paths in [`page`], and of those that are answered before it.
const PAGES: [&str; 13] = [
    "",
    "hello",
    "bytes",
    "status",
    "delay",
    "echo",
    "headers",
    "books",
    "book",
    "site",
    "profiles",
    "drip",
    "openapi.json",
];

const HELLO: &[u8] = b"hello world";
// Spaced as in QPACK's static table (RFC 9204 appendix A), which has these as whole fields.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain;charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// An answer before it becomes a response.
pub(super) struct Page {
    status: StatusCode,
    kind: HeaderValue,
    content: Content,
    coding: Coding,
    /// How long to hold the response back.
    pub(super) wait: Duration,
}

enum Content {
    Bytes(Bytes),
    Pattern(u64),
    Drip(Box<Drip>),
}

/// Whether the content depends on `accept-encoding`, and what became of it.
#[derive(PartialEq)]
enum Coding {
    Fixed,
    Plain,
    Gzip,
}

impl Page {
    fn new(kind: HeaderValue, content: Content) -> Self {
        Self {
            status: StatusCode::OK,
            kind,
            content,
            coding: Coding::Fixed,
            wait: Duration::ZERO,
        }
    }

    fn bytes(kind: HeaderValue, bytes: impl Into<Bytes>) -> Self {
        Self::new(kind, Content::Bytes(bytes.into()))
    }

    fn json(status: StatusCode, value: &Value) -> Self {
        let mut text = value.to_string();
        text.push('\n');
        Self {
            status,
            ..Self::bytes(JSON, text)
        }
    }

    fn text(kind: HeaderValue, text: &Text, fields: &HeaderMap) -> Self {
        let is_gzip = text.plain().len() >= gzip::MIN_LENGTH && gzip::is_accepted(fields);
        let (bytes, coding) = match is_gzip {
            true => (text.gzip(), Coding::Gzip),
            false => (text.plain(), Coding::Plain),
        };
        Self {
            coding,
            ..Self::bytes(kind, bytes.clone())
        }
    }

    /// A value that makes no sense: what it was, and what would.
    fn refuse(name: &str, value: &str, expected: &str) -> Self {
        Self::json(
            StatusCode::BAD_REQUEST,
            &json!({ "error": format!("bad {name}"), "value": value, "expected": expected }),
        )
    }

    fn not_found(error: &str, what: &str) -> Self {
        let endpoints: Vec<Value> = ENDPOINTS
            .iter()
            .map(|(path, gives)| json!({ "path": path, "gives": gives }))
            .collect();
        Self::json(
            StatusCode::NOT_FOUND,
            &json!({ "error": error, "value": what, "endpoints": endpoints }),
        )
    }

    /// There is nothing at that path.
    pub(super) fn is_missing(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    pub(super) fn into_response<B>(self, mut fields: HeaderMap) -> Response<Reply<B>> {
        let (length, body) = match self.content {
            _ if !has_content(self.status) => (0, Reply::Bytes(Bytes::new())),
            Content::Bytes(bytes) => (bytes.len() as u64, Reply::Bytes(bytes)),
            Content::Pattern(length) => (length, Reply::Pattern { sent: 0, length }),
            Content::Drip(drip) => (drip.length(), Reply::Drip(drip)),
        };
        if has_content(self.status) {
            fields.insert(CONTENT_TYPE, self.kind);
            add_length(&mut fields, length);
        }
        if self.coding != Coding::Fixed {
            fields.insert(VARY, HeaderValue::from_static("accept-encoding"));
        }
        if self.coding == Coding::Gzip {
            fields.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = fields;
        response
    }
}

/// Whether the embedded server has pages of its own under this first segment.
pub(crate) fn is_page(first: &str) -> bool {
    PAGES.contains(&first)
}

pub(super) fn page(app: &App, connection: &Arc<Connection>, head: &Parts) -> Page {
    let path = head.uri.path();
    // The commonest first, without looking at the others.
    if path == "/" || path == "/hello" {
        return Page::bytes(TEXT, Bytes::from_static(HELLO));
    }
    let path_in = path.strip_prefix('/').unwrap_or(path);
    let (first, rest) = match path_in.split_once('/') {
        Some((first, rest)) => (first, Some(rest)),
        None => (path_in, None),
    };
    let asked = head.uri.query();
    match (first, rest) {
        ("bytes", Some(size)) => bytes(size, asked, &head.headers),
        ("status", Some(code)) => status(code),
        ("delay", Some(time)) => delay(time),
        // Only HEAD comes here; the body of the others is given back.
        ("echo", None) => Page::bytes(OCTETS, Bytes::new()),
        ("headers", None) => Page::json(StatusCode::OK, &arrived(connection, head)),
        ("books", None) => Page::text(JSON, bookstore::shared().index(), &head.headers),
        ("book", None) => book(asked, &head.headers),
        ("site", page) => linked(&app.station, page, path, connection, head),
        ("profiles", page) => linked(&app.profiles, page, path, connection, head),
        ("drip", None) => drip(asked, connection),
        ("openapi.json", None) => Page::bytes(JSON, app.gateway().services().description()),
        _ => Page::not_found("not found", path),
    }
}

fn linked(
    site: &Site,
    page: Option<&str>,
    path: &str,
    connection: &Connection,
    head: &Parts,
) -> Page {
    let scheme = match connection.tls {
        Some(_) => "https",
        None => "http",
    };
    match site
        .pages(scheme, authority(head))
        .get(page.unwrap_or_default())
    {
        Some(text) => Page::text(HTML, text, &head.headers),
        None => Page::not_found("no such page; the first are /site/ and /profiles/", path),
    }
}

fn bytes(size: &str, asked: Option<&str>, fields: &HeaderMap) -> Page {
    let Some(length) = parse_bytes(size) else {
        return Page::refuse(
            "size",
            size,
            "a number of bytes up to 1g, such as 1000, 16k or 4m",
        );
    };
    let is_one_piece = length <= pattern::PERIOD as u64;
    if is_one_piece && query(asked, "gzip") == Some("1") {
        let text = Text::new(pattern::piece(0, length));
        return Page::text(OCTETS, &text, fields);
    }
    match is_one_piece {
        true => Page::bytes(OCTETS, pattern::piece(0, length)),
        false => Page::new(OCTETS, Content::Pattern(length)),
    }
}

fn status(code: &str) -> Page {
    let status = code
        .parse::<u16>()
        .ok()
        .filter(|code| (200..600).contains(code))
        .and_then(|code| StatusCode::from_u16(code).ok());
    let Some(status) = status else {
        return Page::refuse("status", code, "a number from 200 to 599");
    };
    let reason = status.canonical_reason().unwrap_or("status");
    Page {
        status,
        ..Page::bytes(TEXT, format!("{} {reason}\n", status.as_u16()))
    }
}

const TIME: &str = "a time up to 10m, such as 50ms or 1.5s";

fn delay(time: &str) -> Page {
    match parse_wait(time) {
        Some(wait) => Page {
            wait,
            ..Page::bytes(TEXT, format!("waited {time}\n"))
        },
        None => Page::refuse("time", time, TIME),
    }
}

fn drip(asked: Option<&str>, connection: &Arc<Connection>) -> Page {
    let size = query(asked, "bytes").unwrap_or("1k");
    let Some(length) = parse_bytes(size) else {
        return Page::refuse(
            "bytes",
            size,
            "a number of bytes up to 1g, such as 100 or 16k",
        );
    };
    let duration_text = query(asked, "duration").unwrap_or("1s");
    let Some(duration) = parse_wait(duration_text) else {
        return Page::refuse("duration", duration_text, TIME);
    };
    let delay_text = query(asked, "delay").unwrap_or("0");
    let Some(delay) = parse_wait(delay_text) else {
        return Page::refuse("delay", delay_text, TIME);
    };
    let drip = Drip::new(length, duration, connection.wait());
    Page {
        wait: delay,
        ..Page::new(OCTETS, Content::Drip(Box::new(drip)))
    }
}

fn book(asked: Option<&str>, fields: &HeaderMap) -> Page {
    let id = query(asked, "id").unwrap_or_default();
    match id.parse::<u32>() {
        Ok(number) => match bookstore::shared().book(number) {
            Some(book) => Page::text(JSON, book, fields),
            None => Page::not_found("no such book; /books lists the ids", id),
        },
        Err(_) => Page::refuse("id", id, "a number that /books lists, as in /book?id=..."),
    }
}

/// The authority that the client asked for: `:authority`, absolute form, or Host.
fn authority(head: &Parts) -> &str {
    let from_host = || head.headers.get("host").and_then(|host| host.to_str().ok());
    head.uri
        .authority()
        .map(|authority| authority.as_str())
        .or_else(from_host)
        .unwrap_or_default()
}

fn arrived(connection: &Connection, head: &Parts) -> Value {
    let fields: Vec<Value> = head
        .headers
        .iter()
        .map(|(name, value)| json!([name.as_str(), String::from_utf8_lossy(value.as_bytes())]))
        .collect();
    let tls = connection.tls.as_ref().map(|tls| {
        json!({
            "version": tls.version,
            "cipher": tls.cipher,
            "alpn": tls.alpn,
            "server_name": tls.server_name,
        })
    });
    json!({
        "method": head.method.as_str(),
        "path": head.uri.path_and_query().map_or("", |path| path.as_str()),
        "authority": authority(head),
        "version": version(head.version, connection.tls.is_some()),
        "fields": fields,
        "peer": connection.caller.peer.to_string(),
        "tls": tls,
    })
}

/// The project's words for versions.
fn version(version: Version, secure: bool) -> &'static str {
    match (version, secure) {
        (Version::HTTP_10, _) => "h1.0",
        (Version::HTTP_2, true) => "h2",
        (Version::HTTP_2, false) => "h2c",
        (Version::HTTP_3, _) => "h3",
        _ => "h1",
    }
}
