//! Requests for another protocol on a stream (RFC 9220).

use super::common::{Event, Peer, data, headers, settings};
use trilane_wire::h3::code::*;
use trilane_wire::{Content, Encoding, FieldList, OneOff, Refused, Request, StreamId, Upload};

/// SETTINGS_ENABLE_CONNECT_PROTOCOL.
const ENABLE: (u64, u64) = (0x08, 1);

fn websocket() -> Request {
    Request::one_off(
        Encoding::H3,
        &OneOff {
            method: "GET",
            scheme: "https",
            authority: "a.example",
            path: "/chat",
            fields: &[(b"sec-websocket-version", b"13")],
            content: Content::Switched("websocket".to_owned()),
        },
    )
    .unwrap()
}

fn open(peer: &mut Peer) -> Result<StreamId, Refused> {
    peer.h3.send(&websocket(), 5, &mut peer.quic)
}

#[test]
fn it_waits_for_settings_that_enable_it() {
    let mut peer = Peer::new();
    assert_eq!(open(&mut peer), Err(Refused::Full));
    peer.receive(3, &settings(&[]), false).unwrap();
    assert_eq!(open(&mut peer), Err(Refused::NoConnectProtocol));
    assert_eq!(peer.h3.outstanding(), 0);

    let mut peer = Peer::new();
    peer.receive(3, &settings(&[ENABLE]), false).unwrap();
    assert!(peer.h3.peer_settings().connect_protocol);
    assert!(open(&mut peer).is_ok());

    let outcome = Peer::new().receive(3, &settings(&[(0x08, 2)]), false);
    assert_eq!(outcome.unwrap_err().code, SETTINGS_ERROR);
}

#[test]
fn what_goes_each_way_is_content_to_the_end_of_the_stream() {
    let mut peer = Peer::new();
    peer.receive(3, &settings(&[ENABLE]), false).unwrap();
    let stream = open(&mut peer).unwrap();
    // A tunnel has no length, whatever the head says.
    let head = headers(&[(":status", "200"), ("content-length", "1")]);
    peer.receive(stream.number, &head, false).unwrap();
    assert_eq!(peer.h3.write(stream, b"hello", &mut peer.quic), 5);
    peer.receive(stream.number, &data(b"to you"), false)
        .unwrap();
    assert_eq!(
        peer.record.0.last(),
        Some(&Event::Data(5, b"to you".to_vec()))
    );
    assert!(peer.quic.written[&stream.number].ends_with(&data(b"hello")));
    peer.h3
        .finish(stream, &FieldList::new(), &mut peer.quic)
        .unwrap();
    assert!(peer.quic.finished.contains(&stream.number));
    peer.receive(stream.number, b"", true).unwrap();
    assert_eq!(peer.record.0.last(), Some(&Event::End(5, None)));
    assert_eq!(peer.h3.upload(stream), Upload::Stopped);
}

#[test]
fn a_refusal_is_a_response_as_any() {
    let mut peer = Peer::new();
    peer.receive(3, &settings(&[ENABLE]), false).unwrap();
    let stream = open(&mut peer).unwrap();
    let head = headers(&[(":status", "403"), ("content-length", "2")]);
    let refusal = [head, data(b"no"), headers(&[("x", "y")])].concat();
    peer.receive(stream.number, &refusal, true).unwrap();
    assert!(matches!(peer.record.0.last(), Some(Event::End(5, Some(_)))));
}

#[test]
fn fields_inside_of_a_tunnel_end_the_connection() {
    let mut peer = Peer::new();
    peer.receive(3, &settings(&[ENABLE]), false).unwrap();
    let stream = open(&mut peer).unwrap().number;
    let fields = [headers(&[(":status", "200")]), headers(&[("x", "y")])].concat();
    let error = peer.receive(stream, &fields, false).unwrap_err();
    assert_eq!(error.code, FRAME_UNEXPECTED);
}
