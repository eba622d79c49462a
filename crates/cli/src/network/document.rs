//! What is said of a network: as JSON, and for people.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use trilane_network::{Counted, Counters, Outcome, Proof, Spec, Tcp};

pub(super) fn document(spec: &Spec, tcp: &Tcp, outcome: &Outcome, proof: &Proof) -> Value {
    let mut document = json!({
        "schema": "trilane.network/1",
        "network": spec.to_string(),
        "tcp": {
            "congestion_control": tcp.congestion_control,
            "initial_window": tcp.initial_window,
        },
        "mtu": trilane_network::MTU,
        "check": checked(proof),
    });
    if let (Value::Object(document), Value::Object(did)) = (&mut document, did(outcome)) {
        document.extend(did);
    }
    document
}

/// What became of the packets.
pub(super) fn did(outcome: &Outcome) -> Value {
    json!({
        "up": direction(&outcome.up),
        "down": direction(&outcome.down),
        "cpu_s": outcome.cpu.as_secs_f64(),
        "waited_s": outcome.waited.as_secs_f64(),
        "lateness_s": lateness(outcome),
    })
}

fn lateness(outcome: &Outcome) -> Value {
    let at = |quantile| outcome.lateness.value_at_quantile(quantile) as f64 / 1e9;
    let histogram = outcome.lateness.iter_log(1000, 2.0).filter_map(|step| {
        let count = step.count_since_last_iteration();
        (count > 0).then(|| json!([step.value_iterated_to() as f64 / 1e9, count]))
    });
    json!({
        "p50": at(0.5),
        "p99": at(0.99),
        "max": outcome.lateness.max() as f64 / 1e9,
        "histogram": histogram.collect::<Vec<_>>(),
    })
}

/// What was measured before the use, in the units of `Property`.
pub(super) fn checked(proof: &Proof) -> Value {
    let checks = proof.checks.iter().map(|check| {
        json!({
            "way": check.way.to_string(),
            "text": check.to_string(),
            "property": check.what.name(),
            "asked": check.asked,
            "seen": check.seen,
            "tolerance": check.tolerance,
            "holds": check.holds(),
        })
    });
    let verdict = if proof.broken().next().is_some() {
        "invalid"
    } else if proof.is_late() {
        "suspect"
    } else {
        "valid"
    };
    json!({
        "verdict": verdict,
        "properties": checks.collect::<Vec<_>>(),
        "lateness_s": lateness(&proof.outcome),
    })
}

fn direction(counters: &Counters) -> Value {
    let counted = |counted: Counted| json!({"packets": counted.packets, "bytes": counted.bytes});
    json!({
        "received": counted(counters.received),
        "lost": counted(counters.lost),
        "dropped": counted(counters.dropped),
        "forwarded": counted(counters.forwarded),
        "duplicated": counters.duplicated,
        "corrupted": counters.corrupted,
        "reordered": counters.reordered,
    })
}

/// What became of the packets, for people.
pub(super) fn told(outcome: &Outcome) -> String {
    let line = |way: &str, counters: &Counters| {
        format!(
            "{way}: {} packets ({} bytes) in, {} lost, {} dropped by the queue, {} forwarded, {} \
             of them out of order\n",
            counters.received.packets,
            counters.received.bytes,
            counters.lost.packets,
            counters.dropped.packets,
            counters.forwarded.packets,
            counters.reordered,
        )
    };
    let packets = outcome.up.received.packets + outcome.down.received.packets;
    let busy = outcome.cpu.saturating_sub(outcome.waited);
    let each = busy.as_secs_f64() * 1e6 / packets.max(1) as f64;
    format!(
        "{}{}network: {each:.1} µs of CPU per packet; packets went out late by {} µs (p50), {} µs \
         (p99)",
        line("client to server", &outcome.up),
        line("server to client", &outcome.down),
        outcome.lateness.value_at_quantile(0.5) / 1000,
        outcome.lateness.value_at_quantile(0.99) / 1000,
    )
}

/// What is to be said where packets went out late while the network was checked.
pub(super) fn late(proof: &Proof) -> Option<String> {
    proof.is_late().then(|| {
        format!(
            "packets went out late by {} µs (p99) while it was checked: other programs take the \
             processors",
            proof.outcome.lateness.value_at_quantile(0.99) / 1000
        )
    })
}

pub(super) fn write(file: &Path, document: &Value) -> Result<(), Box<dyn std::error::Error>> {
    let mut text = serde_json::to_string_pretty(document)?;
    text.push('\n');
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(())
}
