//! Networks of a kind, such as "4g": distributions, of which each block of an experiment draws one.
//!
//! Of each property five quantiles are kept. What is drawn lies between the outer two: a rank from
//! 0.05 to 0.95, each as likely, and the value at it on a line between its neighbours, in logarithms
//! where both are above 0. The rates of both directions have one rank, because both are those of one
//! link; everything else is drawn by itself, as the sources have no more than marginal distributions.

use crate::chance::{Chance, Part};

mod table;

use table::PROFILES;

/// Ranks of the quantiles.
pub const RANKS: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];
/// The middle one of them.
const MEDIAN: usize = 2;

/// A kind of network.
#[derive(Debug)]
pub struct Profile {
    /// What it is called.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// What is drawn.
    pub properties: &'static [Property],
    /// Settings that are always the same, as a [`Spec`](crate::Spec) has them.
    pub always: &'static str,
}

/// One property of a kind of network.
#[derive(Debug)]
pub struct Property {
    /// The setting that it is.
    pub setting: &'static str,
    /// The unit of its quantiles, as it is written behind a number.
    pub unit: &'static str,
    /// Values at the [`RANKS`], which do not fall.
    pub quantiles: [f64; 5],
    /// Where they are from; what begins with "assumed" is our own.
    pub source: &'static str,
}

impl Profile {
    /// The profile of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// All of them.
    pub fn all() -> &'static [Self] {
        PROFILES
    }

    /// Settings of the network in the middle, or, where there is a seed, of one that it draws.
    pub(super) fn settings(&self, seed: Option<u64>) -> Vec<(&'static str, String)> {
        let mut chance = seed.map(|seed| Chance::new(seed, 0, Part::Profile));
        let mut rank = || chance.as_mut().map_or(RANKS[MEDIAN], Chance::rank);
        let of_rates = rank();
        let drawn = self.properties.iter().map(|property| {
            let rank = match property.setting.ends_with("rate") {
                true => of_rates,
                false => rank(),
            };
            let value = property.at(rank);
            (property.setting, format!("{value}{}", property.unit))
        });
        let always = self
            .always
            .split(',')
            .filter_map(|term| term.split_once('='));
        drawn
            .chain(always.map(|(name, value)| (name, value.into())))
            .collect()
    }
}

impl Property {
    /// The value at a rank, with three digits that count.
    fn at(&self, rank: f64) -> f64 {
        let after = RANKS.iter().position(|known| rank <= *known);
        let value = match after {
            Some(0) => self.quantiles[0],
            None => self.quantiles[RANKS.len() - 1],
            Some(after) => {
                let (low, high) = (self.quantiles[after - 1], self.quantiles[after]);
                let share = (rank - RANKS[after - 1]) / (RANKS[after] - RANKS[after - 1]);
                match low > 0.0 {
                    true => low * (high / low).powf(share),
                    false => low + (high - low) * share,
                }
            }
        };
        rounded(value)
    }
}

fn rounded(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let digits = 2 - value.log10().floor() as i32;
    // Written and read again, so that no digit is left behind the third.
    format!("{value:.*}", digits.max(0) as usize)
        .parse()
        .unwrap_or(value)
}

#[cfg(test)]
mod tests;
