//! `--cluster-describe`: what a command line needs on other machines.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use trilane_engine::{Options, Plan, PlanError};

use super::check;
use crate::load::LoadArgs;
use crate::output::write_result;
use crate::{FAILED, OK, code_of, complain};

/// What whoever starts a run on several machines has to know of it.
#[derive(Debug, Serialize)]
struct Description {
    /// Names of the files that the plan reads, as the command line and other files write them.
    files: BTreeSet<String>,
    /// Variables of the environment that it reads, with their values here.
    variables: BTreeMap<String, String>,
    /// Threads of all machines together.
    threads: usize,
    /// Whether these were typed.
    threads_typed: bool,
    /// Warm-up and measurement in seconds, where their length ends the run.
    duration_s: Option<f64>,
    /// Git revision and version of this build: a run is carried out by one.
    revision: String,
    version: String,
}

/// Prints what the command line needs on machines with `threads` threads together, as JSON, and gives the exit code.
pub(crate) fn describe(arguments: &LoadArgs, threads: usize) -> u8 {
    let described = check(arguments).and_then(|()| description(arguments, threads));
    let description = match described {
        Ok(description) => description,
        Err(error) => {
            complain(&error);
            return code_of(&error);
        }
    };
    let text = serde_json::to_string(&description).map_err(|error| error.to_string());
    match text.and_then(|text| write_result(text, None)) {
        Ok(()) => OK,
        Err(error) => {
            complain(error);
            FAILED
        }
    }
}

fn description(arguments: &LoadArgs, threads: usize) -> Result<Description, PlanError> {
    let typed = arguments.threads_typed();
    let (plan, read) = trilane_files::recorded(|| {
        let options = arguments.options()?;
        Plan::new(&Options {
            threads: typed.unwrap_or(threads),
            ..options
        })
    });
    let plan = plan?;
    let build = trilane_engine::build();
    let told = |name: &str| build[name].as_str().unwrap_or_default().to_owned();
    Ok(Description {
        files: read.files,
        variables: (read.variables.into_iter())
            .filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)))
            .collect(),
        threads: plan.threads(),
        threads_typed: typed.is_some(),
        duration_s: plan.expected().map(|expected| expected.as_secs_f64()),
        revision: told("revision"),
        version: told("version"),
    })
}
