//! `trilane network bench`: what the emulator reaches on this machine.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use trilane_network::Reached;

use super::document::write;

/// Measure what networks reach on this machine, beside what they are to reach.
///
/// Rates from 1 Mbit/s to 1 Gbit/s, delays, processor time of a packet, losses. It takes about half
/// a minute, in which nothing else should run. The exit code is 3 where a goal is missed.
#[derive(Args, Clone, Debug)]
pub(super) struct BenchArgs {
    /// Write what was found to this file, as JSON
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn bench(args: &BenchArgs) -> Result<u8, Box<dyn std::error::Error>> {
    trilane_network::prepare()?;
    let reached = trilane_network::reach(|what| crate::tell(format_args!("measuring {what}")))?;
    if cfg!(debug_assertions) {
        println!("This program is a debug build: a release build is faster.");
    }
    println!("{:<70} {:>12} {:>12}", "", "measured", "at most");
    for each in &reached {
        println!("{}", row(each));
    }
    if let Some(file) = &args.output {
        let rows = reached.iter().map(|each| {
            json!({
                "what": each.what,
                "unit": each.unit,
                "seen": each.seen,
                "at_most": each.at_most,
                "met": each.is_met(),
            })
        });
        let document = json!({
            "schema": "trilane.network/1",
            "debug_build": cfg!(debug_assertions),
            "reached": rows.collect::<Vec<_>>(),
        });
        write(file, &document)?;
    }
    let is_missed = reached.iter().any(|each| each.is_met() == Some(false));
    Ok(if is_missed {
        crate::BREACHED
    } else {
        crate::OK
    })
}

fn row(each: &Reached) -> String {
    let told = |number: Option<f64>, else_: &str| {
        number.map_or(else_.to_owned(), |number| {
            format!("{number:.2} {}", each.unit)
        })
    };
    let met = match each.is_met() {
        Some(true) => "met",
        Some(false) => "missed",
        None => "",
    };
    let line = format!(
        "{:<70} {:>12} {:>12}  {met}",
        each.what,
        told(each.seen, "unknown"),
        told(each.at_most, "")
    );
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_was_reached_and_whether_that_is_enough() {
        let reached = |seen, at_most| Reached {
            what: "error of the rate".to_owned(),
            unit: "%",
            seen,
            at_most,
        };
        let words = |each: Reached| row(&each).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            words(reached(Some(0.123), Some(1.0))),
            "error of the rate 0.12 % 1.00 % met"
        );
        assert_eq!(
            words(reached(Some(2.0), Some(1.0))),
            "error of the rate 2.00 % 1.00 % missed"
        );
        assert_eq!(
            words(reached(None, Some(1.0))),
            "error of the rate unknown 1.00 % missed"
        );
        assert_eq!(words(reached(Some(2.0), None)), "error of the rate 2.00 %");
    }
}
