//! The quick reader and the strict one agree, at every split, on anything.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use trilane_wire::End;
use trilane_wire::h1::Limits;

use super::common::{Script, play};

/// Status lines, ordinary ones most often.
fn status_line() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => select(vec![200u16, 204, 206, 304, 404, 503])
            .prop_map(|code| format!("HTTP/1.1 {code} Reason")),
        1 => select(vec![
            "HTTP/1.0 200 OK", "HTTP/1.1 200", "HTTP/1.1 200 ", "HTTP/1.1 200 \u{e9}\t",
            "HTTP/1.1 103 Early Hints", "HTTP/1.1 101 Switching", "HTTP/1.1 099 x", "HTTP/2 200",
        ])
        .prop_map(str::to_owned),
    ]
}

/// Field lines, ordinary ones most often. Those that say where the body ends are among them.
fn field_line() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => select(vec![
            "Server: nginx/1.26.0", "Date: Sun, 29 Nov 2026 12:00:00 GMT", "ETag: \"65c-2a\"",
            "Content-Type: text/plain; charset=utf-8", "Accept-Ranges: bytes", "X: ", "Vary:*",
        ])
        .prop_map(str::to_owned),
        4 => (0u64..20).prop_map(|length| format!("Content-Length: {length}")),
        2 => select(vec![
            "Connection: keep-alive", "Connection: close", "connection: x , Close", "Connection:",
            "Transfer-Encoding: chunked", "transfer-encoding:CHUNKED", "Transfer-Encoding: gzip",
            "Content-Length: 3, 3", "Content-Length: x", "CONTENT-LENGTH:\t4 ",
        ])
        .prop_map(str::to_owned),
        1 => ("[!-~]{0,18}", "[ -~\t\u{80}-\u{ff}]{0,40}")
            .prop_map(|(name, value)| format!("{name}:{value}")),
    ]
}

fn body() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,19}",
        Just("3\r\nabc\r\n0\r\n\r\n".to_owned()),
        Just("3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\n".to_owned()),
    ]
}

/// An answer, sometimes with a few of its bytes changed, left out or doubled.
fn answer() -> impl Strategy<Value = Vec<u8>> {
    let change = (
        any::<Index>(),
        0..3,
        select(b"\r\n\0 \t:,;x0\x7f\xff".to_vec()),
    );
    let parts = (
        status_line(),
        prop::collection::vec(field_line(), 0..6),
        prop::option::weighted(0.7, 0u64..20),
        body(),
    );
    (
        parts,
        prop::option::weighted(0.5, prop::collection::vec(change, 1..4)),
    )
        .prop_map(|((status, mut fields, exact, body), changes)| {
            let mut body = body;
            // Most answers should be right, or only errors would be compared.
            if let Some(length) = exact {
                fields.retain(|line| {
                    let line = line.to_ascii_lowercase();
                    !line.starts_with("content-length") && !line.starts_with("transfer-encoding")
                });
                if body.contains("\r\n") {
                    fields.push("Transfer-Encoding: chunked".into());
                } else {
                    body = "x".repeat(length as usize);
                    fields.push(format!("Content-Length: {length}"));
                }
            }
            fields.insert(0, status);
            let mut bytes = format!("{}\r\n\r\n{body}", fields.join("\r\n")).into_bytes();
            for (at, how, byte) in changes.unwrap_or_default() {
                let at = at.index(bytes.len());
                match how {
                    0 => bytes[at] = byte,
                    1 => bytes.insert(at, byte),
                    _ if bytes.len() > 1 => drop(bytes.remove(at)),
                    _ => {}
                }
            }
            bytes
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_readers_agree_at_every_split(
        first in answer(),
        second in prop::option::of(answer()),
        method in select(vec!["GET", "GET", "HEAD"]),
        eof: bool,
        small: bool,
    ) {
        // The same answer twice meets the memory of the first.
        let second = second.unwrap_or_else(|| first.clone());
        let limits = if small {
            Limits { head_bytes: 90, fields: 3, informational: 1 }
        } else {
            Limits::default()
        };
        play(&Script { method, limits, answers: &[&first, &second, &first], eof: eof.then_some(End::Clean) });
    }

    #[test]
    fn arbitrary_bytes_are_judged_alike_at_every_split(
        tail in prop::collection::vec(select(b"\r\n\r\n :aA10;,\0\xff".to_vec()), 0..60),
        prefix in select(vec!["", "HTTP/1.1 200 ", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"]),
    ) {
        let answer = [prefix.as_bytes(), &tail].concat();
        play(&Script { eof: Some(End::Clean), ..Script::new(&[&answer]) });
    }
}
