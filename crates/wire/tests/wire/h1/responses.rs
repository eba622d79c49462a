//! What a response is: heads, bodies and their ends (RFC 9112 §6.3), and what then becomes of the
//! connection.

use trilane_wire::h1::Limits;
use trilane_wire::{End, ErrorKind, Unprocessed};

use super::common::{Event, Script, answer, answer_then_close, answer_to, play};

#[test]
fn a_head_is_reported_as_it_came() {
    let head = b"HTTP/1.1 404 Not Found\r\nServer: x\r\nCONTENT-length:2\r\nSet-Cookie:  a \t\r\nset-cookie: b\xff\r\nEmpty:\r\n\r\n";
    let outcome = answer(&[&head[..], b"no"].concat());
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        outcome.all(),
        [
            Event::Head {
                status: 404,
                length: Some(2),
                bytes: head.len(),
                fields: vec![
                    pair("server", "x"),
                    pair("content-length", "2"),
                    pair("set-cookie", "a"),
                    pair("set-cookie", "b\\xff"),
                    pair("empty", ""),
                ],
            },
            Event::Data(b"no".to_vec()),
            Event::End(None),
        ]
    );
    assert_eq!((outcome.outstanding, outcome.closing), (0, false));
}

#[test]
fn the_reason_phrase_may_be_empty_or_missing() {
    for line in [
        "HTTP/1.1 200 OK",
        "HTTP/1.1 200 ",
        "HTTP/1.1 200",
        "HTTP/1.1 200 \tno \u{e9}",
    ] {
        let outcome = answer(format!("{line}\r\nContent-Length: 0\r\n\r\n").as_bytes());
        assert_eq!((outcome.status(), outcome.ended()), (200, true), "{line}");
    }
    assert_eq!(
        answer(b"HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n").status(),
        999
    );
}

#[test]
fn a_length_ends_the_body() {
    for lengths in [
        "Content-Length: 5",
        "Content-Length: 5, 5",
        "content-length: 05\r\nContent-Length: 5",
    ] {
        let outcome = answer(format!("HTTP/1.1 200 OK\r\n{lengths}\r\n\r\nhello").as_bytes());
        assert_eq!((outcome.body(), outcome.ended()), (b"hello".to_vec(), true));
        assert!(!outcome.closing);
    }
}

#[test]
fn some_responses_have_no_body_whatever_they_say() {
    for fields in [
        "Content-Length: 7\r\n",
        "Transfer-Encoding: chunked\r\n",
        "",
    ] {
        for status in [204, 304] {
            let head = format!("HTTP/1.1 {status} x\r\n{fields}\r\n");
            let outcome = answer(head.as_bytes());
            assert!(outcome.ended() && !outcome.closing, "{head}");
        }
        let outcome = answer_to(
            "HEAD",
            format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes(),
        );
        assert!(outcome.ended() && !outcome.closing);
    }
}

#[test]
fn chunks_are_joined_and_their_trailers_reported() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n";
    let outcome = answer(format!("{head}3\r\nabc\r\n5;x=\"y\"\r\ndefgh\r\n0\r\n\r\n").as_bytes());
    assert_eq!(outcome.body(), b"abcdefgh");
    assert_eq!(outcome.all().last(), Some(&Event::End(None)));
    assert!(!outcome.closing);

    let outcome = answer(format!("{head}0\r\nX-Sum: 1\r\nB: 2\r\n\r\n").as_bytes());
    let trailers = vec![("x-sum".into(), "1".into()), ("b".into(), "2".into())];
    assert_eq!(outcome.all().last(), Some(&Event::End(Some(trailers))));
}

#[test]
fn a_body_without_length_goes_on_until_the_close() {
    for head in [
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n",
    ] {
        let outcome = answer_then_close(format!("{head}all of it").as_bytes());
        assert_eq!(outcome.body(), b"all of it");
        assert!(outcome.ended() && outcome.closing);
        assert_eq!(answer(head.as_bytes()).outstanding, 1);
        assert!(answer_then_close(head.as_bytes()).ended());
    }
}

#[test]
fn informational_responses_come_before_the_final_one() {
    let input = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let outcome = answer(input);
    let all = outcome.all();
    assert!(
        matches!(
            all[0],
            Event::Informational {
                status: 100,
                bytes: 25,
                ..
            }
        ),
        "{all:?}"
    );
    let Event::Informational {
        status: 103,
        ref fields,
        ..
    } = all[1]
    else {
        panic!("{all:?}")
    };
    assert_eq!(fields[..], [("link".into(), "</a>".into())]);
    assert!(matches!(all[2], Event::Head { status: 200, .. }));
    assert!(outcome.ended());
}

#[test]
fn informational_responses_are_limited() {
    let hints = b"HTTP/1.1 103 x\r\n\r\n".repeat(4);
    let limits = Limits {
        informational: 3,
        ..Limits::default()
    };
    let outcome = play(&Script {
        limits,
        ..Script::new(&[&hints])
    });
    assert_eq!(outcome.all().len(), 4);
    assert_eq!(outcome.failure().unwrap().kind, ErrorKind::Limit);
    // The count is that of one request.
    let few = [&hints[..36], b"HTTP/1.1 204 x\r\n\r\n"].concat();
    let outcome = play(&Script {
        limits,
        ..Script::new(&[&few, &few, &few])
    });
    assert_eq!(outcome.all().len(), 12);
}

#[test]
fn a_protocol_is_not_switched_unasked() {
    let outcome = answer(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n");
    let error = outcome.failure().unwrap();
    assert_eq!(
        error.reason,
        "the server switched protocols without being asked"
    );
    assert_eq!(error.kind, ErrorKind::Protocol);
}

#[test]
fn the_server_says_whether_the_connection_stays() {
    for (version, fields, closing) in [
        ("1.1", "", false),
        ("1.1", "Connection: close\r\n", true),
        ("1.1", "Connection: foo, CLOSE\r\n", true),
        ("1.1", "Connection: foo\r\nConnection: close\r\n", true),
        ("1.1", "Connection: keep-alive\r\n", false),
        ("1.1", "Connection: closed\r\n", false),
        ("1.0", "", true),
        ("1.0", "Connection: Keep-Alive\r\n", false),
        ("1.0", "Connection: keep-alive, close\r\n", true),
    ] {
        let input = format!("HTTP/{version} 200 OK\r\n{fields}Content-Length: 1\r\n\r\nx");
        let outcome = answer(input.as_bytes());
        assert!(outcome.ended());
        assert_eq!(outcome.closing, closing, "{input}");
    }
}

#[test]
fn an_equal_head_means_the_same_again() {
    let ok = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
    let other = b"HTTP/1.1 500 no\r\nContent-Length: 3\r\n\r\nabc";
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    let close = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx";
    let outcome = play(&Script::new(&[
        ok, ok, other, other, ok, chunked, chunked, close, ok,
    ]));
    let heads = outcome
        .all()
        .iter()
        .filter(|event| matches!(event, Event::Head { .. }))
        .count();
    assert_eq!(
        (heads, outcome.closing),
        (8, true),
        "nothing is sent behind the last"
    );
    let numbers: Vec<_> = outcome
        .events
        .iter()
        .map(|(stream, _)| (stream.number, stream.slot))
        .collect();
    assert_eq!((numbers[0], numbers[3]), ((1, 0), (2, 1)));
}

#[test]
fn bytes_after_a_complete_response_close_the_connection() {
    for extra in [
        &b"x"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"\r\n",
    ] {
        let input = [b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", extra].concat();
        let outcome = answer(&input);
        assert!(outcome.ended(), "the response itself was complete");
        let error = outcome.error.unwrap();
        assert_eq!(error.kind, ErrorKind::Protocol);
        assert_eq!(error.reason, "bytes arrived after a complete response");
        assert!(outcome.closing);
    }
}

#[test]
fn a_body_that_runs_until_close_is_complete_at_a_clean_end_only() {
    let open = &b"HTTP/1.1 200 OK\r\n\r\nall of it, perhaps"[..];
    let chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n";
    for answer in [open, chunks] {
        let ended = |end| {
            play(&Script {
                eof: Some(end),
                ..Script::new(&[answer])
            })
            .failure()
        };
        assert_eq!(ended(End::Clean), None);
        for (cut, word) in [(End::Reset, "reset"), (End::Truncated, "TLS")] {
            let error = ended(cut).unwrap();
            assert_eq!(error.kind, ErrorKind::Body);
            assert_eq!(error.unprocessed, Unprocessed::Unknown);
            assert!(error.reason.contains(word), "{error}");
        }
    }
}

#[test]
fn a_close_tells_whether_to_send_again() {
    let ok = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
    let length = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nx";
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    use Unprocessed::{Likely, Unknown};
    for (answers, kind, unprocessed) in [
        (&[&b""[..]][..], ErrorKind::Closed, Unknown),
        // It may have closed what lay idle, and may have read the request: that is no proof.
        (&[ok, b""], ErrorKind::Closed, Likely),
        (&[ok, b"H"], ErrorKind::Closed, Unknown),
        (&[ok, b"HTTP/1.1 103 x\r\n\r\n"], ErrorKind::Closed, Unknown),
        (&[ok, length], ErrorKind::Body, Unknown),
        (&[ok, chunked], ErrorKind::Body, Unknown),
        (
            &[&[&chunked[..], b"1\r\nx"].concat()],
            ErrorKind::Body,
            Unknown,
        ),
        (
            &[&[&chunked[..], b"0\r\nA: b\r\n"].concat()],
            ErrorKind::Body,
            Unknown,
        ),
    ] {
        let outcome = play(&Script {
            eof: Some(End::Clean),
            ..Script::new(answers)
        });
        let error = outcome.failure().unwrap();
        assert_eq!(
            (error.kind, error.unprocessed),
            (kind, unprocessed),
            "{answers:?}"
        );
        assert_eq!((outcome.outstanding, outcome.closing), (0, true));
    }
    let idle = play(&Script {
        eof: Some(End::Clean),
        ..Script::new(&[ok])
    });
    assert!(idle.ended() && idle.closing);
}

#[test]
fn content_is_complete_with_its_last_chunk() {
    for end in ["0\r\n", "0\r\n\r", "0;last\r\n"] {
        let input = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n{end}");
        let outcome = answer_then_close(input.as_bytes());
        assert!(outcome.ended() && outcome.closing, "{end:?}");
        assert_eq!(outcome.body(), b"x");
    }
}
