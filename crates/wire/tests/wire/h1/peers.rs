//! Servers that are not ours: hyper in this process, Python's http.server in another.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper_util::rt::TokioIo;
use trilane_wire::h1::{Connection, Limits};
use trilane_wire::{Content, Encoding, End, FieldList, OneOff, Request};

use super::common::{Event, Recorder, request};

/// One connection to a server, with a socket.
struct Client {
    stream: TcpStream,
    connection: Connection,
}

impl Client {
    fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        // Instead of a hang, should the peers wait for each other.
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        Self {
            stream,
            connection: Connection::new(Limits::default()),
        }
    }

    /// Sends a request whose content is `pieces`, and `trailers` behind it, and reads the response.
    fn upload(&mut self, request: &Request, pieces: &[&[u8]], trailers: &FieldList) -> Vec<Event> {
        let mut out = Vec::new();
        let stream = self.connection.send(request, 0, &mut out).unwrap();
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let taken = self.connection.write(stream, rest, &mut out);
                assert!(taken > 0);
                rest = &rest[taken..];
                self.stream.write_all(&out).unwrap();
                out.clear();
            }
        }
        self.connection.finish(stream, trailers, &mut out).unwrap();
        self.stream.write_all(&out).unwrap();
        self.read(4096)
    }

    /// Sends a request and reads until it has ended, with a buffer of `size` bytes.
    fn fetch(&mut self, request: &Request, size: usize) -> Vec<Event> {
        let mut out = Vec::new();
        self.connection.send(request, 0, &mut out).unwrap();
        loop {
            self.stream.write_all(&out).unwrap();
            out.clear();
            if !self.connection.has_output() {
                break;
            }
            self.connection.produce(&mut out);
        }
        self.read(size)
    }

    /// Reads until the request has ended.
    fn read(&mut self, size: usize) -> Vec<Event> {
        let mut recorder = Recorder::<true>::default();
        let (mut buffer, mut out) = (vec![0; size], Vec::new());
        while self.connection.outstanding() > 0 {
            let read = self.stream.read(&mut buffer).unwrap();
            if read == 0 {
                self.connection.eof(End::Clean, &mut recorder);
            } else {
                self.connection
                    .receive(&buffer[..read], &mut recorder, &mut out)
                    .unwrap();
            }
        }
        recorder
            .events
            .into_iter()
            .map(|(_, event)| event)
            .collect()
    }
}

fn status(events: &[Event]) -> u16 {
    let Some(Event::Head { status, .. }) = events.first() else {
        panic!("{events:?}")
    };
    *status
}

fn data(events: &[Event]) -> &[u8] {
    events
        .iter()
        .find_map(|event| match event {
            Event::Data(data) => Some(&data[..]),
            _ => None,
        })
        .unwrap_or_default()
}

/// A body in pieces, of which nobody knows the length.
struct Pieces(std::vec::IntoIter<Frame<Bytes>>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.next().map(Ok))
    }
}

type Answer = http::Response<BoxBody<Bytes, Infallible>>;

/// Answers as the field `want` says.
async fn serve(request: http::Request<Incoming>) -> Result<Answer, Infallible> {
    let want = request
        .headers()
        .get("want")
        .map_or(&b""[..], |value| value.as_bytes())
        .to_vec();
    let full = |bytes: Bytes| Full::new(bytes).boxed();
    let pieces = |trailers: bool| {
        let mut frames: Vec<_> = (1..=20)
            .map(|n| Frame::data(Bytes::from(vec![b'x'; n * 100])))
            .collect();
        if trailers {
            let mut fields = http::HeaderMap::new();
            fields.insert("x-sum", "42".parse().unwrap());
            frames.push(Frame::trailers(fields));
        }
        Pieces(frames.into_iter()).boxed()
    };
    let response = http::Response::builder();
    Ok(match &want[..] {
        b"chunks" => response.body(pieces(false)),
        b"trailers" => response.header("trailer", "x-sum").body(pieces(true)),
        b"nothing" => response.status(204).body(full(Bytes::new())),
        b"close" => response
            .header("connection", "close")
            .body(full("bye".into())),
        b"echo" => {
            let body = request.into_body().collect().await.unwrap();
            let sum = body.trailers().and_then(|trailers| trailers.get("x-sum"));
            let sum = sum.cloned().unwrap_or(http::HeaderValue::from_static(""));
            response.header("sum", sum).body(full(body.to_bytes()))
        }
        _ => response.body(full("hello world".into())),
    }
    .unwrap())
}

#[test]
fn hyper_is_understood() {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper::service::service_fn(serve);
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });

    for size in [1, 7, 64 * 1024] {
        let mut client = Client::connect(port);
        for _ in 0..3 {
            let events = client.fetch(&request("GET", &[], b""), size);
            assert_eq!((status(&events), data(&events)), (200, &b"hello world"[..]));
        }
        let events = client.fetch(&request("HEAD", &[], b""), size);
        assert!(matches!(
            events[..],
            [
                Event::Head {
                    length: Some(11),
                    ..
                },
                Event::End(None)
            ]
        ));

        let events = client.fetch(&request("GET", &[("want", "chunks")], b""), size);
        assert_eq!(data(&events).len(), 21_000);
        let fields = [("want", "trailers"), ("te", "trailers")];
        let events = client.fetch(&request("GET", &fields, b""), size);
        let trailers = vec![("x-sum".into(), "42".into())];
        assert_eq!(events.last(), Some(&Event::End(Some(trailers))));

        assert_eq!(
            status(&client.fetch(&request("GET", &[("want", "nothing")], b""), size)),
            204
        );
        let body = vec![b'y'; 200_000];
        let events = client.fetch(&request("POST", &[("want", "echo")], &body), size);
        assert_eq!(data(&events), body);
        let fields = [("want", "echo"), ("expect", "100-continue")];
        let events = client.fetch(&request("POST", &fields, b"abc"), size);
        assert_eq!(data(&events[events.len() - 2..]), b"abc");

        let mut trailers = FieldList::new();
        trailers.push(b"X-Sum", b"42");
        for (length, sum) in [(None, "42"), (Some(100_010), "")] {
            let put = Request::one_off(
                Encoding::H1,
                &OneOff {
                    method: "PUT",
                    scheme: "http",
                    authority: "a.example",
                    path: "/",
                    fields: &[(b"Want", b"echo")],
                    content: Content::Streamed { length, raw: false },
                },
            );
            let pieces = [&[b'z'; 10][..], &[b'z'; 100_000]];
            let events = client.upload(&put.unwrap(), &pieces, &trailers);
            assert_eq!(data(&events), [b'z'; 100_010]);
            let Event::Head { fields, .. } = &events[0] else {
                panic!("{events:?}");
            };
            assert!(fields.contains(&("sum".into(), sum.into())));
        }

        assert!(!client.connection.is_closing());
        let events = client.fetch(&request("GET", &[("want", "close")], b""), size);
        assert_eq!(data(&events), b"bye");
        assert!(client.connection.is_closing());
    }
}

const PYTHON: &str = r#"
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = sys.argv[1]
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")
    def do_HEAD(self):
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
    def do_DELETE(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"until the end")
        self.close_connection = True
    def log_message(self, *_): pass
with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
    print(server.server_port, flush=True)
    server.serve_forever()
"#;

#[test]
fn python_is_understood() {
    for (version, stays) in [("HTTP/1.0", false), ("HTTP/1.1", true)] {
        let spawned = Command::new("python3")
            .args(["-c", PYTHON, version])
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut process) = spawned else {
            assert!(std::env::var("CI").is_err(), "python3 is needed");
            eprintln!("skipped: python3 is not here");
            return;
        };
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut port)
            .unwrap();
        let port = port.trim().parse().unwrap();

        let mut client = Client::connect(port);
        let events = client.fetch(&request("GET", &[], b""), 4096);
        assert_eq!(data(&events), b"hello");
        assert_eq!(client.connection.is_closing(), !stays);
        if !stays {
            client = Client::connect(port);
        }
        let events = client.fetch(&request("DELETE", &[], b""), 4096);
        assert_eq!(data(&events), b"until the end");
        assert_eq!(events.last(), Some(&Event::End(None)));
        assert!(client.connection.is_closing());
        assert_eq!(
            status(&Client::connect(port).fetch(&request("HEAD", &[], b""), 4096)),
            200
        );

        process.kill().unwrap();
        process.wait().unwrap();
    }
}
