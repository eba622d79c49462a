//! Requests that are malformed, as data: each over every version that can say it, each refused by all.

use http::Request;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use trilane_serve::Server;

use crate::common::{Client, Target, VERSIONS, quic, run, start, tls};

/// A request in the fields of HTTP/2 and HTTP/3, names and values as they are sent.
#[derive(Clone, Default)]
struct Case {
    name: &'static str,
    is_sound: bool,
    fields: Vec<(&'static str, &'static str)>,
    content: &'static str,
    trailers: Vec<(&'static str, &'static str)>,
    /// h2 0.4 throws it away, so that nobody can read it: it is refused over HTTP/3 alone.
    is_lost_by_h2: bool,
}

const METHOD: (&str, &str) = (":method", "POST");
const SCHEME: (&str, &str) = (":scheme", "https");
const AUTHORITY: (&str, &str) = (":authority", "localhost");
const PATH: (&str, &str) = (":path", "/hello");

fn case(name: &'static str, fields: &[(&'static str, &'static str)]) -> Case {
    Case {
        name,
        fields: fields.to_vec(),
        ..Case::default()
    }
}

/// The pseudo-header fields of a sound request, and others behind them.
fn with(name: &'static str, others: &[(&'static str, &'static str)]) -> Case {
    case(name, &[&[METHOD, SCHEME, AUTHORITY, PATH], others].concat())
}

impl Case {
    fn sound(self) -> Self {
        Self {
            is_sound: true,
            ..self
        }
    }

    fn content(self, content: &'static str) -> Self {
        Self { content, ..self }
    }

    fn trailers(self, trailers: &[(&'static str, &'static str)]) -> Self {
        let trailers = trailers.to_vec();
        Self { trailers, ..self }
    }
}

/// RFC 9113 sections 8.1 to 8.3 and RFC 9114 sections 4.1.2 to 4.4: the cases of h2spec, 8.1.2, and more.
fn cases() -> Vec<Case> {
    [sound(), pseudo_fields(), fields(), lengths()].concat()
}

fn sound() -> Vec<Case> {
    let all = [
        with("nothing else", &[]),
        with("te: trailers", &[("te", "trailers")]),
        with("Host is :authority", &[("host", "localhost")]),
        with("an empty value", &[("x", "")]),
        with("one length", &[("content-length", "3")]).content("abc"),
        with("trailers", &[]).content("abc").trailers(&[("x", "y")]),
        case("Host alone", &[METHOD, SCHEME, PATH, ("host", "localhost")]),
        case(
            "OPTIONS *",
            &[(":method", "OPTIONS"), SCHEME, AUTHORITY, (":path", "*")],
        ),
    ];
    all.map(Case::sound).to_vec()
}

fn pseudo_fields() -> Vec<Case> {
    let twice = [METHOD, SCHEME, AUTHORITY, PATH].map(|field| {
        let again = match field.0 {
            ":method" => (":method", "GET"),
            ":scheme" => (":scheme", "http"),
            ":authority" => (":authority", "b"),
            _ => (":path", "/"),
        };
        [
            case("one twice", &[METHOD, SCHEME, AUTHORITY, PATH, field]),
            case(
                "one with two values",
                &[METHOD, SCHEME, AUTHORITY, PATH, again],
            ),
            with("one behind others", &[("x", "y"), again]),
            Case {
                is_lost_by_h2: true,
                ..with("one in trailers", &[])
                    .content("abc")
                    .trailers(&[again])
            },
        ]
    });
    let others = [
        case("no :method", &[SCHEME, AUTHORITY, PATH]),
        case("no :scheme", &[METHOD, AUTHORITY, PATH]),
        case("no :path", &[METHOD, SCHEME, AUTHORITY]),
        case("no host", &[METHOD, SCHEME, PATH]),
        case("empty :path", &[METHOD, SCHEME, AUTHORITY, (":path", "")]),
        case(
            "a relative :path",
            &[METHOD, SCHEME, AUTHORITY, (":path", "hello")],
        ),
        case(
            "a :path of a query",
            &[METHOD, SCHEME, AUTHORITY, (":path", "?a")],
        ),
        case("POST *", &[METHOD, SCHEME, AUTHORITY, (":path", "*")]),
        case(
            "empty :authority",
            &[METHOD, SCHEME, (":authority", ""), PATH],
        ),
        case(
            "user information",
            &[METHOD, SCHEME, (":authority", "u@a"), PATH],
        ),
        case("late", &[METHOD, SCHEME, ("x", "y"), AUTHORITY, PATH]),
        with(":status", &[(":status", "200")]),
        with("an unknown one", &[(":test", "y")]),
        with(":protocol without CONNECT", &[(":protocol", "websocket")]),
        case(
            "CONNECT with :path",
            &[(":method", "CONNECT"), SCHEME, AUTHORITY, PATH],
        ),
    ];
    [twice.concat(), others.to_vec()].concat()
}

fn fields() -> Vec<Case> {
    let mut all = vec![
        with("another Host", &[("host", "b")]),
        with("two Hosts", &[("host", "localhost"), ("host", "b")]),
        with("an uppercase name", &[("X-Y", "z")]),
        with("a space in a name", &[("x y", "z")]),
        with("a colon in a name", &[("x:y", "z")]),
        with("an empty name", &[("", "z")]),
        with("LF in a value", &[("x", "y\nz")]),
        with("CR in a value", &[("x", "y\rz")]),
        with("NUL in a value", &[("x", "y\0z")]),
        with("a space before a value", &[("x", " y")]),
        with("a tab behind a value", &[("x", "y\t")]),
    ];
    for field in [
        ("connection", "close"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
        ("te", "trailers, gzip"),
    ] {
        all.push(with("a field about the connection", &[field]));
        let late = with("a field about the connection in trailers", &[]);
        all.push(late.content("abc").trailers(&[field]));
    }
    all
}

fn lengths() -> Vec<Case> {
    let length = |value| ("content-length", value);
    [
        with("two lengths", &[length("3"), length("4")]),
        with("a length twice", &[length("3"), length("3")]),
        with("a list of lengths", &[length("3, 3")]),
        with("a sign", &[length("+3")]),
        with("no number", &[length("three")]),
        with("too long for any", &[length("99999999999999999999")]),
        with("less content", &[length("4")]),
        with("more content", &[length("2")]),
    ]
    .map(|case| case.content("abc"))
    .to_vec()
}

#[test]
fn a_malformed_request_is_refused_by_http2_and_http3_alike() {
    let target = start();
    run(async {
        let mut wrong = Vec::new();
        for case in cases() {
            for version in ["h2c", "h3"] {
                let is_taken = match version {
                    "h2c" => http2(&target.server, &case).await,
                    _ => http3(&target, &case).await,
                };
                if is_taken != case.is_sound && !(case.is_lost_by_h2 && version == "h2c") {
                    let Case { name, fields, .. } = &case;
                    wrong.push(format!("{version}: {name}: {fields:?} {:?}", case.trailers));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        for version in VERSIONS {
            let mut client = Client::connect(&target, version).await;
            assert_eq!(client.get("/hello").await.body, "hello world", "{version}");
        }
    });
}

/// RFC 9112: what it has of the same.
#[test]
fn a_malformed_request_is_refused_by_http1() {
    let target = start();
    run(async {
        for (is_sound, fields) in [
            (true, "host: localhost\r\ncontent-length: 3\r\n"),
            (true, "host: localhost\r\nte: gzip\r\nconnection: te\r\n"),
            (false, ""),
            (false, "host: localhost\r\nhost: localhost\r\n"),
            (false, "host: localhost, b\r\n"),
            (
                false,
                "host: localhost\r\ncontent-length: 3\r\ncontent-length: 4\r\n",
            ),
            (false, "host: localhost\r\ncontent-length: +3\r\n"),
            (false, "host: localhost\r\ncontent-length: 3, 3\r\n"),
            (false, "host: localhost\r\ntransfer-encoding: gzip\r\n"),
            (
                false,
                "host: localhost\r\ntransfer-encoding: chunked, identity\r\n",
            ),
            (false, "host : a\r\n"),
            (false, "host: localhost\r\nx: y\r\n z\r\n"),
            (false, "host: localhost\r\nx: y\0z\r\n"),
        ] {
            let request = format!("POST /hello HTTP/1.1\r\n{fields}connection: close\r\n\r\nabc");
            let http = target.server.addresses().http;
            let mut stream = TcpStream::connect(http).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).await.unwrap();
            let status = heard.get(9..12).unwrap_or_default();
            let expected: &[u8] = if is_sound { b"200" } else { b"400" };
            assert_eq!(status, expected, "{request:?}");
        }
    });
}

/// RFC 9113 section 3.3: ALPN says what is spoken.
#[test]
fn what_alpn_has_settled_is_spoken_and_nothing_else() {
    const H1: &[u8] = b"GET /hello HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let target = start();
    run(async {
        let https = target.server.addresses().https;
        let sound = case("GET", &[(":method", "GET"), SCHEME, AUTHORITY, PATH]);
        let h2 = http2_bytes(&sound);
        for (alpn, said, is_taken) in [
            (&b"http/1.1"[..], H1, true),
            (b"h2", H1, false),
            (b"http/1.1", &h2[..], false),
            (b"h2", &h2[..], true),
        ] {
            let mut stream = tls(&target, https, alpn).await;
            stream.write_all(said).await.unwrap();
            let took = match said == H1 {
                true => {
                    let mut heard = Vec::new();
                    let _ = stream.read_to_end(&mut heard).await;
                    heard.starts_with(b"HTTP/1.1 200")
                }
                false => http2_verdict(&mut stream).await,
            };
            assert_eq!(took, is_taken, "{}", String::from_utf8_lossy(alpn));
        }
    });
}

/// HTTP/2 by prior knowledge is for cleartext (RFC 9113 section 3.3).
#[test]
fn over_tls_http2_needs_alpn() {
    let target = start();
    run(async {
        let https = target.server.addresses().https;
        let sound = case("GET", &[(":method", "GET"), SCHEME, AUTHORITY, PATH]);
        let mut stream = tls(&target, https, b"").await;
        stream.write_all(&http2_bytes(&sound)).await.unwrap();
        assert!(!http2_verdict(&mut stream).await);
        let mut client = Client::connect(&target, "h1s").await;
        let answer = client.send(Request::get("/hello"), "").await;
        assert_eq!(answer.status, 200);
    });
}

/// Whether the server answers with 200, or with 404 what has no page.
async fn http2(server: &Server, case: &Case) -> bool {
    let mut stream = TcpStream::connect(server.addresses().http).await.unwrap();
    // It may close before it has read everything.
    let _ = stream.write_all(&http2_bytes(case)).await;
    http2_verdict(&mut stream).await
}

/// RFC 9113: the preface, SETTINGS, and one request on stream 1.
fn http2_bytes(case: &Case) -> Vec<u8> {
    let frame = |kind: u8, flags: u8, payload: &[u8]| {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let stream = u8::from(kind != 4);
        [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
    };
    // RFC 7541 section 6.2.2: literals with new names, not indexed.
    let section = |fields: &[(&str, &str)]| {
        let mut out = Vec::new();
        for (name, value) in fields {
            out.push(0);
            for text in [name, value] {
                out.push(u8::try_from(text.len()).unwrap());
                out.extend_from_slice(text.as_bytes());
            }
        }
        out
    };
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, &[]));
    let ends = |last: bool| u8::from(last);
    let (content, trailers) = (case.content, &case.trailers);
    let is_last = content.is_empty() && trailers.is_empty();
    bytes.extend(frame(1, 4 | ends(is_last), &section(&case.fields)));
    if !content.is_empty() {
        bytes.extend(frame(0, ends(trailers.is_empty()), content.as_bytes()));
    }
    if !trailers.is_empty() {
        bytes.extend(frame(1, 5, &section(trailers)));
    }
    bytes
}

/// Reads frames until there is an answer, or there will be none.
async fn http2_verdict(stream: &mut (impl AsyncReadExt + Unpin)) -> bool {
    loop {
        let mut head = [0; 9];
        if stream.read_exact(&mut head).await.is_err() {
            return false;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        if length > 1 << 14 {
            // No frame: it speaks another protocol.
            return false;
        }
        let mut payload = vec![0; length as usize];
        if stream.read_exact(&mut payload).await.is_err() {
            return false;
        }
        match head[3] {
            // RFC 7541 appendix A: 200 is 8 in the static table, 404 is 13.
            1 => return matches!(payload[0], 0x88 | 0x8d),
            3 | 7 => return false,
            _ => {}
        }
    }
}

/// As [`http2`].
async fn http3(target: &Target, case: &Case) -> bool {
    let frame = |kind: u8, payload: &[u8]| {
        let length = u16::try_from(payload.len()).unwrap() | 0x4000;
        [&[kind], &length.to_be_bytes()[..], payload].concat()
    };
    // RFC 9204 section 4.5.6: literals with literal names.
    let section = |fields: &[(&str, &str)]| {
        let mut out = vec![0, 0];
        for (name, value) in fields {
            match u8::try_from(name.len()).unwrap() {
                short @ ..7 => out.push(0x20 | short),
                long => out.extend([0x27, long - 7]),
            }
            out.extend_from_slice(name.as_bytes());
            out.push(u8::try_from(value.len()).unwrap());
            out.extend_from_slice(value.as_bytes());
        }
        out
    };
    let mut bytes = frame(1, &section(&case.fields));
    if !case.content.is_empty() {
        bytes.extend(frame(0, case.content.as_bytes()));
    }
    if !case.trailers.is_empty() {
        bytes.extend(frame(1, &section(&case.trailers)));
    }
    let (_endpoint, connection) = quic(target).await;
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(&bytes).await.unwrap();
    let _ = send.finish();
    match recv.read_to_end(1 << 20).await {
        // HEADERS, its length in a byte or two, a prefix, and 25 or 27 in the static table: 200, 404.
        Ok(heard) => heard[4..6].iter().any(|byte| matches!(byte, 0xd9 | 0xdb)),
        Err(error) => {
            // RFC 9114 section 4.1.2: of the stream, not of the connection.
            assert!(
                connection.close_reason().is_none(),
                "{}: {error}",
                case.name
            );
            false
        }
    }
}
