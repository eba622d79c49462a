//! Whether a run may be believed.

use std::cmp::Reverse;

use serde::Serialize;

use crate::failure::Kind;
use crate::outcome::{Distribution, Outcome, WindowOut};

/// How far a run may be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing speaks against it.
    Valid,
    /// Believe it with care.
    Suspect,
    /// Do not believe it: it is shown, never ranked.
    Invalid,
}

/// The verdict on a run with its reasons.
#[derive(Clone, Debug, Serialize)]
pub struct Validity {
    /// The worst of the reasons.
    pub verdict: Verdict,
    /// Each with its number.
    pub reasons: Vec<String>,
    /// `client` where a worker had no processor time left, else `server_or_network`.
    pub bound: &'static str,
}

/// What the verdict needs beside the outcome itself.
pub(crate) struct Circumstances<'a> {
    pub(crate) rate_asked: Option<f64>,
    pub(crate) unsent: u64,
    pub(crate) steal: f64,
    pub(crate) udp_drops: u64,
    pub(crate) cut_short: Option<&'a str>,
}

/// A worker above this share of a processor was the bottleneck.
const SATURATED: f64 = 0.95;

pub(crate) fn judge(outcome: &Outcome, around: &Circumstances<'_>) -> Validity {
    let mut findings = Vec::new();
    let requests = &outcome.requests;
    let ended = requests.ok + requests.failed;
    if requests.ok == 0 {
        findings.push((
            Verdict::Invalid,
            "no request was answered as expected".to_owned(),
        ));
    } else if requests.failed as f64 > 0.001 * ended as f64 {
        let share = 100.0 * requests.failed as f64 / ended as f64;
        findings.push((
            Verdict::Invalid,
            format!("{share:.2} % of the requests failed (more than 0.1 %)"),
        ));
    }
    if requests.started != ended + requests.abandoned {
        findings.push((
            Verdict::Invalid,
            format!(
                "{} requests were started and {ended} have ended: the books are wrong, which is a fault of Trilane's",
                requests.started
            ),
        ));
    }
    // Attempts on a dead server are few beside the responses of a live one: shares do not show it.
    let dead = outages(&outcome.windows);
    if dead > 0 && requests.ok > 0 {
        findings.push((
            Verdict::Invalid,
            format!(
                "in {dead} of {} seconds every request failed",
                outcome.windows.len()
            ),
        ));
    }
    if let Some(reason) = around.cut_short {
        findings.push((Verdict::Invalid, format!("the run was given up: {reason}")));
    }
    if outcome.interrupted {
        findings.push((Verdict::Suspect, "the run was interrupted".to_owned()));
    }

    if let Some(asked) = around.rate_asked {
        let late = high(outcome.latency.late.as_ref());
        let queued = high(outcome.latency.queued.as_ref());
        let reached = outcome.rate.requests_per_s;
        // An invalid verdict is for what we did: a server that cannot follow is a result.
        if reached < 0.99 * asked && late.is_none_or(|late| late > 0.001) {
            let ms = late.unwrap_or(0.0) * 1e3;
            findings.push((
                Verdict::Invalid,
                format!(
                    "{reached:.1} requests/s of the {asked} asked were reached, and requests left late (p99 {ms:.1} ms)"
                ),
            ));
        } else if reached < 0.99 * asked {
            let ms = queued.unwrap_or(0.0) * 1e3;
            findings.push((
                Verdict::Suspect,
                format!(
                    "{reached:.1} requests/s of the {asked} asked were reached, as no stream was free (p99 {ms:.1} ms queued): more connections or streams are needed, or this is the server's limit"
                ),
            ));
        }
        if around.unsent > 0 {
            findings.push((
                Verdict::Suspect,
                format!(
                    "{} requests were due and had no free stream when the run ended",
                    around.unsent
                ),
            ));
        }
    }

    // The kernel's accounting is too coarse for less.
    let long_enough = outcome.rate.window_s >= 0.2;
    let busiest = outcome
        .cost
        .busy
        .iter()
        .copied()
        .filter(|_| long_enough)
        .fold(0.0, f64::max);
    let bound = if busiest > SATURATED {
        "client"
    } else {
        "server_or_network"
    };
    if busiest > 0.8 {
        let what = if busiest > SATURATED {
            ": the client was the bottleneck"
        } else {
            ""
        };
        findings.push((
            Verdict::Suspect,
            format!("a worker was {:.0} % busy{what}", busiest * 100.0),
        ));
    }
    let drops = around.udp_drops;
    if let Some(received) = outcome.bytes.datagrams_received
        && drops as f64 > 0.001 * received as f64
    {
        findings.push((
            Verdict::Invalid,
            format!(
                "{drops} UDP datagrams found the buffers of our sockets full (more than 0.1 %)"
            ),
        ));
    }
    if around.steal > 0.02 {
        findings.push((
            Verdict::Suspect,
            format!(
                "other machines of the host took {:.1} % of the processor time",
                around.steal * 100.0
            ),
        ));
    }
    let (open, asked) = (outcome.connections.open_at_most, outcome.plan.connections);
    if open < asked as u64 {
        findings.push((
            Verdict::Suspect,
            format!("no more than {open} of the {asked} connections asked for were open"),
        ));
    }
    let lost = &outcome.connections.lost;
    let broken: u64 = [Kind::Protocol, Kind::Limit]
        .iter()
        .filter_map(|kind| lost.get(kind.name()))
        .sum();
    // Where it cost a request, that has failed and says so.
    if broken > 0 && requests.failed == 0 {
        findings.push((
            Verdict::Suspect,
            format!(
                "{broken} connections were given up as the server sent what belongs to no response, or more than our limits"
            ),
        ));
    }
    if let Some(change) = trend(&outcome.windows) {
        findings.push((
            Verdict::Suspect,
            format!(
                "requests/s drifted by {:+.0} % over the run",
                change * 100.0
            ),
        ));
    }
    if requests.ok > 0 && outcome.latency.service.summary.p99.is_none() {
        findings.push((
            Verdict::Suspect,
            format!(
                "{} responses are too few for a p99 (1000 are needed)",
                outcome.latency.service.summary.count
            ),
        ));
    }
    findings.sort_by_key(|finding| Reverse(finding.0));
    Validity {
        verdict: findings.first().map_or(Verdict::Valid, |finding| finding.0),
        reasons: findings.into_iter().map(|(_, reason)| reason).collect(),
        bound,
    }
}

/// The p99 of a distribution, or its maximum where there are too few for a p99, in seconds.
fn high(distribution: Option<&Distribution>) -> Option<f64> {
    let summary = &distribution?.summary;
    summary.p99.or(summary.max)
}

/// The seconds in which requests ended, and none of them well.
fn outages(windows: &[WindowOut]) -> usize {
    windows
        .iter()
        .filter(|row| row.ok == 0 && row.failed > 0)
        .count()
}

/// The relative change of the rate over the whole seconds of a run, where it is a trend: a straight
/// line explains most of it and it exceeds 10 %.
fn trend(windows: &[WindowOut]) -> Option<f64> {
    let rates: Vec<f64> = windows
        .iter()
        .filter(|row| row.length_s > 0.99)
        .map(|row| row.ok as f64)
        .collect();
    if rates.len() < 5 {
        return None;
    }
    let n = rates.len() as f64;
    let (mean_x, mean_y) = ((n - 1.0) / 2.0, rates.iter().sum::<f64>() / n);
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in rates.iter().enumerate() {
        let (dx, dy) = (x as f64 - mean_x, y - mean_y);
        xx += dx * dx;
        xy += dx * dy;
        yy += dy * dy;
    }
    if mean_y <= 0.0 || yy <= 0.0 {
        return None;
    }
    let change = xy / xx * (n - 1.0) / mean_y;
    (xy * xy / (xx * yy) > 0.7 && change.abs() > 0.1).then_some(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rates: &[u64]) -> Vec<WindowOut> {
        let row = |(i, &ok)| WindowOut {
            start_s: i as f64,
            length_s: 1.0,
            ok,
            failed: 0,
            p50: None,
            p99: None,
        };
        rates.iter().enumerate().map(row).collect()
    }

    #[test]
    fn a_second_of_nothing_but_failures_is_an_outage() {
        let mut windows = rows(&[1000, 0, 0, 10]);
        assert_eq!(outages(&windows), 0, "slow responses leave seconds empty");
        windows[1].failed = 3;
        windows[3].failed = 3;
        assert_eq!(outages(&windows), 1);
    }

    #[test]
    fn a_steady_fall_is_a_trend_and_noise_is_none() {
        assert!(trend(&rows(&[1000, 950, 900, 860, 800, 760])).unwrap() < -0.2);
        assert_eq!(trend(&rows(&[1000, 1050, 980, 1020, 990, 1010])), None);
        assert_eq!(trend(&rows(&[1000, 500])), None);
        assert_eq!(trend(&rows(&[0, 0, 0, 0, 0])), None);
    }
}
