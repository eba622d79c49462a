//! Random plans against random servers: what holds whatever both do.

use proptest::prelude::*;

use super::*;

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
        prop::sample::select(&[Early::Takes, Early::Answers425, Early::Rejects]),
        prop::option::weighted(0.2, 0..60_000_u32),
    )
        .prop_map(
            |(delay, answers, ending, pieces, room, streams, section, refuses, early, content)| {
                Serve {
                    delay: Duration::from_millis(delay),
                    latency: None,
                    calls: false,
                    events: None,
                    answers,
                    ending,
                    pieces,
                    room,
                    acknowledges: u64::MAX,
                    streams,
                    strict: false,
                    section,
                    refuses,
                    early,
                    content,
                    surplus: "",
                    then: None,
                    conversation: None,
                    plays: None,
                }
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
        prop::option::weighted(0.3, 1..5_u64),
        any::<[bool; 2]>(),
    )
        .prop_map(
            |(version, connections, streams, length, warmup, rate, each, [early, shared])| {
                let (requests, duration) = length;
                Options {
                    connections,
                    streams: if version == Version::H1 { 1 } else { streams },
                    requests,
                    duration,
                    warmup: Some(Duration::from_millis(warmup)),
                    rate,
                    requests_per_connection: each,
                    early_data: early && version == Version::H3,
                    quic_shared_socket: shared && version == Version::H3,
                    timeout: Duration::from_secs(2),
                    connect_timeout: Duration::from_secs(1),
                    ..counted(0, version)
                }
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
        let (report, seen, windows) = watched(&options, &addresses(2), stories, Slow::default());
        if let Ok(report) = report {
            let sum = |count: fn(&Window) -> u64| windows.iter().map(count).sum::<u64>();
            let counts = connections(&report);
            let came = counts.established + counts.failed.values().sum::<u64>();
            prop_assert_eq!(counts.attempted, seen.connects);
            prop_assert!(came <= counts.attempted);
            let gone = counts.lost.values().sum::<u64>();
            prop_assert_eq!(counts.established, gone + counts.spent + counts.open_at_end);
            let most = options.requests_per_connection.unwrap_or(u64::MAX);
            prop_assert!(seen.most_on_one as u64 <= most, "{}", seen.most_on_one);
            let recorder = &report.recorder;
            let ended = recorder.ok + recorder.failures.total();
            let measured = recorder.warmup.started + recorder.started;
            prop_assert!(ended <= recorder.started, "{ended} of {}", recorder.started);
            prop_assert!(seen.taken <= measured, "{} of {measured}", seen.taken);
            prop_assert_eq!(sum(|window| window.ok), recorder.ok);
            prop_assert_eq!(sum(|window| window.failed), recorder.failures.total());
            prop_assert_eq!(sum(|window| window.service.count()), recorder.service.count());
            prop_assert_eq!(sum(|window| window.length_ns), report.measured);
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
