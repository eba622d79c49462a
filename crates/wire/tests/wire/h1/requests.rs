//! What is sent, and when.

use trilane_wire::Refused;
use trilane_wire::h1::{Connection, Limits};

use super::common::{Event, Recorder, request};

fn connection() -> (Connection, Recorder<true>, Vec<u8>) {
    (
        Connection::new(Limits::default()),
        Recorder::default(),
        Vec::new(),
    )
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

#[test]
fn one_request_at_a_time() {
    let (mut connection, mut events, mut out) = connection();
    let get = request("GET", &[], b"");
    assert_eq!((connection.capacity(), connection.outstanding()), (1, 0));
    let first = connection.send(&get, 7, &mut out).unwrap();
    assert_eq!((first.number, first.slot), (1, 7));
    assert_eq!(out, get.h1_head());
    assert_eq!((connection.capacity(), connection.outstanding()), (0, 1));
    assert_eq!(connection.send(&get, 8, &mut out), Err(Refused::Full));
    assert_eq!(out, get.h1_head(), "a refusal leaves no trace");

    connection.receive(OK, &mut events, &mut out).unwrap();
    let second = connection.send(&get, 9, &mut out).unwrap();
    assert_eq!((second.number, second.slot), (2, 9));
}

#[test]
fn a_small_body_goes_with_its_head() {
    let (mut connection, _, mut out) = connection();
    let post = request("POST", &[], b"hello");
    connection.send(&post, 0, &mut out).unwrap();
    assert!(out.ends_with(b"\r\nContent-Length: 5\r\n\r\nhello"));
    assert!(!connection.has_output());
}

#[test]
fn a_large_body_follows_in_pieces() {
    let (mut connection, mut events, mut out) = connection();
    let body: Vec<u8> = (0..1_200_000).map(|n| (n % 251) as u8).collect();
    let post = request("POST", &[], &body);
    connection.send(&post, 0, &mut out).unwrap();
    let mut sent = Vec::new();
    let mut pieces = 0;
    while connection.has_output() {
        assert!(out.len() <= 256 * 1024);
        sent.append(&mut out);
        // A full buffer takes no more, and nothing is lost by asking.
        out.resize(256 * 1024, 0);
        connection.produce(&mut out);
        assert_eq!(out.len(), 256 * 1024);
        out.clear();
        connection.produce(&mut out);
        pieces += 1;
    }
    sent.append(&mut out);
    assert_eq!(pieces, 4);
    assert_eq!(sent, [post.h1_head(), &body].concat());
    connection.produce(&mut out);
    assert_eq!(out, b"");

    connection.receive(OK, &mut events, &mut out).unwrap();
    assert_eq!(
        connection.capacity(),
        1,
        "the body was sent, so the connection stays"
    );
}

#[test]
fn an_answer_to_half_a_request_is_the_last() {
    let (mut connection, mut events, mut out) = connection();
    let post = request("POST", &[], &[b'x'; 400_000]);
    connection.send(&post, 0, &mut out).unwrap();
    connection
        .receive(
            b"HTTP/1.1 413 no\r\nContent-Length: 3\r\n\r\nbi",
            &mut events,
            &mut out,
        )
        .unwrap();
    assert!(connection.has_output(), "the server may yet read on");
    connection.receive(b"g", &mut events, &mut out).unwrap();
    assert!(matches!(events.events.last(), Some((_, Event::End(None)))));
    assert!(connection.is_closing() && !connection.has_output());
    assert_eq!(connection.send(&post, 0, &mut out), Err(Refused::Draining));
}

#[test]
fn a_request_that_closes_is_the_last() {
    for value in ["close", "foo, Close"] {
        let (mut connection, mut events, mut out) = connection();
        let get = request("GET", &[("Connection", value)], b"");
        connection.send(&get, 0, &mut out).unwrap();
        assert!(connection.is_closing());
        assert_eq!(connection.outstanding(), 1);
        connection.receive(OK, &mut events, &mut out).unwrap();
        assert_eq!(connection.send(&get, 0, &mut out), Err(Refused::Draining));
    }
}

#[test]
fn bytes_before_any_request_are_refused() {
    let (mut connection, mut events, mut out) = connection();
    connection.receive(OK, &mut events, &mut out).unwrap_err();
    assert_eq!(events.events, []);
    assert_eq!(connection.capacity(), 0);
}
