//! Runs of one worker against scripted servers, in virtual time.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::options::{Options, Version};
use crate::simulation::{Ending, Seen, Serve, Simulation, Story};

fn addresses(count: u16) -> Vec<Address> {
    let address = |port| Address::Ip(([192, 0, 2, 1], port).into());
    (1..=count).map(address).collect()
}

/// Runs the options against servers whose connections have these stories in turn.
fn run(
    options: &Options,
    addresses: &[Address],
    stories: Vec<Story>,
) -> (Result<Report, RunError>, Seen) {
    let plan = Plan::new(options).unwrap();
    let begun = Instant::now();
    let seen = Rc::new(RefCell::new(Seen::default()));
    let is_h2 = options.version == Some(Version::H2c);
    let simulation = Simulation::new(begun, is_h2, stories, Rc::clone(&seen));
    let (control, (sender, _windows)) = (Control::new(), mpsc::channel());
    let system = Box::new(simulation);
    let worker = Worker::new(0, &plan, &control, addresses, Clock(begun), system, sender);
    let report = worker.run();
    (report, seen.take())
}

fn counted(requests: u64, version: Version) -> Options {
    let is_quic = version == Version::H3;
    Options {
        urls: vec![
            if is_quic {
                "https://a.example/"
            } else {
                "http://a.example/"
            }
            .into(),
        ],
        version: Some(version),
        insecure: is_quic,
        connections: 8,
        streams: if version == Version::H1 { 1 } else { 4 },
        requests: Some(requests),
        ..Options::default()
    }
}

#[test]
fn every_address_of_a_host_is_tried() {
    for version in [Version::H1, Version::H3] {
        let stories = vec![Story::Listen(3, Serve::well())];
        let (report, _) = run(&counted(40, version), &addresses(3), stories);
        let recorder = report.unwrap().recorder;
        assert_eq!((recorder.ok, recorder.failures.total()), (40, 0));
    }
}

#[test]
fn a_host_without_a_listener_is_refused() {
    for version in [Version::H1, Version::H3] {
        let (report, seen) = run(&counted(40, version), &addresses(2), vec![Story::Refuse]);
        assert_eq!(report.unwrap_err().kind, Some(FailureKind::Refused));
        assert!(seen.connects >= 2);
    }
}

#[test]
fn no_request_is_overtaken_for_ever_by_those_that_are_sent_again() {
    // FINDINGS R6, in a legal way of nginx: GOAWAY after ten answers.
    let serve = Serve {
        answers: 10,
        ending: Ending::Goaway,
        ..Serve::well()
    };
    for (requests, version) in [(3000, Version::H2c), (500, Version::H3)] {
        let options = Options {
            connections: 1,
            streams: 128,
            ..counted(requests, version)
        };
        let stories = vec![Story::Serve(serve.clone())];
        let (report, seen) = run(&options, &addresses(1), stories);
        let recorder = report.unwrap().recorder;
        assert_eq!((recorder.ok, recorder.failures.total()), (requests, 0));
        assert_eq!(seen.taken, requests);
    }
}

#[test]
fn requests_that_no_server_takes_end_a_run_by_time() {
    // FINDINGS R1.
    let serve = Serve {
        section: Some(10),
        ..Serve::well()
    };
    for version in [Version::H2c, Version::H3] {
        let options = Options {
            requests: None,
            duration: Some(Duration::from_secs(2)),
            connect_timeout: Duration::from_secs(1),
            ..counted(0, version)
        };
        let stories = vec![Story::Serve(serve.clone())];
        let (report, seen) = run(&options, &addresses(1), stories);
        let error = report.unwrap_err();
        assert_eq!(error.kind, Some(FailureKind::Limit), "{error}");
        // Over HTTP/3 requests leave with the end of the handshake, before SETTINGS can have come.
        assert!(seen.taken == 0 || version == Version::H3);
    }
}

#[test]
fn a_server_that_allows_no_streams_ends_a_counted_run() {
    // FINDINGS R3.
    let serve = Serve {
        streams: Some(0),
        ..Serve::well()
    };
    for version in [Version::H2c, Version::H3] {
        let stories = vec![Story::Serve(serve.clone())];
        let (report, seen) = run(&counted(10, version), &addresses(1), stories);
        let report = report.unwrap();
        let reason = report.cut_short.unwrap();
        assert!(reason.contains("the server allows no streams"), "{reason}");
        assert_eq!((report.recorder.started, seen.taken), (0, 0));
    }
}

#[test]
fn what_waits_to_be_sent_again_keeps_no_run_from_its_end() {
    let refuses = Serve {
        answers: 0,
        ending: Ending::Goaway,
        ..Serve::well()
    };
    let takes_none = Serve {
        streams: Some(0),
        ..Serve::well()
    };
    // Over QUIC the client knows what is allowed before it sends anything.
    let options = Options {
        connections: 2,
        ..counted(10, Version::H3)
    };
    let stories = [takes_none, refuses].map(Story::Serve);
    let (report, seen) = run(&options, &addresses(1), stories.into());
    let report = report.unwrap();
    let reason = report.cut_short.unwrap();
    assert!(reason.contains("no connection took a request"), "{reason}");
    let recorder = report.recorder;
    assert!(recorder.started > 0, "they wait to be sent again");
    assert_eq!(
        (recorder.ok, recorder.failures.total(), seen.taken),
        (0, 0, 0)
    );
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        Just(Ending::Close),
        Just(Ending::Reset),
        Just(Ending::Silence),
        Just(Ending::Goaway),
        Just(Ending::Nonsense),
    ]
}

fn serve() -> impl Strategy<Value = Serve> {
    let sizes = || prop_oneof![Just(usize::MAX), 1..200_usize];
    (
        // An answer in no time would stop the clock.
        1..50_u64,
        prop_oneof![Just(usize::MAX), 0..20_usize],
        ending(),
        sizes(),
        sizes(),
        prop::option::weighted(0.3, 0..5_u32),
        prop::option::weighted(0.1, 0..200_u32),
        prop::option::weighted(0.3, 1..9_usize),
    )
        .prop_map(
            |(delay, answers, ending, pieces, room, streams, section, refuses)| Serve {
                delay: Duration::from_millis(delay),
                answers,
                ending,
                pieces,
                room,
                streams,
                section,
                refuses,
            },
        )
}

fn story() -> impl Strategy<Value = Story> {
    prop_oneof![
        1 => Just(Story::Refuse),
        1 => Just(Story::Deaf),
        8 => serve().prop_map(Story::Serve),
    ]
}

fn options() -> impl Strategy<Value = Options> {
    let length = prop_oneof![
        (1..300_u64).prop_map(|requests| (Some(requests), None)),
        (1..500_u64).prop_map(|millis| (None, Some(Duration::from_millis(millis)))),
    ];
    (
        prop::sample::select(&[Version::H1, Version::H2c, Version::H3]),
        1..6_usize,
        1..9_usize,
        length,
        prop_oneof![Just(0), 1..200_u64],
        prop::option::weighted(0.3, 1.0..2000.0),
    )
        .prop_map(
            |(version, connections, streams, (requests, duration), warmup, rate)| Options {
                connections,
                streams: if version == Version::H1 { 1 } else { streams },
                requests,
                duration,
                warmup: Some(Duration::from_millis(warmup)),
                rate,
                timeout: Duration::from_secs(2),
                connect_timeout: Duration::from_secs(1),
                ..counted(0, version)
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The run ends, by the simulation's own limits; whatever the servers do, every request that was
    /// started is accounted for, and none is done twice.
    #[test]
    fn the_books_are_balanced(
        options in options(),
        stories in prop::collection::vec(story(), 1..6),
    ) {
        let (report, seen) = run(&options, &addresses(2), stories);
        if let Ok(report) = report {
            let recorder = &report.recorder;
            let ended = recorder.ok + recorder.failures.total();
            let measured = recorder.warmup.started + recorder.started;
            prop_assert!(ended <= recorder.started, "{ended} of {}", recorder.started);
            prop_assert!(seen.taken <= measured, "{} of {measured}", seen.taken);
            let ok = recorder.warmup.ok + recorder.ok;
            prop_assert!(ok <= seen.answered, "{ok} of {}", seen.answered);
            let counted = options.requests.filter(|_| report.cut_short.is_none());
            if let Some(requests) = counted {
                prop_assert_eq!(recorder.started, ended);
                prop_assert!(ended >= requests);
            }
        }
    }
}
