//! Workers that stood still themselves: what waited for them is not called the server's.

use super::*;
use crate::outcome::{Code, Verdict};

/// What is said against a run whose worker is stopped at `at` for `length`, in milliseconds; how long it stood still
/// by its own clock, in seconds, with it.
fn stopped(options: &Options, delay: u64, at: u64, length: u64) -> (Option<Verdict>, f64) {
    let slow = Slow {
        stop: Some((Duration::from_millis(at), Duration::from_millis(length))),
        ..Slow::default()
    };
    let stories = vec![Story::Serve(after(delay))];
    let (report, ..) = watched(options, &addresses(1), stories, slow);
    let outcome = outcome(options, report.unwrap());
    let mut reasons = outcome.validity.reasons.iter();
    let said = reasons.find(|reason| reason.code == Code::StoodStill);
    let longest = outcome.cost.stood_still_s[0];
    (said.map(|reason| reason.verdict), longest)
}

#[test]
fn a_worker_that_was_stopped_is_not_the_server() {
    for version in [Version::H1, Version::H2c, Version::H3] {
        for (rate, threads) in [(Some(500.0), 1), (Some(500.0), 2), (None, 1)] {
            let asked = timed(100, 4000, version);
            let (connections, streams) = match rate {
                Some(_) => (asked.connections, asked.streams),
                None => (1, 1),
            };
            let options = Options {
                rate,
                threads,
                connections,
                streams,
                ..asked
            };
            let (said, longest) = stopped(&options, 5, 1500, 1000);
            let what = format!("{version:?} {rate:?} {threads}");
            // What it waited of its own accord is no part of it.
            assert!((0.98..=1.0).contains(&longest), "{what}: {longest}");
            // One of hundreds reaches no quantile that is told.
            let expected = match rate {
                Some(_) => Verdict::Invalid,
                None => Verdict::Suspect,
            };
            assert_eq!(said, Some(expected), "{what}");
        }
    }
}

#[test]
fn a_short_lapse_or_one_before_the_measurement_says_nothing() {
    let options = timed(500, 1000, Version::H1);
    assert_eq!(stopped(&options, 5, 700, 40).0, None);
    assert_eq!(stopped(&options, 5, 700, 70).0, Some(Verdict::Suspect));
    assert_eq!(stopped(&options, 5, 100, 300).0, None);
    // Its requests are measured from there.
    assert!(stopped(&options, 5, 450, 300).0.is_some());
}

#[test]
fn to_wait_for_a_slow_server_is_no_lapse() {
    let options = Options {
        rate: Some(2.0),
        ..timed(0, 3000, Version::H1)
    };
    let (said, longest) = stopped(&options, 900, 3_600_000, 0);
    assert_eq!((said, longest), (None, 0.0));
}
