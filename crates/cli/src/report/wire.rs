//! What a run sent and received, in the text report: the same rows for every version of HTTP.

use std::fmt::Write as _;

use trilane_engine::Outcome;

use super::{size, time};

pub(super) fn per_second(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let received = outcome.bytes.received as f64;
    let per_s = received / outcome.rate.window_s.max(1e-9);
    writeln!(out, "Transfer/sec: {}", size(per_s))
}

pub(super) fn transfer(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let bytes = &outcome.bytes;
    let cell = |bytes: u64| size(bytes as f64);
    writeln!(out, "Wire                          sent     received")?;
    for (name, sent, received) in [
        ("payload", bytes.sent, bytes.received),
        (
            "headers",
            bytes.header_sent_encoded,
            bytes.header_received_encoded,
        ),
        (
            "  uncompressed",
            bytes.header_sent_decoded,
            bytes.header_received_decoded,
        ),
        ("bodies", bytes.body_sent, bytes.body_received),
        ("handshakes", bytes.handshake_sent, bytes.handshake_received),
    ] {
        writeln!(out, "  {name:18} {:>12} {:>12}", cell(sent), cell(received))?;
    }
    let (unit, sent, received, lost) = match bytes.datagrams_sent {
        Some(sent) => ("datagrams", sent, bytes.datagrams_received, "packets lost"),
        None => (
            "segments",
            bytes.segments_sent.unwrap_or(0),
            bytes.segments_received,
            "segments sent again",
        ),
    };
    let received = received.unwrap_or(0);
    writeln!(out, "  {unit:18} {sent:>12} {received:>12}")?;
    writeln!(
        out,
        "  {} {lost}; round trip {} smoothed, {} at least",
        bytes.retransmits,
        time(bytes.rtt_s),
        time(bytes.min_rtt_s)
    )
}
