//! For tests: outcomes of a run that was made once, of one request, with the numbers of a larger one.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::OnceLock;
use std::thread;

use serde_json::json;
use trilane_engine::{Code, Control, Options, Outcome, Plan, Reason, Summary, Verdict};

/// A run of a server that answers once.
fn real() -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hello", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
        while !head.ends_with(b"\r\n\r\n") {
            let count = stream.read(&mut buffer).unwrap();
            head.extend_from_slice(&buffer[..count]);
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .unwrap();
        // Until the client closes.
        let _ = stream.read(&mut buffer);
    });
    let plan = Plan::new(&Options {
        urls: vec![url],
        connections: 1,
        requests: Some(1),
        ..Options::default()
    });
    let outcome = trilane_engine::run(&plan.unwrap(), &Control::new()).unwrap();
    server.join().unwrap();
    outcome
}

/// A valid run of the closed model for ten seconds.
pub(crate) fn outcome() -> Outcome {
    static ONE: OnceLock<Outcome> = OnceLock::new();
    let mut run = ONE.get_or_init(real).clone();
    run.target.url = "http://127.0.0.1:8080/hello".into();
    run.target.peer = Some("127.0.0.1:8080".into());
    run.target.peers = BTreeMap::from([("127.0.0.1:8080".into(), 64)]);
    run.target.congestion_control = Some("cubic".into());
    run.target.mtu = Some(65_535);
    let plan = &mut run.plan;
    (plan.connections, plan.requests, plan.duration_s) = (64, None, Some(10.0));
    plan.warmup_s = 1.0;
    let requests = &mut run.requests;
    (requests.started, requests.ok, requests.abandoned) = (543_661, 543_597, 64);
    run.status = BTreeMap::from([("200".into(), 543_597)]);
    run.rate.requests_per_s = 54_359.7;
    run.rate.window_s = 10.0;
    run.latency.service.summary = summary();
    run.latency.ttfb.summary = summary();
    let connections = &mut run.connections;
    (connections.attempted, connections.established) = (64, 64);
    (connections.open_at_most, connections.in_flight_at_most) = (64, 64);
    run.bytes.received = 90_000_000;
    let cost = &mut run.cost;
    (cost.user_s, cost.system_s) = (2.0, 2.5);
    (cost.busy, cost.stood_still_s) = (vec![0.48], vec![0.0]);
    cost.cpu_us_per_request = Some(8.28);
    cost.peak_rss_bytes = Some(18 << 20);
    run.windows.clear();
    run.validity.verdict = Verdict::Valid;
    run.validity.reasons.clear();
    run.validity.bound = "server_or_network";
    run
}

/// Latencies around a millisecond.
pub(crate) fn summary() -> Summary {
    Summary {
        count: 543_597,
        min: Some(0.000_2),
        mean: Some(0.001_17),
        stdev: Some(0.001),
        p50: Some(0.000_88),
        p75: Some(0.001_1),
        p90: Some(0.002),
        p95: Some(0.003_5),
        p99: Some(0.007),
        p99_9: Some(0.011),
        p99_99: Some(0.013),
        max: Some(0.019_6),
    }
}

/// The run with something that speaks against it.
pub(crate) fn doubted(mut run: Outcome, verdict: Verdict, code: Code, text: &str) -> Outcome {
    run.validity.reasons.push(Reason {
        code,
        verdict,
        numbers: BTreeMap::new(),
        text: text.into(),
        advice: "use more threads with -t".into(),
    });
    run.validity.verdict = run.validity.verdict.max(verdict);
    run
}

/// A run whose requests failed in N ways.
pub(crate) fn failed(mut run: Outcome, failures: &[(&'static str, u64, &str)]) -> Outcome {
    for &(kind, count, example) in failures {
        run.requests.failed += count;
        run.requests.started += count;
        let entry = json!({"count": count, "example": example});
        run.requests.failures.insert(kind, entry);
    }
    run
}
