//! Requests to several origins, each on a port of its own.

use super::*;
use crate::latency::Summary;
use crate::listed::Listed;
use crate::origin::OriginOut;
use crate::scenario::{Flow, Scenario, Step};

const VERSIONS: [Version; 3] = [Version::H1, Version::H2c, Version::H3];

/// The options with a request to each of so many origins, with these weights.
fn to_each(weights: &[u32], options: Options) -> Options {
    let scheme = match options.version {
        Some(Version::H3) => "https",
        _ => "http",
    };
    let urls = (1..=weights.len()).map(|port| format!("{scheme}://a.example:{port}/"));
    Options {
        urls: urls.collect(),
        weights: weights.to_vec(),
        ..options
    }
}

/// A run against servers that take so many milliseconds for each answer, by port from 1 on.
fn ran(options: &Options, millis: &[u64]) -> (Report, Seen, Vec<OriginOut>) {
    let serving = (1..).zip(millis.iter().map(|&millis| after(millis)));
    against(options, vec![Story::Listen(serving.collect())])
}

fn against(options: &Options, stories: Vec<Story>) -> (Report, Seen, Vec<OriginOut>) {
    let plan = Plan::new(options).unwrap();
    let count = plan.origins.len() as u16;
    let (report, seen) = run(options, &addresses(count), stories);
    let report = report.unwrap();
    let counts = report.recorder.origins.as_deref();
    let origins = OriginOut::all(&plan, counts, &report.origins).unwrap();
    let sum = |number: fn(&OriginOut) -> u64| origins.iter().map(number).sum::<u64>();
    let recorder = &report.recorder;
    assert_eq!(sum(|each| each.started), recorder.started);
    assert_eq!(sum(|each| each.ok), recorder.ok);
    assert_eq!(sum(|each| each.failed), recorder.failures.total());
    let latencies = sum(|each| each.service.count);
    assert_eq!(latencies, recorder.ok + recorder.censored);
    (report, seen, origins)
}

fn mean(summary: &Summary) -> f64 {
    summary.mean.unwrap()
}

#[test]
fn each_request_goes_to_its_origin_in_the_order_of_the_weights() {
    for version in VERSIONS {
        let options = to_each(&[3, 1], counted(400, version));
        let (report, seen, origins) = ran(&options, &[5, 5]);
        assert_eq!(report.recorder.failures.total(), 0, "{version:?}");
        assert_eq!(seen.taken_at, BTreeMap::from([(1, 300), (2, 100)]));
        assert_eq!((origins[0].ok, origins[1].ok), (300, 100));
        // Each has as many connections as were asked for.
        assert_eq!(connections(&report).established, 16);
        assert_eq!((origins[0].connections, origins[1].connections), (8, 8));
    }
}

#[test]
fn as_many_are_in_flight_over_all_origins_as_one_would_have() {
    for version in VERSIONS {
        let options = to_each(&[1, 1, 1], timed(200, 2000, version));
        let (report, _, origins) = ran(&options, &[10, 10, 10]);
        let in_flight = (options.connections * options.streams) as u64;
        assert_eq!(report.concurrency.at_most, in_flight, "{version:?}");
        // Each answer takes 10 ms, over HTTP/3 with the ways there and back.
        let per_request = mean(&origins[0].service);
        let expected = in_flight as f64 * 2.0 / per_request;
        let off = report.recorder.ok as f64 / expected - 1.0;
        assert!(
            off.abs() < 0.1,
            "{version:?}: {} of {expected}",
            report.recorder.ok
        );
        // What is chosen leaves at once.
        assert!(most(&report.recorder.late) < 0.001, "{version:?}");
        assert!(most(&report.recorder.of_all_requests().wait) < 0.001);
        for origin in &origins {
            let third = report.recorder.ok / 3;
            assert!(
                origin.ok.abs_diff(third) <= in_flight,
                "{version:?}: {origin:?}"
            );
        }
    }
}

#[test]
fn connections_to_an_origin_take_turns() {
    for version in [Version::H2c, Version::H3] {
        // 32 in flight, of which eight connections to each get two.
        let options = to_each(&[1, 1], counted(32, version));
        let (_, seen, _) = ran(&options, &[50, 50]);
        assert_eq!(seen.most_on_one, 2, "{version:?}");
    }
}

#[test]
fn an_origin_that_is_slow_holds_up_no_other_in_the_open_model() {
    for version in VERSIONS {
        let options = Options {
            rate: Some(1000.0),
            ..to_each(&[3, 1], timed(0, 4000, version))
        };
        // The second can answer eight, or 32, in two seconds, and gets 250 in one.
        let (report, _, origins) = ran(&options, &[5, 2000]);
        let [first, second] = &origins[..] else {
            panic!("two origins")
        };
        assert!(first.ok.abs_diff(3000) <= 10, "{version:?}: {first:?}");
        assert!(mean(&first.service) < 0.02);
        assert!(second.started <= 3 * 32, "{second:?}");
        assert!(mean(&second.service) > 1.9);
        let waiting = report.unsent.waiting + second.started;
        assert!(waiting.abs_diff(1000) <= 4, "{version:?}: {waiting}");
        assert!(most(&report.recorder.late) < 0.001);
    }
}

#[test]
fn an_open_run_is_spaced_evenly_at_each_origin() {
    let options = Options {
        rate: Some(100.0),
        requests: Some(200),
        ..to_each(&[1, 1], counted(200, Version::H1))
    };
    let (report, seen, _) = ran(&options, &[1, 1]);
    assert_eq!(seen.taken_at, BTreeMap::from([(1, 100), (2, 100)]));
    assert_eq!(report.recorder.ok, 200);
    // Due at 0, 10 … 1990 ms.
    let measured = report.measured as f64 / 1e9;
    assert!((1.98..2.02).contains(&measured), "{measured}");
}

#[test]
fn an_origin_that_refuses_connections_fails_its_requests_and_no_others() {
    for version in VERSIONS {
        for rate in [None, Some(200.0)] {
            let options = Options {
                rate,
                ..to_each(&[1, 1], timed(0, 3000, version))
            };
            let stories = vec![Story::Listen(vec![(1, after(5))])];
            let (report, seen, origins) = against(&options, stories);
            let [first, second] = &origins[..] else {
                panic!("two origins")
            };
            assert!(first.ok > 30, "{version:?}: {first:?}");
            assert_eq!((first.failed, second.ok), (0, 0));
            assert!(second.failed > 30, "{version:?}: {second:?}");
            assert_eq!((second.connections, second.abandoned), (0, 0));
            assert!(second.connections_failed >= second.failed);
            assert_eq!(seen.taken_at.get(&2), None);
            let kinds: Vec<_> = report.recorder.failures.iter().collect();
            assert_eq!(kinds[0].0, FailureKind::Refused);
        }
    }
}

#[test]
fn a_run_of_which_no_origin_answers_cannot_be_made() {
    for version in [Version::H1, Version::H3] {
        let options = to_each(&[1, 1], counted(40, version));
        let (report, _) = run(&options, &addresses(2), vec![Story::Refuse]);
        assert_eq!(report.unwrap_err().kind, Some(FailureKind::Refused));
    }
}

#[test]
fn what_an_origin_refuses_is_sent_again_to_it() {
    for version in [Version::H2c, Version::H3] {
        let options = to_each(&[1, 1], counted(200, version));
        let refusing = Serve {
            refuses: Some(3),
            ..after(5)
        };
        let stories = vec![Story::Listen(vec![(1, refusing), (2, after(5))])];
        let (report, seen, _) = against(&options, stories);
        assert_eq!(report.recorder.ok, 200, "{version:?}");
        assert!(report.recorder.retried > 20);
        assert_eq!(seen.taken_at, BTreeMap::from([(1, 100), (2, 100)]));
    }
}

#[test]
fn connections_that_end_are_made_again_to_their_origin() {
    for version in VERSIONS {
        let options = to_each(&[1, 1], counted(300, version));
        let ending = Serve {
            answers: 7,
            ..after(5)
        };
        let stories = vec![Story::Listen(vec![(1, ending), (2, after(5))])];
        let (report, _, origins) = against(&options, stories);
        let [first, second] = &origins[..] else {
            panic!("two origins")
        };
        assert_eq!((second.ok, second.failed), (150, 0), "{version:?}");
        assert_eq!(first.ok + first.failed, 150);
        assert!(first.failed > 0 && first.connections > 8);
        assert_eq!(report.cut_short, None);
    }
}

#[test]
fn timeouts_are_those_of_their_origin() {
    for version in VERSIONS {
        let options = Options {
            timeout: Duration::from_millis(50),
            ..to_each(&[1, 1], counted(40, version))
        };
        let (report, _, origins) = ran(&options, &[5, 80]);
        assert_eq!(report.recorder.censored, 20, "{version:?}");
        assert_eq!((origins[0].ok, origins[1].failed), (20, 20));
        assert!(mean(&origins[1].service) > 0.049);
    }
}

#[test]
fn new_connections_for_each_request_go_to_its_origin() {
    for version in VERSIONS {
        let options = Options {
            requests_per_connection: Some(1),
            ..to_each(&[2, 1], counted(90, version))
        };
        let (report, seen, _) = ran(&options, &[5, 5]);
        assert_eq!(report.recorder.ok, 90, "{version:?}");
        assert_eq!(seen.taken_at, BTreeMap::from([(1, 60), (2, 30)]));
        assert!(connections(&report).established >= 90);
    }
}

#[test]
fn users_go_from_one_origin_to_the_other() {
    for version in VERSIONS {
        for rate in [None, Some(20.0)] {
            let mut options = Options {
                rate,
                ..to_each(&[1, 1], counted(30, version))
            };
            let step = |name: &str| Step {
                name: name.into(),
                ..Step::default()
            };
            let pause = Duration::from_millis(100);
            let urls = std::mem::take(&mut options.urls);
            options.weights.clear();
            options.listed = urls.iter().map(|url| Listed::new("", url)).collect();
            options.scenario = Some(Scenario {
                name: "visits".into(),
                users: Some(4),
                flow: vec![
                    Flow::Send(1),
                    Flow::Pause(pause, pause),
                    Flow::Send(0),
                    Flow::Send(1),
                ],
                steps: vec![step("api"), step("log in")],
                cookies: true,
            });
            let (report, seen, origins) = ran(&options, &[5, 10]);
            let iterations = report.iterations.unwrap();
            assert_eq!((iterations.ok, iterations.failed), (30, 0), "{version:?}");
            assert_eq!(seen.taken_at, BTreeMap::from([(1, 30), (2, 60)]));
            assert_eq!((origins[0].ok, origins[1].ok), (30, 60));
            assert!(most(&report.recorder.late) < 0.001, "{version:?}");
        }
    }
}
