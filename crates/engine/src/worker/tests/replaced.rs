//! Connections that are closed after so many requests, and replaced.

use super::*;

const VERSIONS: [Version; 3] = [Version::H1, Version::H2c, Version::H3];

/// A counted run whose connections carry so many requests each.
fn replacing(requests: u64, each: u64, version: Version) -> Options {
    Options {
        connections: 4,
        requests_per_connection: Some(each),
        ..counted(requests, version)
    }
}

#[test]
fn a_connection_carries_as_many_requests_as_it_may_and_its_end_is_no_failure() {
    for version in VERSIONS {
        for each in [1, 3, 7] {
            let options = replacing(84, each, version);
            let (report, seen) = run(&options, &addresses(1), vec![Story::Serve(after(5))]);
            let report = report.unwrap();
            let recorder = &report.recorder;
            assert_eq!((recorder.ok, recorder.failures.total()), (84, 0));
            assert_eq!((recorder.started, recorder.retried), (84, 0));
            assert_eq!((seen.taken, seen.most_on_one as u64), (84, each));
            let counts = connections(&report);
            assert!(counts.lost.is_empty() && counts.failed.is_empty());
            assert_eq!(counts.established, counts.spent + counts.open_at_end);
            assert_eq!(counts.attempted, seen.connects);
        }
    }
}

#[test]
fn no_connection_is_begun_when_every_request_has_been_sent() {
    for version in VERSIONS {
        let options = replacing(10, 1, version);
        let (report, seen) = run(&options, &addresses(1), vec![Story::Serve(after(5))]);
        let counts = connections(&report.unwrap());
        // Four places, the last of which are begun while two requests are left.
        assert_eq!((counts.attempted, seen.connects), (12, 12), "{version:?}");
        assert_eq!(counts.spent, 10);
    }
}

#[test]
fn a_request_that_waits_for_its_connection_takes_the_time_of_both() {
    let options = Options {
        requests_per_connection: Some(1),
        ..timed(100, 1000, Version::H1)
    };
    let (report, _) = run(&options, &addresses(1), vec![Story::Serve(after(10))]);
    let recorder = report.unwrap().recorder;
    // A connection takes a millisecond, an answer ten.
    assert!(most(&recorder.service) < 0.0105);
    let summary = recorder.response.summary();
    assert!(
        (0.011..0.0115).contains(&summary.p50.unwrap()),
        "{summary:?}"
    );
    assert!((0.001..0.0015).contains(&most(&recorder.of_all_requests().wait)));
    assert_eq!(most(&recorder.late), 0.0);
    let made = recorder.made.unwrap();
    assert!((0.011..0.0115).contains(&most(&made.first_byte)));
    // Those that were in flight when the warm-up ended had been begun before.
    let begun_before = recorder.ok + 8 - made.first_byte.count();
    assert!((8..=16).contains(&begun_before), "{begun_before}");
}

#[test]
fn all_streams_of_a_connection_wait_for_the_next_one() {
    let options = Options {
        connections: 1,
        streams: 2,
        requests_per_connection: Some(4),
        ..timed(0, 1000, Version::H2c)
    };
    let (report, _) = run(&options, &addresses(1), vec![Story::Serve(after(10))]);
    let recorder = report.unwrap().recorder;
    let waited = recorder.of_all_requests().wait.summary();
    // Two of the four that each connection carries leave as it is open; the others follow responses.
    assert!((0.001..0.0015).contains(&waited.max.unwrap()), "{waited:?}");
    let quarter = waited.count / 4;
    let did = waited.mean.unwrap() * waited.count as f64 / 0.001;
    assert!(
        (did - 2.0 * quarter as f64).abs() <= 4.0,
        "{did} of {waited:?}"
    );
}

#[test]
fn the_open_model_keeps_its_schedule_over_connections_that_are_replaced() {
    for version in VERSIONS {
        let options = Options {
            rate: Some(200.0),
            requests_per_connection: Some(1),
            ..timed(0, 1000, version)
        };
        let (report, seen) = run(&options, &addresses(1), vec![Story::Serve(after(10))]);
        let report = report.unwrap();
        let recorder = &report.recorder;
        assert_eq!(
            (recorder.failures.total(), report.unsent),
            (0, Unsent::default())
        );
        assert!((195..=201).contains(&recorder.started));
        assert_eq!(seen.most_on_one, 1);
        assert_eq!(most(&recorder.late), 0.0, "{version:?}");
    }
}

#[test]
fn a_server_that_fails_and_connections_that_are_replaced_are_counted_apart() {
    let serve = Serve {
        answers: 2,
        ending: Ending::Reset,
        ..after(5)
    };
    let stories = vec![Story::Serve(serve), Story::Serve(after(5))];
    for version in VERSIONS {
        let options = Options {
            connections: 1,
            streams: 1,
            ..replacing(60, 3, version)
        };
        let (report, _) = run(&options, &addresses(1), stories.clone());
        let report = report.unwrap();
        let counts = connections(&report);
        let failed = report.recorder.failures.total();
        assert_eq!(
            (report.recorder.ok + failed, failed),
            (60, 10),
            "{version:?}"
        );
        assert_eq!(counts.lost.values().sum::<u64>(), 10);
        assert_eq!(counts.spent, 10);
    }
}
