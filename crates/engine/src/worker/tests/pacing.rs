//! When requests leave: stages in flight, rates of connections, and what queues where a server is slow.

use super::*;
use crate::options::{Arrivals, InFlightStage};
use crate::outcome::{Code, WindowOut};
use crate::windows::{self, BacklogOut};

const VERSIONS: [Version; 3] = [Version::H1, Version::H2c, Version::H3];

fn stage(millis: u64, in_flight: u64) -> InFlightStage {
    InFlightStage {
        length: Duration::from_millis(millis),
        in_flight,
    }
}

/// Room for as many requests: over HTTP/1.1 on connections, over the others on four streams of each.
fn in_stages(version: Version, room: usize, stages: Vec<InFlightStage>) -> Options {
    let streams = if version == Version::H1 { 1 } else { 4 };
    Options {
        stages_in_flight: stages,
        requests: None,
        connections: room / streams,
        streams,
        ..counted(0, version)
    }
}

/// What the rows of the result say of the queue.
fn queue(windows: &[Window]) -> BacklogOut {
    let rows: Vec<_> = windows
        .iter()
        .map(|window| WindowOut::new(window, true))
        .collect();
    windows::backlog(&rows).unwrap()
}

#[test]
fn as_many_are_in_flight_as_the_stages_say() {
    for version in VERSIONS {
        let stages = [
            stage(500, 40),
            stage(500, 40),
            stage(500, 9),
            stage(300, 9),
            stage(300, 48),
            stage(500, 0),
        ];
        let options = in_stages(version, 48, stages.to_vec());
        let stories = vec![Story::Serve(after(5))];
        let (report, _, windows) = watched(&options, &addresses(1), stories, Slow::default());
        let report = report.unwrap();
        assert_eq!(report.recorder.failures.total(), 0);
        assert_eq!(report.concurrency.at_most, 48, "{version:?}");
        assert_eq!(windows.len(), 26);
        for window in &windows {
            let end = 100 * (window.index as u64 + 1);
            let (mut begun, mut from) = (0, 0.0);
            let mut line = 0.0;
            for stage in stages {
                let (length, to) = (stage.length.as_millis() as u64, stage.in_flight as f64);
                if (begun..=begun + length).contains(&end) {
                    line = from + (to - from) * (end - begun) as f64 / length as f64;
                }
                (begun, from) = (begun + length, to);
            }
            // Down a ramp those of the last five milliseconds have not been answered.
            let off = window.in_flight as f64 - line;
            assert!(
                (-0.5..=1.5).contains(&off),
                "{version:?}: {} and not {line} after {end} ms",
                window.in_flight
            );
        }
    }
}

#[test]
fn nothing_takes_the_place_of_what_ends_down_a_ramp() {
    for version in VERSIONS {
        let options = in_stages(
            version,
            12,
            vec![stage(100, 10), stage(100, 0), stage(500, 0)],
        );
        let stories = vec![Story::Serve(after(400))];
        let (report, _, windows) = watched(&options, &addresses(1), stories, Slow::default());
        let recorder = report.unwrap().recorder;
        assert_eq!((recorder.started, recorder.ok), (10, 10), "{version:?}");
        let in_flight: Vec<_> = windows.iter().map(|window| window.in_flight).collect();
        assert_eq!(in_flight, [10, 10, 10, 10, 0, 0, 0], "{version:?}");
    }
}

#[test]
fn a_connection_that_is_replaced_has_its_part_in_flight() {
    for version in VERSIONS {
        let options = Options {
            requests_per_connection: Some(7),
            ..in_stages(version, 16, vec![stage(100, 10), stage(900, 10)])
        };
        let stories = vec![Story::Serve(after(5))];
        let (report, seen) = run(&options, &addresses(1), stories);
        let report = report.unwrap();
        assert!(seen.connects > 20, "{version:?}");
        assert_eq!(report.recorder.failures.total(), 0);
        assert_eq!(report.concurrency.at_most, 10, "{version:?}");
    }
}

#[test]
fn each_connection_sends_at_its_own_rate() {
    for version in VERSIONS {
        let options = Options {
            rate_per_connection: Some(50.0),
            connections: 4,
            ..timed(0, 1000, version)
        };
        let (report, seen) = run(&options, &addresses(1), vec![Story::Serve(after(1))]);
        let report = report.unwrap();
        let recorder = &report.recorder;
        assert!((198..=201).contains(&recorder.started), "{version:?}");
        assert!(seen.most_on_one.abs_diff(50) <= 1, "{version:?}");
        assert!(most(&recorder.late) < 1e-6, "{version:?}");
        assert!(most(&recorder.of_all_requests().wait) < 1e-6, "{version:?}");
        assert_eq!(report.unsent, Unsent::default());
    }
}

#[test]
fn what_a_slow_connection_does_not_send_is_no_other_s() {
    for version in VERSIONS {
        let options = Options {
            rate_per_connection: Some(50.0),
            connections: 2,
            streams: 1,
            ..timed(0, 1000, version)
        };
        let stories = vec![Story::Serve(after(1)), Story::Serve(after(100))];
        let (report, _, windows) = watched(&options, &addresses(1), stories, Slow::default());
        let report = report.unwrap();
        // Fifty on the one, ten on the other, and what waits for that.
        let started = report.recorder.started;
        assert!((57..=62).contains(&started), "{version:?}: {started}");
        let waiting = report.unsent.waiting;
        assert!((38..=42).contains(&waiting), "{version:?}: {waiting}");
        let queue = queue(&windows);
        assert!(queue.at_end.abs_diff(waiting) <= 1, "{version:?}");
        assert!(queue.since_s.unwrap() < 0.11, "{version:?}");
        assert!(most(&report.recorder.late) < 1e-6, "{version:?}");
    }
}

#[test]
fn a_rate_of_its_own_outlives_a_connection() {
    for version in VERSIONS {
        let options = Options {
            rate_per_connection: Some(100.0),
            requests_per_connection: Some(5),
            connections: 3,
            ..timed(0, 1000, version)
        };
        let (report, seen) = run(&options, &addresses(1), vec![Story::Serve(after(2))]);
        let recorder = report.unwrap().recorder;
        assert!((295..=301).contains(&recorder.started), "{version:?}");
        assert_eq!(recorder.failures.total(), 0);
        assert!(seen.connects >= 55, "{version:?}: {}", seen.connects);
    }
}

#[test]
fn a_queue_that_grows_is_told_as_long_as_it_is() {
    // 400 requests a second of 500 can be answered.
    for version in VERSIONS {
        let is_quic = version == Version::H3;
        let options = Options {
            connections: if version == Version::H1 { 4 } else { 1 },
            rate: Some(500.0),
            ..timed(0, 2000, version)
        };
        let serve = Serve {
            delay: Duration::from_millis(if is_quic { 9 } else { 10 }),
            ..Serve::well()
        };
        let stories = vec![Story::Serve(serve)];
        let (report, _, windows) = watched(&options, &addresses(1), stories, Slow::default());
        let unsent = report.unwrap().unsent.waiting;
        for window in &windows {
            let grown = 10 * (window.index as u64 + 1);
            let backlog = window.backlog;
            assert!(
                backlog.abs_diff(grown) <= 6,
                "{version:?}: {backlog} and not {grown}"
            );
        }
        let told = queue(&windows);
        assert_eq!((told.at_end, told.at_most), (unsent, unsent), "{version:?}");
        assert_eq!(told.since_s, Some(0.0), "{version:?}");
    }
}

#[test]
fn a_stall_is_told_with_when_it_began() {
    let serve = Serve {
        latency: Some(Latency::Stalls {
            length: Duration::from_secs(1),
            period: Duration::from_secs(10),
        }),
        ..Serve::well()
    };
    for version in VERSIONS {
        let options = Options {
            rate: Some(1000.0),
            connections: if version == Version::H1 { 100 } else { 25 },
            ..timed(0, 11_000, version)
        };
        let stories = vec![Story::Serve(serve.clone())];
        let (report, _, windows) = watched(&options, &addresses(1), stories, Slow::default());
        assert_eq!(report.unwrap().unsent.waiting, 0, "{version:?}");
        // The streams hold what comes in the first tenth of the second.
        let BacklogOut {
            at_most,
            at_most_s,
            since_s,
            at_end,
        } = queue(&windows);
        assert!((700..=900).contains(&at_most), "{version:?}: {at_most}");
        let (at, since) = (at_most_s.unwrap(), since_s.unwrap());
        assert!((9.79..=10.01).contains(&at), "{version:?}: {at}");
        assert!((8.89..=9.11).contains(&since), "{version:?}: {since}");
        assert_eq!(at_end, 0, "{version:?}");
    }
}

#[test]
fn requests_at_a_rate_take_as_long_as_the_rate_says() {
    for version in VERSIONS {
        for (requests, arrivals) in [
            (1, Arrivals::Constant),
            (3, Arrivals::Constant),
            (20, Arrivals::Constant),
            (20, Arrivals::Poisson),
        ] {
            let options = Options {
                rate: Some(10.0),
                arrivals,
                ..counted(requests, version)
            };
            let stories = vec![Story::Serve(after(2))];
            let (report, _) = run(&options, &addresses(1), stories);
            let outcome = outcome(&options, report.unwrap());
            let rate = outcome.rate.requests_per_s;
            let what = format!("{version:?} {requests} {arrivals:?}: {rate}/s");
            let least = match arrivals {
                Arrivals::Constant => 9.99,
                // Twenty at random take twice their time once in a thousand runs.
                Arrivals::Poisson => 5.0,
            };
            assert!((least..=10.0).contains(&rate), "{what}");
            assert!(outcome.rate.sent_per_s.unwrap() <= 10.0, "{what}");
        }
    }
}

/// What is asked for is when they leave: answers that come after the last was due are no slower sending.
#[test]
fn requests_leave_at_the_rate_asked_for_however_long_the_last_one_takes() {
    for version in VERSIONS {
        let options = Options {
            rate: Some(10.0),
            connections: 10,
            ..counted(5, version)
        };
        let stories = vec![Story::Serve(after(2000))];
        let (report, _) = run(&options, &addresses(1), stories);
        let rate = outcome(&options, report.unwrap()).rate;
        assert!(rate.window_s > 2.0, "{version:?}: {rate:?}");
        let sent = rate.sent_per_s.unwrap();
        assert!((9.99..=10.0).contains(&sent), "{version:?}: {rate:?}");
    }
}

#[test]
fn what_is_due_as_a_run_ends_is_none_of_its_requests() {
    for version in VERSIONS {
        for warmup in [0, 1000] {
            let options = Options {
                rate: Some(2.0),
                ..timed(warmup, 1000, version)
            };
            let (report, _) = run(&options, &addresses(1), vec![Story::Serve(after(2))]);
            let outcome = outcome(&options, report.unwrap());
            assert_eq!(outcome.requests.started, 2, "{version:?} {warmup}");
            assert_eq!(outcome.rate.sent_per_s, Some(2.0), "{version:?} {warmup}");
        }
    }
}

#[test]
fn the_share_of_one_worker_takes_as_long_as_all() {
    let options = Options {
        rate: Some(10.0),
        threads: 2,
        ..counted(5, Version::H1)
    };
    let (report, _) = run(&options, &addresses(1), vec![Story::Serve(after(2))]);
    assert_eq!(report.unwrap().measured, 500_000_000);
}

#[test]
fn answers_that_take_their_time_are_no_queue() {
    let options = Options {
        rate: Some(100.0),
        connections: 100,
        ..counted(100, Version::H1)
    };
    let (report, _) = run(&options, &addresses(1), vec![Story::Serve(after(500))]);
    let outcome = outcome(&options, report.unwrap());
    let mut reasons = outcome.validity.reasons.iter();
    assert!(!reasons.any(|reason| matches!(reason.code, Code::Queued | Code::Late)));
}

/// A slip of the keyboard: `-R 500m`. In virtual time the run ends whatever it costs; that it costs no more than
/// another is what the counts of `arrivals.rs` say.
#[test]
fn a_rate_that_nobody_reaches_ends_with_its_time() {
    for shed_after in [None, Some(Duration::from_millis(1))] {
        let options = Options {
            rate: Some(500e6),
            shed_after,
            ..timed(0, 1000, Version::H1)
        };
        let (report, _) = run(&options, &addresses(1), vec![Story::Serve(after(2))]);
        let report = report.unwrap();
        let left = report.recorder.started + report.unsent.shed + report.unsent.waiting;
        assert!(left.abs_diff(500_000_000) < 10_000, "{left}");
    }
}
