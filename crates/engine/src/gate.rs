//! Conditions on an outcome: `--fail-if` has the command fail by one, and `--search` looks for the highest
//! rate at which one holds.

use std::fmt;

use trilane_units as units;

use crate::assemble::ratio;
use crate::latency::Summary;
use crate::outcome::Outcome;

/// One condition, such as `p99>10ms`, `rate<1000` or `failed>0`.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    text: String,
    measure: Measure,
    above: bool,
    or_equal: bool,
    limit: f64,
}

/// Why a text is not a gate, with what to type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateError(String);

/// What a run came to beside what a gate allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The name of what was measured.
    pub measure: &'static str,
    /// Value with its unit; none if there are no values, or too few samples.
    pub value: Option<String>,
    /// Which values pass, such as `≤ 10 ms`.
    pub allowed: String,
    /// Whether this one does: what is not known does not.
    pub holds: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    Min,
    Mean,
    P50,
    P75,
    P90,
    P95,
    P99,
    P99_9,
    P99_99,
    Max,
    Rate,
    Failed,
    Shed,
    ErrorRate,
    CpuPerRequest,
    ReceivedRate,
    SentRate,
    MessageP50,
    MessageP90,
    MessageP99,
    MessageP99_9,
    MessageMax,
}

const MEASURES: [(&str, Measure); 23] = [
    ("min", Measure::Min),
    ("mean", Measure::Mean),
    ("p50", Measure::P50),
    ("p75", Measure::P75),
    ("p90", Measure::P90),
    ("p95", Measure::P95),
    ("p99", Measure::P99),
    ("p99.9", Measure::P99_9),
    ("p99.99", Measure::P99_99),
    ("max", Measure::Max),
    ("rate", Measure::Rate),
    ("failed", Measure::Failed),
    ("shed", Measure::Shed),
    ("error_rate", Measure::ErrorRate),
    ("errors", Measure::ErrorRate),
    ("cpu", Measure::CpuPerRequest),
    ("received_rate", Measure::ReceivedRate),
    ("sent_rate", Measure::SentRate),
    ("message_p50", Measure::MessageP50),
    ("message_p90", Measure::MessageP90),
    ("message_p99", Measure::MessageP99),
    ("message_p99.9", Measure::MessageP99_9),
    ("message_max", Measure::MessageMax),
];

impl Gate {
    /// Parses `MEASURE>LIMIT` (also `<`, `>=`, `<=`).
    pub fn parse(text: &str) -> Result<Self, GateError> {
        Self::parse_as(
            text,
            "--fail-if 'p99>10ms', 'rate<1000', 'failed>0' or 'error_rate>1%'",
        )
    }

    /// The same of what is to hold: a time or a share stays below its limit, a rate above.
    pub fn parse_goal(text: &str) -> Result<Self, GateError> {
        let example = "--search 'p99<10ms, error_rate<0.1%'";
        let goal = Self::parse_as(text, example)?;
        let is_rate = matches!(
            goal.measure,
            Measure::Rate | Measure::ReceivedRate | Measure::SentRate
        );
        if goal.above == is_rate {
            return Ok(goal);
        }
        let other = match goal.above {
            true => goal.text.replacen('>', "<", 1),
            false => goal.text.replacen('<', ">", 1),
        };
        Err(GateError(format!(
            "{text:?}: a search looks for the highest rate at which this holds, and the higher the rate the sooner it holds: type {other:?} for what has to hold, as in {example}"
        )))
    }

    fn parse_as(text: &str, example: &str) -> Result<Self, GateError> {
        let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let form =
            |what: String| GateError(format!("{text:?}: {what}: type for example {example}"));
        let Some(at) = compact.find(['<', '>']) else {
            return Err(form("there is no < or >".into()));
        };
        let (name, rest) = compact.split_at(at);
        let or_equal = rest[1..].starts_with('=');
        let value = &rest[1 + usize::from(or_equal)..];
        let Some(&(_, measure)) = MEASURES.iter().find(|(known, _)| *known == name) else {
            let names: Vec<_> = MEASURES.iter().map(|(name, _)| *name).collect();
            return Err(form(format!("{name:?} is not one of {}", names.join(", "))));
        };
        let limit = match measure {
            Measure::Rate | Measure::ReceivedRate | Measure::SentRate => units::rate(value),
            Measure::Failed | Measure::Shed => units::count(value).map(|count| count as f64),
            Measure::ErrorRate => share(value),
            _ if value.parse::<f64>().is_ok_and(|number| number != 0.0) => Err(format!(
                "{value} has no unit: type {value}ms for milliseconds or {value}s for seconds"
            )),
            _ => units::time(value).map(|time| time.as_secs_f64()),
        };
        Ok(Self {
            text: compact.clone(),
            measure,
            above: rest.starts_with('>'),
            or_equal,
            limit: limit.map_err(form)?,
        })
    }

    /// Says how `outcome` breaches the gate; `None` where it passes. A quantile without samples
    /// enough cannot pass.
    pub fn breach(&self, outcome: &Outcome) -> Option<String> {
        let Some(value) = self.value(outcome) else {
            return Some(self.unknown(outcome));
        };
        let shown = self.shown(value);
        self.is_true(value)
            .then(|| format!("{} is true: it is {shown}", self.text))
    }

    /// Says how `outcome` misses what was to hold; `None` where it does. A quantile without samples
    /// enough holds not.
    pub fn miss(&self, outcome: &Outcome) -> Option<String> {
        match self.value(outcome) {
            None => Some(self.unknown(outcome)),
            Some(value) if self.is_true(value) => None,
            Some(value) => Some(format!(
                "{} is not true: it is {}",
                self.text,
                self.shown(value)
            )),
        }
    }

    /// What `outcome` came to beside what the gate allows.
    pub fn check(&self, outcome: &Outcome) -> Checked {
        let value = self.value(outcome);
        let allowed = match (self.above, self.or_equal) {
            (true, false) => '≤',
            (true, true) => '<',
            (false, false) => '≥',
            (false, true) => '>',
        };
        Checked {
            measure: self.name(),
            value: value.map(|value| self.brief(value)),
            allowed: format!("{allowed} {}", self.brief(self.limit)),
            holds: value.is_some_and(|value| !self.is_true(value)),
        }
    }

    /// The condition as people write it, such as `p99 < 10 ms`.
    pub fn spaced(&self) -> String {
        let sign = if self.above { '>' } else { '<' };
        let equal = if self.or_equal { "=" } else { "" };
        format!("{} {sign}{equal} {}", self.name(), self.brief(self.limit))
    }

    /// The name of its measure.
    fn name(&self) -> &'static str {
        let mut known = MEASURES.iter();
        let own = known.find(|(_, measure)| *measure == self.measure);
        own.map_or("", |(name, _)| name)
    }

    /// A value without zeros that say nothing.
    fn brief(&self, value: f64) -> String {
        let shown = self.shown(value);
        match shown.split_once(' ') {
            Some((number, unit)) if number.contains('.') => {
                let number = number.trim_end_matches('0').trim_end_matches('.');
                format!("{number} {unit}")
            }
            _ => shown,
        }
    }

    /// Responses that it takes to tell.
    pub fn samples(&self) -> u64 {
        match self.measure {
            Measure::P75 => 40,
            Measure::P90 => 100,
            Measure::P95 => 200,
            Measure::P99 => 1_000,
            Measure::P99_9 => 10_000,
            Measure::P99_99 => 100_000,
            _ => 1,
        }
    }

    fn unknown(&self, outcome: &Outcome) -> String {
        let has_messages = match self.measure {
            Measure::ReceivedRate | Measure::SentRate => messages_per_s(outcome).is_some(),
            Measure::MessageP50
            | Measure::MessageP90
            | Measure::MessageP99
            | Measure::MessageP99_9
            | Measure::MessageMax => message_latency(outcome).is_some(),
            _ => true,
        };
        match has_messages {
            true => format!("{}: there are not enough samples to tell", self.text),
            false => format!(
                "{}: there are no messages that this is measured of: it is about gRPC streams of the server and WebSockets",
                self.text
            ),
        }
    }

    fn is_true(&self, value: f64) -> bool {
        match (self.above, self.or_equal) {
            (true, false) => value > self.limit,
            (true, true) => value >= self.limit,
            (false, false) => value < self.limit,
            (false, true) => value <= self.limit,
        }
    }

    fn shown(&self, value: f64) -> String {
        match self.measure {
            Measure::Rate => format!("{value:.1} requests/s"),
            Measure::ReceivedRate | Measure::SentRate => format!("{value:.1} messages/s"),
            Measure::Failed | Measure::Shed => format!("{value:.0} requests"),
            Measure::ErrorRate => format!("{:.3} %", value * 100.0),
            _ => format!("{:.3} ms", value * 1e3),
        }
    }

    fn value(&self, outcome: &Outcome) -> Option<f64> {
        // In the open model what users wait counts from the intended start.
        let latency = outcome
            .latency
            .response
            .as_ref()
            .unwrap_or(&outcome.latency.service);
        let latency = &latency.summary;
        match self.measure {
            Measure::Min => latency.min,
            Measure::Mean => latency.mean,
            Measure::P50 => latency.p50,
            Measure::P75 => latency.p75,
            Measure::P90 => latency.p90,
            Measure::P95 => latency.p95,
            Measure::P99 => latency.p99,
            Measure::P99_9 => latency.p99_9,
            Measure::P99_99 => latency.p99_99,
            Measure::Max => latency.max,
            Measure::Rate => Some(outcome.rate.requests_per_s),
            Measure::Failed => Some(outcome.requests.failed as f64),
            Measure::Shed => Some(outcome.requests.shed as f64),
            Measure::ErrorRate => {
                let ended = outcome.requests.ok + outcome.requests.failed;
                (ended > 0).then(|| outcome.requests.failed as f64 / ended as f64)
            }
            Measure::CpuPerRequest => outcome.cost.cpu_us_per_request.map(|us| us / 1e6),
            Measure::ReceivedRate => messages_per_s(outcome).map(|(_, received)| received),
            Measure::SentRate => messages_per_s(outcome).map(|(sent, _)| sent),
            Measure::MessageP50 => message_latency(outcome)?.p50,
            Measure::MessageP90 => message_latency(outcome)?.p90,
            Measure::MessageP99 => message_latency(outcome)?.p99,
            Measure::MessageP99_9 => message_latency(outcome)?.p99_9,
            Measure::MessageMax => message_latency(outcome)?.max,
        }
    }
}

/// Messages sent and received per second, of calls or of WebSockets.
fn messages_per_s(outcome: &Outcome) -> Option<(f64, f64)> {
    if let Some(grpc) = &outcome.grpc {
        let rate = |way: &str| grpc.messages_per_s[way].as_f64();
        return Some((rate("sent")?, rate("received")?));
    }
    let socket = outcome.websocket.as_ref()?;
    let sent = ratio(socket.messages["sent"].as_f64()?, outcome.rate.window_s);
    Some((sent.unwrap_or(0.0), socket.received_per_s))
}

/// How long single messages took.
fn message_latency(outcome: &Outcome) -> Option<&Summary> {
    let of_calls = outcome.grpc.as_ref();
    let of_calls = of_calls.and_then(|grpc| grpc.message_latency.as_ref());
    let of_sockets = outcome.websocket.as_ref();
    let of_sockets = of_sockets.and_then(|socket| socket.round_trip.as_ref());
    of_calls
        .or(of_sockets)
        .map(|distribution| &distribution.summary)
}

fn share(text: &str) -> Result<f64, String> {
    let (digits, scale) = text
        .strip_suffix('%')
        .map_or((text, 1.0), |digits| (digits, 100.0));
    digits
        .parse::<f64>()
        .ok()
        .map(|number| number / scale)
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("{text:?} is not a share such as 1% or 0.01"))
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GateError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_have_units() {
        assert_eq!(Gate::parse("p99 > 10ms").unwrap().limit, 0.01);
        assert_eq!(Gate::parse("rate<=2.5k").unwrap().limit, 2500.0);
        assert_eq!(Gate::parse("error_rate>1%").unwrap().limit, 0.01);
        assert_eq!(Gate::parse("message_p99 > 5ms").unwrap().limit, 0.005);
        assert_eq!(Gate::parse("received_rate<1k").unwrap().limit, 1000.0);
        assert!(Gate::parse("failed>=1").unwrap().or_equal);
    }

    #[test]
    fn gates_are_read_as_people_write_them() {
        let spaced = |text| Gate::parse(text).unwrap().spaced();
        assert_eq!(spaced("p99<10ms"), "p99 < 10 ms");
        assert_eq!(spaced("error_rate<=0.15%"), "error_rate <= 0.15 %");
        assert_eq!(spaced("rate>20k"), "rate > 20000 requests/s");
    }

    #[test]
    fn a_time_without_a_unit_may_be_either() {
        for parse in [Gate::parse, Gate::parse_goal] {
            let message = parse("p99<10").unwrap_err().to_string();
            let both = message.contains("10ms") && message.contains("10s");
            assert!(both, "{message}");
        }
        assert_eq!(Gate::parse("max>0").unwrap().limit, 0.0);
    }

    #[test]
    fn what_has_to_hold_has_a_direction() {
        for goal in [
            "p99<10ms",
            "p50<=1s",
            "error_rate<1%",
            "failed<1",
            "rate>=1k",
        ] {
            assert!(Gate::parse_goal(goal).is_ok(), "{goal}");
        }
        for (goal, other) in [
            ("p99>10ms", "p99<10ms"),
            ("error_rate >= 1%", "error_rate<=1%"),
            ("rate<1000", "rate>1000"),
            ("cpu>1us", "cpu<1us"),
        ] {
            let message = Gate::parse_goal(goal).unwrap_err().to_string();
            assert!(message.contains(other), "{message}");
            assert!(Gate::parse(goal).is_ok(), "a gate may be either");
        }
    }

    #[test]
    fn a_gate_that_is_none_says_what_to_type() {
        for text in ["p99", "p98>1s", "p99>fast", "error_rate>200%", ">1"] {
            let message = Gate::parse(text).unwrap_err().to_string();
            assert!(message.contains("--fail-if"), "{message}");
        }
    }
}
