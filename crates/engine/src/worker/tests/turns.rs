//! Runs that take turns with others: what leaves when, and what of the time is the run's.

use super::*;
use crate::turns::Turns;

const VERSIONS: [Version; 3] = [Version::H1, Version::H2c, Version::H3];
const MS: u64 = 1_000_000;

/// A run of 400 ms of its own, the one with this number of three, whose turns of 20 ms are 22 ms apart.
fn in_turn(version: Version, index: usize, warmup: u64) -> Options {
    Options {
        requests: None,
        duration: Some(Duration::from_millis(400)),
        warmup: Some(Duration::from_millis(warmup)),
        connections: 2,
        streams: if version == Version::H1 { 1 } else { 2 },
        in_turn: Some(Turns {
            start: Instant::now(),
            length: Duration::from_millis(20),
            of: 3,
            index,
            seed: 3,
        }),
        ..counted(0, version)
    }
}

#[test]
fn requests_leave_in_the_turns_of_their_run() {
    for version in VERSIONS {
        for (index, warmup) in [(0, 0), (1, 100), (2, 0)] {
            let options = in_turn(version, index, warmup);
            let stories = vec![Story::Serve(after(1))];
            let (report, _, windows) = watched(&options, &addresses(1), stories, Slow::default());
            let report = report.unwrap();
            let recorder = &report.recorder;
            assert_eq!(recorder.failures.total(), 0, "{version:?}");
            // 1.32 s for 400 ms of its own: about twenty turns and the milliseconds after each.
            assert_eq!(windows.len(), 14, "{version:?}");
            let own = report.measured;
            assert!(
                (375 * MS..=465 * MS).contains(&own),
                "{version:?}: {own} ns"
            );
            assert_eq!(
                windows.iter().map(|window| window.length_ns).sum::<u64>(),
                own
            );
            // A millisecond and the way there each: as many a second as without turns.
            let at_once = (options.connections * options.streams) as f64;
            let rate = recorder.ok as f64 / (own as f64 / 1e9);
            let all_the_time = at_once / recorder.service.quantile(0.5).unwrap();
            let share = rate / all_the_time;
            assert!(
                (0.9..=1.05).contains(&share),
                "{version:?}: {share} of {all_the_time}/s"
            );
            let slowest = recorder.service.quantile(0.98).unwrap();
            assert!(
                slowest < 0.005,
                "{version:?}: no turn of another lies in a latency: {slowest} s"
            );
        }
    }
}

#[test]
fn requests_that_are_longer_than_a_turn_are_the_runs_own_time() {
    for version in VERSIONS {
        let options = in_turn(version, 0, 0);
        let (report, ..) = watched(
            &options,
            &addresses(1),
            vec![Story::Serve(after(150))],
            Slow::default(),
        );
        let report = report.unwrap();
        assert!(report.recorder.ok > 0);
        // Two turns of its own and those of the others pass while one request is under way.
        assert!(
            report.measured > 1_000 * MS,
            "{version:?}: {} ns",
            report.measured
        );
        let rate = report.recorder.ok as f64 / (report.measured as f64 / 1e9);
        let at_most = (options.connections * options.streams) as f64 / 0.15;
        assert!(
            rate <= at_most,
            "{version:?}: {rate}/s, and {at_most}/s can be"
        );
    }
}

#[test]
fn nothing_else_says_when_requests_leave() {
    let options = in_turn(Version::H1, 0, 0);
    let with = |change: fn(&mut Options)| {
        let mut options = options.clone();
        change(&mut options);
        Plan::new(&options).unwrap_err().to_string()
    };
    let rate = with(|options| options.rate = Some(10.0));
    assert!(rate.contains("-R says something else"), "{rate}");
    let count = with(|options| options.requests = Some(10));
    assert!(count.contains("-n says something else"), "{count}");
    let wrong = with(|options| {
        if let Some(turns) = &mut options.in_turn {
            turns.index = 3;
        }
    });
    assert!(wrong.contains("turn 3 of 3"), "{wrong}");
}
