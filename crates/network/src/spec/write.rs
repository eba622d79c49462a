//! A network written as it is read.

use std::fmt;
use std::time::Duration;

use super::{Bandwidth, Capacity, DirectionSpec, LossSpec, Spec};

impl fmt::Display for Spec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut terms = Vec::new();
        if self.up.delay == self.down.delay {
            if !self.rtt().is_zero() {
                terms.push(format!("rtt={}", Time(self.rtt())));
            }
        } else {
            terms.push(format!("up.delay={}", Time(self.up.delay)));
            terms.push(format!("down.delay={}", Time(self.down.delay)));
        }
        let (up, down) = (settings(&self.up), settings(&self.down));
        terms.extend(up.iter().filter(|term| down.contains(term)).cloned());
        for (direction, own, other) in [("up", &up, &down), ("down", &down, &up)] {
            let apart = own.iter().filter(|term| !other.contains(term));
            terms.extend(apart.map(|term| format!("{direction}.{term}")));
        }
        terms.push(format!("seed={}", self.seed));
        out.write_str(&terms.join(","))
    }
}

/// What is said of a direction besides its delay.
fn settings(spec: &DirectionSpec) -> Vec<String> {
    let mut terms = Vec::new();
    if !spec.jitter.is_zero() {
        terms.push(format!("jitter={}", Time(spec.jitter)));
    }
    if spec.reorder {
        terms.push("reorder".into());
    }
    match &spec.bandwidth {
        Bandwidth::Unlimited => {}
        Bandwidth::Rate(rate) => terms.push(format!("rate={}", Rate(*rate))),
        Bandwidth::Trace { name, .. } => terms.push(format!("trace={name}")),
    }
    if spec.bandwidth != Bandwidth::Unlimited {
        terms.push(match spec.queue {
            Capacity::Bdp(products) => format!("queue={products}bdp"),
            Capacity::Packets(packets) => format!("queue={packets}p"),
            Capacity::Bytes(bytes) => format!("queue={bytes}"),
        });
    }
    if spec.codel {
        terms.push("codel".into());
    }
    match &spec.loss {
        LossSpec::Random { share, burst } => {
            terms.extend(share_of("loss", *share));
            terms.extend(burst.map(|burst| format!("burst={burst}")));
        }
        LossSpec::Pattern(pattern) => terms.push(format!("pattern={pattern}")),
    }
    terms.extend(share_of("duplicate", spec.duplicate));
    terms.extend(share_of("corrupt", spec.corrupt));
    terms
}

fn share_of(name: &str, share: f64) -> Option<String> {
    (share > 0.0).then(|| format!("{name}={share}"))
}

/// A time in the largest unit that it is a whole number of.
struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        if nanos.is_multiple_of(1_000_000) {
            write!(out, "{}ms", nanos / 1_000_000)
        } else if nanos.is_multiple_of(1_000) {
            write!(out, "{}us", nanos / 1_000)
        } else {
            write!(out, "{}us", nanos as f64 / 1_000.0)
        }
    }
}

/// Bits per second in the largest unit that they are a whole number of.
struct Rate(u64);

impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            (1_000_000_000, "gbit"),
            (1_000_000, "mbit"),
            (1_000, "kbit"),
        ];
        let unit = units.iter().find(|(size, _)| self.0.is_multiple_of(*size));
        let (size, name) = unit.copied().unwrap_or((1, "bit"));
        write!(out, "{}{name}", self.0 / size)
    }
}
