//! The run that was asked for, what is written of it, and its exit code.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use trilane_engine::{
    Arrivals, Control, Gate, Options, Outcome, Plan, PlanError, SecondOut, Verdict,
};

use super::LoadArgs;
use super::values::Format;
use crate::answer::{Answer, Answered};
use crate::cluster::{self, Members, Mode};
use crate::grpc;
use crate::interrupt::Interrupt;
use crate::live::{self, Live};
use crate::otlp::Exporter;
use crate::output::{Lines, STDOUT_CLOSED, check_place, write_percentiles, write_result};
use crate::page::{Page, Pages};
use crate::progress::Display;
use crate::prometheus::Metrics;
use crate::standard::is_stdout_closed;
use crate::{
    BREACHED, FAILED, INTERRUPTED, INVALID, OK, USAGE, code_of, compat, complain, metrics, report,
    search, tell,
};

/// How long a run of a search is, where nothing else was asked for.
const SEARCH_RUN: Duration = Duration::from_secs(5);

/// Runs the command and gives its exit code.
pub(crate) fn run(arguments: &LoadArgs, pages: Option<&dyn Pages>) -> u8 {
    if let Some(tool) = arguments.compat {
        complain(compat::how(tool));
        return USAGE;
    }
    let members = match arguments.cluster.mode() {
        Mode::Alone => None,
        Mode::Several => {
            complain(cluster::NATIVE_ALONE);
            return FAILED;
        }
        Mode::Describe(threads) => return cluster::describe(arguments, threads),
        Mode::Share => return cluster::share(),
        Mode::Gather => match cluster::members() {
            Ok(members) => Some(members),
            Err(error) => {
                complain(error);
                return FAILED;
            }
        },
    };
    let (plan, options) = match planned(arguments, members.as_ref()) {
        Ok(planned) => planned,
        Err(error) => {
            complain(&error);
            return code_of(&error);
        }
    };
    if arguments.grpc.show {
        let is_json = arguments.format == Format::Json;
        return grpc::show::show(&options, is_json, arguments.output.as_deref());
    }
    // Before anything is sent: the run may take hours.
    let places = [
        check_place("-o", arguments.output.as_deref()),
        check_place("--hgrm", arguments.hgrm.as_deref()),
        check_place("--ndjson", arguments.ndjson.as_deref()),
    ];
    if let Some(error) = places.into_iter().find_map(Result::err) {
        complain(error);
        return FAILED;
    }
    if arguments.output.is_none() && is_stdout_closed() {
        complain(format!(
            "{STDOUT_CLOSED}: write the result to a file by -o, or to nobody by >/dev/null"
        ));
        return FAILED;
    }
    let page = match Page::of(arguments.html.as_deref(), pages) {
        Ok(page) => page,
        Err((code, error)) => {
            complain(error);
            return code;
        }
    };
    if !arguments.search.is_empty() {
        return search(arguments, &options, page.as_ref());
    }
    if arguments.live
        && let Some(why) = live::unusable()
    {
        complain(why);
        return USAGE;
    }
    let mut lines = match arguments.ndjson.as_deref().map(Lines::create).transpose() {
        Ok(lines) => lines,
        Err(error) => {
            complain(error);
            return FAILED;
        }
    };
    if arguments.live
        && let Some(why) = lines.as_ref().and_then(Lines::drawn_over)
    {
        complain(why);
        return USAGE;
    }
    let metrics = match arguments.prometheus.map(Metrics::serve).transpose() {
        Ok(metrics) => metrics,
        Err(error) => {
            complain(error);
            return FAILED;
        }
    };
    let target = plan.url();
    let otlp = arguments.otlp.as_ref();
    let mut exporter = match otlp.map(|url| Exporter::start(url, target)).transpose() {
        Ok(exporter) => exporter,
        Err(error) => {
            complain(error);
            return USAGE;
        }
    };
    let control = match &members {
        None => Interrupt::catch().next(),
        Some(_) => {
            cluster::ignore_signals();
            Arc::new(Control::new())
        }
    };
    let shown = match Shown::start(arguments.live, &control, &plan) {
        Ok(shown) => shown,
        Err(error) => {
            complain(error);
            return USAGE;
        }
    };
    let mut watch = |second: &SecondOut, so_far: &SecondOut| {
        if let Some(lines) = &mut lines {
            lines.write(second);
        }
        if metrics.is_some() || exporter.is_some() {
            let told = Arc::new(metrics::of(second, so_far));
            if let Some(metrics) = &metrics {
                metrics.update(&told);
            }
            if let Some(exporter) = &mut exporter {
                exporter.update(&told, so_far);
            }
        }
        if let Shown::Live(live) = &shown {
            live.update(second, so_far);
        }
    };
    let outcome = match members {
        None => trilane_engine::run_watched(&plan, &control, Some(&mut watch))
            .map_err(|error| (FAILED, error.to_string())),
        Some(members) => cluster::gather(&plan, &control, members, &mut watch),
    };
    shown.finish();
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err((code, error)) => {
            complain(error);
            return code;
        }
    };
    if arguments.insecure && outcome.target.tls.is_some() {
        complain(
            "warning: -k: no certificate was verified: whoever is between could read and change all of it",
        );
    }
    if trilane_engine::PROFILE == "quick-build" {
        complain(
            "note: measured by a quick build of Trilane: `make build` makes the one whose numbers to publish",
        );
    }
    let answer = Answer::of_run(&outcome, &arguments.fail_if);
    let answered = Answered {
        result: &outcome,
        answer: &answer,
    };
    let percentiles = arguments.hgrm.as_deref();
    let written = [
        print(arguments, &answered, || {
            report::text(&outcome, &answer, arguments.layout())
        }),
        percentiles.map_or(Ok(()), |file| write_percentiles(&outcome, file)),
        lines.map_or(Ok(()), Lines::finish),
        page.map_or(Ok(()), |page| page.write(&answered)),
    ];
    let errors: Vec<_> = written.into_iter().filter_map(Result::err).collect();
    // A collector that is slow keeps no result back.
    exporter
        .and_then(Exporter::finish)
        .iter()
        .for_each(complain);
    if !errors.is_empty() {
        errors.iter().for_each(complain);
        return FAILED;
    }
    conclude(arguments, &outcome)
}

/// What was typed as options, and the plan of it; a search gives each of its runs a rate. On several machines these
/// are `members`.
pub(super) fn planned(
    arguments: &LoadArgs,
    members: Option<&Members>,
) -> Result<(Plan, Options), PlanError> {
    let mut options = arguments.options()?;
    if let Some(members) = members {
        cluster::check(arguments)?;
        options.threads = members.threads();
    }
    let rate = options
        .rate
        .or((!arguments.search.is_empty()).then_some(1.0));
    let checked = Options {
        rate,
        ..options.clone()
    };
    Ok((Plan::new(&checked)?, options))
}

/// What is seen of a run while it lasts.
enum Shown {
    Line(Display),
    Live(Live),
}

impl Shown {
    fn start(live: bool, control: &Arc<Control>, plan: &Plan) -> Result<Self, String> {
        if live {
            return Live::start(control, plan).map(Self::Live);
        }
        Ok(Self::Line(Display::start(control, plan)))
    }

    fn finish(self) {
        match self {
            Self::Line(display) => display.finish(),
            Self::Live(live) => live.finish(),
        }
    }
}

/// Runs until the highest rate is known at which everything holds, and gives the exit code.
fn search(arguments: &LoadArgs, options: &Options, page: Option<&Page<'_>>) -> u8 {
    let goals = &arguments.search;
    let duration = options.duration.unwrap_or(SEARCH_RUN);
    let samples = goals.iter().map(Gate::samples).max().unwrap_or(1);
    // A fifth more than it takes, as arrivals may be at random.
    let lowest = 1.2 * samples as f64 / duration.as_secs_f64();
    let interrupt = Interrupt::catch();
    let run = |rate: Option<f64>| {
        let plan = Plan::new(&Options {
            rate,
            duration: Some(duration),
            arrivals: if rate.is_some() {
                options.arrivals
            } else {
                Arrivals::Constant
            },
            shed_after: options.shed_after.filter(|_| rate.is_some()),
            ..options.clone()
        });
        let plan = plan.map_err(|error| error.to_string())?;
        let control = interrupt.next();
        let display = Display::start(&control, &plan);
        let outcome = trilane_engine::run(&plan, &control);
        display.finish();
        outcome.map_err(|error| error.to_string())
    };
    let searched = search::search(goals, lowest, options.rate, run, |line| tell(line));
    let searched = match searched {
        Ok(searched) => searched,
        Err(error) => {
            complain(error);
            return FAILED;
        }
    };
    let answer = searched.answer();
    let answered = Answered {
        result: &searched,
        answer: &answer,
    };
    let written = [
        print(arguments, &answered, || {
            searched.text(&answer, arguments.layout())
        }),
        page.map_or(Ok(()), |page| page.write(&answered)),
    ];
    let errors: Vec<_> = written.into_iter().filter_map(Result::err).collect();
    if !errors.is_empty() {
        errors.iter().for_each(complain);
        return FAILED;
    }
    searched.code()
}

fn print(
    arguments: &LoadArgs,
    result: &impl Serialize,
    report: impl FnOnce() -> String,
) -> Result<(), String> {
    let text = match arguments.format {
        Format::Text => report(),
        Format::Json => serde_json::to_string(result)
            .map_err(|error| format!("the result cannot be written as JSON: {error}"))?,
    };
    write_result(text, arguments.output.as_deref())
}

fn conclude(arguments: &LoadArgs, outcome: &Outcome) -> u8 {
    let breaches: Vec<_> = arguments
        .fail_if
        .iter()
        .filter_map(|gate| gate.breach(outcome))
        .collect();
    for breach in &breaches {
        complain(format!("--fail-if {breach}"));
    }
    if outcome.interrupted {
        INTERRUPTED
    } else if !breaches.is_empty() {
        BREACHED
    } else if outcome.validity.verdict == Verdict::Invalid {
        if let Some(reason) = outcome.validity.reasons.first() {
            let advice = match reason.advice.as_str() {
                "" => String::new(),
                advice => format!(": {advice}"),
            };
            complain(format!(
                "the measurement is invalid: {}{advice}",
                reason.text
            ));
        }
        INVALID
    } else {
        OK
    }
}
