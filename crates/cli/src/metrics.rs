//! The numbers of a run that monitoring systems are told: one list, for `--prometheus` and for `--otlp`.

use trilane_engine::{Quantiles, SecondOut};

/// Stands before each name.
pub(crate) const PREFIX: &str = "trilane";

/// The first and the last bound of histograms, in tenths of a decade from 1 µs: 10 µs and 10 s.
const BOUNDS: std::ops::RangeInclusive<i32> = 10..=70;

/// One number, or a few that labels tell apart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    /// A sentence.
    pub(crate) help: &'static str,
    pub(crate) unit: Option<Unit>,
    pub(crate) data: Data,
}

/// What a number counts, where it is no plain count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Bytes,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data {
    /// Sums since the measured part began: they only grow.
    Counter(Vec<Sample>),
    /// What was so in the last second, or at its end.
    Gauge(Vec<Sample>),
    /// Since the measured part began.
    Histogram(Histogram),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    /// Name and value of its label.
    pub(crate) label: Option<(&'static str, String)>,
    pub(crate) value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Whole(u64),
    Real(f64),
}

/// Durations by size, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Histogram {
    /// Upper bounds.
    pub(crate) bounds: Vec<f64>,
    /// How many there are up to each bound and above the one before; one more for what is above all.
    pub(crate) counts: Vec<u64>,
    pub(crate) sum: f64,
}

impl Metric {
    fn of_seconds(self) -> Self {
        let unit = Some(Unit::Seconds);
        Self { unit, ..self }
    }

    fn of_bytes(self) -> Self {
        let unit = Some(Unit::Bytes);
        Self { unit, ..self }
    }
}

fn counter(name: &'static str, help: &'static str, samples: Vec<Sample>) -> Metric {
    Metric {
        name,
        help,
        unit: None,
        data: Data::Counter(samples),
    }
}

fn gauge(name: &'static str, help: &'static str, samples: Vec<Sample>) -> Metric {
    let data = Data::Gauge(samples);
    Metric {
        data,
        ..counter(name, help, Vec::new())
    }
}

fn histogram(name: &'static str, help: &'static str, all: &Quantiles) -> Metric {
    let data = Data::Histogram(Histogram::new(all));
    Metric {
        data,
        ..counter(name, help, Vec::new())
    }
    .of_seconds()
}

fn whole(value: u64) -> Sample {
    Sample {
        label: None,
        value: Value::Whole(value),
    }
}

fn real(value: f64) -> Sample {
    Sample {
        label: None,
        value: Value::Real(value),
    }
}

impl Sample {
    fn with(self, label: &'static str, text: impl ToString) -> Self {
        let label = Some((label, text.to_string()));
        Self { label, ..self }
    }
}

/// Those of a second that is over, and of all that was measured by its end.
pub(crate) fn of(second: &SecondOut, so_far: &SecondOut) -> Vec<Metric> {
    let mut metrics = counts(so_far);
    metrics.extend(states(second));
    metrics.push(histogram(
        "service_duration",
        "From the first byte sent to the end of the response.",
        &so_far.service,
    ));
    if let Some(response) = &so_far.response {
        metrics.push(histogram(
            "response_duration",
            "From when a request was due to the end of its response.",
            response,
        ));
    }
    let messages = so_far.messages.as_ref();
    if let Some(latency) = messages.and_then(|messages| messages.latency.as_ref()) {
        metrics.push(histogram(
            "message_duration",
            "From the event that a message follows to its arrival.",
            latency,
        ));
    }
    metrics
}

/// What is added up.
fn counts(so_far: &SecondOut) -> Vec<Metric> {
    let failures = so_far.failures.iter();
    let status = so_far.status.iter();
    let mut metrics = vec![
        counter(
            "requests",
            "Requests of the measured part that have ended.",
            vec![
                whole(so_far.ok).with("result", "ok"),
                whole(so_far.failed).with("result", "failed"),
            ],
        ),
        counter(
            "failures",
            "Failed requests of the measured part.",
            failures
                .map(|(kind, count)| whole(*count).with("kind", kind))
                .collect(),
        ),
        counter(
            "responses",
            "Final responses of the measured part.",
            status
                .map(|(code, count)| whole(*count).with("status", code))
                .collect(),
        ),
        counter(
            "transferred",
            "Payload of TCP or UDP in the measured part.",
            vec![
                whole(so_far.bytes_sent).with("direction", "sent"),
                whole(so_far.bytes_received).with("direction", "received"),
            ],
        )
        .of_bytes(),
        counter(
            "client_cpu",
            "Processor time of the worker threads in the measured part.",
            vec![real(so_far.cpu_s)],
        )
        .of_seconds(),
    ];
    if let Some(messages) = &so_far.messages {
        metrics.push(counter(
            "messages",
            "Messages of gRPC streams in the measured part.",
            vec![
                whole(messages.sent).with("direction", "sent"),
                whole(messages.received).with("direction", "received"),
            ],
        ));
    }
    metrics
}

/// What changes from second to second.
fn states(second: &SecondOut) -> Vec<Metric> {
    let mut metrics = vec![
        gauge(
            "requests_per_second",
            "Requests that ended as expected in the last second.",
            vec![real(second.requests_per_s)],
        ),
        gauge(
            "service_time",
            "From the first byte sent to the end of the response, in the last second.",
            quantiles(&second.service),
        )
        .of_seconds(),
        gauge(
            "requests_in_flight",
            "Requests in flight at the end of the last second.",
            vec![whole(second.in_flight)],
        ),
        gauge(
            "connections_open",
            "Connections open at the end of the last second.",
            vec![whole(second.open)],
        ),
    ];
    if let Some(response) = &second.response {
        metrics.push(
            gauge(
                "response_time",
                "From when a request was due to the end of its response, in the last second.",
                quantiles(response),
            )
            .of_seconds(),
        );
    }
    if let Some(late) = &second.late {
        metrics.push(
            gauge(
                "late",
                "From when a request was due and could leave to its first byte, in the last second.",
                quantiles(late),
            )
            .of_seconds(),
        );
    }
    if let Some(messages) = &second.messages {
        metrics.push(gauge(
            "messages_per_second",
            "Messages of gRPC streams in the last second.",
            vec![
                real(messages.sent_per_s).with("direction", "sent"),
                real(messages.received_per_s).with("direction", "received"),
            ],
        ));
        if let Some(latency) = &messages.latency {
            metrics.push(
                gauge(
                    "message_time",
                    "From the event that a message follows to its arrival, in the last second.",
                    quantiles(latency),
                )
                .of_seconds(),
            );
        }
    }
    if let Some(asked) = second.asked_per_s {
        metrics.push(gauge(
            "asked_per_second",
            "Requests, or iterations of a scenario, that were asked for in the last second.",
            vec![real(asked)],
        ));
        metrics.push(gauge(
            "requests_overdue",
            "Requests that were due and had not left at the end of the last second.",
            vec![whole(second.backlog)],
        ));
    }
    metrics
}

/// What too few responses cannot tell is not told as it was a second ago.
fn quantiles(of: &Quantiles) -> Vec<Sample> {
    let all = [
        ("0.5", of.p50),
        ("0.9", of.p90),
        ("0.99", of.p99),
        ("1", of.max),
    ];
    let known = all.into_iter();
    known
        .filter_map(|(quantile, value)| Some(real(value?).with("quantile", quantile)))
        .collect()
}

impl Histogram {
    fn new(all: &Quantiles) -> Self {
        let bound = |tenth: i32| 10f64.powf(f64::from(tenth) / 10.0) / 1e6;
        let bounds: Vec<_> = BOUNDS.map(bound).collect();
        let mut counts = vec![0; bounds.len() + 1];
        for (step, count) in &all.steps {
            // A step ends where the next tenth begins.
            let above_first = (step + 1).saturating_sub(BOUNDS.start().unsigned_abs()) as usize;
            counts[above_first.min(bounds.len())] += count;
        }
        Self {
            bounds,
            counts,
            sum: all.sum_s,
        }
    }

    /// How many durations there are.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_fall_below_the_bound_at_which_they_end() {
        // 5 µs, from 10 µs, from 2 ms (10^3.3 µs), just below 10 s, an hour.
        let steps = vec![(6, 1), (10, 2), (33, 3), (69, 4), (95, 5)];
        let histogram = Histogram::new(&Quantiles {
            steps,
            sum_s: 7.5,
            ..Quantiles::default()
        });
        assert_eq!((histogram.count(), histogram.sum), (15, 7.5));
        let found: Vec<_> = histogram
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(at, count)| (histogram.bounds.get(at).map(|bound| bound * 1e6), *count))
            .map(|(bound, count)| (bound.map(f64::round), count))
            .collect();
        let expected = [
            (Some(10.0), 1),
            (Some(13.0), 2),
            (Some(2512.0), 3),
            (Some(10_000_000.0), 4),
            (None, 5),
        ];
        assert_eq!(found, expected);
    }
}
