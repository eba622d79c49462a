use super::*;
use crate::{Bandwidth, Spec};

fn read(text: &str) -> Spec {
    Spec::read(text, |_| Err("no file".into())).expect("a network")
}

fn rtt_ms(spec: &Spec) -> f64 {
    spec.rtt().as_secs_f64() * 1e3
}

#[test]
fn every_profile_can_be_drawn_and_reads_back_as_what_was_drawn() {
    for profile in PROFILES {
        for seed in 0..200 {
            let drawn = read(&format!("{},seed={seed}", profile.name));
            assert_eq!(read(&drawn.to_string()), drawn, "{}", profile.name);
        }
        for property in profile.properties {
            assert!(property.quantiles.is_sorted(), "{}", profile.name);
            assert!(!property.source.is_empty());
        }
    }
}

#[test]
fn the_network_in_the_middle_has_the_medians() {
    let spec = read("4g@median");
    assert_eq!(rtt_ms(&spec), 55.0);
    assert_eq!(spec.down.bandwidth, Bandwidth::Rate(21_300_000));
    assert_eq!(spec.up.bandwidth, Bandwidth::Rate(6_300_000));
    assert_eq!(spec, read("4g@median"));
    // A seed draws packets, not the network.
    let other = read("4g@median,seed=9");
    assert_eq!((other.up, other.down), (spec.up, spec.down));
}

#[test]
fn draws_are_distributed_as_the_table_says() {
    const DRAWS: usize = 10_000;
    let profile = Profile::find("leo").expect("a profile");
    let property = &profile.properties[0];
    let mut seen: Vec<f64> = (0..DRAWS as u64)
        .map(|seed| rtt_ms(&read(&format!("leo,seed={seed}"))))
        .collect();
    seen.sort_by(f64::total_cmp);
    for (rank, quantile) in RANKS.iter().zip(property.quantiles) {
        // The outer twentieths are at the outer quantiles.
        let below = seen.iter().filter(|rtt| **rtt < quantile * 0.999).count() as f64;
        let expected = if *rank == 0.05 {
            0.0
        } else {
            rank * DRAWS as f64
        };
        let error = 4.4 * (rank * (1.0 - rank) * DRAWS as f64).sqrt() + 50.0;
        assert!((below - expected).abs() < error, "{rank}: {below}");
    }
}

#[test]
fn both_rates_are_those_of_one_link_and_the_rest_is_drawn_by_itself() {
    let profile = Profile::find("4g").expect("a profile");
    let rank = |property: &Property, value: f64| {
        property
            .quantiles
            .iter()
            .filter(|known| **known <= value)
            .count()
    };
    let mut apart = 0;
    for seed in 0..500 {
        let spec = read(&format!("4g,seed={seed}"));
        let rate = |bandwidth: &Bandwidth| bandwidth.rate().unwrap_or_default() / 1e6;
        let down = rank(&profile.properties[1], rate(&spec.down.bandwidth));
        let up = rank(&profile.properties[2], rate(&spec.up.bandwidth));
        assert!(down.abs_diff(up) <= 1, "{spec}");
        apart += usize::from(rank(&profile.properties[0], rtt_ms(&spec)).abs_diff(down) > 1);
    }
    assert!(apart > 100, "{apart}");
}

#[test]
fn what_is_said_behind_a_profile_takes_the_place_of_what_it_draws() {
    for seed in 0..100 {
        let spec = read(&format!(
            "wifi-lossy,rtt=10ms,loss=0%,rate=1mbit,seed={seed}"
        ));
        assert_eq!(rtt_ms(&spec), 10.0);
        assert_eq!(spec.down.bandwidth, Bandwidth::Rate(1_000_000));
        assert!(spec.down.jitter <= spec.down.delay);
        assert!(!spec.to_string().contains("loss"), "{spec}");
        let spec = read(&format!("4g,rate=1mbit,pattern=9/1,seed={seed}"));
        assert_eq!(spec.down.bandwidth, Bandwidth::Rate(1_000_000));
        assert_eq!(spec.up.bandwidth, Bandwidth::Rate(1_000_000));
    }
}

#[test]
fn a_draw_is_the_same_everywhere() {
    assert_eq!(read("4g,seed=7").to_string(), PINNED);
}

const PINNED: &str =
    "rtt=47200us,jitter=2510us,queue=2bdp,loss=0.00471,up.rate=10600kbit,down.rate=37mbit,seed=7";

#[test]
fn what_is_no_profile_is_told_with_those_that_are() {
    let wrong = |text| Spec::read(text, |_| Err("no file".into())).expect_err("no network");
    assert!(wrong("6g").contains("3g"), "{}", wrong("6g"));
    assert!(
        wrong("4g@mean").contains("4g@median"),
        "{}",
        wrong("4g@mean")
    );
    assert!(
        wrong("rtt=1ms,4g").contains("first"),
        "{}",
        wrong("rtt=1ms,4g")
    );
}
