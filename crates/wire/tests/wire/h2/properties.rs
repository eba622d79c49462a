//! What holds for any bytes and any way of cutting them.

use std::ops::Range;

use proptest::prelude::*;

use super::common::*;

/// What a server says to three requests, with everything in it that a server may say.
fn recorded() -> Vec<u8> {
    let large: Vec<u8> = (0..30_000).map(|n| n as u8).collect();
    let literal = |name: &[u8], value: &[u8]| {
        [&[0x40, name.len() as u8], name, &[value.len() as u8], value].concat()
    };
    let head = [
        OK,
        &literal(b"server", b"x"),
        &literal(b"content-length", b"30000"),
    ]
    .concat();
    let (head_start, head_end) = head.split_at(5);
    [
        settings(&[(3, 50), (4, 1000)]),
        frame(SETTINGS, ACK, 0, b""),
        window_update(0, 77),
        frame(HEADERS, 0, 3, head_start),
        frame(CONTINUATION, 0, 3, b""),
        frame(CONTINUATION, END_HEADERS, 3, head_end),
        frame(PING, 0, 0, b"pingpong"),
        frame(DATA, 0, 3, &large[..10_000]),
        frame(HEADERS, END_HEADERS, 1, &[0x08, 3, b'1', b'0', b'3']),
        frame(
            DATA,
            PADDED,
            3,
            &[&[200][..], &large[10_000..15_000], &[0; 200]].concat(),
        ),
        frame(HEADERS, END_HEADERS, 1, &[0x88, 0xbf]),
        frame(DATA, 0, 1, b"one"),
        frame(0xbe, 0, 0, b"unknown"),
        window_update(5, 500),
        frame(DATA, 0, 1, b""),
        frame(DATA, END_STREAM, 3, &large[15_000..]),
        frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            1,
            &literal(b"grpc-status", b"0"),
        ),
        settings(&[(4, 20)]),
        frame(HEADERS, END_HEADERS, 5, OK),
        goaway(5, NO_ERROR),
        rst_stream(5, CANCEL),
        // And what ends it.
        frame(DATA, PADDED, 3, b""),
    ]
    .concat()
}

/// Plays `bytes` to a client with three requests, cut at `cuts`, and gives the events and what it
/// answered.
fn play(bytes: &[u8], cuts: impl Iterator<Item = usize>) -> (Vec<Event>, Vec<u8>) {
    let mut client = Client::silent(CONFIG);
    client.get();
    client.get();
    client.send(&request("POST", &[b'x'; 100_000]));
    let mut start = 0;
    for cut in cuts.map(|cut| cut.min(bytes.len())).chain([bytes.len()]) {
        let end = cut.max(start);
        if client.try_receive(&bytes[start..end]).is_err() {
            break;
        }
        start = end;
    }
    assert!(client.connection.outstanding() <= 3);
    (client.events(), client.out)
}

#[test]
fn byte_by_byte_says_the_same_as_at_once() {
    let bytes = recorded();
    let whole = play(&bytes, std::iter::empty());
    let ends = whole
        .0
        .iter()
        .filter(|event| matches!(event, Event::End(..)))
        .count();
    let fails = whole
        .0
        .iter()
        .filter(|event| matches!(event, Event::Fail(..)))
        .count();
    assert_eq!((ends, fails), (2, 1), "{:?}", whole.0.last());
    assert_eq!(frames(&whole.1[whole.1.len() - 17..])[0].kind, GOAWAY);
    assert!(play(&bytes, 0..bytes.len()) == whole);
}

fn any_frame(streams: Range<u32>) -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        Just(OK.to_vec()),
        Just(vec![0; 4]),
        Just(vec![0; 8]),
        Just(vec![0, 4, 0, 0, 0, 9]),
        Just(vec![b'x'; 5000]),
    ];
    (0u8..11, any::<u8>(), streams, payload)
        .prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload))
}

/// Every stream ends exactly once, and nothing is reported behind its end.
fn check_order(events: &[Event]) {
    for number in [1, 3, 5] {
        let of_stream: Vec<_> = events
            .iter()
            .filter(|event| match event {
                Event::Informational(stream, ..)
                | Event::Head { stream, .. }
                | Event::Data(stream, _)
                | Event::End(stream, _)
                | Event::Fail(stream, _) => *stream == number,
            })
            .collect();
        let last = |event: &Event| matches!(event, Event::End(..) | Event::Fail(..));
        assert!(
            of_stream.iter().rev().skip(1).all(|event| !last(event)),
            "{of_stream:?}"
        );
    }
}

proptest! {
    #[test]
    fn random_cuts_say_the_same_as_none(mut cuts in proptest::collection::vec(0usize..32_000, 0..60)) {
        cuts.sort_unstable();
        let bytes = recorded();
        prop_assert!(play(&bytes, cuts.into_iter()) == play(&bytes, std::iter::empty()));
    }

    #[test]
    fn mutations_do_no_harm_and_cuts_do_not_matter(
        changes in proptest::collection::vec((0usize..1200, any::<u8>()), 1..4),
        tail in any::<bool>(),
        step in 1usize..50,
    ) {
        let mut bytes = recorded();
        for (position, byte) in changes {
            // Content is most of the bytes and the least interesting: prefer the ends.
            let position = if tail { bytes.len() - 1 - position } else { position % 200 };
            bytes[position] = byte;
        }
        let whole = play(&bytes, std::iter::empty());
        check_order(&whole.0);
        prop_assert!(play(&bytes, (0..bytes.len()).step_by(step)) == whole);
    }

    #[test]
    fn any_frames_do_no_harm(frames in proptest::collection::vec(any_frame(0..8), 0..30), step in 1usize..50) {
        let bytes = [settings(&[]), frames.concat()].concat();
        let whole = play(&bytes, std::iter::empty());
        check_order(&whole.0);
        prop_assert!(play(&bytes, (0..bytes.len()).step_by(step)) == whole);
    }

    #[test]
    fn any_bytes_do_no_harm(noise in proptest::collection::vec(any::<u8>(), 0..300)) {
        let bytes = [settings(&[]), noise].concat();
        check_order(&play(&bytes, std::iter::empty()).0);
    }
}
