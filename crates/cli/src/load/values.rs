//! What stands behind the flags of `trilane load`, as types, and how it is read.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use nix::time::ClockId;
use serde::Deserialize;
use trilane_engine::{InFlightStage, RateStage, Turns};
use trilane_grpc::status::Code;
use trilane_units as units;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Text,
    /// trilane.run/1, for programs
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Announcing {
    V1,
    V2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Spread {
    Constant,
    Poisson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Tls {
    #[value(name = "1.2")]
    V1_2,
    #[value(name = "1.3")]
    V1_3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Framed {
    Sse,
    Ndjson,
    Messages,
}

#[derive(Clone, Debug)]
pub(super) struct Stages(pub(super) Vec<RateStage>);

/// Parses stages, each by `stage` from its length and what stands behind that; `form` and `example` are
/// for messages.
fn each_stage<T>(
    text: &str,
    form: &str,
    example: &str,
    stage: impl Fn(Duration, &str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let stages = text.split(',').map(|part| {
        let (length, rest) = part.split_once(':').ok_or_else(|| {
            let part = part.trim();
            format!("the stage {part:?} has not the form {form}: write for example {example}")
        })?;
        stage(units::time(length)?, rest)
    });
    stages.collect()
}

/// Parses stages: `10s:1k,30s:1k`.
pub(super) fn stages(text: &str) -> Result<Stages, String> {
    let stage = |length, rate: &str| {
        // Nothing at all is a rate to lead to.
        let rate = match rate.trim() {
            "0" => 0.0,
            rate => units::rate(rate)?,
        };
        Ok(RateStage { length, rate })
    };
    each_stage(text, "TIME:PER_SECOND", "10s:1k", stage).map(Stages)
}

#[derive(Clone, Debug)]
pub(super) struct StagesInFlight(pub(super) Vec<InFlightStage>);

/// Parses stages of a number in flight: `10s:10,30s:100`.
pub(super) fn stages_in_flight(text: &str) -> Result<StagesInFlight, String> {
    let stage = |length, in_flight: &str| {
        let in_flight = units::count(in_flight)?;
        Ok(InFlightStage { length, in_flight })
    };
    each_stage(text, "TIME:REQUESTS", "10s:100", stage).map(StagesInFlight)
}

/// Parses the size of a packet.
pub(super) fn packet(text: &str) -> Result<u32, String> {
    units::size(text)?
        .try_into()
        .map_err(|_| format!("{text:?} is more than a packet has room for: write for example 1452"))
}

/// What counts as ok.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// Status codes of HTTP.
    Http(Vec<(u16, u16)>),
    /// Status codes of gRPC.
    Calls(Vec<Code>),
}

#[derive(Clone, Debug)]
pub(super) struct Cpus(pub(super) Vec<usize>);

pub(super) fn number(text: &str) -> Result<usize, String> {
    units::count(text).map(|count| count as usize)
}

pub(super) fn slowest(text: &str) -> Result<usize, String> {
    const MOST: usize = 10_000;
    let count = number(text)?;
    if count > MOST {
        return Err(format!(
            "{count} are too many to be looked at: type at most {MOST}"
        ));
    }
    Ok(count)
}

pub(super) fn window(text: &str) -> Result<u32, String> {
    units::size(text)?
        .try_into()
        .map_err(|_| format!("{text:?} is more than HTTP has room for: 2147483647 bytes"))
}

/// Parses ranges of status codes: `200-299,404`.
pub(crate) fn status_ranges(text: &str) -> Result<Vec<(u16, u16)>, String> {
    let wrong = || format!("{text:?} is not a list of status codes: write 200 or 200-299,404");
    let code = |text: &str| {
        let code = text
            .trim()
            .parse::<u16>()
            .ok()
            .filter(|code| (100..=999).contains(code));
        code.ok_or_else(wrong)
    };
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high) = (code(low)?, code(high)?);
        if low <= high {
            Ok((low, high))
        } else {
            Err(wrong())
        }
    };
    text.split(',').map(range).collect()
}

/// Parses status codes of gRPC, by name or number: `OK,NOT_FOUND`.
pub(crate) fn code_names(text: &str) -> Result<Vec<Code>, String> {
    let code = |name: &str| {
        Code::named(name.trim()).ok_or_else(|| {
            format!("{name:?} is no status of gRPC: write for example OK,NOT_FOUND, or numbers from 0 to 16")
        })
    };
    text.split(',').map(code).collect()
}

/// Parses status codes: those of HTTP have three digits.
pub(super) fn expected(text: &str) -> Result<Expected, String> {
    if text
        .trim_start()
        .starts_with(|c: char| c.is_ascii_alphabetic())
    {
        return code_names(text).map(Expected::Calls);
    }
    match code_names(text) {
        Ok(codes) => Ok(Expected::Calls(codes)),
        Err(_) => status_ranges(text).map(Expected::Http),
    }
}

pub(super) fn cpus(text: &str) -> Result<Cpus, String> {
    units::cpus(text).map(Cpus)
}

/// The turns of a run as whoever starts all runs of the group says them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct InTurn {
    /// By the clock CLOCK_MONOTONIC of this machine, in nanoseconds.
    start_ns: u64,
    length_s: f64,
    of: usize,
    index: usize,
    seed: u64,
}

/// The turns of a run.
pub(super) fn turns(text: &str) -> Result<Turns, String> {
    let asked: InTurn = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let length = Duration::try_from_secs_f64(asked.length_s).map_err(|error| error.to_string())?;
    let clock = ClockId::CLOCK_MONOTONIC
        .now()
        .map_err(|error| error.to_string())?;
    let (clock, now) = (Duration::from(clock), Instant::now());
    let start = Duration::from_nanos(asked.start_ns);
    let start = match clock.checked_sub(start) {
        Some(since) => now.checked_sub(since),
        None => now.checked_add(start - clock),
    };
    Ok(Turns {
        start: start.ok_or("start_ns is not a time of this machine's")?,
        length,
        of: asked.of,
        index: asked.index,
        seed: asked.seed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_in_flight_have_a_time_and_a_number() {
        let stages = stages_in_flight("500ms:10, 1m:2k,3s:0").unwrap().0;
        let told: Vec<_> = stages
            .iter()
            .map(|stage| (stage.length.as_millis(), stage.in_flight))
            .collect();
        assert_eq!(told, [(500, 10), (60_000, 2000), (3000, 0)]);
        for (text, said) in [
            ("10s", "TIME:REQUESTS"),
            ("soon:10", "\"soon\""),
            ("10s:1.5", "\"1.5\""),
        ] {
            let error = stages_in_flight(text).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn status_lists_are_ranges() {
        let http = Expected::Http(vec![(200, 299), (404, 404)]);
        assert_eq!(expected("200-299,404"), Ok(http));
        for text in ["", "99", "299-200", "2xx", "200,"] {
            assert!(expected(text).unwrap_err().contains("write 200"), "{text}");
        }
    }

    #[test]
    fn statuses_of_grpc_are_names_or_small_numbers() {
        let codes = Expected::Calls(vec![Code::Ok, Code::NotFound]);
        for text in ["OK,NOT_FOUND", "ok, not_found", "0,5"] {
            assert_eq!(expected(text).as_ref(), Ok(&codes), "{text}");
        }
        let told = expected("OK,MISSING").unwrap_err();
        assert!(
            told.contains("\"MISSING\"") && told.contains("NOT_FOUND"),
            "{told}"
        );
    }
}
