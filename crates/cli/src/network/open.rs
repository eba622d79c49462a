//! `trilane network open`: a network that another program drives, by lines of JSON.

use std::io::{self, BufRead as _, Write as _};

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use trilane_network::{Proof, Spec, Tcp};

use super::document::{checked, did};
use super::{Made, make};

/// Hold a network open for a program that drives it by lines of JSON.
///
/// The first line on stdout names the namespaces of the two ends, which programs enter by setns(2).
/// Each line on stdin is an order, and is answered by one line. The network ends with stdin.
#[derive(Args, Clone, Debug)]
pub(super) struct OpenArgs {
    #[command(flatten)]
    tcp: super::TcpArgs,
}

/// What a line of stdin asks for.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Order {
    /// Be this network from now on, and count anew.
    Begin {
        network: String,
        /// Of an experiment: another one draws another network of a profile, and other losses.
        #[serde(default)]
        block: u64,
        /// Whether the network is to measure itself first.
        #[serde(default)]
        check: bool,
    },
    /// Tell what became of the packets since the last `begin`.
    End,
}

pub(super) fn run(args: &OpenArgs) -> Result<u8, Box<dyn std::error::Error>> {
    let tcp = Tcp::from(&args.tcp);
    let idle = Spec::default();
    let made = make(&idle, &tcp)?;
    say(&json!({
        "client": made.client.namespace,
        "server": made.server.namespace,
        "user": trilane_network::user_namespace(),
        "interface": trilane_network::INTERFACE,
        "mtu": trilane_network::MTU,
        "congestion_control": tcp.congestion_control,
        "initial_window": tcp.initial_window,
    }))?;
    let mut current = idle;
    for line in io::stdin().lock().lines() {
        let answer = obey(&line?, &made, &mut current);
        say(&answer.unwrap_or_else(|error| json!({"error": error.to_string()})))?;
    }
    Ok(crate::OK)
}

fn obey(line: &str, made: &Made, current: &mut Spec) -> Result<Value, Box<dyn std::error::Error>> {
    match serde_json::from_str(line)? {
        Order::Begin {
            network,
            block,
            check,
        } => {
            let asked = Spec::of_block(&network, block, super::file)?;
            let proof = match check {
                true => Some(Proof::of(
                    &asked,
                    &made.network,
                    &made.client,
                    &made.server,
                )?),
                false => None,
            };
            made.network.begin(&asked)?;
            *current = asked;
            Ok(json!({
                "network": current.to_string(),
                "rtt_s": current.rtt().as_secs_f64(),
                "check": proof.as_ref().map(checked),
            }))
        }
        Order::End => Ok(did(&made.network.begin(current)?)),
    }
}

fn say(line: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
