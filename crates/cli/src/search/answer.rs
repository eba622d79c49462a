//! The answer of a search.

use std::cmp::Reverse;

use trilane_engine::{Code, Reason, Verdict};

use super::rows::Row;
use super::{Found, REPEATS, Searched, Trial};
use crate::answer::{Answer, Confidence, Doubt, Figure, sign};
use crate::report::brief_rate;

impl Searched {
    /// What was found, and how far it may be believed.
    pub(crate) fn answer(&self) -> Answer {
        let Found {
            low_per_s,
            high_per_s,
        } = self.found;
        let asked = &self.asked;
        let headline = match (low_per_s.map(floor), high_per_s.map(brief_rate)) {
            _ if self.interrupted => "No result: the search was interrupted".to_owned(),
            (Some(low), Some(_)) if self.is_client_bound() => {
                format!("{low} requests/s hold {asked}; above, this client is the limit")
            }
            (Some(low), Some(high)) => format!("{low} requests/s hold {asked}; {high} do not"),
            (Some(low), None) => {
                format!("{low} requests/s, the highest rate tried, hold {asked}")
            }
            (None, _) if self.is_client_bound() => {
                "No result: this client could not send more, even at the lowest rate".to_owned()
            }
            (None, _) => format!(
                "No rate tried holds {asked}, down to {} requests/s",
                floor(self.lowest_tried())
            ),
        };
        let doubts = self.doubts();
        let verdict = doubts.iter().map(|doubt| doubt.verdict).max();
        let verdict = verdict.unwrap_or(Verdict::Valid);
        Answer {
            line: match verdict {
                Verdict::Valid => format!("{headline}; valid"),
                Verdict::Suspect => format!("{headline}; suspect"),
                Verdict::Invalid => headline.clone(),
            },
            sign: match verdict {
                Verdict::Valid if low_per_s.is_none() => '✗',
                _ => sign(verdict),
            },
            headline,
            because: self.because(),
            confidence: Confidence { verdict, doubts },
            figures: self.figures(),
            details: Vec::new(),
            thresholds: Vec::new(),
        }
    }

    /// What speaks against what was found: how the search ended, then the runs at the rate that held.
    fn doubts(&self) -> Vec<Doubt> {
        let doubt = |code, verdict, text: String, advice: &str| Doubt {
            code,
            verdict,
            text,
            advice: advice.to_owned(),
        };
        let Found {
            low_per_s,
            high_per_s,
        } = self.found;
        if self.interrupted {
            let text = "the search was interrupted".to_owned();
            let advice = "let it run to its end";
            return vec![doubt(Code::Interrupted, Verdict::Invalid, text, advice)];
        }
        let mut doubts = Vec::new();
        if self.is_client_bound() {
            let (verdict, rate) = match low_per_s {
                Some(low) => (Verdict::Suspect, format!("above {}", floor(low))),
                None => (
                    Verdict::Invalid,
                    format!("even at {}", floor(self.lowest_tried())),
                ),
            };
            doubts.push(doubt(
                Code::NoCapacity,
                verdict,
                format!("{rate} requests/s this client could not send more"),
                "use more threads with -t, or another machine",
            ));
        } else if high_per_s.is_none() {
            doubts.push(doubt(
                Code::NoCapacity,
                Verdict::Suspect,
                "no rate that was tried was too high".to_owned(),
                "begin at a higher one with -R",
            ));
        }
        let at_low: Vec<_> = self.at(low_per_s).collect();
        let mut reasons: Vec<(usize, &Reason)> = Vec::new();
        for reason in at_low.iter().flat_map(|trial| &trial.run.validity.reasons) {
            match reasons
                .iter_mut()
                .find(|(_, other)| other.code == reason.code)
            {
                Some((count, _)) => *count += 1,
                None => reasons.push((1, reason)),
            }
        }
        doubts.extend(reasons.into_iter().map(|(count, reason)| {
            let text = format!("{} ({count} of {} runs)", reason.text, at_low.len());
            doubt(reason.code, reason.verdict, text, &reason.advice)
        }));
        doubts.sort_by_key(|doubt| Reverse(doubt.verdict));
        doubts
    }

    /// The runs at a rate.
    pub(super) fn at(&self, per_s: Option<f64>) -> impl Iterator<Item = &Trial> {
        let trials = self.trials.iter();
        trials.filter(move |trial| Some(trial.rate_per_s) == per_s)
    }

    /// The lowest rate that was tried.
    fn lowest_tried(&self) -> f64 {
        let tried = self.trials.iter().map(|trial| trial.rate_per_s);
        tried.reduce(f64::min).unwrap_or(self.lowest_per_s)
    }

    fn because(&self) -> Vec<String> {
        let Found {
            low_per_s,
            high_per_s,
        } = self.found;
        let mut because = Vec::new();
        if self.interrupted {
            return because;
        }
        if let (Some(low), Some(high)) = (low_per_s.map(floor), high_per_s.map(brief_rate)) {
            because.push(format!(
                "All {REPEATS} runs at {low} requests/s held, and none of {REPEATS} at {high}: a 95 % interval."
            ));
        }
        let first = self.at(high_per_s).find(|trial| !trial.why.is_empty());
        if let Some(trial) = first {
            because.push(format!(
                "The first run at {} requests/s: {}.",
                brief_rate(trial.rate_per_s),
                trial.why.join("; ")
            ));
        }
        if low_per_s.is_none() {
            because.push(format!(
                "Below {} requests/s a run has too few responses to tell: give it more time with -d.",
                floor(self.lowest_per_s)
            ));
        }
        because
    }

    /// The rate, and what users have of it.
    fn figures(&self) -> Vec<Figure> {
        let Found {
            low_per_s,
            high_per_s,
        } = self.found;
        let mut figures = Vec::new();
        if let Some(low) = low_per_s {
            // On a scale of ratios; where no end is the server's, only the lower one says something.
            let high = high_per_s.filter(|_| !self.is_client_bound());
            let middle = high.map_or(low, |high| (low * high).sqrt());
            let measure = ("highest requests/s that hold", "capacity_per_s", "1/s");
            figures.push(Figure::ranged(measure, middle, low_per_s, high));
        }
        let row = Row::of(self.at(low_per_s.or(high_per_s)));
        let times = [
            ("p50 latency", "p50", row.p50),
            ("p99 latency", "p99", row.p99),
        ];
        for (label, measure, value) in times {
            figures.extend(value.map(|value| Figure::new(label, measure, value, "s")));
        }
        let failed = row.failed.map(|share| share * 100.0);
        figures.extend(failed.map(|share| Figure::new("failed", "failed_share", share, "%")));
        figures
    }
}

/// A rate for people, not higher than it was.
fn floor(per_s: f64) -> String {
    brief_rate(if per_s < 100.0 {
        (per_s * 10.0).floor() / 10.0
    } else {
        per_s.floor()
    })
}
