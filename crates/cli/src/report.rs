//! The text report of one run, in the order that people expect.

mod connections;
mod content;
mod numbers;
mod origins;
mod scenario;
mod wire;
mod workers;

use std::fmt::Write as _;

use trilane_engine::{Outcome, Summary, Verdict};

use self::numbers::plural;
pub(crate) use self::numbers::{seconds, size, time};
pub(crate) use trilane_text::line as printable;

/// Writes the whole report.
pub(crate) fn text(outcome: &Outcome) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_all(&mut out, outcome);
    out
}

fn write_all(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    target(out, outcome)?;
    shape(out, outcome)?;
    rate(out, outcome)?;
    latency(out, outcome)?;
    drawing(out, outcome)?;
    slowest(out, outcome)?;
    connections::counts(out, outcome)?;
    connections::phases(out, outcome)?;
    status(out, outcome)?;
    scenario::scenario(out, outcome)?;
    origins::origins(out, outcome)?;
    content::events(out, outcome)?;
    content::sessions(out, outcome)?;
    content::calls(out, outcome)?;
    failures(out, outcome)?;
    cost(out, outcome)?;
    workers::workers(out, outcome)?;
    wire::transfer(out, outcome)?;
    validity(out, outcome)
}

fn target(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let target = &outcome.target;
    write!(out, "Target       {}", printable(&target.url))?;
    match outcome.plan.request["urls"].as_u64() {
        Some(2) => writeln!(out, " and another request, in turn")?,
        Some(count @ 3..) => writeln!(out, " and {} other requests, in turn", count - 1)?,
        _ => writeln!(out)?,
    }
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

fn rate(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let (requests, rate) = (&outcome.requests, &outcome.rate);
    writeln!(out, "\nRequests/sec: {:.2}", rate.requests_per_s)?;
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
    if outcome.plan.rate_per_s.is_none()
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

fn latency(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let latency = &outcome.latency;
    let mut columns = vec![("service", &latency.service.summary)];
    if let Some(response) = &latency.response {
        columns.insert(0, ("response", &response.summary));
    }
    for (name, wait) in [("late", &latency.late), ("queued", &latency.queued)] {
        if let Some(wait) = wait {
            columns.push((name, &wait.summary));
        }
    }
    columns.push(("first byte", &latency.ttfb.summary));
    if let Some(failed) = &latency.failed {
        columns.push(("failed", &failed.summary));
    }
    write!(out, "\nLatency   ")?;
    for (name, _) in &columns {
        write!(out, "{name:>13}")?;
    }
    writeln!(out)?;
    type Cell = fn(&Summary) -> Option<f64>;
    let rows: [(&str, Cell); 11] = [
        ("mean", |s| s.mean),
        ("stdev", |s| s.stdev),
        ("min", |s| s.min),
        ("p50", |s| s.p50),
        ("p75", |s| s.p75),
        ("p90", |s| s.p90),
        ("p95", |s| s.p95),
        ("p99", |s| s.p99),
        ("p99.9", |s| s.p99_9),
        ("p99.99", |s| s.p99_99),
        ("max", |s| s.max),
    ];
    for (name, cell) in rows {
        write!(out, "  {name:8}")?;
        for (_, summary) in &columns {
            write!(out, "{:>13}", time(cell(summary)))?;
        }
        writeln!(out)?;
    }
    if outcome.requests.censored > 0 {
        writeln!(
            out,
            "  {} timeouts are in it with the time they lasted: their latency is longer",
            outcome.requests.censored
        )?;
    }
    Ok(())
}

fn drawing(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let most = outcome
        .drawing
        .iter()
        .map(|(_, count)| *count)
        .max()
        .unwrap_or(0);
    if most == 0 {
        return Ok(());
    }
    writeln!(out, "\nService time from … up, requests")?;
    for &(bound, count) in &outcome.drawing {
        let bar = "█".repeat((count * 40 / most) as usize);
        writeln!(out, "{:>12} {count:>10} {bar}", seconds(bound))?;
    }
    Ok(())
}

fn slowest(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    if outcome.slowest.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nSlowest            at     waited first byte       body  request    worker:connection:stream"
    )?;
    for slow in &outcome.slowest {
        writeln!(
            out,
            "{:>12} {:>8.3} s {:>10} {:>10} {:>10}  {:<10} {}:{}:{}{}",
            seconds(slow.latency_s),
            slow.at_s,
            seconds(slow.waited_s),
            time(slow.first_byte_s),
            time(slow.body_s),
            slow.number,
            slow.worker,
            slow.connection,
            slow.stream,
            if slow.timed_out { "  timed out" } else { "" }
        )?;
    }
    Ok(())
}

fn status(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    writeln!(out, "\nStatus codes")?;
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
        return writeln!(out, "\nErrors       none");
    }
    writeln!(out, "\nErrors")?;
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

fn cost(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
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
        "\nClient cost  {per_request} µs CPU per request ({:.2} s user, {:.2} s system), busy {}, peak memory {}",
        cost.user_s,
        cost.system_s,
        busy.join(" "),
        cost.peak_rss_bytes
            .map_or_else(|| "–".to_owned(), |bytes| size(bytes as f64))
    )?;
    if let Some(us) = cost.server_cpu_us_per_request {
        writeln!(out, "Server cost  {us:.2} µs CPU per request")?;
    }
    Ok(())
}

fn validity(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let validity = &outcome.validity;
    let word = match validity.verdict {
        Verdict::Valid => "valid",
        Verdict::Suspect => "suspect",
        Verdict::Invalid => "INVALID",
    };
    let bound = if validity.bound == "client" {
        ", client-bound"
    } else {
        ""
    };
    writeln!(out, "\nValidity     {word}{bound}")?;
    for reason in &validity.reasons {
        writeln!(out, "  {}", reason.text)?;
    }
    Ok(())
}
