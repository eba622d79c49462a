//! Which packets are lost.

use crate::chance::{Chance, Part};
use crate::pattern::Turns;
use crate::spec::LossSpec;

/// The loss of one direction.
#[derive(Clone, Debug)]
pub(crate) enum Loss {
    /// Each packet by itself (Bernoulli).
    Single { share: f64, chance: Chance },
    /// In bursts (Gilbert and Elliott, of whose two states one loses all and the other none).
    Burst {
        /// The chance that a burst begins after a packet outside of one.
        begins: f64,
        /// The chance that it ends with a packet inside of it.
        ends: f64,
        inside: bool,
        chance: Chance,
    },
    /// Said one by one.
    Pattern(Turns),
}

impl Loss {
    pub(crate) fn new(spec: &LossSpec, seed: u64, direction: u8) -> Self {
        let chance = Chance::new(seed, direction, Part::Loss);
        match spec {
            LossSpec::Random { share, burst: None } => Self::Single {
                share: *share,
                chance,
            },
            LossSpec::Random {
                share,
                burst: Some(burst),
            } => {
                // A burst of `burst` packets in the mean ends with one of so many. In the long run
                // as many bursts begin as end: (1 - share) × begins = share × ends.
                let ends = 1.0 / burst;
                Self::Burst {
                    begins: ends * share / (1.0 - share),
                    ends,
                    inside: false,
                    chance,
                }
            }
            LossSpec::Pattern(pattern) => Self::Pattern(Turns::new(pattern.clone())),
        }
    }

    /// Whether the next packet is lost.
    pub(crate) fn lost(&mut self) -> bool {
        match self {
            Self::Single { share, chance } => chance.happens(*share),
            Self::Burst {
                begins,
                ends,
                inside,
                chance,
            } => {
                *inside = if *inside {
                    !chance.happens(*ends)
                } else {
                    chance.happens(*begins)
                };
                *inside
            }
            Self::Pattern(turns) => turns.lost(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKETS: usize = 1_000_000;

    /// The share lost, and the mean length of a burst.
    fn measured(share: f64, burst: Option<f64>) -> (f64, f64) {
        let mut loss = Loss::new(&LossSpec::Random { share, burst }, 7, 0);
        let (mut lost, mut bursts, mut before) = (0.0, 0.0, false);
        for _ in 0..PACKETS {
            let now = loss.lost();
            lost += f64::from(u8::from(now));
            bursts += f64::from(u8::from(now && !before));
            before = now;
        }
        (lost / PACKETS as f64, lost / bursts)
    }

    fn close(found: f64, wanted: f64) {
        assert!((found / wanted - 1.0).abs() < 0.05, "{found}, not {wanted}");
    }

    #[test]
    fn single_losses_have_their_share_and_the_bursts_of_chance() {
        for share in [0.003, 0.01, 0.1, 0.5] {
            let (found, burst) = measured(share, None);
            close(found, share);
            close(burst, 1.0 / (1.0 - share));
        }
    }

    #[test]
    fn bursts_have_their_share_and_their_length() {
        for (share, length) in [(0.01, 3.0), (0.03, 10.0), (0.1, 2.0), (0.5, 1.0)] {
            let (found, burst) = measured(share, Some(length));
            close(found, share);
            close(burst, length);
        }
    }

    #[test]
    fn what_is_never_lost_draws_nothing() {
        let mut never = Loss::new(&LossSpec::default(), 7, 0);
        assert!((0..1000).all(|_| !never.lost()));
    }

    #[test]
    fn the_two_directions_lose_other_packets_and_a_seed_the_same_ones() {
        let lost = |seed, direction| {
            let spec = LossSpec::Random {
                share: 0.1,
                burst: None,
            };
            let mut loss = Loss::new(&spec, seed, direction);
            (0..200).map(|_| loss.lost()).collect::<Vec<_>>()
        };
        assert_eq!(lost(7, 0), lost(7, 0));
        assert_ne!(lost(7, 0), lost(7, 1));
        assert_ne!(lost(7, 0), lost(8, 0));
    }
}
