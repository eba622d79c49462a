//! Scenarios: what each of many virtual users does, step after step, again and again.
//!
//! A scenario is data: requests in an order ([`Flow`]), pauses between them, and for each response what
//! must be in it and what of it goes into later requests ([`Step`]). Its requests are those of
//! [`crate::Options::listed`]. The users of a worker share its connections: a user that has a request to
//! send takes the next free stream.

mod cookies;
mod count;
mod program;
mod response;
mod sink;
mod users;
mod values;

use std::time::Duration;

use serde_json::Value;
use url::Url;

use crate::changing::Changing;
use crate::listed::Listed;
use crate::plan::{PlanError, usage};

pub(crate) use count::Iterations;
pub use count::{ScenarioOut, StepOut};
pub(crate) use program::Program;
use response::{CheckPlan, TakePlan};
pub(crate) use response::{Visit, Visits};
pub(crate) use sink::StepSink;
pub(crate) use users::Users;
pub(crate) use values::Values;

/// What of a response is kept to be looked at, in bytes.
const LARGEST_BODY: usize = 4 << 20;
/// A value that is taken from a response, in bytes.
const LONGEST_VALUE: usize = 8 * 1024;

/// A scenario, as it is asked for.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name, for reports.
    pub name: String,
    /// Virtual users over all threads; without it as many as requests can be in flight.
    pub users: Option<usize>,
    /// What a user does in one iteration.
    pub flow: Vec<Flow>,
    /// For each of the listed requests what is done with its responses.
    pub steps: Vec<Step>,
    /// Whether users keep cookies (RFC 6265bis), from one step to the next of an iteration.
    pub cookies: bool,
}

/// A part of what a user does.
#[derive(Clone, Debug, PartialEq)]
pub enum Flow {
    /// Sends the listed request of this index, and waits for its response.
    Send(usize),
    /// Waits for a time between two, all as likely.
    Pause(Duration, Duration),
    /// Does the same so many times.
    Repeat(u32, Vec<Flow>),
    /// Does one of several, each as often as its weight says.
    Choose(Vec<(u32, Vec<Flow>)>),
}

/// What is done with the responses to a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Its name, for reports.
    pub name: String,
    /// What is taken from a response: the name that later requests have it by, and what it is.
    pub take: Vec<(String, Take)>,
    /// What must be so in a response.
    pub checks: Vec<Check>,
}

/// Where in a response a text is.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The value at a JSON Pointer (RFC 6901) in the content.
    Json(String),
    /// The first field of this name.
    Header(String),
    /// The content.
    Body,
}

/// A text of a response.
#[derive(Clone, Debug, PartialEq)]
pub struct Take {
    /// Where it is.
    pub source: Source,
    /// A regular expression: what its first group matches there, or all of it where it has none.
    pub regex: Option<String>,
}

/// Something that must be so in a response.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Where it is looked for.
    pub source: Source,
    /// What is looked for.
    pub test: Test,
}

/// What is looked for in a text of a response.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// It is there.
    Exists,
    /// It is this: text, or at a JSON Pointer any value.
    Equals(Value),
    /// This is in it.
    Contains(String),
    /// A regular expression matches it.
    Matches(String),
}

/// A scenario, checked.
#[derive(Debug)]
pub(crate) struct ScenarioPlan {
    pub(crate) name: String,
    /// Virtual users over all threads.
    pub(crate) users: usize,
    pub(crate) program: Program,
    pub(crate) steps: Vec<StepPlan>,
    /// Names of what is taken from responses.
    pub(crate) variables: Vec<String>,
    pub(crate) cookies: bool,
}

/// A step, checked.
#[derive(Debug)]
pub(crate) struct StepPlan {
    pub(crate) name: String,
    /// Where its requests go, as it is written.
    pub(crate) written: String,
    pub(crate) url: Url,
    /// Which of the plan's origins that is.
    pub(crate) origin: usize,
    /// The request with the cookies of a user; none where users keep none, or the request has its own.
    pub(crate) with_cookies: Option<Changing>,
    /// What is taken, and into which variable.
    take: Vec<(usize, TakePlan)>,
    checks: Vec<CheckPlan>,
    /// Whether the content of responses is looked at.
    reads_body: bool,
    /// Names of the fields that are.
    fields: Vec<String>,
}

/// The names of what the steps of `scenario` take, each once.
pub(crate) fn variables(scenario: &Scenario) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in scenario.steps.iter().flat_map(|step| &step.take) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

impl ScenarioPlan {
    /// Origins that its requests go to.
    pub(crate) fn origins(&self) -> usize {
        let steps = self.steps.iter();
        steps.map(|step| step.origin + 1).max().unwrap_or(1)
    }

    /// Checks `scenario`, whose requests are `listed` and go to `urls`, each of an origin; `with_cookies` are these requests
    /// with the cookies of a user, `uses` the variables in each of them, and `in_flight` requests can be so
    /// together.
    pub(crate) fn new(
        scenario: &Scenario,
        listed: &[Listed],
        urls: Vec<(Url, usize)>,
        with_cookies: Vec<Option<Changing>>,
        uses: &[Vec<usize>],
        in_flight: usize,
        threads: usize,
    ) -> Result<Self, PlanError> {
        let users = scenario.users.unwrap_or(in_flight);
        if users < threads {
            return usage(format!(
                "--users {users}: each of {threads} threads has at least one: type --users {threads}, or -t {users}"
            ));
        }
        let variables = variables(scenario);
        let steps = scenario.steps.iter().zip(listed);
        let steps = steps.zip(urls).zip(with_cookies);
        let steps = steps.map(|(((step, each), url), with_cookies)| {
            StepPlan::new(step, each, url, with_cookies, &variables)
                .map_err(|error| each.place(error))
        });
        let steps: Vec<_> = steps.collect::<Result<_, _>>()?;
        let mut taken = vec![false; variables.len()];
        check_taken(&scenario.flow, &steps, uses, &mut taken).map_err(|(step, variable)| {
            let name = &variables[variable];
            listed[step].place(PlanError::Usage(format!(
                "{{var:{name}}}: not every way to this step goes through one that takes {name:?}"
            )))
        })?;
        Ok(Self {
            name: scenario.name.clone(),
            users,
            program: Program::new(&scenario.flow)?,
            steps,
            variables,
            cookies: scenario.cookies,
        })
    }
}

/// Goes through `flow` with the variables that are `taken` before it, and says which step uses one that
/// may not be: each step uses those of `uses`.
fn check_taken(
    flow: &[Flow],
    steps: &[StepPlan],
    uses: &[Vec<usize>],
    taken: &mut [bool],
) -> Result<(), (usize, usize)> {
    for part in flow {
        match part {
            Flow::Pause(..) => (),
            Flow::Send(step) => {
                if let Some(&missing) = uses[*step].iter().find(|&&variable| !taken[variable]) {
                    return Err((*step, missing));
                }
                for (variable, _) in &steps[*step].take {
                    taken[*variable] = true;
                }
            }
            Flow::Repeat(_, flow) => check_taken(flow, steps, uses, taken)?,
            Flow::Choose(choices) => {
                let before = taken.to_vec();
                taken.fill(true);
                for (_, flow) in choices {
                    let mut chosen = before.clone();
                    check_taken(flow, steps, uses, &mut chosen)?;
                    for (all, one) in taken.iter_mut().zip(chosen) {
                        *all &= one;
                    }
                }
            }
        }
    }
    Ok(())
}

impl StepPlan {
    fn new(
        step: &Step,
        listed: &Listed,
        (url, origin): (Url, usize),
        with_cookies: Option<Changing>,
        variables: &[String],
    ) -> Result<Self, PlanError> {
        let takes = step.take.iter().map(|(name, take)| {
            let index = variables.iter().position(|known| known == name);
            Ok((index.unwrap_or_default(), TakePlan::new(take)?))
        });
        let sources = step.take.iter().map(|(_, take)| &take.source);
        let sources = sources.chain(step.checks.iter().map(|check| &check.source));
        let fields = sources.clone().filter_map(|source| match source {
            Source::Header(name) => Some(name.to_ascii_lowercase()),
            Source::Json(_) | Source::Body => None,
        });
        let mut fields: Vec<_> = fields.collect();
        fields.sort_unstable();
        fields.dedup();
        Ok(Self {
            name: step.name.clone(),
            written: listed.url.clone(),
            url,
            origin,
            with_cookies,
            reads_body: sources
                .clone()
                .any(|source| matches!(source, Source::Json(_) | Source::Body)),
            take: takes.collect::<Result<_, PlanError>>()?,
            checks: step
                .checks
                .iter()
                .map(CheckPlan::new)
                .collect::<Result<_, _>>()?,
            fields,
        })
    }
}
