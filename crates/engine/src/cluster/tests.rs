use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;

use super::share::encode;
use super::*;
use crate::assemble::measured_since;
use crate::connections::Connections;
use crate::control::Control;
use crate::failure::FailureKind;
use crate::latency::Durations;
use crate::options::{Options, RateStage};
use crate::outcome::{Outcome, Verdict};
use crate::plan::Plan;
use crate::record::Instants;
use crate::run::{Brought, Rows, RunError, carry_out};
use crate::scenario::Iterations;
use crate::validity::Code;
use crate::worker::Report;

/// Requests of the runs here; not as many for each thread.
const REQUESTS: u64 = 41;
/// Which threads each machine has.
const SHARES: [Range<usize>; 3] = [0..2, 2..3, 3..5];

/// A server that answers every request, and the paths that it was asked for.
fn server() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let paths = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&paths);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, asked) = (stream.unwrap(), Arc::clone(&asked));
            thread::spawn(move || {
                let reader = BufReader::new(stream.try_clone().unwrap());
                for line in reader.lines().map_while(Result::ok) {
                    if let Some(rest) = line.strip_prefix("GET ") {
                        let path = rest.split(' ').next().unwrap().to_owned();
                        asked.lock().unwrap().push(path);
                    } else if line.is_empty() {
                        let answer = b"HTTP/1.1 200 OK\r\nserver: s\r\ncontent-length: 2\r\n\r\nok";
                        stream.write_all(answer).unwrap();
                    }
                }
            });
        }
    });
    (url, paths)
}

fn counted(url: &str) -> Options {
    Options {
        urls: vec![format!("{url}/{{seq}}")],
        connections: 12,
        threads: 5,
        requests: Some(REQUESTS),
        ..Options::default()
    }
}

fn members() -> Vec<Member> {
    let member = |(number, threads): (usize, Range<usize>)| Member {
        name: format!("w{number}"),
        host: "h".into(),
        cores: Some(8),
        first: threads.start,
        count: threads.len(),
        clock_offset_s: None,
        clock_error_s: None,
    };
    SHARES.into_iter().enumerate().map(member).collect()
}

/// The messages of a machine: those with its windows, and its reports.
type Sent = (Vec<Vec<u8>>, Vec<u8>);

/// What machines send that carry out the shares of `plan`, together.
fn carried_out(plan: &Plan) -> Vec<Sent> {
    thread::scope(|scope| {
        let started: Vec<_> = SHARES
            .into_iter()
            .map(|threads| {
                scope.spawn(move || {
                    let share = Share::new(threads.start, threads.len(), plan).unwrap();
                    let mut windows = Vec::new();
                    let reports = run_share(
                        plan,
                        &Control::new(),
                        &share,
                        || Ok(()),
                        |window| {
                            windows.push(window);
                        },
                    );
                    (windows, reports.unwrap())
                })
            })
            .collect();
        let each = started.into_iter().map(|machine| machine.join().unwrap());
        each.collect()
    })
}

/// The outcome of a run whose machines send this, but for the last messages of those that are `lost`.
fn gathered(plan: &Plan, sent: &[Sent], lost: &[usize]) -> Result<Outcome, RunError> {
    let control = Control::new();
    let mut gather = Gather::new(plan, &control, members(), None).unwrap();
    for (worker, (windows, reports)) in sent.iter().enumerate() {
        gather.begun(worker, 0.001);
        windows
            .iter()
            .for_each(|bytes| gather.windows(worker, bytes));
        assert!(!gather.is_over());
        if lost.contains(&worker) {
            gather.lost(worker, "its power went");
        } else {
            gather.reports(worker, reports);
        }
    }
    assert!(gather.is_over());
    gather.finish()
}

#[test]
fn shares_add_up_to_the_run_of_one_machine() {
    let (url, paths) = server();
    let plan = Plan::new(&counted(&url)).unwrap();
    let outcome = gathered(&plan, &carried_out(&plan), &[]).unwrap();
    let requests = &outcome.requests;
    assert_eq!((requests.started, requests.ok), (REQUESTS, REQUESTS));
    // Each number once, whichever machine it fell to.
    let mut numbers: Vec<u64> = paths
        .lock()
        .unwrap()
        .iter()
        .map(|path| path[1..].parse().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..REQUESTS).collect::<Vec<_>>());
    let connections = &outcome.connections;
    assert_eq!((connections.attempted, connections.established), (12, 12));
    assert_eq!(outcome.target.peers.values().sum::<u64>(), 12);
    assert_eq!(outcome.target.server.as_deref(), Some("s"));
    assert_eq!((outcome.plan.threads, outcome.cost.busy.len()), (5, 5));
    let workers = outcome.workers.as_ref().unwrap();
    // Of 41 the first of five threads has 9, and the others have 8.
    let each: Vec<_> = workers.iter().map(|each| (each.threads, each.ok)).collect();
    assert_eq!(each, [(2, 17), (1, 8), (2, 16)]);
    assert_eq!(workers[0].start_late_s, Some(0.001));
    let in_rows: u64 = outcome.windows.iter().map(|row| row.ok).sum();
    assert_eq!(in_rows, REQUESTS);
    let codes: Vec<_> = outcome
        .validity
        .reasons
        .iter()
        .map(|each| each.code)
        .collect();
    assert!(!codes.contains(&Code::WorkerLost), "{codes:?}");
}

#[test]
fn stages_are_dealt_over_the_machines() {
    let (url, paths) = server();
    let stage = |millis, rate| RateStage {
        length: Duration::from_millis(millis),
        rate,
    };
    let plan = Plan::new(&Options {
        requests: None,
        stages: vec![stage(300, 100.0), stage(200, 100.0)],
        ..counted(&url)
    });
    let plan = plan.unwrap();
    let outcome = gathered(&plan, &carried_out(&plan), &[]).unwrap();
    let requests = &outcome.requests;
    // Up to 100 a second in 0.3 s are 15, and 0.2 s at that rate are 20.
    let due = requests.started + requests.unsent;
    assert!((34..=36).contains(&due), "{requests:?}");
    assert_eq!(outcome.plan.stages.len(), 2);
    // Each of them is another one, whichever machine it fell to.
    let paths = paths.lock().unwrap();
    let numbers: BTreeSet<u64> = paths
        .iter()
        .map(|path| path[1..].parse().unwrap())
        .collect();
    assert_eq!(numbers.len(), paths.len());
    assert!(numbers.iter().all(|&number| number < 36), "{numbers:?}");
}

#[test]
fn what_a_machine_had_told_is_kept_when_it_is_lost() {
    let (url, _) = server();
    let plan = Plan::new(&counted(&url)).unwrap();
    let outcome = gathered(&plan, &carried_out(&plan), &[1]).unwrap();
    let requests = &outcome.requests;
    assert_eq!((requests.started, requests.ok), (REQUESTS, REQUESTS));
    assert_eq!(outcome.latency.service.summary.count, REQUESTS);
    // Those that were open at its last window.
    assert_eq!(outcome.connections.established, 12);
    assert_eq!(outcome.status["200"], REQUESTS);
    assert_eq!(outcome.validity.verdict, Verdict::Invalid);
    let reason = &outcome.validity.reasons[0];
    assert_eq!(reason.code, Code::WorkerLost);
    let told = "worker w1 on h was lost: its power went; of it 8 requests are in the result";
    assert!(reason.text.starts_with(told), "{}", reason.text);
    let workers = outcome.workers.unwrap();
    let lost: Vec<_> = workers.iter().map(|each| each.lost.is_some()).collect();
    assert_eq!((lost, workers[1].ok), (vec![false, true, false], 8));
}

#[test]
fn machines_that_told_nothing_leave_no_outcome() {
    let (url, _) = server();
    let plan = Plan::new(&counted(&url)).unwrap();
    let control = Control::new();
    let mut gather = Gather::new(&plan, &control, members(), None).unwrap();
    gather.lost(2, "no route to \x1b[31mhost");
    let told = gather.finish().unwrap_err().to_string();
    assert_eq!(told, "worker w2 on h: no route to \u{fffd}[31mhost");
    let gather = Gather::new(&plan, &control, members(), None).unwrap();
    let told = gather.finish().unwrap_err().to_string();
    assert_eq!(told, "worker w0 on h: it was not heard of any more");
}

#[test]
fn a_machine_is_not_lost_that_waits_for_the_end_of_a_slow_run() {
    let (url, _) = server();
    let plan = Plan::new(&Options {
        requests: Some(5),
        rate: Some(4.0),
        ..counted(&url)
    })
    .unwrap();
    let outcome = gathered(&plan, &carried_out(&plan), &[]).unwrap();
    assert_eq!(outcome.requests.ok, 5);
    let workers = outcome.workers.unwrap();
    assert!(workers.iter().all(|worker| worker.lost.is_none()));
}

#[test]
fn members_that_do_not_share_the_threads_are_refused() {
    let (url, _) = server();
    let plan = Plan::new(&counted(&url)).unwrap();
    let control = Control::new();
    let refused = |change: &dyn Fn(&mut Vec<Member>)| {
        let mut all = members();
        change(&mut all);
        Gather::new(&plan, &control, all, None)
            .unwrap_err()
            .to_string()
    };
    assert!(refused(&|all| all[1].first = 1).contains("share"));
    assert!(refused(&|all| all[1].count = 0).contains("share"));
    assert!(refused(&|all| all[2].count = usize::MAX).contains("threads"));
    assert!(refused(&|all| drop(all.pop())).contains("have 3 threads, and the plan 5"));
    for (first, count) in [(0, 0), (4, 2), (usize::MAX, 2)] {
        let told = Share::new(first, count, &plan).unwrap_err().to_string();
        assert!(told.contains("plan with 5 threads"), "{told}");
    }
}

/// The reports of one machine with all threads, in which something of every kind is counted.
fn brought(plan: &Plan) -> Brought {
    let control = Control::new();
    let mut brought = carry_out(plan, &control, 0..plan.threads, || Ok(()), drop).unwrap();
    for report in &mut brought.reports {
        let recorder = &mut report.recorder;
        recorder
            .calls()
            .ended(trilane_grpc::status::Code::NotFound, Some(7_000));
        recorder.calls().method(2).lasted.record(5_000_000);
        recorder.events().gap.record(123_456);
        recorder.websocket().round_trip.record(99);
        recorder
            .failures
            .add(FailureKind::Reset, || "reset by peer".into());
        recorder.status[503] = 3;
        recorder.of_connection(0, |phases| phases.tls.record(4_000_000));
        let mut iterations = Iterations::new(3);
        iterations.steps[1].service.record(1_000_000_000);
        report.iterations = Some(iterations);
        report.cut_short = Some("the server went".into());
    }
    brought
}

fn read_all(plan: &Plan, bytes: &[u8]) -> Result<Vec<Report>, postcard::Error> {
    let mut reports = Vec::new();
    super::gather::read(plan, bytes, |_, _, report| reports.push(report))?;
    Ok(reports)
}

#[test]
fn reports_that_were_sent_are_what_they_were() {
    let (url, _) = server();
    let plan = Plan::new(&counted(&url)).unwrap();
    let brought = brought(&plan);
    let (machine, since) = (brought.machine.clone(), measured_since(&brought.reports));
    let share = Share::new(0, plan.threads, &plan).unwrap();
    // Encoding takes them, and reading gives others.
    let bytes = encode(&share, brought).unwrap();
    let reports = read_all(&plan, &bytes).unwrap();
    assert_eq!(measured_since(&reports), since);
    let again = Brought {
        reports,
        machine: machine.clone(),
    };
    assert_eq!(encode(&share, again).unwrap(), bytes);
    let reports = read_all(&plan, &bytes).unwrap();
    let outcome = Outcome::new(&plan, reports, Rows::new(&plan, None).finish(), &machine);
    assert_eq!(outcome.status["503"], 15);
    assert_eq!(
        outcome.requests.failures["reset"]["example"],
        "reset by peer"
    );
    assert_eq!(outcome.phases.tls.unwrap().summary.count, 5);
    assert_eq!(outcome.requests.ok, REQUESTS);
    assert!(!outcome.slowest.is_empty());
}

#[test]
fn reports_that_are_cut_or_follow_one_another_are_refused() {
    let (url, _) = server();
    let plan = Plan::new(&counted(&url)).unwrap();
    let share = Share::new(0, plan.threads, &plan).unwrap();
    let bytes = encode(&share, brought(&plan)).unwrap();
    let step = bytes.len() / 97 + 1;
    for cut in (0..bytes.len()).step_by(step) {
        assert!(
            read_all(&plan, &bytes[..cut]).is_err(),
            "{cut} of {}",
            bytes.len()
        );
    }
    assert!(read_all(&plan, &[&bytes[..], &[0]].concat()).is_err());
}

#[test]
fn a_machine_that_sends_what_cannot_be_is_lost() {
    let (url, _) = server();
    let plan = Plan::new(&counted(&url)).unwrap();
    let sent = carried_out(&plan);
    let why = |send: &dyn Fn(&mut Gather<'_>)| {
        let control = Control::new();
        let mut gather = Gather::new(&plan, &control, members(), None).unwrap();
        gather.reports(1, &sent[1].1);
        gather.reports(2, &sent[2].1);
        send(&mut gather);
        assert!(gather.is_over());
        gather.finish().unwrap().workers.unwrap()[0]
            .lost
            .clone()
            .unwrap()
    };
    assert!(why(&|gather| gather.reports(0, &sent[0].1[..40])).contains("cannot be read"));
    let others = why(&|gather| gather.reports(0, &sent[1].1));
    assert!(others.contains("reported of 1 threads from 2"), "{others}");
    let cut = &sent[0].0[0][..20];
    assert!(why(&|gather| gather.windows(0, cut)).contains("another build"));
    for spoil in [
        (|report| report.recorder.started = u64::MAX) as fn(&mut Report),
        |report| report.recorder.traffic.sent = 1 << 60,
        |report| report.unsent.waiting = u64::MAX,
        |report| report.iterations = Some(Iterations::new(4)),
        |report| report.connections = Connections::at_least(u64::MAX),
    ] {
        let share = Share::new(0, 2, &plan).unwrap();
        let mut brought = brought(&plan);
        brought.reports.truncate(2);
        for report in &mut brought.reports {
            report.iterations = None;
        }
        spoil(&mut brought.reports[1]);
        let bytes = encode(&share, brought).unwrap();
        assert!(why(&|gather| gather.reports(0, &bytes)).contains("counts that cannot be"));
    }
    let twice = why(&|gather| {
        gather.windows(0, &sent[0].0[0]);
        gather.windows(0, &sent[0].0[0]);
    });
    assert!(twice.contains("do not follow"), "{twice}");
}

#[test]
fn a_merged_quantile_is_that_of_all_samples() {
    let plan = Plan::new(&counted("http://a.example")).unwrap();
    let (mut all, mut state) = (Durations::new(), 7_u64);
    let control = Control::new();
    let mut gather = Gather::new(&plan, &control, members(), None).unwrap();
    for (worker, threads) in SHARES.into_iter().enumerate() {
        let share = Share::new(threads.start, threads.len(), &plan).unwrap();
        let reports = threads.map(|thread| {
            let mut report = super::lost::report(&crate::record::Window::new(0, false).sparse());
            for _ in 0..20_000 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                // Each thread has another tail.
                let took = 100_000 + ((state >> 40) << (state % 3 + thread as u64));
                all.record(took);
                let at = Instants {
                    start: 1,
                    head: 2,
                    ..Instants::default()
                };
                report.recorder.ok(1 + took, at);
            }
            report.recorder.finish_window(1);
            report
        });
        let brought = Brought {
            reports: reports.collect(),
            machine: machine(),
        };
        gather.reports(worker, &encode(&share, brought).unwrap());
    }
    let service = gather.finish().unwrap().latency.service;
    assert_eq!(service.hdr, all.blob());
    assert_eq!(service.summary.p99_9, all.summary().p99_9);
    assert_eq!(service.summary.max, all.summary().max);
    assert_eq!(service.summary.count, 100_000);
}

fn machine() -> crate::assemble::Machine {
    crate::assemble::Machine {
        started_at: std::time::SystemTime::UNIX_EPOCH,
        dns: std::time::Duration::ZERO,
        steal: 0.0,
        others: None,
        server_is_full: false,
        interrupted: false,
        peak_rss_bytes: Some(1 << 20),
    }
}

proptest! {
    /// Whatever comes, it is read or refused.
    #[test]
    fn garbage_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
        let plan = Plan::new(&counted("http://a.example")).unwrap();
        let control = Control::new();
        let mut gather = Gather::new(&plan, &control, members(), None).unwrap();
        gather.windows(0, &bytes);
        gather.reports(0, &bytes);
        gather.windows(9, &bytes);
        prop_assert!(gather.finish().is_err());
    }
}
