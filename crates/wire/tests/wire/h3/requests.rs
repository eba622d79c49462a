//! Requests out, and the ways in which either side gives one up (RFC 9114 §4.1, §5.2).

use super::common::{Event, Mock, Peer, data, frame, headers, request, settings, varint};
use trilane_wire::h3::Connection;
use trilane_wire::h3::code::*;
use trilane_wire::{ErrorKind, Refused, StreamId, Unprocessed};

const OK: &[(&str, &str)] = &[(":status", "200")];

#[test]
fn a_request_is_a_section_and_the_end_of_the_stream() {
    let mut peer = Peer::ready();
    let get = request("GET", b"");
    for slot in 0..3 {
        let stream = peer.h3.send(&get, slot, &mut peer.quic).unwrap();
        assert_eq!(
            stream,
            StreamId {
                number: u64::from(slot) * 4,
                slot
            }
        );
        assert_eq!(
            peer.quic.written[&stream.number],
            frame(1, get.qpack_section())
        );
        assert!(peer.quic.finished.contains(&stream.number));
    }
    assert_eq!(peer.h3.outstanding(), 3);
    assert_eq!(
        peer.h3.sent_field_bytes(),
        3 * get.qpack_section().len() as u64
    );
}

#[test]
fn content_follows_as_flow_control_allows() {
    for (size, window) in [
        (1, 1),
        (500, 7),
        (1024, 1000),
        (1025, 30),
        (100_000, 1),
        (100_000, 999),
    ] {
        let body: Vec<u8> = (0..size).map(|n| n as u8).collect();
        let post = request("POST", &body);
        let mut peer = Peer::with(Mock {
            window,
            ..Mock::default()
        });
        let stream = peer.h3.send(&post, 0, &mut peer.quic).unwrap().number;
        let expected = [frame(1, post.qpack_section()), data(&body)].concat();
        while !peer.quic.finished.contains(&stream) {
            assert_eq!(
                peer.quic.windows[&stream], 0,
                "everything that the window takes is sent"
            );
            peer.quic.windows.insert(stream, window.max(size / 50));
            peer.h3.writable(stream, &mut peer.quic);
        }
        assert!(
            peer.quic.written[&stream] == expected,
            "{size} bytes in windows of {window}"
        );
    }
}

#[test]
fn an_early_answer_lets_the_content_go_on() {
    let mut peer = Peer::with(Mock {
        window: 100,
        ..Mock::default()
    });
    let stream = peer.send("POST", &[1; 5000], 9);
    peer.receive(stream, &headers(OK), true).unwrap();
    assert_eq!(peer.record.0.last(), Some(&Event::End(9, None)));
    assert_eq!(peer.h3.outstanding(), 0);
    assert!(peer.quic.resets.is_empty());
    peer.quic.windows.insert(stream, usize::MAX);
    peer.h3.writable(stream, &mut peer.quic);
    assert!(peer.quic.finished.contains(&stream));
    peer.h3.eof(&mut peer.record);
    assert!(
        matches!(
            peer.record.0[..],
            [Event::Head(..), Event::Unsent(..), Event::End(..)]
        ),
        "nothing is reported twice"
    );
}

#[test]
fn an_early_answer_tells_what_of_the_content_has_not_left() {
    let request = request("POST", &[1; 5000]);
    let framing = frame(1, request.qpack_section()).len() + 3;
    let taken = 2000 - framing as u64;
    // Less cannot have left than flow control took, nor more than the datagrams carried.
    for (stopped, transmitted, sent) in [
        (false, 2000, taken),
        (true, 2000, taken),
        (false, 700, 700),
        (true, 700, 700),
    ] {
        let mut peer = Peer::with(Mock {
            window: 2000,
            ..Mock::default()
        });
        let stream = peer.h3.send(&request, 9, &mut peer.quic).unwrap().number;
        assert_eq!(peer.h3.content_taken(), taken);
        peer.quic.transmitted -= 2000 - transmitted;
        if stopped {
            peer.stopped(stream, NO_ERROR).unwrap();
        }
        peer.receive(stream, &headers(OK), true).unwrap();
        let [Event::Head(..), unsent, Event::End(9, None)] = &peer.record.0[..] else {
            panic!("{:?}", peer.record.0);
        };
        assert_eq!(*unsent, Event::Unsent(9, 5000 - sent));
        if !stopped {
            peer.quic.windows.insert(stream, usize::MAX);
            peer.h3.writable(stream, &mut peer.quic);
            assert_eq!(peer.h3.content_taken(), 5000);
        }
    }
}

#[test]
fn stop_sending_ends_our_content_and_not_the_response() {
    let mut peer = Peer::with(Mock {
        window: 100,
        ..Mock::default()
    });
    let stream = peer.send("POST", &[1; 5000], 9);
    peer.stopped(stream, NO_ERROR).unwrap();
    assert_eq!(peer.quic.resets, [(stream, NO_ERROR)]);
    peer.quic.windows.insert(stream, usize::MAX);
    peer.h3.writable(stream, &mut peer.quic);
    assert_eq!(peer.quic.written[&stream].len(), 100);
    peer.receive(stream, &[headers(OK), data(b"no need")].concat(), true)
        .unwrap();
    assert_eq!(peer.record.0.last(), Some(&Event::End(9, None)));

    // The other order: a full response first.
    let stream = peer.send("POST", &[1; 5000], 10);
    peer.receive(stream, &headers(OK), true).unwrap();
    peer.stopped(stream, NO_ERROR).unwrap();
    assert_eq!(peer.record.0.last(), Some(&Event::End(10, None)));
    assert_eq!(peer.h3.outstanding(), 0);
}

#[test]
fn a_reset_fails_the_request_and_a_rejected_one_may_be_sent_again() {
    use Unprocessed::{Proved, Unknown};
    for (code, unprocessed) in [
        (REQUEST_REJECTED, Proved),
        (0x102, Unknown),
        (0x10c, Unknown),
    ] {
        let mut peer = Peer::ready();
        let (stream, _) = (peer.get(1), peer.get(2));
        peer.receive(stream, &headers(OK), false).unwrap();
        peer.reset(stream, code).unwrap();
        let error = peer.failure();
        assert_eq!(
            (error.kind, error.unprocessed, error.code),
            (ErrorKind::Reset, unprocessed, Some(code))
        );
        assert_eq!(peer.h3.outstanding(), 1);
        peer.reset(stream, code).unwrap();
        assert_eq!(peer.record.0.len(), 2);
    }
}

#[test]
fn a_reset_without_error_after_all_of_the_response_is_its_end() {
    let head = headers(&[(":status", "200"), ("content-length", "2")]);
    let mut peer = Peer::ready();
    let stream = peer.get(1);
    peer.receive(stream, &[head.clone(), data(b"ab")].concat(), false)
        .unwrap();
    peer.reset(stream, NO_ERROR).unwrap();
    assert_eq!(peer.record.0.last(), Some(&Event::End(1, None)));

    let stream = peer.get(2);
    peer.receive(stream, &[head, data(b"a")].concat(), false)
        .unwrap();
    peer.reset(stream, NO_ERROR).unwrap();
    assert_eq!(peer.failure().kind, ErrorKind::Reset);
}

#[test]
fn goaway_gives_back_what_was_not_processed() {
    let mut peer = Peer::ready();
    let streams: Vec<_> = (0..5).map(|slot| peer.get(slot)).collect();
    peer.receive(3, &frame(0x07, &varint(streams[2])), false)
        .unwrap();
    let failed: Vec<_> = peer
        .record
        .0
        .iter()
        .map(|event| match event {
            Event::Fail(slot, error) => (*slot, error.kind, error.unprocessed),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected: Vec<_> = (2..5)
        .map(|slot| (slot, ErrorKind::Goaway, Unprocessed::Proved))
        .collect();
    assert_eq!(failed, expected);
    assert_eq!(peer.h3.outstanding(), 2);
    assert!(peer.h3.is_closing());
    assert_eq!(peer.h3.capacity(), 0);
    let refused = peer.h3.send(&request("GET", b""), 9, &mut peer.quic);
    assert_eq!(refused, Err(Refused::Draining));

    // A second one, smaller: one more is given back, the other goes on.
    peer.receive(3, &frame(0x07, &varint(streams[1])), false)
        .unwrap();
    assert_eq!(peer.h3.outstanding(), 1);
    peer.receive(streams[0], &headers(OK), true).unwrap();
    assert_eq!(peer.record.0.last(), Some(&Event::End(0, None)));
}

#[test]
fn a_cancelled_request_is_silent() {
    let mut peer = Peer::ready();
    let stream = peer.get(1);
    peer.h3.cancel(
        StreamId {
            number: stream,
            slot: 1,
        },
        &mut peer.quic,
    );
    assert_eq!(peer.quic.resets, [(stream, REQUEST_CANCELLED)]);
    assert_eq!(peer.quic.stops, [(stream, REQUEST_CANCELLED)]);
    assert_eq!(peer.h3.outstanding(), 0);
    peer.receive(stream, &headers(OK), true).unwrap();
    peer.reset(stream, 0).unwrap();
    peer.stopped(stream, 0).unwrap();
    peer.h3.cancel(
        StreamId {
            number: stream,
            slot: 1,
        },
        &mut peer.quic,
    );
    assert!(peer.record.0.is_empty());
}

#[test]
fn a_lost_connection_fails_what_is_outstanding_once() {
    let mut peer = Peer::ready();
    for slot in 0..40 {
        peer.get(slot);
    }
    peer.h3.eof(&mut peer.record);
    peer.h3.eof(&mut peer.record);
    assert_eq!(peer.record.0.len(), 40);
    assert_eq!(
        (peer.failure().kind, peer.failure().unprocessed),
        (ErrorKind::Closed, Unprocessed::Unknown)
    );
    assert_eq!((peer.h3.outstanding(), peer.h3.is_closing()), (0, true));
}

#[test]
fn send_says_why_it_does_not() {
    let get = request("GET", b"");
    let mut peer = Peer::with(Mock {
        bi: 2,
        ..Mock::default()
    });
    peer.h3.send(&get, 0, &mut peer.quic).unwrap();
    peer.h3.send(&get, 1, &mut peer.quic).unwrap();
    assert_eq!(
        peer.h3.send(&get, 2, &mut peer.quic),
        Err(Refused::Full),
        "by QUIC"
    );

    let mut peer = Peer::ready();
    for slot in 0..100 {
        assert_eq!(peer.h3.capacity(), 100 - slot as usize);
        peer.h3.send(&get, slot, &mut peer.quic).unwrap();
    }
    assert_eq!(
        peer.h3.send(&get, 100, &mut peer.quic),
        Err(Refused::Full),
        "by our own limit"
    );
    peer.receive(0, &headers(OK), true).unwrap();
    peer.h3.send(&get, 100, &mut peer.quic).unwrap();

    // RFC 9114 §4.2.2: name + value + 32 for each field.
    let size = get
        .fields()
        .map(|(name, value, _)| name.len() + value.len() + 32)
        .sum::<usize>() as u64;
    let refusal = Refused::TooLarge {
        size,
        limit: size - 1,
    };
    assert_eq!(
        refusal.to_string(),
        format!(
            "the field section of {size} bytes is larger than the {} bytes that the peer accepts",
            size - 1
        )
    );
    for (limit, result) in [(size - 1, Err(refusal)), (size, Ok(()))] {
        let mut peer = Peer::new();
        peer.receive(3, &settings(&[(0x06, limit)]), false).unwrap();
        assert_eq!(peer.h3.send(&get, 0, &mut peer.quic).map(drop), result);
    }
}

#[test]
fn a_response_on_a_stream_that_was_never_opened_is_nothing() {
    let mut peer = Peer::ready();
    peer.receive(400, &headers(OK), true).unwrap();
    peer.stopped(400, 0).unwrap();
    peer.h3.writable(400, &mut peer.quic);
    assert!(peer.record.0.is_empty());
    fn is_send<T: Send>() {}
    is_send::<Connection>();
}
