use trilane_engine::Verdict;

use super::rows::median;
use super::*;
use crate::report::{Layout, sample};

/// Searches a server of which a run at a rate holds as `holds` says; the runs are counted.
fn searched(start: f64, mut holds: impl FnMut(f64) -> bool) -> (Found, usize) {
    let mut search = Search::new(1.0);
    for runs in 0..1000 {
        match search.next(start) {
            Next::Run(rate) => {
                let held = holds(rate);
                search.add(rate, held);
            }
            Next::Found(found) => return (found, runs),
        }
    }
    panic!("the search does not end: {search:?}");
}

#[test]
fn a_limit_is_found_from_below_and_from_above() {
    for start in [10.0, 1_000.0, 12_345.0, 1e6] {
        let (found, runs) = searched(start, |rate| rate <= 12_345.0);
        let (low, high) = (found.low_per_s.unwrap(), found.high_per_s.unwrap());
        assert!(low <= 12_345.0 && 12_345.0 < high, "{found:?}");
        assert!(high / low <= PRECISION, "{found:?}");
        assert!(runs < 36, "{runs} runs");
    }
}

#[test]
fn what_never_holds_and_what_always_does_ends() {
    let (found, _) = searched(100.0, |_| false);
    assert_eq!(found.low_per_s, None);
    assert!(found.high_per_s.is_some_and(|high| high < 2.0));
    // FINDINGS N9.
    assert_eq!(
        Searched::new(&[], 1.0, Some(found), Vec::new()).code(),
        BREACHED
    );
    let (found, runs) = searched(100.0, |_| true);
    assert_eq!(found.high_per_s, None);
    assert!(found.low_per_s.is_some() && runs < 60);
}

const LOW: f64 = 48_935.4;
const HIGH: f64 = 51_101.9;

/// A search that ended so, with six runs at each end.
fn ended(
    goals: &[&str],
    low_per_s: Option<f64>,
    high_per_s: Option<f64>,
    bound: &'static str,
) -> Searched {
    let goals: Vec<_> = goals
        .iter()
        .map(|goal| Gate::parse_goal(goal).unwrap())
        .collect();
    let ends = [
        (low_per_s, 0.007, "server_or_network"),
        (high_per_s, 0.0124, bound),
    ];
    let runs = ends.into_iter().flat_map(|(rate, p99, bound)| {
        let mut run = sample::outcome();
        run.latency.service.summary.p99 = Some(p99);
        run.validity.bound = bound;
        rate.map(|rate| vec![Trial::new(rate, &goals, run); REPEATS])
    });
    let trials = runs.flatten().collect();
    let found = Found {
        low_per_s,
        high_per_s,
    };
    Searched::new(&goals, 600.0, Some(found), trials)
}

/// The headline, which is short.
fn headline(searched: &Searched) -> String {
    let headline = searched.answer().headline;
    assert!(headline.split_whitespace().count() <= 20, "{headline}");
    headline
}

#[test]
fn a_headline_is_the_rate_that_holds_and_what_is_above() {
    let goal = ["p99<10ms"];
    let server = ended(&goal, Some(LOW), Some(HIGH), "server_or_network");
    assert_eq!(
        headline(&server),
        "48,935 requests/s hold p99 < 10 ms; 51,102 do not"
    );
    let answer = server.answer();
    assert_eq!(
        answer.because,
        [
            "All 6 runs at 48,935 requests/s held, and none of 6 at 51,102: a 95 % interval.",
            "The first run at 51,102 requests/s: p99<10ms is not true: it is 12.400 ms.",
        ]
    );
    assert_eq!(answer.confidence.verdict, Verdict::Valid);
    let capacity = &answer.figures[0];
    assert_eq!(capacity.measure, "capacity_per_s");
    assert_eq!((capacity.low, capacity.high), (Some(LOW), Some(HIGH)));
    assert!(LOW < capacity.value && capacity.value < HIGH);
    assert!((3..=5).contains(&answer.figures.len()));

    let client = ended(&goal, Some(LOW), Some(HIGH), "client");
    assert_eq!(
        headline(&client),
        "48,935 requests/s hold p99 < 10 ms; above, this client is the limit"
    );
    let answer = client.answer();
    assert_eq!(
        answer.confidence.doubts[0].advice,
        "use more threads with -t, or another machine"
    );
    assert_eq!(
        (answer.figures[0].value, answer.figures[0].high),
        (LOW, None)
    );

    let everywhere = ended(&goal, Some(LOW), None, "");
    assert_eq!(
        headline(&everywhere),
        "48,935 requests/s, the highest rate tried, hold p99 < 10 ms"
    );
    assert_eq!(everywhere.answer().confidence.verdict, Verdict::Suspect);
    // FINDINGS N9: it was not the end of the search that was tried last.
    let mut nowhere = ended(&goal, None, Some(1976.54), "server_or_network");
    let mut last = nowhere.trials[0].clone();
    last.rate_per_s *= 2.0;
    nowhere.trials.push(last);
    assert_eq!(
        headline(&nowhere),
        "No rate tried holds p99 < 10 ms, down to 1,976 requests/s"
    );
    assert!(nowhere.answer().because[1].starts_with("Below 600 requests/s a run has too few"));
    assert_eq!(nowhere.answer().sign, '✗');
    let late = ended(&goal, None, Some(1976.54), "client");
    assert_eq!(
        headline(&late),
        "No result: this client could not send more, even at the lowest rate"
    );
    let none = Searched::new(&[], 600.0, None, Vec::new());
    assert_eq!(headline(&none), "No result: the search was interrupted");
    assert_eq!(none.answer().confidence.verdict, Verdict::Invalid);

    let two = ["p99<10ms", "error_rate<0.1%"];
    assert_eq!(
        headline(&ended(&two, Some(LOW), Some(HIGH), "client")),
        "48,935 requests/s hold p99 < 10 ms and error_rate < 0.1 %; above, this client is the limit"
    );
    let many = ["p99<10ms", "p50<1ms", "error_rate<0.1%"];
    assert_eq!(
        headline(&ended(&many, Some(LOW), Some(HIGH), "server_or_network")),
        "48,935 requests/s hold all 3 goals; 51,102 do not"
    );
}

#[test]
fn what_speaks_against_the_runs_that_held_is_told_once() {
    let mut searched = ended(&["p99<10ms"], Some(LOW), Some(HIGH), "server_or_network");
    for trial in searched.trials.iter_mut().take(4) {
        let text = "other programs took 9 % of this machine's CPU";
        let run = trial.run.clone();
        trial.run = sample::doubted(run, Verdict::Suspect, Code::OthersBusy, text);
    }
    let answer = searched.answer();
    let [only] = answer.confidence.doubts.as_slice() else {
        panic!("{answer:?}");
    };
    assert!(only.text.ends_with("CPU (4 of 6 runs)"), "{only:?}");
    assert!(
        answer.line.ends_with("51,102 do not; suspect"),
        "{answer:?}"
    );
}

#[test]
fn a_report_lists_the_rates_near_the_answer_in_columns_that_fit() {
    let mut searched = ended(&["p99<10ms"], Some(LOW), Some(HIGH), "server_or_network");
    for step in 1..=25 {
        let mut far = searched.trials[0].clone();
        far.rate_per_s /= 1.1_f64.powi(step);
        searched.trials.push(far);
    }
    let text = |verbose, width| {
        let layout = Layout {
            verbose,
            slowest: false,
            width,
        };
        searched.text(&searched.answer(), layout)
    };
    let brief = text(false, None);
    assert!(brief.lines().count() <= 30, "{brief}");
    assert!(brief.starts_with("✓ 48,935 requests/s hold p99 < 10 ms; 51,102 do not; valid\n"));
    assert!(brief.contains("More with -v: 7 other rates"), "{brief}");
    assert!(
        brief.contains("       48935.4      54359.7    0.880 ms    7.000 ms     0.000 %  6 of 6"),
        "{brief}"
    );
    assert!(!text(true, None).contains("-v"));
    for width in [55, 40] {
        let narrow = text(true, Some(width));
        assert!(
            narrow.lines().all(|line| line.chars().count() <= width),
            "{narrow}"
        );
        assert!(narrow.contains("12.400 ms"), "{narrow}");
    }
}

/// Near the limit it is chance whether a run holds: the interval has the rate at which half do.
#[test]
fn an_interval_of_95_percent_has_the_limit_in_95_of_100_searches() {
    let mut state = 7_u64;
    let mut uniform = move || {
        // Knuth's MMIX generator.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let (mut covered, mut runs) = (0, 0);
    for _ in 0..1000 {
        // A logistic curve: from 12 to 88 % within ±10 % of the limit.
        let (found, count) = searched(700.0, |rate| {
            let odds = (-20.0 * (rate / 1000.0).ln()).exp();
            uniform() < odds / (1.0 + odds)
        });
        runs += count;
        let low = found.low_per_s.unwrap_or(0.0);
        let high = found.high_per_s.unwrap_or(f64::MAX);
        covered += u32::from(low <= 1000.0 && 1000.0 <= high);
    }
    assert!(covered >= 950, "{covered} of 1000");
    assert!(runs / 1000 < 60, "{} runs each", runs / 1000);
}

#[test]
fn medians_are_those_of_the_middle() {
    assert_eq!(median([].into_iter()), None);
    assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
    assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), Some(2.5));
}
