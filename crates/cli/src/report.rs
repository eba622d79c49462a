//! The text report of one run: its answer, and the paragraphs that most people need, or all.

mod answer;
mod connections;
mod content;
mod latency;
mod numbers;
mod origins;
mod paragraphs;
#[cfg(test)]
pub(crate) mod sample;
mod scenario;
#[cfg(test)]
mod tests;
mod wire;
mod workers;
mod wrap;

use std::fmt::Write as _;

use trilane_engine::{Outcome, Verdict};

use self::Need::{Always, IfRoom, Verbose};
pub(crate) use self::answer::lead;
use self::numbers::plural;
pub(crate) use self::numbers::{brief_time, rate as brief_rate, seconds, size, thousands, time};
use self::paragraphs::{LAST, Need, Paragraph, Paragraphs, chosen};
pub(crate) use self::wrap::wrapped;
use crate::answer::Answer;
pub(crate) use trilane_text::line as printable;

/// How a report is laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// All of it, instead of what most people need.
    pub(crate) verbose: bool,
    /// With the slowest requests, even if it is not verbose.
    pub(crate) slowest: bool,
    /// Columns of the terminal that it goes to, if any.
    pub(crate) width: Option<usize>,
}

/// Lines of a report that is not verbose; what went wrong may take more.
const LINES: usize = 30;

/// The report: the answer, then what the run did.
pub(crate) fn text(outcome: &Outcome, answer: &Answer, layout: Layout) -> String {
    let mut out = wrapped(&lead(answer), layout.width);
    out.push('\n');
    let (shown, left_out, has_gaps) = match layout.verbose {
        true => (paragraphs(outcome, layout), Vec::new(), true),
        // The last line names what is left out.
        false => chosen(
            paragraphs(outcome, layout),
            (LINES - 1).saturating_sub(out.lines().count()),
        ),
    };
    for paragraph in shown {
        if paragraph.apart && has_gaps {
            out.push('\n');
        }
        out.push_str(&paragraph.text);
    }
    if !layout.verbose {
        let more = format!("More with -v: {}\n", left_out.join(", "));
        out.push_str(&wrapped(&more, layout.width));
    }
    out
}

/// The paragraphs that are not empty, in the order that people expect.
fn paragraphs(outcome: &Outcome, layout: Layout) -> Vec<Paragraph> {
    let mut all = Paragraphs::new(layout);
    all.add("target", Always, false, |out| target(out, outcome));
    all.add("what was negotiated", IfRoom(2), false, |out| {
        negotiated(out, outcome)
    });
    all.add("load", Always, false, |out| shape(out, outcome));
    all.add("rate", Always, true, |out| {
        rate(out, outcome, layout.verbose)
    });
    latencies(&mut all, outcome);
    set_up(&mut all, outcome);
    all.add("status codes", Always, true, |out| status(out, outcome));
    all.add("scenario", IfRoom(0), true, |out| {
        scenario::scenario(out, outcome)
    });
    all.add("origins", IfRoom(0), true, |out| {
        origins::origins(out, outcome)
    });
    all.add("events", IfRoom(0), true, |out| {
        content::events(out, outcome)
    });
    all.add("WebSockets", IfRoom(0), true, |out| {
        content::sessions(out, outcome)
    });
    all.add("calls", IfRoom(0), true, |out| {
        content::calls(out, outcome, layout.verbose)
    });
    all.add("workers", IfRoom(0), true, |out| {
        workers::workers(out, outcome)
    });
    costs(&mut all, outcome);
    all.all
}

fn latencies(all: &mut Paragraphs, outcome: &Outcome) {
    let layout = all.layout;
    let columns = latency::columns(outcome, layout);
    all.add("", Always, true, |out| latency::head(out, &columns));
    for (name, need, cell) in latency::ROWS {
        let is_known = columns.iter().any(|(_, summary)| cell(summary).is_some());
        if is_known || layout.verbose || need == Always {
            all.add("", need, false, |out| {
                latency::row(out, &columns, name, cell)
            });
        }
    }
    all.add("", Always, false, |out| latency::censored(out, outcome));
    all.add("histogram", Verbose, true, |out| {
        latency::drawing(out, outcome)
    });
    // A flag requested this list, so it is always shown.
    let need = if layout.slowest { Always } else { Verbose };
    all.add("slowest requests", need, true, |out| {
        latency::slowest(out, outcome)
    });
}

fn set_up(all: &mut Paragraphs, outcome: &Outcome) {
    let counts = &outcome.connections;
    let need = match counts.failed.is_empty() && counts.lost.is_empty() {
        true => Verbose,
        false => Always,
    };
    all.add("connections", need, true, |out| {
        connections::counts(out, outcome)
    });
    // They are what is measured where connections are replaced, or send early data.
    let makes_connections = outcome.plan.asked.requests_per_connection.is_some();
    let need = match makes_connections || outcome.phases.early_data.is_some() {
        true => IfRoom(0),
        false => Verbose,
    };
    all.add("phases", need, true, |out| {
        connections::phases(out, outcome)
    });
}

fn costs(all: &mut Paragraphs, outcome: &Outcome) {
    let verbose = all.layout.verbose;
    all.add("errors", Always, true, |out| failures(out, outcome));
    all.add("client cost", IfRoom(LAST), verbose, |out| {
        client_cost(out, outcome)
    });
    all.add("server cost", IfRoom(2), false, |out| {
        server_cost(out, outcome)
    });
    all.add("transfer", Always, verbose, |out| {
        wire::per_second(out, outcome)
    });
    all.add("bytes", Verbose, true, |out| wire::transfer(out, outcome));
    all.add("validity", Always, verbose, |out| {
        validity(out, outcome, verbose)
    });
}

fn target(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let target = &outcome.target;
    write!(out, "Target       {}", printable(&target.url))?;
    match outcome.plan.request["urls"].as_u64() {
        Some(2) => writeln!(out, " and another request, in turn")?,
        Some(count @ 3..) => writeln!(out, " and {} other requests, in turn", count - 1)?,
        _ => writeln!(out)?,
    }
    Ok(())
}

fn negotiated(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let target = &outcome.target;
    let mut facts = vec![target.version.unwrap_or("no version obtained").to_owned()];
    if let Some(tls) = &target.tls {
        let part = |name: &str| tls[name].as_str().unwrap_or_default().to_owned();
        facts.push(format!(
            "{} {} {}",
            part("version"),
            part("cipher"),
            part("group")
        ));
    }
    match target.peers.len() {
        0 | 1 => facts.extend(target.peer.clone()),
        _ => {
            let peers = target.peers.iter();
            facts.extend(peers.map(|(peer, count)| format!("{peer} × {count}")));
        }
    }
    facts.extend(target.congestion_control.clone());
    if target.ack_frequency == Some(false) {
        facts.push("no ACK_FREQUENCY, which the server does not know".to_owned());
    }
    facts.extend(target.mtu.map(|mtu| format!("MTU {mtu} bytes")));
    facts.extend(target.server.as_deref().map(printable));
    writeln!(out, "Negotiated   {}", facts.join(", "))
}

fn shape(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let plan = &outcome.plan;
    let (unit, users) = match &outcome.scenario {
        None => ("requests", String::new()),
        Some(scenario) => (
            "iterations",
            format!("{}, ", plural(scenario.users, "user")),
        ),
    };
    let load = match plan.rate_per_s {
        Some(rate) => {
            let spread = match plan.arrivals {
                Some("poisson") => "at random (Poisson)",
                _ => "on time",
            };
            match plan.stages.as_slice() {
                [] => match plan.asked.rate_per_connection_per_s {
                    Some(each) => format!(
                        "open model, {each} {unit}/s on each connection, {rate} on all, {spread}"
                    ),
                    None => format!("open model, {rate} {unit}/s {spread}"),
                },
                stages => {
                    let steps: Vec<_> = stages
                        .iter()
                        .map(|stage| format!("{} s to {}", stage.length_s, stage.rate_per_s))
                        .collect();
                    format!("open model, {} {unit}/s {spread}", steps.join(", "))
                }
            }
        }
        None if !plan.stages_in_flight.is_empty() => {
            let steps: Vec<_> = plan
                .stages_in_flight
                .iter()
                .map(|stage| format!("{} s to {}", stage.length_s, stage.in_flight))
                .collect();
            format!("closed model, {} in flight", steps.join(", "))
        }
        None => {
            let asked = plan.connections * plan.streams;
            let open = outcome.usually_open() * plan.streams as u64;
            match outcome.connections.in_flight_at_most.min(open) {
                most if most < asked as u64 => {
                    format!("closed model, at most {most} of {asked} in flight")
                }
                _ => format!("closed model, {asked} in flight"),
            }
        }
    };
    let to_each = outcome.origins.as_ref().map_or_else(String::new, |all| {
        format!(" to each of {} origins", all.len())
    });
    let end = match (plan.requests, plan.duration_s) {
        (Some(requests), _) => format!("{requests} {unit}"),
        (None, seconds) => format!("{} s", seconds.unwrap_or_default()),
    };
    let unread = if plan.asked.discard_bodies {
        ", bodies thrown away unread"
    } else {
        ""
    };
    writeln!(
        out,
        "Load         {load}: {users}{}{to_each} × {}, {}{unread}; {end} after {} s of warm-up",
        plural(plan.connections, "connection"),
        plural(plan.streams, "stream"),
        plural(plan.threads, "thread"),
        plan.warmup_s
    )
}

fn rate(out: &mut String, outcome: &Outcome, verbose: bool) -> std::fmt::Result {
    let (requests, rate) = (&outcome.requests, &outcome.rate);
    writeln!(out, "Requests/sec: {:.2}", rate.requests_per_s)?;
    writeln!(
        out,
        "  in {:.3} s: {} started = {} ok + {} failed + {} abandoned in flight at the end",
        rate.window_s, requests.started, requests.ok, requests.failed, requests.abandoned
    )?;
    if requests.retried > 0 {
        writeln!(
            out,
            "  {} sent again, which the server had not processed",
            requests.retried
        )?;
    }
    let established = outcome.connections.established_measured;
    if established > 0 {
        writeln!(
            out,
            "  {:.2} connections/s: {established} were made",
            rate.connections_per_s
        )?;
    }
    let early = &requests.early_responses;
    if early.count > 0 {
        writeln!(
            out,
            "  {} responses came before the request's content had been sent: {} of {}",
            early.count,
            size(early.body_sent as f64),
            size(early.body_bytes as f64)
        )?;
    }
    if let (Some(asked), Some(sent)) = (outcome.plan.rate_per_s, rate.sent_per_s) {
        let late = outcome.latency.late.as_ref().map(|late| &late.summary);
        let (late, of) = match late.and_then(|late| late.p99) {
            Some(late) => (Some(late), "p99"),
            None => (late.and_then(|late| late.max), "at most"),
        };
        let sent_are = match &outcome.scenario {
            None => "requests/s left",
            Some(_) => "iterations/s began",
        };
        writeln!(
            out,
            "  {sent:.2} {sent_are} of {asked} asked for ({:+.3} %), late by {} ({of})",
            (sent / asked - 1.0) * 100.0,
            time(late)
        )?;
    }
    if let Some(backlog) = outcome.backlog.filter(|backlog| backlog.at_most > 0) {
        writeln!(
            out,
            "  due and not sent: at most {}, {:.1} s into the run, as the queue grew since {:.1} s; {} at the end",
            backlog.at_most,
            backlog.at_most_s.unwrap_or_default(),
            backlog.since_s.unwrap_or_default(),
            backlog.at_end
        )?;
    }
    if requests.unsent > 0 {
        writeln!(
            out,
            "  {} more were due and found no free stream",
            requests.unsent
        )?;
    }
    if requests.shed > 0 {
        writeln!(
            out,
            "  {} more could only have left more than {} s late and were shed: no latency has them",
            requests.shed,
            outcome.plan.asked.shed_after_s.unwrap_or_default()
        )?;
    }
    let latency = &outcome.latency;
    let whole = latency.response.as_ref().unwrap_or(&latency.service);
    if verbose
        && outcome.plan.rate_per_s.is_none()
        && let Some(mean) = whole.summary.mean
    {
        let in_flight = mean * rate.requests_per_s;
        writeln!(
            out,
            "  closed model: mean latency × rate = {in_flight:.1} in flight (Little's law): one follows from the other"
        )?;
    }
    Ok(())
}

fn status(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    writeln!(out, "Status codes")?;
    if outcome.status.is_empty() {
        writeln!(out, "  none")?;
    }
    for (code, count) in &outcome.status {
        writeln!(out, "  {code} {count:>10}")?;
    }
    Ok(())
}

fn failures(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    if outcome.requests.failures.is_empty() {
        return writeln!(out, "Errors       none");
    }
    writeln!(out, "Errors")?;
    for (kind, entry) in &outcome.requests.failures {
        let example = printable(entry["example"].as_str().unwrap_or_default());
        writeln!(
            out,
            "  {kind:17} {:>10}  e.g. {example}",
            entry["count"].to_string()
        )?;
    }
    Ok(())
}

fn client_cost(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let cost = &outcome.cost;
    let per_request = cost
        .cpu_us_per_request
        .map_or_else(|| "–".to_owned(), |us| format!("{us:.2}"));
    let busy: Vec<String> = cost
        .busy
        .iter()
        .map(|share| format!("{:.0} %", share * 100.0))
        .collect();
    writeln!(
        out,
        "Client cost  {per_request} µs CPU per request ({:.2} s user, {:.2} s system), busy {}, peak memory {}",
        cost.user_s,
        cost.system_s,
        busy.join(" "),
        cost.peak_rss_bytes
            .map_or_else(|| "–".to_owned(), |bytes| size(bytes as f64))
    )
}

fn server_cost(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    if let Some(us) = outcome.cost.server_cpu_us_per_request {
        writeln!(out, "Server cost  {us:.2} µs CPU per request")?;
    }
    Ok(())
}

fn validity(out: &mut String, outcome: &Outcome, verbose: bool) -> std::fmt::Result {
    let validity = &outcome.validity;
    let word = match validity.verdict {
        Verdict::Valid => "valid",
        Verdict::Suspect => "suspect",
        Verdict::Invalid => "INVALID",
    };
    let bound = match validity.bound {
        "client" => ", client-bound",
        "server" => ", server-bound",
        _ => "",
    };
    writeln!(out, "Validity     {word}{bound}")?;
    // The answer has them all, with what to do about each.
    for reason in validity.reasons.iter().filter(|_| verbose) {
        writeln!(out, "  {}", reason.text)?;
    }
    Ok(())
}
