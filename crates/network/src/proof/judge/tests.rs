use super::*;

fn spec(text: &str) -> DirectionSpec {
    crate::Spec::read(text, |_| Err("no file".into()))
        .expect("a network")
        .up
}

/// A train of packets that are sent a millisecond apart and take the same time, but for those lost.
fn train(packets: usize, took: i64, lost: impl Fn(usize) -> bool) -> Train {
    let took: Vec<_> = (0..packets).map(|n| (!lost(n)).then_some(took)).collect();
    let arrived = took
        .iter()
        .enumerate()
        .filter_map(|(n, took)| took.map(|took| (n as i64 * 1_000_000 + took, n)))
        .collect();
    Train {
        took,
        arrived,
        sent: (0..packets as i64).map(|n| n * 1_000_000).collect(),
    }
}

fn held(checks: &[Check], what: Property) -> Option<bool> {
    checks
        .iter()
        .find(|check| check.what == what)
        .map(Check::holds)
}

#[test]
fn a_delay_that_differs_by_more_than_the_clock_explains_is_found() {
    let asked = spec("rtt=40ms");
    let judged = |took| delay(Way::Up, &asked, &train(50, took, |_| false), 64);
    assert_eq!(held(&judged(20_450_000), Property::Delay), Some(true));
    assert_eq!(held(&judged(20_550_000), Property::Delay), Some(false));
    assert_eq!(held(&judged(20_050_000), Property::Spread), Some(true));
    // No jitter, where some is asked.
    let asked = spec("rtt=40ms,jitter=5ms");
    let checks = delay(Way::Up, &asked, &train(50, 20_000_000, |_| false), 64);
    assert_eq!(held(&checks, Property::Spread), Some(false));
}

#[test]
fn the_time_of_the_link_is_a_part_of_the_delay() {
    // 64 bytes at 64 kbit/s take 8 ms.
    let checks = delay(
        Way::Up,
        &spec("rtt=20ms,rate=64kbit"),
        &train(20, 18_000_000, |_| false),
        64,
    );
    assert_eq!(held(&checks, Property::Delay), Some(true));
}

#[test]
fn a_rate_that_differs_by_more_than_a_hundredth_is_found() {
    // A packet of 1500 bytes each millisecond is 12 Mbit/s.
    let seen = train(100, 0, |_| false);
    let holds = |text| rate(Way::Up, &spec(text), &seen).map(|check| check.holds());
    assert_eq!(holds("rate=12mbit"), Some(true));
    assert_eq!(holds("rate=12100kbit"), Some(true));
    assert_eq!(holds("rate=12200kbit"), Some(false));
    assert_eq!(holds("rtt=1ms"), None);
}

#[test]
fn losses_are_held_against_chance() {
    let judged = |text, lost: fn(usize) -> bool| {
        held(
            &loss(Way::Up, &spec(text), &train(10_000, 0, lost)),
            Property::Loss,
        )
    };
    assert_eq!(judged("loss=1%", |n| n % 100 == 7), Some(true));
    assert_eq!(judged("loss=1%", |n| n % 50 == 7), Some(false));
    // Twice the share of what is lost in bursts of twenty may be chance.
    assert_eq!(judged("loss=1%,burst=20", |n| n % 700 < 10), Some(true));
    // A single packet is no chance where none is to be lost.
    assert_eq!(judged("rtt=1ms", |n| n == 5000), Some(false));
    assert_eq!(judged("rtt=1ms", |_| false), Some(true));
}

#[test]
fn the_length_of_bursts_is_judged() {
    let judged = |text, lost: fn(usize) -> bool| {
        held(
            &loss(Way::Up, &spec(text), &train(30_000, 0, lost)),
            Property::Burst,
        )
    };
    assert_eq!(judged("loss=3%,burst=3", |n| n % 100 < 3), Some(true));
    assert_eq!(judged("loss=3%,burst=3", |n| n % 33 == 7), Some(false));
}

#[test]
fn a_packet_that_overtakes_another_is_found_unless_that_was_asked() {
    let mut seen = train(100, 20_000_000, |_| false);
    seen.arrived.swap(20, 21);
    let judged = |text| held(&loss(Way::Up, &spec(text), &seen), Property::Order);
    assert_eq!(judged("rtt=40ms"), Some(false));
    assert_eq!(judged("rtt=40ms,jitter=5ms,reorder"), None);
}

#[test]
fn what_passes_by_a_trace_is_held_against_the_trace() {
    // One opportunity every two milliseconds.
    let stamps = (1..=500)
        .map(|n| format!("{}\n", 2 * n))
        .collect::<String>();
    let spec = crate::Spec::read("trace=here", |_| Ok(stamps.clone())).expect("a network");
    let begun = 1_000_000_000_000;
    let judged = |apart: i64| {
        let mut seen = train(200, 0, |_| false);
        seen.sent.iter_mut().for_each(|at| *at += begun);
        seen.arrived = (1..=100).map(|n| (begun + n * apart, n as usize)).collect();
        trace(&spec, Way::Up, &seen, begun).expect("it is one with a trace")
    };
    let right = judged(2_000_000);
    assert_eq!(right.what, Property::Rate);
    assert!((right.asked / 6e6 - 1.0).abs() < 1e-9, "{}", right.asked);
    assert!(right.holds(), "{right}");
    assert!(!judged(2_200_000).holds());
    assert!(!judged(1_800_000).holds());
    let steady = crate::Spec::read("rate=6mbit", |_| Err("no file".into())).expect("a network");
    assert!(trace(&steady, Way::Up, &train(10, 0, |_| false), 0).is_none());
}

#[test]
fn jitter_in_order_delays_more_than_was_asked_and_says_how_much() {
    // A thousand packets a second, each alone delayed by 20 ms on average.
    let asked = spec("rtt=40ms,jitter=10ms");
    let found = |took| mean_in_order(Way::Up, &asked, &train(1000, took, |_| false), 64).unwrap();
    let check = found(26_000_000);
    assert!((0.024..0.028).contains(&check.asked), "{check}");
    assert!(
        check.holds() && check.to_string().contains("follows from what was asked"),
        "{check}"
    );
    let tolerance = check.tolerance;
    assert!(
        !found((26e6 - tolerance * 2e9) as i64).holds(),
        "{tolerance}"
    );
    for text in ["rtt=40ms", "rtt=40ms,jitter=10ms,reorder"] {
        let other = mean_in_order(Way::Up, &spec(text), &train(1000, 0, |_| false), 64);
        assert!(other.is_none(), "{text}");
    }
}
