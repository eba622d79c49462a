//! Control and QPACK streams (RFC 9114 §6.2, §7.2; RFC 9204 §4).

use super::common::{Mock, Peer, code, frame, settings, varint};
use trilane_wire::h3::code::*;

/// Integers of a byte string.
fn varints(mut bytes: &[u8]) -> Vec<u64> {
    let mut all = Vec::new();
    while let Some(&first) = bytes.first() {
        let length = 1 << (first >> 6);
        let start = u64::from(first & 0x3f);
        all.push(
            bytes[1..length]
                .iter()
                .fold(start, |v, &b| v << 8 | u64::from(b)),
        );
        bytes = &bytes[length..];
    }
    all
}

#[test]
fn our_control_stream_begins_with_settings_and_a_reserved_frame() {
    let peer = Peer::new();
    let control = &peer.quic.written[&2];
    assert_eq!(
        control[..2],
        [0x00, 0x04],
        "the stream's type, then SETTINGS"
    );
    let (payload, rest) = control[3..].split_at(usize::from(control[2]));
    let pairs = varints(payload);
    assert_eq!(pairs[..2], [0x06, 4000]);
    assert_eq!((pairs[2] - 0x21) % 0x1f, 0, "a reserved setting");
    assert_eq!(pairs.len(), 4);
    assert_eq!(
        (varints(&rest[..2])[0] - 0x21) % 0x1f,
        0,
        "a reserved frame"
    );
    assert!(peer.quic.finished.is_empty() && peer.quic.resets.is_empty());
}

#[test]
fn our_control_stream_waits_for_a_stream_and_for_flow_control() {
    let mut peer = Peer::with(Mock {
        uni: 0,
        window: 5,
        ..Mock::default()
    });
    assert!(peer.quic.written.is_empty());
    peer.quic.uni = 3;
    peer.h3.grant_uni(&mut peer.quic);
    assert_eq!(peer.quic.written[&2].len(), 5);
    while peer.quic.windows[&2] == 0 {
        peer.quic.windows.insert(2, 4);
        peer.h3.writable(2, &mut peer.quic);
    }
    assert_eq!(peer.quic.written[&2], Peer::new().quic.written[&2]);
}

#[test]
fn the_peers_settings_are_kept() {
    let mut peer = Peer::new();
    assert!(!peer.h3.peer_settings().received);
    let all = settings(&[
        (0x01, 4096),
        (0x06, 70_000),
        (0x07, 16),
        (0x21, 1),
        (0x08, 1),
    ]);
    peer.receive(3, &all, false).unwrap();
    let kept = peer.h3.peer_settings();
    assert_eq!(
        (kept.qpack_max_table_capacity, kept.qpack_blocked_streams),
        (4096, 16)
    );
    assert_eq!(
        (kept.max_field_section_size, kept.received),
        (Some(70_000), true)
    );
}

#[test]
fn a_control_stream_must_begin_with_settings() {
    for kind in [0x00, 0x01, 0x07, 0x0d, 0x21] {
        let bytes = [vec![0], frame(kind, &[0])].concat();
        assert_eq!(
            code(Peer::new().receive(3, &bytes, false)),
            MISSING_SETTINGS,
            "{kind}"
        );
    }
}

#[test]
fn frames_that_may_not_be_on_the_control_stream_are_unexpected() {
    for kind in [0x00, 0x01, 0x02, 0x04, 0x05, 0x06, 0x08, 0x09, 0x0d] {
        let outcome = Peer::ready().receive(3, &frame(kind, &[]), false);
        assert_eq!(code(outcome), FRAME_UNEXPECTED, "{kind}");
    }
}

#[test]
fn no_push_can_be_cancelled() {
    for id in [0, 1 << 20, 1 << 40] {
        let cancel = frame(0x03, &varint(id));
        assert_eq!(code(Peer::ready().receive(3, &cancel, false)), ID_ERROR);
        let mut peer = Peer::ready();
        let (last, rest) = cancel.split_last().unwrap();
        peer.receive(3, rest, false).unwrap();
        assert_eq!(code(peer.receive(3, &[*last], false)), ID_ERROR);
    }
    for payload in [&[][..], &[0x40], &[0, 0], &[0; 9]] {
        let outcome = Peer::ready().receive(3, &frame(0x03, payload), false);
        assert_eq!(code(outcome), FRAME_ERROR, "{payload:?}");
    }
}

#[test]
fn unknown_frames_on_the_control_stream_are_skipped() {
    let mut peer = Peer::ready();
    for kind in [0x0c, 0x21, 0x40, 1 << 50] {
        peer.receive(3, &frame(kind, &[0xff; 500]), false).unwrap();
    }
    peer.receive(3, &frame(0x07, &varint(8)), false).unwrap();
    assert!(peer.h3.is_closing());
}

#[test]
fn settings_of_http_2_and_repeated_ones_are_refused() {
    for id in [0x02, 0x03, 0x04, 0x05] {
        let outcome = Peer::new().receive(3, &settings(&[(id, 0)]), false);
        assert_eq!(code(outcome), SETTINGS_ERROR, "{id}");
    }
    for id in [0x01, 0x21] {
        let outcome = Peer::new().receive(3, &settings(&[(id, 0), (0x07, 0), (id, 0)]), false);
        assert_eq!(code(outcome), SETTINGS_ERROR, "{id}");
    }
    let cut = [vec![0], frame(4, &[0x01])].concat();
    assert_eq!(code(Peer::new().receive(3, &cut, false)), FRAME_ERROR);
}

#[test]
fn goaway_names_a_request_and_never_grows() {
    for bad in [1, 2, 3, 7] {
        let outcome = Peer::ready().receive(3, &frame(0x07, &varint(bad)), false);
        assert_eq!(code(outcome), ID_ERROR, "{bad}");
    }
    let mut peer = Peer::ready();
    for id in [400, 400, 8] {
        peer.receive(3, &frame(0x07, &varint(id)), false).unwrap();
    }
    assert_eq!(
        code(peer.receive(3, &frame(0x07, &varint(12)), false)),
        ID_ERROR
    );
    for payload in [&[][..], &[0x40], &[0, 0], &[0; 9]] {
        let outcome = Peer::ready().receive(3, &frame(0x07, payload), false);
        assert_eq!(code(outcome), FRAME_ERROR, "{payload:?}");
    }
}

#[test]
fn each_critical_stream_comes_once_and_stays() {
    for kind in [0, 2, 3] {
        let mut peer = Peer::new();
        peer.receive(3, &[kind], false).unwrap();
        peer.receive(7, &[], false).unwrap();
        assert_eq!(
            code(peer.receive(7, &[kind], false)),
            STREAM_CREATION_ERROR,
            "{kind}"
        );

        let mut peer = Peer::new();
        peer.receive(3, &[kind], false).unwrap();
        assert_eq!(
            code(peer.receive(3, &[], true)),
            CLOSED_CRITICAL_STREAM,
            "{kind}"
        );

        let mut peer = Peer::new();
        assert_eq!(
            code(peer.receive(3, &[kind], true)),
            CLOSED_CRITICAL_STREAM,
            "{kind}"
        );

        let mut peer = Peer::new();
        peer.receive(3, &[kind], false).unwrap();
        assert_eq!(code(peer.reset(3, 0)), CLOSED_CRITICAL_STREAM, "{kind}");
    }
    let bytes = settings(&[]);
    assert_eq!(
        code(Peer::new().receive(3, &bytes, true)),
        CLOSED_CRITICAL_STREAM
    );
    assert_eq!(
        code(Peer::ready().stopped(2, NO_ERROR)),
        CLOSED_CRITICAL_STREAM
    );
}

#[test]
fn streams_that_a_server_may_not_open_are_refused() {
    assert_eq!(
        code(Peer::new().receive(3, &[1], false)),
        ID_ERROR,
        "a push stream"
    );
    assert_eq!(
        code(Peer::new().receive(1, &[0], false)),
        STREAM_CREATION_ERROR
    );
}

#[test]
fn streams_of_unknown_types_are_stopped_and_forgotten() {
    let mut peer = Peer::new();
    let kind = varint(0x1f * 70_000 + 0x21);
    for &byte in &kind {
        assert!(peer.quic.stops.is_empty());
        peer.receive(7, &[byte], false).unwrap();
    }
    assert_eq!(peer.quic.stops, [(7, STREAM_CREATION_ERROR)]);
    peer.receive(7, &[0; 1000], false).unwrap();
    peer.receive(7, &[], true).unwrap();
    // One that ends before its type is complete is nothing at all.
    peer.receive(11, &kind[..2], true).unwrap();
    peer.receive(15, &[], false).unwrap();
    peer.reset(15, 0).unwrap();
    assert_eq!(peer.quic.stops.len(), 1);
}

#[test]
fn a_stream_type_may_arrive_in_pieces() {
    let mut peer = Peer::new();
    // 0 as an integer of eight bytes.
    peer.receive(3, &[0xc0, 0, 0, 0], false).unwrap();
    peer.receive(3, &[0, 0, 0, 0, 0x04], false).unwrap();
    peer.receive(3, &[0x00], false).unwrap();
    assert!(peer.h3.peer_settings().received);
}

#[test]
fn the_peers_encoder_may_set_the_capacity_to_0_only() {
    let mut peer = Peer::new();
    peer.receive(7, &[2, 0x20, 0x20], false).unwrap();
    for bad in [0x3f, 0x21, 0x80, 0x40, 0x00] {
        let mut peer = Peer::new();
        peer.receive(7, &[2], false).unwrap();
        assert_eq!(
            code(peer.receive(7, &[bad], false)),
            QPACK_ENCODER_STREAM_ERROR,
            "{bad:x}"
        );
    }
}

#[test]
fn the_peers_decoder_may_cancel_streams_only() {
    let mut peer = Peer::new();
    peer.receive(11, &[3, 0x44, 0x7f], false).unwrap();
    peer.receive(11, &[0x80, 0x01], false).unwrap();
    for bad in [0x80, 0x00, 0x01] {
        let mut peer = Peer::new();
        assert_eq!(
            code(peer.receive(7, &[3, bad], false)),
            QPACK_DECODER_STREAM_ERROR,
            "{bad:x}"
        );
    }
}

#[test]
fn what_says_nothing_is_limited() {
    let mut peer = Peer::ready();
    let outcome = (0..100_000).try_for_each(|_| peer.receive(3, &frame(0x21, &[]), false));
    assert_eq!(code(outcome), EXCESSIVE_LOAD);

    let mut peer = Peer::ready();
    let large = frame(0x21, &[0; 100_000]);
    let outcome = (0..11).try_for_each(|_| peer.receive(3, &large, false));
    assert_eq!(code(outcome), EXCESSIVE_LOAD);

    let mut peer = Peer::ready();
    peer.receive(7, &[2], false).unwrap();
    let outcome = (0..1000).try_for_each(|_| peer.receive(7, &[0x20; 5000], false));
    assert_eq!(code(outcome), EXCESSIVE_LOAD);

    let mut peer = Peer::ready();
    let outcome = (1..1000).try_for_each(|n| peer.receive(n * 4 + 3, &[0x21], true));
    assert_eq!(code(outcome), EXCESSIVE_LOAD);

    let long = [vec![0, 4], varint(1 << 30)].concat();
    assert_eq!(code(Peer::new().receive(3, &long, false)), EXCESSIVE_LOAD);
}
