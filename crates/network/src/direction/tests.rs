//! Packets on one way, in virtual time.

use proptest::prelude::*;

use super::*;
use crate::MTU;

const MS: Nanos = 1_000_000;
const S: Nanos = 1_000 * MS;

type Packets = Direction<Vec<u8>>;

fn spec(text: &str) -> Spec {
    Spec::read(text, |_| Ok("1\n2\n3\n7\n".into())).unwrap()
}

fn up(text: &str) -> Packets {
    Direction::new(&spec(text), Way::Up)
}

/// A packet that can be told from others.
fn packet(number: u64, size: usize) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.resize(size.max(8), 0);
    bytes
}

fn number(packet: &[u8]) -> u64 {
    u64::from_be_bytes(packet[..8].try_into().unwrap())
}

/// Sends `count` full packets, one every `gap`, and polls whenever one is due: what arrived, and
/// how long after it was sent.
fn run(direction: &mut Packets, count: u64, gap: Nanos) -> Vec<(u64, Nanos)> {
    let mut arrived = Vec::new();
    for sent in 0..count {
        drain(direction, sent * gap, &mut arrived);
        direction.receive(sent * gap, packet(sent, MTU));
    }
    drain(direction, Nanos::MAX, &mut arrived);
    arrived
        .into_iter()
        .map(|(at, number)| (number, at - number * gap))
        .collect()
}

fn drain(direction: &mut Packets, until: Nanos, arrived: &mut Vec<(Nanos, u64)>) {
    while let Some(due) = direction.due().filter(|&due| due <= until) {
        while let Some((at, packet)) = direction.poll(due) {
            assert!(at <= due);
            arrived.push((at, number(&packet)));
        }
    }
}

#[test]
fn without_settings_packets_pass_at_once() {
    let mut direction = up("");
    direction.receive(5, packet(1, 100));
    assert_eq!(direction.due(), Some(5));
    assert_eq!(direction.poll(5), Some((5, packet(1, 100))));
    assert_eq!((direction.poll(5), direction.due()), (None, None));
}

#[test]
fn half_of_the_round_trip_time_passes_in_each_direction() {
    for way in [Way::Up, Way::Down] {
        let mut direction = Direction::new(&spec("rtt=41ms"), way);
        direction.receive(0, packet(1, 100));
        assert_eq!(direction.due(), Some(41 * MS / 2));
        assert_eq!(direction.poll(41 * MS / 2 - 1), None);
        assert!(direction.poll(41 * MS / 2).is_some());
    }
}

#[test]
fn directions_are_apart() {
    let told = spec("rtt=40ms,rate=10mbit,up.rate=1mbit,down.delay=5ms,up.loss=100%");
    let took = |way| {
        let mut direction = Direction::new(&told, way);
        direction.receive(0, packet(1, 1250));
        direction.due()
    };
    assert_eq!(took(Way::Up), None);
    assert_eq!(took(Way::Down), Some(6 * MS));
}

#[test]
fn a_link_has_its_rate_and_a_full_queue_drops() {
    // A packet takes 1.2 ms at 10 Mbit/s, and twice as many come as fit.
    let mut direction = up("rtt=40ms,rate=10mbit,queue=50p");
    let arrived = run(&mut direction, 10_000, 600_000);
    let counters = direction.counters();
    assert_eq!(counters.received.packets, 10_000);
    assert_eq!(
        counters.forwarded.packets + counters.dropped.packets,
        10_000
    );
    // Of 6 s, and of the queue that is left at the end.
    assert!(arrived.len().abs_diff(5_000 + 50) <= 1, "{}", arrived.len());
    let longest = arrived.iter().map(|(_, took)| *took).max();
    // Behind 50 packets and the rest of the one that leaves, and then its own time.
    assert!(longest <= Some(20 * MS + 52 * 1_200_000), "{longest:?}");
    assert!(longest >= Some(20 * MS + 50 * 1_200_000), "{longest:?}");
}

#[test]
fn the_rate_is_kept_from_one_to_a_thousand_megabits() {
    for rate in [1, 10, 100, 720, 1000] {
        let mut direction = up(&format!("rate={rate}mbit,queue=100p"));
        // Faster than any of the rates.
        for sent in 0..20_000 {
            direction.receive(sent * 10_000, packet(sent, MTU));
        }
        let mut last = 0;
        while let Some(due) = direction.due() {
            while let Some((at, _)) = direction.poll(due) {
                last = at;
            }
        }
        let bits = direction.counters().forwarded.bytes as f64 * 8.0;
        let found = bits / (last as f64 / 1e9);
        assert!(
            (found / (rate as f64 * 1e6) - 1.0).abs() < 1e-5,
            "{rate}: {found}"
        );
    }
}

#[test]
fn a_queue_of_one_bandwidth_delay_product_holds_a_round_trip_of_packets() {
    // 100 ms of 12 Mbit/s are 100 packets; the link holds one besides.
    let mut direction = up("rtt=100ms,rate=12mbit");
    for sent in 0..1000 {
        direction.receive(0, packet(sent, MTU));
    }
    assert_eq!(direction.counters().dropped.packets, 1000 - 101);
    // However small the product is.
    let mut direction = up("rtt=10us,rate=1mbit,queue=1bdp");
    for sent in 0..1000 {
        direction.receive(0, packet(sent, MTU));
    }
    assert_eq!(direction.counters().dropped.packets, 1000 - 11);
}

#[test]
fn codel_ends_a_standing_queue_that_drop_tail_keeps() {
    // A tenth more comes than fits, for a minute.
    let waited = |text: &str| {
        let mut direction = up(text);
        let arrived = run(&mut direction, 55_000, 1_090_909);
        let mut late: Vec<Nanos> = arrived[arrived.len() / 2..]
            .iter()
            .map(|(_, t)| *t)
            .collect();
        late.sort_unstable();
        late[late.len() / 2]
    };
    let full = waited("rate=10mbit,queue=200p");
    assert!(full > 230 * MS, "{full}");
    let short = waited("rate=10mbit,queue=200p,codel");
    assert!(short < 30 * MS, "{short}");
}

#[test]
fn a_trace_says_when_packets_leave() {
    let mut direction = up("trace=any");
    for sent in 0..6 {
        direction.receive(0, packet(sent, MTU));
    }
    let mut arrived = Vec::new();
    drain(&mut direction, Nanos::MAX, &mut arrived);
    let instants: Vec<Nanos> = arrived.iter().map(|(at, _)| at / MS).collect();
    assert_eq!(instants, [1, 2, 3, 7, 8, 9]);
}

#[test]
fn packets_overtake_one_another_only_where_that_is_asked_for() {
    for (setting, reordered) in [("", false), (",reorder", true)] {
        let mut direction = up(&format!("rtt=40ms,jitter=5ms{setting}"));
        let arrived = run(&mut direction, 1000, MS);
        let behind = arrived.windows(2).filter(|w| w[1].0 < w[0].0).count();
        assert_eq!(behind > 0, reordered);
        assert_eq!(direction.counters().reordered > 0, reordered);
    }
}

#[test]
fn duplicates_and_damage_have_their_shares() {
    let mut direction = up("rtt=2ms,duplicate=10%,corrupt=5%");
    let (mut twice, mut damaged) = (0, 0);
    let mut before = None;
    for sent in 0..100_000 {
        direction.receive(sent, vec![0; 40]);
    }
    while let Some((at, packet)) = direction.poll(S) {
        twice += u64::from(before == Some(at));
        before = Some(at);
        let flipped: u32 = packet.iter().map(|byte| byte.count_ones()).sum();
        assert!(flipped <= 1);
        damaged += u64::from(flipped);
    }
    let counters = direction.counters();
    assert_eq!((counters.duplicated, counters.corrupted), (twice, damaged));
    assert!(twice.abs_diff(10_000) < 500, "{twice}");
    assert!(damaged.abs_diff(5_500) < 300, "{damaged}");
}

#[test]
fn what_is_drawn_for_one_part_does_not_depend_on_another() {
    let passed = |text: &str| -> Vec<u64> {
        let mut direction = up(text);
        let mut arrived: Vec<u64> = run(&mut direction, 1000, MS).iter().map(|a| a.0).collect();
        arrived.dedup();
        arrived
    };
    let some = passed("rtt=40ms,loss=10%");
    assert!(some.len() < 950);
    assert_eq!(passed("rtt=40ms,loss=10%"), some);
    assert_eq!(
        passed("rtt=40ms,loss=10%,jitter=3ms,duplicate=5%,rate=100mbit"),
        some
    );
    assert_ne!(passed("rtt=40ms,loss=10%,seed=2"), some);
}

/// Any network, and when packets of which size come in.
fn anything() -> impl Strategy<Value = (String, Vec<(Nanos, usize)>)> {
    let link = prop_oneof![
        Just("".to_string()),
        Just("trace=any,queue=20p,".into()),
        (1u32..50).prop_map(|rate| format!("rate={rate}mbit,queue=30k,")),
        (1u32..50).prop_map(|rate| format!("rate={rate}mbit,queue=60p,codel,")),
    ];
    let rest = prop_oneof![
        Just("".to_string()),
        Just("loss=20%,burst=2,".into()),
        Just("pattern=3/1,duplicate=10%,".into()),
        Just("jitter=4ms,reorder,loss=5%,".into()),
        Just("jitter=4ms,".into()),
    ];
    let packets = proptest::collection::vec((0..3 * MS, 20usize..MTU), 0..200);
    (link, rest, packets).prop_map(|(link, rest, packets)| {
        let mut at = 0;
        let packets = packets.into_iter().map(|(gap, size)| {
            at += gap;
            (at, size)
        });
        (format!("rtt=10ms,{link}{rest}"), packets.collect())
    })
}

proptest! {
    /// Instants are those of the network, whenever somebody looks; and no packet is forgotten.
    #[test]
    fn polling_late_changes_nothing_and_all_packets_are_counted((text, packets) in anything()) {
        let (mut prompt, mut late) = (up(&text), up(&text));
        let (mut soon, mut after) = (Vec::new(), Vec::new());
        for (sent, (at, size)) in packets.iter().enumerate() {
            drain(&mut prompt, *at, &mut soon);
            prompt.receive(*at, packet(sent as u64, *size));
            late.receive(*at, packet(sent as u64, *size));
        }
        drain(&mut prompt, Nanos::MAX, &mut soon);
        while let Some((at, packet)) = late.poll(Nanos::MAX) {
            after.push((at, number(&packet)));
        }
        prop_assert_eq!(&soon, &after);
        prop_assert_eq!(prompt.counters(), late.counters());
        let told = prompt.counters();
        prop_assert_eq!(
            told.received.packets + told.duplicated,
            told.forwarded.packets + told.lost.packets + told.dropped.packets
        );
        prop_assert_eq!(told.forwarded.packets, soon.len() as u64);
        prop_assert!(soon.is_sorted_by_key(|(at, _)| *at));
    }
}
