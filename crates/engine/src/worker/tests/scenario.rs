//! Virtual users against scripted servers.

use super::*;
use crate::listed::Listed;
use crate::scenario::{Check, Flow, Iterations, Scenario, Source, Step, Test};

const VERSIONS: [Version; 3] = [Version::H1, Version::H2c, Version::H3];

/// Two requests with a pause of 100 ms between them, by so many users.
fn visits(users: usize, options: Options) -> Options {
    let pause = Duration::from_millis(100);
    let url = &options.urls[0];
    let step = |name: &str| Step {
        name: name.into(),
        ..Step::default()
    };
    Options {
        listed: vec![
            Listed::new("", url.clone() + "first"),
            Listed::new("", url.clone() + "second"),
        ],
        scenario: Some(Scenario {
            name: "visits".into(),
            users: Some(users),
            flow: vec![Flow::Send(0), Flow::Pause(pause, pause), Flow::Send(1)],
            steps: vec![step("first"), step("second")],
            cookies: true,
        }),
        ..options
    }
}

fn ran(options: &Options, serve: Serve) -> (Report, Iterations) {
    let (report, _) = run(options, &addresses(1), vec![Story::Serve(serve)]);
    let mut report = report.unwrap();
    let iterations = report.iterations.take().unwrap();
    (report, iterations)
}

#[test]
fn users_pause_between_their_requests() {
    for version in VERSIONS {
        let options = visits(4, timed(500, 12_000, version));
        let (report, iterations) = ran(&options, after(10));
        // Each takes 10 + 100 + 10 ms, in which four users begin one each.
        let expected = 4 * 12_000 / 120;
        assert!(
            iterations.ok.abs_diff(expected) <= 8,
            "{version:?}: {} of {expected}",
            iterations.ok
        );
        let median = iterations.duration.summary().p50.unwrap();
        assert!((0.119..0.126).contains(&median), "{version:?}: {median}");
        assert_eq!(iterations.failed, 0);
        let under_way = iterations.started - iterations.ok;
        assert!(under_way <= 4, "{version:?}: {under_way}");
        let [first, second] = &iterations.steps[..] else {
            panic!("two steps")
        };
        assert!(first.ok.abs_diff(second.ok) <= 4);
        assert_eq!(report.recorder.ok, first.ok + second.ok);
        let late = report.recorder.late.summary().max.unwrap();
        assert!(late < 0.001, "{version:?}: {late}");
    }
}

#[test]
fn a_counted_run_ends_with_the_last_iteration() {
    for version in VERSIONS {
        let (report, iterations) = ran(&visits(4, counted(10, version)), after(10));
        assert_eq!((iterations.started, iterations.ok), (10, 10), "{version:?}");
        assert_eq!(report.recorder.ok, 20);
        assert_eq!(report.cut_short, None);
    }
}

#[test]
fn more_users_than_streams_wait_for_them() {
    let options = Options {
        connections: 1,
        ..visits(40, timed(0, 4_000, Version::H1))
    };
    let (report, iterations) = ran(&options, after(10));
    // One connection carries a hundred requests a second.
    assert!(
        (390..=400).contains(&report.recorder.ok),
        "{}",
        report.recorder.ok
    );
    assert!(iterations.started >= iterations.ok + 39);
    let queued = report
        .recorder
        .of_all_requests()
        .wait
        .summary()
        .p50
        .unwrap();
    assert!(queued > 0.2, "{queued}");
    assert!(most(&report.recorder.late) < 0.001);
}

#[test]
fn iterations_that_find_no_user_wait_for_one() {
    // 4 users make 33 iterations a second.
    let options = Options {
        rate: Some(50.0),
        ..visits(4, timed(0, 6_000, Version::H2c))
    };
    let (report, iterations) = ran(&options, after(10));
    assert!((190..=204).contains(&iterations.ok), "{}", iterations.ok);
    assert!(report.unsent.waiting > 80, "{:?}", report.unsent);
    // It is no fault of ours.
    assert!(most(&report.recorder.late) < 0.001);
    assert!(most(&iterations.duration) > 1.0);
}

#[test]
fn requests_that_are_refused_are_sent_again_for_their_user() {
    for version in [Version::H2c, Version::H3] {
        let serve = Serve {
            refuses: Some(3),
            ..after(5)
        };
        let (report, iterations) = ran(&visits(4, counted(30, version)), serve);
        assert_eq!((iterations.ok, iterations.failed), (30, 0), "{version:?}");
        assert!(report.recorder.retried > 10, "{version:?}");
    }
}

#[test]
fn a_connection_that_ends_fails_the_iterations_on_it_and_no_others() {
    for version in VERSIONS {
        let serve = Serve {
            answers: 7,
            ..after(5)
        };
        let (report, iterations) = ran(&visits(4, counted(60, version)), serve);
        assert_eq!(iterations.ok + iterations.failed, 60, "{version:?}");
        let failed: u64 = iterations.steps.iter().map(|step| step.failed).sum();
        assert_eq!(failed, iterations.failed, "{version:?}");
        assert!(report.recorder.failures.total() >= failed);
    }
}

#[test]
fn what_takes_too_long_fails_its_iteration() {
    for version in VERSIONS {
        let options = Options {
            timeout: Duration::from_millis(50),
            ..visits(2, counted(6, version))
        };
        let (report, iterations) = ran(&options, after(80));
        assert_eq!((iterations.ok, iterations.failed), (0, 6), "{version:?}");
        assert_eq!(report.recorder.censored, 6);
    }
}

#[test]
fn a_check_that_does_not_hold_ends_the_iteration() {
    let mut options = visits(2, counted(6, Version::H1));
    let scenario = options.scenario.as_mut().unwrap();
    scenario.steps[0].checks = vec![Check {
        source: Source::Header("no-such".into()),
        test: Test::Exists,
    }];
    let (report, iterations) = ran(&options, after(1));
    assert_eq!((iterations.ok, iterations.failed), (0, 6));
    let failures: Vec<_> = report.recorder.failures.iter().collect();
    let told = "the step \"first\": the field no-such is not there";
    assert_eq!(failures, [(FailureKind::Check, 6, told)]);
}
