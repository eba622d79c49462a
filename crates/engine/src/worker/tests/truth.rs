//! Servers whose latencies are known: what is reported is what they did, to 2 % or 100 µs.

use super::*;
use crate::phases::RequestPhases;

const MS: Duration = Duration::from_millis(1);
const VERSIONS: [Version; 3] = [Version::H1, Version::H2c, Version::H3];

/// Runs against servers that take a millisecond and `latency` on top of it; over QUIC it is the way back
/// that takes the millisecond.
fn measured(options: &Options, latency: Latency) -> Recorder {
    let is_quic = options.version == Some(Version::H3);
    let serve = Serve {
        delay: if is_quic { Duration::ZERO } else { MS },
        latency: Some(latency),
        ..Serve::well()
    };
    let (report, _) = run(options, &addresses(1), vec![Story::Serve(serve)]);
    report.unwrap().recorder
}

fn check(what: &str, durations: &Durations, known: &[(f64, f64)]) {
    for &(quantile, seconds) in known {
        let reported = durations.quantile(quantile).unwrap();
        let off = (reported - seconds).abs();
        assert!(
            off <= f64::max(seconds * 0.02, 100e-6),
            "{what}: the quantile {quantile} is {seconds} s, and {reported} s were reported"
        );
    }
}

/// So many requests: closed, and open at a rate that keeps some tens in flight.
fn models(requests: u64, version: Version) -> [Options; 2] {
    let closed = counted(requests, version);
    let open = Options {
        rate: Some(1000.0),
        connections: if version == Version::H1 { 400 } else { 8 },
        streams: if version == Version::H1 { 1 } else { 50 },
        ..closed.clone()
    };
    [closed, open]
}

#[test]
fn two_latencies_are_told_apart() {
    let latency = Latency::Bimodal(4 * MS, 99 * MS);
    for version in VERSIONS {
        for options in models(2048, version) {
            let recorder = measured(&options, latency);
            let known = [(0.5, 0.005), (0.75, 0.005), (0.95, 0.1), (0.99, 0.1)];
            let what = format!("{version:?} {:?}", options.rate);
            check(&what, &recorder.service, &known);
            if options.rate.is_some() {
                check(&what, &recorder.response, &known);
            }
        }
    }
}

#[test]
fn exponential_latencies_have_their_quantiles() {
    let latency = Latency::Exponential(20 * MS);
    for version in VERSIONS {
        // So many that the quantile of 0.999 is known.
        for options in models(12_288, version) {
            let recorder = measured(&options, latency);
            let known = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999]
                .map(|quantile: f64| (quantile, 0.001 - 0.02 * (1.0 - quantile).ln()));
            let what = format!("{version:?} {:?}", options.rate);
            check(&what, &recorder.service, &known);
            if options.rate.is_some() {
                check(&what, &recorder.response, &known);
            }
        }
    }
}

/// A server that answers nothing for half a second of five: a client that waits for it meets that
/// once, and those who come meanwhile meet it all (coordinated omission).
#[test]
fn a_stall_is_in_the_response_time_of_all_who_came_in_it() {
    let latency = Latency::Stalls {
        length: 500 * MS,
        period: 5000 * MS,
    };
    for version in VERSIONS {
        let open = Options {
            rate: Some(1000.0),
            connections: if version == Version::H1 { 550 } else { 11 },
            streams: if version == Version::H1 { 1 } else { 50 },
            ..timed(0, 5000, version)
        };
        let recorder = measured(&open, latency);
        // One of ten waits, as long as what is left of the half second.
        let known = [(0.5, 0.001), (0.95, 0.251), (0.99, 0.451)];
        check(&format!("{version:?}"), &recorder.response, &known);

        let closed = Options {
            connections: 1,
            streams: 1,
            ..timed(0, 5000, version)
        };
        let recorder = measured(&closed, latency);
        check(&format!("{version:?}"), &recorder.service, &[(0.99, 0.001)]);
        assert!(most(&recorder.service) > 0.49, "{version:?}");
    }
}

#[test]
fn what_took_too_long_is_known_to_have_taken_as_long() {
    const REQUESTS: u64 = 4096;
    let latency = Latency::Exponential(50 * MS);
    for version in VERSIONS {
        for options in models(REQUESTS, version) {
            let options = Options {
                timeout: 101 * MS,
                ..options
            };
            let recorder = measured(&options, latency);
            // e⁻² of them take more than a tenth of a second.
            let share = recorder.censored as f64 / REQUESTS as f64;
            assert!(
                (share - (-2f64).exp()).abs() < 0.005,
                "{version:?}: {share}"
            );
            assert_eq!(recorder.ok + recorder.censored, recorder.service.count());
            let known = [(0.5, 0.001 + 0.05 * 2f64.ln())];
            check(&format!("{version:?}"), &recorder.service, &known);
            for quantile in [0.9, 0.99] {
                assert!(recorder.service.quantile(quantile).unwrap() >= 0.101);
            }
        }
    }
}

#[test]
fn events_come_when_the_server_sends_them() {
    for version in [Version::H1, Version::H2c] {
        let serve = Serve {
            latency: Some(Latency::Exponential(20 * MS)),
            events: Some((20, 7 * MS)),
            ..Serve::well()
        };
        let options = Options {
            events: Some(EventsAsked {
                format: EventFormat::Sse,
                first: None,
                stall: 10 * MS,
            }),
            connections: if version == Version::H1 { 1000 } else { 20 },
            streams: if version == Version::H1 { 1 } else { 50 },
            ..counted(2000, version)
        };
        let (report, _) = run(&options, &addresses(1), vec![Story::Serve(serve)]);
        let mut recorder = report.unwrap().recorder;
        assert_eq!(recorder.ok, 2000);
        let events = recorder.events();
        assert_eq!((events.received, events.stalls), (40_000, 0));
        assert_eq!((events.first.count(), events.gap.count()), (2000, 38_000));
        let what = format!("{version:?}");
        check(
            &what,
            &events.gap,
            &[(0.5, 0.007), (0.99, 0.007), (0.999, 0.007)],
        );
        let known = [0.5, 0.9, 0.99].map(|q: f64| (q, 0.001 - 0.02 * (1.0 - q).ln()));
        check(&what, &events.first, &known);
    }
}

/// The first request on each connection, and all that follow.
#[test]
fn what_requests_consist_of_is_told_of_cold_and_warm_ones() {
    for version in [Version::H1, Version::H2c] {
        let serve = Serve {
            latency: Some(Latency::Exponential(20 * MS)),
            events: Some((20, 7 * MS)),
            ..Serve::well()
        };
        let connections = if version == Version::H1 { 500 } else { 20 };
        let options = Options {
            connections,
            streams: if version == Version::H1 { 1 } else { 25 },
            ..counted(2000, version)
        };
        let (report, _) = run(&options, &addresses(1), vec![Story::Serve(serve)]);
        let recorder = report.unwrap().recorder;
        assert_eq!(recorder.ok, 2000);
        let cold = recorder.cold.as_ref().unwrap();
        let counts = |phases: &RequestPhases| (phases.ttfb.count(), phases.body.count());
        let first = connections as u64;
        assert_eq!(counts(cold), (first, first), "{version:?}");
        assert_eq!(counts(&recorder.warm), (2000 - first, 2000 - first));
        let (what, body) = (format!("{version:?}"), [(0.5, 0.133), (0.9, 0.133)]);
        check(&what, &recorder.warm.body, &body);
        check(&what, &cold.body, &body[..1]);
        let all = recorder.of_all_requests();
        let known = [0.5, 0.9, 0.99].map(|q: f64| (q, 0.001 - 0.02 * (1.0 - q).ln()));
        check(&what, &all.ttfb, &known);
    }
}

/// 4000 requests a second of 5000 can be answered: each waits for a stream longer than the one before.
#[test]
fn the_wait_for_a_stream_is_as_long_as_it_was() {
    for version in VERSIONS {
        let is_quic = version == Version::H3;
        let options = Options {
            rate: Some(5000.0),
            connections: if version == Version::H1 { 4 } else { 1 },
            streams: if version == Version::H1 { 1 } else { 4 },
            ..timed(0, 1000, version)
        };
        let serve = Serve {
            delay: if is_quic { Duration::ZERO } else { MS },
            ..Serve::well()
        };
        let (report, _) = run(&options, &addresses(1), vec![Story::Serve(serve)]);
        let recorder = report.unwrap().recorder;
        // The last that left was due after 0.8 s, and left after one.
        let known = [(0.5, 0.1), (0.9, 0.18), (0.99, 0.198)];
        let what = format!("{version:?}");
        check(&what, &recorder.of_all_requests().wait, &known);
        check(&what, &recorder.warm.ttfb, &[(0.5, 0.001), (0.99, 0.001)]);
        let connections = options.connections as u64;
        assert_eq!(recorder.cold.unwrap().wait.count(), connections, "{what}");
    }
}
