//! The requests of a run, where they are several: what each is, and in which order they take turns.

use std::borrow::Cow;
use std::sync::Arc;

use crate::grpc::Call;
use crate::options::Options;
use crate::plan::{PlanError, usage};

/// Turns of one round at most: weights that have no common divisor make long ones.
const LONGEST_ROUND: u64 = 1_000_000;

/// One of the requests that take turns. What it leaves out is the run's.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Where it is written, for messages, such as `calls.jsonl:3`; empty for the command line.
    pub place: String,
    /// The URL.
    pub url: String,
    /// The method.
    pub method: Option<String>,
    /// Name and value of each field; those of the run with another name are sent too.
    pub fields: Vec<(String, String)>,
    /// The content.
    pub body: Option<Vec<u8>>,
    /// How often it is sent, in proportion to the others; at least 1.
    pub weight: u32,
    /// Status codes that count as ok; empty: the run's.
    pub statuses: Vec<(u16, u16)>,
    /// The gRPC call that it is, where it is one.
    pub call: Option<Call>,
}

impl Listed {
    /// A request for `url` that is the run's in everything else.
    pub fn new(place: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            url: url.into(),
            method: None,
            fields: Vec::new(),
            body: None,
            weight: 1,
            statuses: Vec::new(),
            call: None,
        }
    }

    /// `error` with the place of this request before it.
    pub(crate) fn place(&self, error: PlanError) -> PlanError {
        match error {
            PlanError::Usage(text) if !self.place.is_empty() => {
                PlanError::Usage(format!("{}: {text}", self.place))
            }
            PlanError::Environment(text) if !self.place.is_empty() => {
                PlanError::Environment(format!("{}: {text}", self.place))
            }
            error => error,
        }
    }
}

impl Options {
    /// Whether requests are gRPC calls.
    pub(crate) fn are_calls(&self) -> bool {
        self.call.is_some() || self.listed.iter().any(|each| each.call.is_some())
    }

    /// All requests that take turns: those that are listed, or one for each URL.
    pub(crate) fn all_listed(&self) -> Cow<'_, [Listed]> {
        if !self.listed.is_empty() {
            return Cow::Borrowed(&self.listed);
        }
        let urls = self.urls.iter().enumerate();
        urls.map(|(at, url)| Listed {
            weight: self.weights.get(at).copied().unwrap_or(1),
            ..Listed::new("", url)
        })
        .collect()
    }
}

/// The order in which requests of these weights take turns, again and again: each as evenly over the
/// round as its weight allows.
pub(crate) fn turns(weights: &[u32]) -> Result<Arc<[u32]>, PlanError> {
    let divisor = weights
        .iter()
        .copied()
        .fold(0, greatest_common_divisor)
        .max(1);
    let reduced = weights.iter().map(|weight| weight / divisor);
    let length: u64 = reduced.clone().map(u64::from).sum();
    if length > LONGEST_ROUND {
        return usage(format!(
            "the weights add up to {length}, and at most {LONGEST_ROUND} are kept: give smaller ones"
        ));
    }
    // The k-th turn of one with the weight w belongs at (k + ½) ÷ w of the round.
    let mut order: Vec<(f64, u32)> = (0..)
        .zip(reduced)
        .flat_map(|(request, weight)| {
            (0..weight).map(move |turn| ((f64::from(turn) + 0.5) / f64::from(weight), request))
        })
        .collect();
    order.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    Ok(order.into_iter().map(|(_, request)| request).collect())
}

fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    match other {
        0 => one,
        _ => greatest_common_divisor(other, one % other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_weights_take_turns_in_order() {
        assert_eq!(*turns(&[1]).unwrap(), [0]);
        assert_eq!(*turns(&[7, 7, 7]).unwrap(), [0, 1, 2]);
    }

    #[test]
    fn weights_are_spread_over_the_round() {
        assert_eq!(*turns(&[3, 1]).unwrap(), [0, 0, 1, 0]);
        assert_eq!(
            *turns(&[50, 30, 20]).unwrap(),
            [0, 1, 2, 0, 0, 1, 0, 2, 1, 0]
        );
    }

    #[test]
    fn a_round_is_bounded() {
        let told = turns(&[1_000_000, 1]).unwrap_err().to_string();
        assert!(told.contains("1000001"), "{told}");
    }
}
