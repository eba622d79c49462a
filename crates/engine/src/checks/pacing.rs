//! When requests leave, checked: rates of connections, and numbers in flight that change.

use crate::options::{Arrivals, Options};
use crate::plan::{PlanError, given, usage};

/// A rate of each connection is instead of one of all.
pub(super) fn check_rate_per_connection(options: &Options) -> Result<(), PlanError> {
    if options.rate_per_connection.is_none() {
        return Ok(());
    }
    if let Some(flag) = given(&[
        ("-R", options.rate.is_some()),
        ("--stages", !options.stages.is_empty()),
    ]) {
        return usage(format!(
            "{flag} and --rate-per-connection do not go together: the one is the rate of all connections, the other that of each"
        ));
    }
    if options.arrivals == Arrivals::Poisson {
        return usage(
            "--arrivals poisson and --rate-per-connection do not go together: each connection sends at an even spacing; type -R for a rate at random over all of them",
        );
    }
    Ok(())
}

/// Stages in flight are the closed model, with no more than there are streams for.
pub(super) fn check_in_flight(options: &Options) -> Result<(), PlanError> {
    let stages = &options.stages_in_flight;
    if stages.is_empty() {
        return Ok(());
    }
    if let Some(flag) = given(&[
        ("-R", options.rate.is_some()),
        (
            "--rate-per-connection",
            options.rate_per_connection.is_some(),
        ),
        ("--stages", !options.stages.is_empty()),
    ]) {
        return usage(format!(
            "{flag} and --stages-in-flight do not go together: a rate says when requests are sent, whatever is in flight"
        ));
    }
    if let Some(flag) = given(&[
        ("-n", options.requests.is_some()),
        ("-d", options.duration.is_some()),
        ("--warmup", options.warmup.is_some()),
    ]) {
        return usage(format!(
            "{flag} and --stages-in-flight do not go together: stages say themselves how long they take"
        ));
    }
    if stages.iter().any(|stage| stage.length.is_zero()) {
        return usage(
            "a stage of --stages-in-flight takes no time: type for example --stages-in-flight '1ms:10,30s:10'",
        );
    }
    let peak = stages
        .iter()
        .map(|stage| stage.in_flight)
        .max()
        .unwrap_or(0);
    let most = (options.connections * options.streams) as u64;
    if peak == 0 {
        return usage(
            "--stages-in-flight send nothing at all: type for example --stages-in-flight '10s:10,30s:10'",
        );
    }
    if peak > most {
        return usage(format!(
            "--stages-in-flight goes up to {peak} requests in flight, and -c {} with -m {} has room for {most}: type -c {} for as many",
            options.connections,
            options.streams,
            peak.div_ceil(options.streams as u64)
        ));
    }
    Ok(())
}
