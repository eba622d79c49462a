//! The same events however the bytes arrive, and no panic whatever they are.

use super::common::{Event, Mock, Peer, data, frame, headers, settings, varint};
use proptest::prelude::*;
use trilane_wire::ConnectionError;

/// A response of parts that may stand in it, sound or not.
fn part() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![
        "[a-z-]{1,12}",
        "[A-Z :]{0,3}",
        Just("content-length".to_owned())
    ];
    let value = prop_oneof!["[ -~]{0,40}", "[0-9]{1,3}", "\\PC{0,4}"];
    let pairs = prop::collection::vec((name, value), 0..4);
    let status = prop_oneof![
        Just("200"),
        Just("200"),
        Just("200"),
        Just("100"),
        Just("204"),
        Just("x")
    ];
    prop_oneof![
        3 => (status, pairs.clone()).prop_map(|(status, pairs)| {
            let mut fields = vec![(":status", status)];
            fields.extend(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())));
            headers(&fields)
        }),
        4 => prop::collection::vec(any::<u8>(), 0..200).prop_map(|bytes| data(&bytes)),
        1 => pairs.prop_map(|pairs| {
            let fields: Vec<_> = pairs.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            headers(&fields)
        }),
        1 => (0u64..1 << 40, prop::collection::vec(any::<u8>(), 0..70))
            .prop_map(|(kind, bytes)| frame(0x1f * kind + 0x21, &bytes)),
    ]
}

fn control_part() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0u64..50).prop_map(|id| frame(0x07, &varint(id * 4))),
        (0u64..20, prop::collection::vec(any::<u8>(), 0..20))
            .prop_map(|(kind, bytes)| frame(kind, &bytes)),
        (0u64..1 << 40).prop_map(|kind| frame(0x1f * kind + 0x21, b"abc")),
    ]
}

struct Script {
    response: Vec<u8>,
    control: Vec<u8>,
    fin: bool,
}

fn script() -> impl Strategy<Value = Script> {
    (
        prop::collection::vec(part(), 0..8),
        prop::collection::vec(control_part(), 0..4),
        any::<bool>(),
        // Sometimes a byte is not what it should be.
        prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>())),
    )
        .prop_map(|(response, control, fin, spoilt)| {
            let mut response = response.concat();
            if let (Some((at, byte)), false) = (spoilt, response.is_empty()) {
                let at = at.index(response.len());
                response[at] = byte;
            }
            Script {
                response,
                control: [vec![settings(&[])], control].concat().concat(),
                fin,
            }
        })
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x?} {:x?} {}", self.response, self.control, self.fin)
    }
}

/// Events, the connection's error, STOP_SENDING by stream and code, and what is outstanding.
type Played = (Vec<Event>, Option<ConnectionError>, Vec<(u64, u64)>, usize);

/// The response in pieces of `sizes`, over and over, then the control stream likewise.
fn play(script: &Script, sizes: &[usize]) -> Played {
    let mut peer = Peer::with(Mock::default());
    let (stream, _) = (peer.get(1), peer.get(2));
    let mut error = None;
    for (id, bytes, fin) in [
        (stream, &script.response, script.fin),
        (3, &script.control, false),
    ] {
        let mut rest = &bytes[..];
        let mut sizes = sizes.iter().cycle();
        while !rest.is_empty() || fin {
            let size = sizes
                .next()
                .copied()
                .unwrap_or(1)
                .clamp(1, rest.len().max(1));
            let (piece, tail) = rest.split_at(size.min(rest.len()));
            rest = tail;
            let last = fin && rest.is_empty();
            error = error.or(peer.receive(id, piece, last).err());
            if rest.is_empty() {
                break;
            }
        }
    }
    (peer.record.0, error, peer.quic.stops, peer.h3.outstanding())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn events_do_not_depend_on_how_bytes_are_split(
        script in script(),
        sizes in prop::collection::vec(1usize..40, 1..10),
    ) {
        let whole = play(&script, &[usize::MAX]);
        prop_assert_eq!(&play(&script, &[1]), &whole);
        prop_assert_eq!(&play(&script, &sizes), &whole);
    }

    #[test]
    fn random_bytes_do_not_panic(
        pieces in prop::collection::vec(
            (0u64..16, prop::collection::vec(any::<u8>(), 0..60), any::<bool>(), 0u8..8),
            0..30,
        ),
    ) {
        let mut peer = Peer::ready();
        for slot in 0..3 {
            peer.send("POST", &[0; 3000], slot);
        }
        for (stream, bytes, fin, how) in pieces {
            let outcome = match how {
                0 => peer.reset(stream, 0x100 + u64::from(bytes.len() as u8)),
                1 => peer.stopped(stream, 0x100),
                2 => {
                    peer.h3.writable(stream, &mut peer.quic);
                    Ok(())
                }
                _ => peer.receive(stream, &bytes, fin),
            };
            if outcome.is_err() {
                prop_assert_eq!(peer.h3.outstanding(), 0);
            }
        }
        peer.h3.eof(&mut peer.record);
        let ends = peer.record.0.iter();
        let ends = ends.filter(|event| matches!(event, Event::End(..) | Event::Fail(..))).count();
        prop_assert_eq!(ends, 3, "every request is reported once");
    }
}
