//! The machines of a run, in the text report.

use std::fmt::{Result, Write as _};

use trilane_engine::{Outcome, WorkerOut};

use super::{seconds, time};

/// A machine whose threads do less than this share of what those of the others do is slow.
const SLOW: f64 = 0.9;
/// And one whose p99 is so many times that of the others.
const LONG: f64 = 1.5;

/// Writes a table of the machines, where there are several, and which of them is slow.
pub(super) fn workers(out: &mut String, outcome: &Outcome) -> Result {
    let Some(workers) = &outcome.workers else {
        return Ok(());
    };
    writeln!(out, "Workers      what each machine did")?;
    let names: Vec<_> = workers
        .iter()
        .map(|each| format!("{} on {}", each.name, each.host))
        .collect();
    let width = names.iter().map(|name| name.chars().count()).max();
    let width = width.unwrap_or(0).max(6);
    writeln!(
        out,
        "  {:width$} {:>7} {:>12} {:>8} {:>12} {:>11} {:>11} {:>10} {:>6} {:>11} {:>19}",
        "worker",
        "threads",
        "ok",
        "failed",
        "requests/s",
        "p50",
        "p99",
        "CPU/req",
        "busy",
        "began late",
        "clock"
    )?;
    for (name, each) in names.iter().zip(workers) {
        let cpu = each.cpu_us_per_request;
        let cpu = cpu.map_or_else(|| "–".to_owned(), |us| format!("{us:.2} µs"));
        writeln!(
            out,
            "  {name:width$} {:>7} {:>12} {:>8} {:>12.2} {:>11} {:>11} {cpu:>10} {:>6} {:>11} {:>19}{}",
            each.threads,
            each.ok,
            each.failed,
            each.requests_per_s,
            time(each.p50),
            time(each.p99),
            format!("{:.0} %", each.busy * 100.0),
            time(each.start_late_s),
            clock(each),
            if each.lost.is_some() { "  LOST" } else { "" }
        )?;
    }
    match slow(workers) {
        Some(told) => writeln!(out, "  slow: {told}"),
        None => Ok(()),
    }
}

/// What its clock shows more than that of the scheduler, and how much that may be wrong.
fn clock(worker: &WorkerOut) -> String {
    let Some(offset) = worker.clock_offset_s else {
        return "–".to_owned();
    };
    let sign = if offset < 0.0 { "-" } else { "+" };
    let error = worker
        .clock_error_s
        .map_or_else(String::new, |error| format!(" ± {}", seconds(error)));
    format!("{sign}{}{error}", seconds(offset.abs()))
}

/// Which machine is slow, and by what: each thread has the same to do, so that their rates compare; where these are
/// given, latencies do.
fn slow(workers: &[WorkerOut]) -> Option<String> {
    let running: Vec<_> = workers.iter().filter(|each| each.lost.is_none()).collect();
    let each_thread = |worker: &WorkerOut| worker.requests_per_s / worker.threads.max(1) as f64;
    let name = |worker: &WorkerOut| format!("{} on {}", worker.name, worker.host);
    let slowest = *running
        .iter()
        .min_by(|a, b| each_thread(a).total_cmp(&each_thread(b)))?;
    let (rate, others) = (
        each_thread(slowest),
        of_others(&running, slowest, |worker| Some(each_thread(worker))),
    );
    if let Some(others) = others.filter(|others| rate < SLOW * others) {
        return Some(format!(
            "{} did {rate:.2} requests/s with each thread, the others {others:.2} (median)",
            name(slowest)
        ));
    }
    let with_p99 = running.iter().filter(|worker| worker.p99.is_some());
    let longest = *with_p99.max_by(|a, b| a.p99.unwrap_or(0.0).total_cmp(&b.p99.unwrap_or(0.0)))?;
    let p99 = longest.p99?;
    let others = of_others(&running, longest, |worker| worker.p99)?;
    (p99 > LONG * others).then(|| {
        format!(
            "{} has a p99 of {}, the others {} (median)",
            name(longest),
            seconds(p99),
            seconds(others)
        )
    })
}

/// The median of something over all machines but one.
fn of_others(
    all: &[&WorkerOut],
    one: &WorkerOut,
    value: impl Fn(&WorkerOut) -> Option<f64>,
) -> Option<f64> {
    let others = all.iter().filter(|worker| !std::ptr::eq(**worker, one));
    let mut values: Vec<f64> = others.filter_map(|worker| value(worker)).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len().is_multiple_of(2) {
        (values[middle - 1] + upper) / 2.0
    } else {
        upper
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(name: &str, threads: usize, requests_per_s: f64, p99: f64) -> WorkerOut {
        WorkerOut {
            name: name.into(),
            host: "h".into(),
            threads,
            cores: None,
            clock_offset_s: Some(-0.000_25),
            clock_error_s: Some(0.000_1),
            start_late_s: None,
            ok: 1,
            failed: 0,
            requests_per_s,
            p50: None,
            p99: Some(p99),
            cpu_us_per_request: None,
            busy: 0.5,
            lost: None,
        }
    }

    #[test]
    fn the_slow_machine_is_named() {
        // What counts is what a thread does.
        let even = [worker("a", 2, 200.0, 0.01), worker("b", 1, 100.0, 0.012)];
        assert_eq!(slow(&even), None);
        let by_rate = [
            worker("a", 1, 100.0, 0.01),
            worker("b", 2, 120.0, 0.01),
            worker("c", 1, 104.0, 0.01),
        ];
        let told = slow(&by_rate).unwrap();
        assert_eq!(
            told,
            "b on h did 60.00 requests/s with each thread, the others 102.00 (median)"
        );
        let mut by_latency = even.to_vec();
        by_latency[1].p99 = Some(0.04);
        assert_eq!(
            slow(&by_latency).unwrap(),
            "b on h has a p99 of 40.000 ms, the others 10.000 ms (median)"
        );
        // One that was lost is told apart, and there is nothing to compare one with.
        by_latency[1].lost = Some("gone".into());
        assert_eq!(slow(&by_latency), None);
        assert_eq!(clock(&by_latency[0]), "-250.0 µs ± 100.0 µs");
    }
}
