//! What is refused, and in which words.

use trilane_wire::h1::{Connection, Limits};
use trilane_wire::{End, ErrorKind, Unprocessed};

use super::common::{Event, Recorder, Script, answer, play, request};

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

#[track_caller]
fn refused(input: &[u8], reason: &str) {
    let outcome = answer(input);
    let error = outcome
        .error
        .unwrap_or_else(|| panic!("accepted: {}", input.escape_ascii()));
    assert_eq!(
        (error.kind, error.reason, error.code),
        (ErrorKind::Protocol, reason, 0)
    );
    let failure = outcome.failure().unwrap();
    assert_eq!((failure.kind, failure.reason), (error.kind, error.reason));
    assert_eq!(failure.unprocessed, Unprocessed::Unknown);
    assert_eq!((outcome.outstanding, outcome.closing), (0, true));
}

#[test]
fn what_is_not_http_is_refused_at_its_first_wrong_byte() {
    let version = "the response does not begin with HTTP/1.0 or HTTP/1.1";
    for input in [
        "SSH-2.0-x\r\n",
        "HTTP/2",
        "HTTP/1.2 ",
        "HTTP/1.",
        "http/1.1",
        "\r\nHTTP/1.1",
        "ICY 200",
    ] {
        if "HTTP/1.".starts_with(input) {
            assert_eq!(answer(input.as_bytes()).error, None);
        } else {
            refused(input.as_bytes(), version);
        }
    }
    refused(
        b"\x15\x03\x01\0\x02\x02\x50",
        "the server answered with TLS: try https",
    );
    refused(
        b"\0\0\x06\x04\0\0\0\0\0",
        "the server answered with HTTP/2 frames",
    );
    let code = "the status code is not a number of three digits";
    for input in [
        "HTTP/1.1  200",
        "HTTP/1.1\t200",
        "HTTP/1.1 20x",
        "HTTP/1.1 099 ",
        "HTTP/1.1 -1",
    ] {
        refused(input.as_bytes(), code);
    }
    refused(b"HTTP/1.1 2000 OK\r\n\r\n", "the status line is malformed");
    refused(b"HTTP/1.1 200 O\0K\r\n\r\n", "the status line is malformed");
}

#[test]
fn a_line_of_a_head_may_end_with_lf_alone() {
    for head in [
        &b"HTTP/1.1 200 OK\nA: b\nContent-Length: 2\n\n"[..],
        b"HTTP/1.1 200 OK\r\nA: b\nContent-Length: 2\r\n\n",
        b"HTTP/1.1 200 OK\nA: b\r\nContent-Length: 2\n\r\n",
        b"HTTP/1.1 200\nA: b\nContent-Length:2\n\n",
    ] {
        let outcome = answer(&[head, b"hi"].concat());
        assert_eq!(outcome.error, None, "{}", head.escape_ascii());
        assert_eq!(outcome.body(), b"hi");
        let Event::Head { fields, bytes, .. } = &outcome.events[0].1 else {
            panic!("no head");
        };
        let expected = [("a", "b"), ("content-length", "2")];
        assert_eq!(*fields, expected.map(|(n, v)| (n.into(), v.into())));
        assert_eq!(*bytes, head.len());
    }
}

#[test]
fn a_line_ends_nowhere_else() {
    let value = "a field value has a control character";
    refused(b"HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n", value);
    refused(b"HTTP/1.1 200 OK\r\nA: b\r\r\n\r\n", value);
    refused(b"HTTP/1.1 200 O\rK\r\n\r\n", "the status line is malformed");
    for trailers in ["A: b\n\r\n", "A: b\r\n\n", "\n"] {
        refused(
            format!("{CHUNKED}0\r\n{trailers}").as_bytes(),
            "a trailer line ends with LF instead of CRLF",
        );
    }
}

#[test]
fn what_frames_a_message_is_judged_without_its_folds() {
    for (line, reason) in [
        (
            "Content-Length: 1\r\n 0",
            "the Content-Length is not a number",
        ),
        (
            "Transfer-Encoding: chunked,\r\n\tchunked",
            "the transfer coding is not chunked",
        ),
        (
            "Transfer-Encoding: chun\r\n ked",
            "the transfer coding is not chunked",
        ),
        (
            "Transfer-Encoding\r\n : chunked",
            "a field name is not a token",
        ),
    ] {
        refused(
            format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n").as_bytes(),
            reason,
        );
    }
}

#[test]
fn a_fold_continues_a_field_line_and_nothing_else() {
    let name = "a field name is not a token";
    for start in ["HTTP/1.1 200 OK\r\n", &format!("{CHUNKED}0\r\n")] {
        for line in [" A: b", "\tA: b", " \r\n A: b", " \r\n\tA: b\r\nC: d"] {
            refused(format!("{start}{line}\r\n\r\n").as_bytes(), name);
        }
    }
}

#[test]
fn fields_are_strict() {
    let name = "a field name is not a token";
    for line in ["A : b", " A: b", ": b", "A", "A\0: b", "A(: b", "\u{e9}: b"] {
        refused(
            format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n").as_bytes(),
            name,
        );
        refused(format!("{CHUNKED}0\r\n{line}\r\n\r\n").as_bytes(), name);
    }
    for line in ["A: \0", "A: \x01", "A: b\x7f"] {
        refused(
            format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n").as_bytes(),
            "a field value has a control character",
        );
    }
}

#[test]
fn a_message_has_one_length() {
    for (fields, reason) in [
        (
            "Content-Length: 5\r\nContent-Length: 6",
            "two values of Content-Length differ",
        ),
        (
            "Content-Length: 5, 6",
            "two values of Content-Length differ",
        ),
        ("Content-Length: ", "the Content-Length is not a number"),
        ("Content-Length: -1", "the Content-Length is not a number"),
        ("Content-Length: +1", "the Content-Length is not a number"),
        ("Content-Length: 0x5", "the Content-Length is not a number"),
        ("Content-Length: 5,", "the Content-Length is not a number"),
        (
            "Content-Length: 18446744073709551616",
            "the Content-Length is not a number",
        ),
        (
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "both Transfer-Encoding and Content-Length are there",
        ),
        (
            "Transfer-Encoding:\r\nContent-Length: 5",
            "both Transfer-Encoding and Content-Length are there",
        ),
        (
            "Transfer-Encoding: gzip",
            "the transfer coding is not chunked",
        ),
        (
            "Transfer-Encoding: gzip, chunked",
            "the transfer coding is not chunked",
        ),
        (
            "Transfer-Encoding: chunked, chunked",
            "the transfer coding is not chunked",
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "the transfer coding is not chunked",
        ),
        (
            "Transfer-Encoding: identity",
            "the transfer coding is not chunked",
        ),
        (
            "Transfer-Encoding: xchunked",
            "the transfer coding is not chunked",
        ),
        (
            "Transfer-Encoding: \"chunked\"",
            "the transfer coding is not chunked",
        ),
        ("Transfer-Encoding: ", "the transfer coding is not chunked"),
    ] {
        refused(
            format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n").as_bytes(),
            reason,
        );
    }
    refused(
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "Transfer-Encoding in a response of HTTP/1.0",
    );
}

#[test]
fn chunks_are_strict() {
    for (chunks, reason) in [
        ("x", "a chunk-size line is malformed"),
        ("1\n", "a chunk-size line is malformed"),
        ("\r\n", "a chunk-size line is malformed"),
        ("1;\n", "a chunk-size line is malformed"),
        ("1\r\nxy", "a chunk is longer than its size"),
        ("1\r\nx\n", "a chunk is longer than its size"),
        ("fffffffffffffffff\r\n", "a chunk size exceeds 64 bits"),
    ] {
        refused(format!("{CHUNKED}{chunks}").as_bytes(), reason);
    }
}

#[test]
fn everything_a_peer_can_grow_is_limited() {
    let limits = Limits {
        head_bytes: 64,
        fields: 2,
        informational: 1,
    };
    let over = |input: &str, reason: &str| {
        let outcome = play(&Script {
            limits,
            ..Script::new(&[input.as_bytes()])
        });
        let error = outcome
            .error
            .unwrap_or_else(|| panic!("accepted {input:?}"));
        assert_eq!((error.kind, error.reason), (ErrorKind::Limit, reason));
    };
    let within = |input: &str| {
        let outcome = play(&Script {
            limits,
            ..Script::new(&[input.as_bytes()])
        });
        assert!(outcome.error.is_none() && outcome.ended(), "{input:?}");
    };
    // 16 + 5 of the status line and the name, 4 for the two line ends.
    let head =
        |length: usize| format!("HTTP/1.1 204 x\r\nAbc: {}\r\n\r\n", "v".repeat(length - 25));
    within(&head(64));
    over(&head(65), "the response head is larger than the limit");
    over(&head(1000), "the response head is larger than the limit");
    within("HTTP/1.1 204 x\r\nA: b\r\nC: d\r\n\r\n");
    over(
        "HTTP/1.1 204 x\r\nA: b\r\nC: d\r\nE: f\r\n\r\n",
        "more fields than the limit",
    );
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    over(
        &format!("{chunked}1;{}", "e".repeat(64)),
        "a chunk-size line is longer than the limit",
    );
    over(
        &format!("{chunked}{}", "0".repeat(65)),
        "a chunk-size line is longer than the limit",
    );
    over(
        &format!("{chunked}0\r\nT: {}", "t".repeat(64)),
        "the trailers are larger than the limit",
    );
    over(
        &format!("{chunked}0\r\nA: b\r\nC: d\r\nE: f\r\n\r\n"),
        "more fields than the limit",
    );
    // Many chunks are not a long line.
    within(&format!("{chunked}{}0\r\n\r\n", "1;e\r\nx\r\n".repeat(50)));
}

#[test]
fn a_lost_connection_stays_lost() {
    let mut connection = Connection::new(Limits::default());
    let (mut events, mut out) = (Recorder::<true>::default(), Vec::new());
    connection
        .send(&request("GET", &[], b""), 0, &mut out)
        .unwrap();
    connection
        .receive(b"garbage", &mut events, &mut out)
        .unwrap_err();
    connection
        .receive(b"HTTP/1.1 200 OK\r\n", &mut events, &mut out)
        .unwrap_err();
    connection.eof(End::Clean, &mut events);
    assert_eq!(events.events.len(), 1, "one failure for one request");
    assert!(connection.is_closing());
    assert_eq!((connection.capacity(), connection.outstanding()), (0, 0));
}
