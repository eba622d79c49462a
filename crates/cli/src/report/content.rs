//! What responses consisted of, in the text report: events, messages of WebSockets and of calls.

use std::fmt::Write as _;

use trilane_engine::{Distribution, Outcome, StreamsOut};

use super::{printable, seconds, time};

pub(super) fn events(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let Some(events) = &outcome.events else {
        return Ok(());
    };
    writeln!(
        out,
        "Events       {} received ({}), {:.2} events/s",
        events.received, events.format, events.events_per_s
    )?;
    let first = match &events.first_event {
        Some(expression) => format!("first that matches {}", printable(expression)),
        None => "first event".to_owned(),
    };
    let rows = [
        (first.as_str(), &events.first.summary),
        ("gap", &events.gap.summary),
    ];
    for (name, summary) in rows {
        writeln!(
            out,
            "  {name}: {} times, p50 {}, p90 {}, p99 {}, max {}",
            summary.count,
            time(summary.p50),
            time(summary.p90),
            time(summary.p99),
            time(summary.max)
        )?;
    }
    writeln!(
        out,
        "  {} gaps were stalls of more than {}, {} together; {} responses ended without the first event",
        events.stalls,
        seconds(events.stall_s),
        seconds(events.stalled_s),
        events.without_first
    )
}

pub(super) fn sessions(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let Some(socket) = &outcome.websocket else {
        return Ok(());
    };
    let count = socket.messages_per_session.map_or_else(
        || "as many messages as the server sends".to_owned(),
        |count| format!("{count} messages"),
    );
    writeln!(
        out,
        "WebSocket    {}, {count} a session; the rates and latencies above are of sessions",
        socket.mode
    )?;
    writeln!(
        out,
        "  messages {} sent ({}, {} bytes), {} received, {:.2} received/s",
        socket.messages["sent"],
        socket.kind,
        socket.message_bytes,
        socket.messages["received"],
        socket.received_per_s
    )?;
    if let Some(latency) = &socket.round_trip {
        let cell = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), seconds);
        let summary = &latency.summary;
        writeln!(
            out,
            "  round trip p50 {}, p90 {}, p99 {}, max {} (from a message to its echo, {} at a time)",
            cell(summary.p50),
            cell(summary.p90),
            cell(summary.p99),
            cell(summary.max),
            socket.window
        )?;
    }
    Ok(())
}

pub(super) fn calls(out: &mut String, outcome: &Outcome, verbose: bool) -> std::fmt::Result {
    let Some(grpc) = &outcome.grpc else {
        return Ok(());
    };
    let counted: Vec<_> = grpc
        .status
        .iter()
        .map(|(name, count)| format!("{name} × {count}"))
        .collect();
    let counted = if counted.is_empty() {
        "none".to_owned()
    } else {
        counted.join(", ")
    };
    writeln!(
        out,
        "{:<13}{} ({}){}, described by {}",
        match grpc.protocol {
            "grpc-web" => "gRPC-Web",
            "connect" => "Connect",
            _ => "gRPC",
        },
        printable(&grpc.method),
        grpc.kind.replace('_', " "),
        match &grpc.methods {
            None => String::new(),
            Some(methods) if methods.len() == 2 => " and another method".to_owned(),
            Some(methods) => format!(" and {} other methods", methods.len() - 1),
        },
        printable(&grpc.schema)
    )?;
    writeln!(out, "  status {counted}")?;
    if grpc.expected != ["OK"] {
        writeln!(out, "  expected {}", grpc.expected.join(", "))?;
    }
    if grpc.status_latency.len() > 1 {
        for (name, latency) in &grpc.status_latency {
            percentiles(out, &format!("  {name}"), latency)?;
        }
    }
    for each in grpc.methods.iter().flatten() {
        let name = format!(
            "  {}: {} ok, {} failed,",
            printable(&each.method),
            each.ok,
            each.failed
        );
        percentiles(out, &name, &each.latency)?;
    }
    writeln!(
        out,
        "  messages {} sent{}, {} received",
        grpc.messages["sent"],
        if grpc.compressed { " (gzip)" } else { "" },
        grpc.messages["received"]
    )?;
    if let Some(streams) = &grpc.streams {
        let rate = |way: &str| grpc.messages_per_s[way].as_f64().unwrap_or_default();
        writeln!(
            out,
            "  {:.2} messages/s sent, {:.2} messages/s received",
            rate("sent"),
            rate("received")
        )?;
        let told = [
            streams
                .messages_in_flight
                .filter(|most| *most > 1)
                .map(|most| format!("up to {most} messages of a call without an answer")),
            streams
                .answers
                .as_deref()
                .filter(|answers| *answers != "1")
                .map(|answers| format!("{answers} answers to each message")),
            streams
                .message_rate_per_s
                .map(|rate| format!("{rate} messages/s asked of each stream")),
            streams
                .duration_s
                .map(|lasts| format!("streams of {}", seconds(lasts))),
        ];
        let told: Vec<_> = told.into_iter().flatten().collect();
        if !told.is_empty() {
            writeln!(out, "  {}", told.join(", "))?;
        }
    }
    if let Some(deadline) = grpc.deadline_s {
        writeln!(out, "  deadline {} for each call", seconds(deadline))?;
    }
    if let Some(latency) = &grpc.message_latency {
        let from = match (grpc.kind, &grpc.streams) {
            (
                "bidi_streaming",
                Some(StreamsOut {
                    answers: Some(_), ..
                }),
            ) => "from a message to its answer",
            _ => "from the messages before it, at first from the start of the call",
        };
        let summary = &latency.summary;
        writeln!(
            out,
            "  message latency p50 {}, p99 {}, max {} ({from})",
            time(summary.p50),
            time(summary.p99),
            time(summary.max)
        )?;
    }
    match &grpc.codec {
        None if !verbose => Ok(()),
        None => writeln!(
            out,
            "  mode wire: encoded once, responses counted by their frames"
        ),
        Some(codec) => {
            let cell = |name: &str| {
                codec[name]
                    .as_f64()
                    .map_or_else(|| "–".to_owned(), |us| format!("{us:.2} µs"))
            };
            writeln!(
                out,
                "  mode codec: {} to encode a message, {} to decode one, both within the cost below",
                cell("encode_us"),
                cell("decode_us")
            )
        }
    }
}

fn percentiles(out: &mut String, name: &str, latency: &Distribution) -> std::fmt::Result {
    let summary = &latency.summary;
    writeln!(
        out,
        "{name} p50 {}, p99 {}, max {}",
        time(summary.p50),
        time(summary.p99),
        time(summary.max)
    )
}
