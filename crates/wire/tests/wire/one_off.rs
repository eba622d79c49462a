//! Requests that are sent once: what is written for each version, and what is refused.

use std::sync::Arc;

use trilane_wire::request::Indexing;
use trilane_wire::{Content, Encoding, OneOff, Request, RequestError};

type Fields<'a> = &'a [(&'a [u8], &'a [u8])];

const VERSIONS: [Encoding; 3] = [Encoding::H1, Encoding::H2, Encoding::H3];

fn whole(content: &[u8]) -> Content {
    Content::Whole(Arc::from(content))
}

fn streamed(length: Option<u64>) -> Content {
    Content::Streamed { length, raw: false }
}

const RAW: Content = Content::Streamed {
    length: None,
    raw: true,
};

fn make(
    version: Encoding,
    start: (&str, &str),
    fields: Fields<'_>,
    content: Content,
) -> Result<Request, RequestError> {
    let (method, path) = start;
    Request::one_off(
        version,
        &OneOff {
            method,
            scheme: "https",
            authority: "a.example:81",
            path,
            fields,
            content,
        },
    )
}

/// The head in HTTP/1.1.
#[track_caller]
fn text(start: (&str, &str), fields: Fields<'_>, content: Content) -> String {
    let request = make(Encoding::H1, start, fields, content).unwrap();
    assert_eq!(request.id(), 0);
    assert_eq!(request.fields().count() + request.qpack_section().len(), 0);
    String::from_utf8_lossy(request.h1_head()).into_owned()
}

/// The fields in HTTP/2, checked to be those of HTTP/3.
#[track_caller]
fn section(start: (&str, &str), fields: Fields<'_>, content: Content) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let request = make(Encoding::H2, start, fields, content.clone()).unwrap();
    assert_eq!(request.h1_head().len() + request.qpack_section().len(), 0);
    let h2: Vec<_> = request
        .fields()
        .map(|(n, v, _)| (text(n), text(v)))
        .collect();

    let request = make(Encoding::H3, start, fields, content).unwrap();
    let mut h3 = Vec::new();
    let visit = |name: &[u8], value: &[u8]| -> Result<(), ()> {
        h3.push((text(name), text(value)));
        Ok(())
    };
    trilane_wire::qpack::decode(request.qpack_section(), 1 << 20, &mut Vec::new(), visit).unwrap();
    assert_eq!(h3, h2);
    h2
}

#[test]
fn names_keep_their_case_and_values_their_bytes_in_http_1() {
    let fields: Fields<'_> = &[
        (b"X-Odd-CASE", b"  caf\xe9 \t"),
        (b"accept", b""),
        (b"X-Odd-CASE", b"a\tb"),
    ];
    let request = make(Encoding::H1, ("GET", "/x?y"), fields, whole(b"")).unwrap();
    let expected = b"GET /x?y HTTP/1.1\r\nHost: a.example:81\r\nX-Odd-CASE: caf\xe9\r\naccept: \r\nX-Odd-CASE: a\tb\r\n\r\n";
    assert_eq!(
        request.h1_head().escape_ascii().to_string(),
        expected.escape_ascii().to_string()
    );
}

#[test]
fn names_are_in_lower_case_behind_the_pseudo_fields_otherwise() {
    let fields: Fields<'_> = &[(b"X-Odd-CASE", b" v "), (b"Cookie", b"a=b")];
    let expected = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a.example:81"),
        (":path", "/x"),
        ("x-odd-case", "v"),
        ("cookie", "a=b"),
    ];
    assert_eq!(
        section(("GET", "/x"), fields, whole(b"")),
        expected.map(|(n, v)| (n.into(), v.into()))
    );
    let request = make(Encoding::H2, ("GET", "/x"), fields, whole(b"")).unwrap();
    let ways: Vec<_> = request.fields().map(|(_, _, how)| how).collect();
    assert_eq!(
        ways[3..],
        [Indexing::Without, Indexing::Incremental, Indexing::Never]
    );
}

#[test]
fn a_host_field_stands_where_it_was_put_and_is_the_authority() {
    let fields: Fields<'_> = &[(b"A", b"1"), (b"HOST", b"b.example"), (b"B", b"2")];
    assert_eq!(
        text(("GET", "/"), fields, whole(b"")),
        "GET / HTTP/1.1\r\nA: 1\r\nHOST: b.example\r\nB: 2\r\n\r\n"
    );
    let section = section(("GET", "/"), fields, whole(b""));
    assert_eq!(section[2], (":authority".into(), "b.example".into()));
    assert!(section.iter().all(|(name, _)| name != "host"));
}

#[test]
fn another_protocol_is_asked_for_in_the_words_of_each_version() {
    let switched = |name: &str| Content::Switched(name.to_owned());
    let fields: Fields<'_> = &[(b"Sec-WebSocket-Version", b"13")];
    assert_eq!(
        text(("GET", "/chat"), fields, switched("websocket")),
        "GET /chat HTTP/1.1\r\nHost: a.example:81\r\nSec-WebSocket-Version: 13\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    );
    let expected = [
        (":method", "CONNECT"),
        (":scheme", "https"),
        (":authority", "a.example:81"),
        (":path", "/chat"),
        (":protocol", "websocket"),
        ("sec-websocket-version", "13"),
    ];
    assert_eq!(
        section(("GET", "/chat"), fields, switched("websocket")),
        expected.map(|(n, v)| (n.into(), v.into()))
    );
    for version in VERSIONS {
        for name in ["", "web socket", "a\r\nb: c"] {
            let refused = make(version, ("GET", "/"), &[], switched(name));
            assert!(
                matches!(refused, Err(RequestError::FieldValue(_))),
                "{name:?}"
            );
        }
        let length: Fields<'_> = &[(b"content-length", b"0")];
        let refused = make(version, ("GET", "/"), length, switched("websocket"));
        assert!(matches!(refused, Err(RequestError::Forbidden(_))));
    }
}

#[test]
fn a_length_is_added_where_there_is_one_to_tell() {
    for (method, content, line) in [
        ("GET", whole(b""), ""),
        ("DELETE", whole(b""), ""),
        ("GET", whole(b"abc"), "Content-Length: 3\r\n"),
        ("POST", whole(b""), "Content-Length: 0\r\n"),
        ("PUT", whole(b""), "Content-Length: 0\r\n"),
        ("PATCH", whole(b""), "Content-Length: 0\r\n"),
        ("GET", streamed(Some(7)), "Content-Length: 7\r\n"),
        ("GET", streamed(Some(0)), "Content-Length: 0\r\n"),
        ("PUT", streamed(None), "Transfer-Encoding: chunked\r\n"),
        ("PUT", RAW, ""),
    ] {
        assert_eq!(
            text((method, "/"), &[], content),
            format!("{method} / HTTP/1.1\r\nHost: a.example:81\r\n{line}\r\n")
        );
    }
    let length = |content| section(("PUT", "/"), &[], content).get(4).cloned();
    assert_eq!(
        length(whole(b"abc")),
        Some(("content-length".into(), "3".into()))
    );
    assert_eq!(
        length(streamed(Some(7))),
        Some(("content-length".into(), "7".into()))
    );
    assert_eq!(length(streamed(None)), None);
}

#[test]
fn a_length_that_is_given_is_right_and_not_added_again() {
    let five: Fields<'_> = &[(b"content-LENGTH", b"5")];
    for content in [whole(b"hello"), streamed(Some(5)), streamed(None), RAW] {
        assert_eq!(
            text(("PUT", "/"), five, content),
            "PUT / HTTP/1.1\r\nHost: a.example:81\r\ncontent-LENGTH: 5\r\n\r\n"
        );
    }
    assert_eq!(section(("PUT", "/"), five, streamed(None)).len(), 5);
    for content in [whole(b""), whole(b"hell"), streamed(Some(6))] {
        for version in VERSIONS {
            let error = make(version, ("PUT", "/"), five, content.clone()).unwrap_err();
            assert!(matches!(error, RequestError::Forbidden(_)), "{error}");
        }
    }
    let twice: Fields<'_> = &[(b"content-length", b"5"), (b"Content-Length", b"5")];
    make(Encoding::H1, ("PUT", "/"), twice, whole(b"hello")).unwrap_err();
    let word: Fields<'_> = &[(b"content-length", b"+5")];
    make(Encoding::H1, ("PUT", "/"), word, whole(b"hello")).unwrap_err();
}

#[test]
fn only_raw_content_has_a_coding_of_its_own_that_ends_in_chunks() {
    let chunked: Fields<'_> = &[(b"Transfer-Encoding", b"gzip, chunked")];
    assert_eq!(
        text(("PUT", "/"), chunked, RAW),
        "PUT / HTTP/1.1\r\nHost: a.example:81\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"
    );
    for content in [whole(b""), whole(b"x"), streamed(None), streamed(Some(1))] {
        make(Encoding::H1, ("PUT", "/"), chunked, content).unwrap_err();
    }
    for fields in [
        &[(&b"transfer-encoding"[..], &b"gzip"[..])][..],
        &[(b"transfer-encoding", b"chunked, gzip")],
        &[(b"transfer-encoding", b"xchunked")],
        &[(b"transfer-encoding", b"")],
        &[
            (b"transfer-encoding", b"chunked"),
            (b"content-length", b"3"),
        ],
        &[
            (b"transfer-encoding", b"chunked"),
            (b"transfer-encoding", b"chunked"),
        ],
    ] {
        let error = make(Encoding::H1, ("PUT", "/"), fields, RAW).unwrap_err();
        assert!(matches!(error, RequestError::Forbidden(_)), "{error}");
    }
    for version in [Encoding::H2, Encoding::H3] {
        make(version, ("PUT", "/"), &[], RAW).unwrap_err();
    }
}

#[test]
fn fields_of_a_connection_stay_out_of_http_2_and_3() {
    let fields: Fields<'_> = &[
        (b"Connection", b"keep-alive"),
        (b"Keep-Alive", b"timeout=5"),
        (b"Proxy-Connection", b"close"),
        (b"Upgrade", b"h2c"),
        (b"TE", b"gzip"),
        (b"Transfer-Encoding", b"chunked"),
    ];
    assert_eq!(section(("GET", "/"), fields, whole(b"")).len(), 4);
    let te: Fields<'_> = &[(b"TE", b"Trailers")];
    assert_eq!(
        section(("GET", "/"), te, whole(b""))[4],
        ("te".into(), "Trailers".into())
    );
    assert!(text(("GET", "/"), &fields[..3], whole(b"")).contains("\r\nKeep-Alive: timeout=5\r\n"));
    // A server that takes it up would speak what we cannot.
    make(Encoding::H1, ("GET", "/"), &fields[3..4], whole(b"")).unwrap_err();
    let close: Fields<'_> = &[(b"connection", b"x, CLOSE")];
    assert!(
        make(Encoding::H1, ("GET", "/"), close, whole(b""))
            .unwrap()
            .closes()
    );
}

#[test]
fn targets_have_the_forms_of_their_version() {
    for (method, path, versions) in [
        ("GET", "/", 3),
        ("OPTIONS", "*", 3),
        ("M-SEARCH", "*", 1),
        ("GET", "http://b.example/x", 1),
        ("CONNECT", "b.example:443", 1),
        ("CONNECT", "[::1]:443", 1),
        ("CONNECT", "/", 0),
        ("CONNECT", "a@b.example:443", 0),
        ("CONNECT", "", 0),
        ("GET", "", 0),
        ("GET", "x", 0),
        ("GET", "://x", 0),
        ("GET", "/ HTTP/1.1", 0),
        ("GET", "/\r\nX: y", 0),
        ("GET", "/\0", 0),
        ("GET", "/\u{e9}", 0),
        ("GET", "http://b.example/\r\n\r\n", 0),
        ("GE T", "/", 0),
        ("GET\r\n", "/", 0),
        ("", "/", 0),
    ] {
        let taken = VERSIONS
            .into_iter()
            .filter(|&version| make(version, (method, path), &[], whole(b"")).is_ok());
        assert_eq!(taken.count(), versions, "{method:?} {path:?}");
    }
    assert_eq!(
        text(("CONNECT", "b.example:443"), &[], whole(b"")),
        "CONNECT b.example:443 HTTP/1.1\r\nHost: a.example:81\r\n\r\n"
    );
    make(Encoding::H1, ("CONNECT", "b:1"), &[], whole(b"x")).unwrap_err();
    make(Encoding::H1, ("CONNECT", "b:1"), &[], streamed(None)).unwrap_err();
}

#[test]
fn nothing_splits_a_request() {
    for version in VERSIONS {
        let refused =
            |fields: Fields<'_>| make(version, ("GET", "/"), fields, whole(b"")).unwrap_err();
        for value in [
            &b"a\r\nb: c"[..],
            b"a\nb",
            b"a\rb",
            b"a\r\n",
            b"\na",
            b"a\0",
            b"\x01",
            b"a\x7f",
            b"a\x0b",
        ] {
            assert_eq!(
                refused(&[(b"X", value)]),
                RequestError::FieldValue("X".into()),
                "{}",
                value.escape_ascii()
            );
            assert_eq!(
                refused(&[(b"Host", value)]),
                RequestError::FieldValue("Host".into())
            );
        }
        for name in [
            &b""[..],
            b"a b",
            b"a:",
            b":path",
            b"a\r\n",
            b"\xe9",
            b"a\0",
            b"(x)",
        ] {
            let error = refused(&[(name, b"v")]);
            assert!(matches!(error, RequestError::FieldName(_)), "{error}");
        }
        for host in ["a b", "a/b", "a?b", "a#b", "user@a", "a\\b", "\u{e9}"] {
            assert_eq!(
                refused(&[(b"Host", host.as_bytes())]),
                RequestError::Authority(host.into())
            );
        }
        let twice: Fields<'_> = &[(b"Host", b"a"), (b"host", b"a")];
        assert_eq!(refused(twice), RequestError::Forbidden("host".into()));
    }
}

#[test]
fn only_http_1_does_without_a_host_and_a_scheme() {
    let parts = OneOff {
        method: "GET",
        scheme: "ht tp",
        authority: "",
        path: "/",
        fields: &[],
        content: whole(b""),
    };
    let request = Request::one_off(Encoding::H1, &parts).unwrap();
    assert_eq!(request.h1_head(), b"GET / HTTP/1.1\r\nHost: \r\n\r\n");
    for version in [Encoding::H2, Encoding::H3] {
        assert_eq!(
            Request::one_off(version, &parts).unwrap_err(),
            RequestError::Scheme("ht tp".into())
        );
        let parts = OneOff {
            scheme: "http",
            ..parts.clone()
        };
        assert_eq!(
            Request::one_off(version, &parts).unwrap_err(),
            RequestError::Authority(String::new())
        );
    }
}
