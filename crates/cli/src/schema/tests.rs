mod scripted;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use hyper::body::{Frame, Incoming};
use trilane_engine::Version;
use trilane_grpc::{frame, gzip};
use trilane_serve::{Config, Server};

use super::*;
use scripted::{Content, Scripted, answer, http, raw, status};

const METHOD: &str = "trilane.library.v1.Library/GetBook";

fn proto() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/trilane/library/v1/library.proto")
}

fn options(url: impl Into<String>) -> Options {
    Options {
        urls: vec![url.into()],
        timeout: Duration::from_secs(20),
        ..Options::default()
    }
}

fn ask(options: &Options, method: &str) -> Result<(Schema, String), PlanError> {
    find(
        &Source::Reflection,
        &Target {
            options,
            method,
            words: Words::LOAD,
        },
    )
}

fn told(options: &Options) -> String {
    ask(options, METHOD).unwrap_err().to_string()
}

fn check((schema, how): (Schema, String), expected: &str) {
    assert_eq!(how, expected);
    let method = schema.method(METHOD).unwrap();
    assert!(method.requests(r#"{"name": "shelves/1/books/1"}"#).is_ok());
}

fn told_by(
    script: impl Fn(Request<Incoming>) -> Option<Response<Content>> + Send + Sync + 'static,
) -> String {
    let server = Scripted::start(script);
    let url = server.url();
    let text = told(&options(&url));
    text.replace(&url, "URL")
}

/// The answer of a server that has the library's files: a message of reflection with its prefix.
fn library(compressed: bool) -> Vec<u8> {
    let schema = Schema::from_proto(&[proto()], &[]).unwrap();
    let mut files = Vec::new();
    for file in schema.pool().files() {
        field(1, &file.encode_to_vec(), &mut files);
    }
    let mut message = Vec::new();
    field(4, &files, &mut message);
    let mut out = Vec::new();
    if compressed {
        frame::write(&gzip::compress(&message), true, &mut out);
    } else {
        frame::write(&message, false, &mut out);
    }
    out
}

/// A field of bytes, as protobuf encodes it.
fn field(number: u8, value: &[u8], out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    let mut length = value.len();
    while length >= 0x80 {
        out.push((length & 0x7f | 0x80) as u8);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(value);
}

#[test]
fn the_embedded_server_is_asked_over_every_version() {
    let server = Server::start(Config {
        port: 0,
        tls_port: 0,
        threads: 1,
        ..Config::default()
    })
    .unwrap();
    let addresses = server.addresses();
    let plain = format!("http://localhost:{}", addresses.http.port());
    let secure = format!("https://localhost:{}/", addresses.https.port());
    for (url, version) in [
        (&plain, None),
        (&plain, Some(Version::H2c)),
        (&secure, None),
        (&secure, Some(Version::H2)),
        (&secure, Some(Version::H3)),
    ] {
        let options = Options {
            version,
            insecure: true,
            ..options(url)
        };
        check(ask(&options, METHOD).unwrap(), "reflection v1");
        let error = ask(&options, "trilane.Library/GetBook").unwrap_err();
        assert!(
            matches!(&error, PlanError::Usage(text)
                if text.contains("the server has no service \"trilane.Library\": it has trilane.library.v1.Library")),
            "{error}"
        );
    }
    // A method or a service alone: the whole schema is there to say what is missing.
    let (schema, _) = ask(&options(&plain), "trilane.library.v1.Library").unwrap();
    let error = schema
        .method("trilane.library.v1.Library")
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("trilane.library.v1.Library is a service: name one of its methods"),
        "{error}"
    );
    let (schema, _) = ask(&options(&plain), "GetBook").unwrap();
    let error = schema.method("GetBook").unwrap_err().to_string();
    assert!(
        error.ends_with("type trilane.library.v1.Library/GetBook"),
        "{error}"
    );

    let untrusted = told(&options(&secure));
    assert!(
        untrusted.contains("--cacert FILE") && untrusted.contains("--insecure"),
        "{untrusted}"
    );
    let elsewhere = Options {
        connect_to: Some(format!("127.0.0.1:{}", addresses.http.port())),
        ..options("http://books.localhost/")
    };
    check(ask(&elsewhere, METHOD).unwrap(), "reflection v1");
}

#[test]
fn version_1_alpha_is_asked_where_1_is_not_offered() {
    let server = Scripted::start(|request| {
        let path = request.uri().path();
        assert_eq!(request.uri().authority().unwrap().host(), "127.0.0.1");
        assert_eq!(request.headers()["te"], "trailers");
        assert_eq!(request.headers()["content-type"], "application/grpc");
        assert_eq!(request.headers()["authorization"], "Bearer x");
        assert!(request.headers().contains_key("grpc-timeout"));
        Some(if path.starts_with("/prefix/grpc.reflection.v1alpha.") {
            let library = library(false);
            let (first, second) = library.split_at(3);
            answer(
                "application/grpc+proto",
                &[first, second],
                &[("grpc-status", "0")],
            )
        } else {
            status(12)
        })
    });
    let options = Options {
        fields: vec!["Authorization: Bearer x".into()],
        ..options(format!("{}/prefix/", server.url()))
    };
    check(ask(&options, METHOD).unwrap(), "reflection v1alpha");
}

#[test]
fn answers_may_be_compressed() {
    let server = Scripted::start(|_| {
        let mut response = answer(
            "application/grpc",
            &[&library(true)],
            &[("grpc-status", "0")],
        );
        response
            .headers_mut()
            .insert("grpc-encoding", HeaderValue::from_static("gzip"));
        Some(response)
    });
    check(
        ask(&options(server.url()), METHOD).unwrap(),
        "reflection v1",
    );
}

#[test]
fn a_server_without_reflection_is_told_with_the_way_out() {
    assert_eq!(
        told_by(|_| Some(status(12))),
        "URL offers no reflection (v1 UNIMPLEMENTED, v1alpha UNIMPLEMENTED): \
         give the schema with --proto FILE or --descriptor-set FILE"
    );
    assert_eq!(
        told_by(|_| Some(http(404))),
        "URL offers no reflection (v1 HTTP 404, v1alpha HTTP 404): \
         give the schema with --proto FILE or --descriptor-set FILE"
    );
}

#[test]
fn servers_that_do_not_speak_grpc_are_told() {
    const ELSE: &str = "; or give the schema with --proto FILE or --descriptor-set FILE";
    let mut long = b"\0\xff\0\0\0".to_vec();
    long.extend_from_slice(&[0; 100]);
    for (response, text) in [
        (http(503), "answers reflection with HTTP status 503"),
        (
            answer("text/html", &[b"<html>"], &[]),
            "answers with content-type \"text/html\", which is not gRPC: check host, port and path",
        ),
        (
            answer("application/grpc", &[], &[]),
            "ends its answer without a grpc-status",
        ),
        (
            answer("application/grpc", &[], &[("grpc-status", "x")]),
            "ends its answer without a grpc-status",
        ),
        (
            answer("application/grpc", &[b"<html>"], &[("grpc-status", "0")]),
            "sends something else than messages: a message begins with 0x3c, where 0 or 1 tells whether it is compressed",
        ),
        (
            answer("application/grpc", &[&long], &[("grpc-status", "0")]),
            "sends something else than messages: a message of 4278190080 bytes is over the limit of 67108864",
        ),
        (
            answer(
                "application/grpc",
                &[b"\0\0\0\0\x07cut"],
                &[("grpc-status", "0")],
            ),
            "ends its answer in the middle of a message",
        ),
        (
            answer(
                "application/grpc",
                &[b"\x01\0\0\0\x01x"],
                &[("grpc-status", "0")],
            ),
            "compresses its answers though it was not asked to",
        ),
        (
            answer(
                "application/grpc",
                &[],
                &[("grpc-status", "16"), ("grpc-message", "who%0Aare you?")],
            ),
            "ends reflection with UNAUTHENTICATED, \"who are you?\"",
        ),
    ] {
        let (head, body) = response.into_parts();
        let body = Mutex::new(Some(body));
        let told = told_by(move |_| {
            let body = body.lock().unwrap().take().expect("one request");
            Some(Response::from_parts(head.clone(), body))
        });
        assert_eq!(told, format!("URL {text}{ELSE}"));
    }
}

#[test]
fn wrong_messages_are_told() {
    let told = |message: &'static [u8]| {
        told_by(move |_| {
            let mut out = Vec::new();
            frame::write(message, false, &mut out);
            Some(answer("application/grpc", &[&out], &[("grpc-status", "0")]))
        })
    };
    assert_eq!(
        told(b"<html>"),
        "URL: the server's answer is no message of reflection, but 6 bytes of something else; \
         give the schema with --proto FILE or --descriptor-set FILE"
    );
    assert!(told_by(|_| Some(status(0))).contains("left a question unanswered"));
    // Messages without end, of a server that never ends its answer.
    let endless = told_by(|_| {
        let data = Frame::data(Bytes::from(library(false).repeat(3)));
        let content = Content {
            frames: [data].into(),
            ends: false,
        };
        let mut response = Response::new(content);
        let kind = HeaderValue::from_static("application/grpc");
        response.headers_mut().insert("content-type", kind);
        Some(response)
    });
    assert!(
        endless.contains("answers more than it was asked"),
        "{endless}"
    );
}

#[test]
fn every_wait_ends() {
    let short = |url: &str| Options {
        timeout: Duration::from_millis(300),
        connect_timeout: Duration::from_secs(60),
        ..options(url)
    };
    let silent = Scripted::start(|_| None);
    let text = told(&short(&silent.url()));
    assert!(
        text.contains("did not finish reflection within 300ms"),
        "{text}"
    );

    let open = Scripted::start(|_| {
        let mut response = Response::new(Content::default());
        let kind = HeaderValue::from_static("application/grpc");
        response.headers_mut().insert("content-type", kind);
        Some(response)
    });
    let text = told(&short(&open.url()));
    assert!(
        text.contains("did not finish reflection within 300ms"),
        "{text}"
    );

    let mute = raw(|mut stream| {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
    });
    let text = told(&short(&mute));
    assert!(text.contains("within 300ms"), "{text}");
}

#[test]
fn connections_that_fail_are_told() {
    let closing = raw(drop);
    let text = told(&options(&closing));
    assert!(
        text.starts_with(&format!("cannot ask {closing} for its schema: ")),
        "{text}"
    );
    let other = raw(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
    });
    let text = told(&options(&other));
    assert!(
        text.starts_with(&format!("cannot ask {other} for its schema: ")),
        "{text}"
    );
    let port = {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.local_addr().unwrap().port()
    };
    let text = told(&options(format!("http://127.0.0.1:{port}")));
    assert!(text.contains("no connection to 127.0.0.1"), "{text}");
}

#[test]
fn wrong_use_says_what_to_type() {
    assert!(told(&options("localhost:50051")).contains("type http://127.0.0.1:50051"));
    let change = |change: fn(&mut Options)| {
        let mut options = options("http://127.0.0.1:1/");
        change(&mut options);
        told(&options)
    };
    assert!(change(|options| options.version = Some(Version::H1)).contains("type --h2"));
    assert!(change(|options| options.connect_to = Some("x".into())).contains("--connect-to"));
}

#[test]
fn files_are_read_as_they_are_named() {
    let options = options("http://127.0.0.1:1/");
    let target = Target {
        options: &options,
        method: METHOD,
        words: Words::LOAD,
    };
    let source = Source::Proto {
        files: vec![proto()],
        includes: Vec::new(),
    };
    let found = find(&source, &target).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("set.binpb");
    fs::write(&file, found.0.pool().encode_to_vec()).unwrap();
    check(found, "--proto");
    let source = Source::DescriptorSet(file.clone());
    check(find(&source, &target).unwrap(), "--descriptor-set");

    fs::write(&file, "syntax").unwrap();
    let error = find(&source, &target).unwrap_err().to_string();
    assert!(
        error.starts_with("--descriptor-set: ") && error.contains("no FileDescriptorSet"),
        "{error}"
    );
    fs::remove_file(&file).unwrap();
    let error = find(&source, &target).unwrap_err().to_string();
    assert!(
        error.starts_with("--descriptor-set: cannot read "),
        "{error}"
    );
    let source = Source::Proto {
        files: vec![folder.path().join("none.proto")],
        includes: Vec::new(),
    };
    let error = find(&source, &target).unwrap_err().to_string();
    assert!(error.starts_with("--proto: cannot read "), "{error}");
}
