//! `trilane network check`: whether a network is what was asked for.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use trilane_network::{Proof, Spec, Tcp};

use super::document::{checked, late, write};
use super::{make, spec};

/// Make a network and measure whether it is what was asked for.
///
/// Trains of datagrams find delay, spread, rate, loss, bursts and order, each held against what the
/// clock and chance explain. The exit code is 4 where one of them is outside of that. `run` does the
/// same first.
#[derive(Args, Clone, Debug)]
pub(super) struct CheckArgs {
    /// The network, such as 4g or rtt=40ms,rate=20mbit,loss=1%,burst=3,queue=1bdp,jitter=5ms,seed=7
    ///
    /// With jitter packets keep their order: they wait for those before them, so that their mean delay is
    /// more than the rtt asks for, the more so the more packets there are. Reorder lets them overtake.
    #[arg(value_name = "SPEC", value_parser = spec)]
    spec: Box<Spec>,
    /// Write what was found to this file, as JSON
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn check(args: &CheckArgs) -> Result<u8, Box<dyn std::error::Error>> {
    let made = make(&args.spec, &Tcp::default())?;
    let proof = Proof::of(&args.spec, &made.network, &made.client, &made.server)?;
    for check in &proof.checks {
        let holds = if check.holds() { "ok" } else { "invalid" };
        println!("{holds:<8}{check}");
    }
    if let Some(late) = late(&proof) {
        println!("suspect {late}");
    }
    if let Some(file) = &args.output {
        let document = json!({
            "schema": "trilane.network/1",
            "network": args.spec.to_string(),
            "check": checked(&proof),
        });
        write(file, &document)?;
    }
    Ok(if proof.broken().next().is_some() {
        crate::INVALID
    } else {
        0
    })
}
