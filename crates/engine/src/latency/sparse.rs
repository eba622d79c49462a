//! Durations as they travel between machines, and how those of one form are added to those of the other.

use std::cell::Cell;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Durations;

/// What durations of another form can be added to.
pub(crate) trait Merge<Other> {
    /// Adds them.
    fn merge(&mut self, other: &Other);
}

impl Merge<Self> for Durations {
    fn merge(&mut self, other: &Self) {
        Durations::merge(self, other);
    }
}

impl Merge<Sparse> for Durations {
    fn merge(&mut self, other: &Sparse) {
        for &(value, count) in &other.counts {
            self.histogram.saturating_record_n(value, count);
        }
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.squares += other.squares;
    }
}

/// Durations as they travel between machines: of the histogram the values that were recorded, so that nothing is
/// lost and little is sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sparse {
    min: u64,
    max: u64,
    sum: f64,
    squares: f64,
    /// A value of each place of the histogram that has any, in ascending order, and how many.
    counts: Vec<(u64, u64)>,
}

impl From<&Durations> for Sparse {
    fn from(all: &Durations) -> Self {
        let recorded = all.histogram.iter_recorded();
        Self {
            min: all.min,
            max: all.max,
            sum: all.sum,
            squares: all.squares,
            counts: recorded
                .map(|step| (step.value_iterated_to(), step.count_at_value()))
                .collect(),
        }
    }
}

impl Merge<Self> for Sparse {
    fn merge(&mut self, other: &Self) {
        let mut sum = Vec::with_capacity(self.counts.len().max(other.counts.len()));
        let (mut mine, mut theirs) = (&*self.counts, &*other.counts);
        while let (Some(&(value, count)), Some(&(their_value, their_count))) =
            (mine.first(), theirs.first())
        {
            let (is_mine, is_theirs) = (value <= their_value, their_value <= value);
            let counts = [(is_mine, count), (is_theirs, their_count)];
            let counts = counts.iter().filter(|(counts, _)| *counts);
            let all = counts.fold(0_u64, |all, (_, count)| all.saturating_add(*count));
            sum.push((value.min(their_value), all));
            mine = &mine[usize::from(is_mine)..];
            theirs = &theirs[usize::from(is_theirs)..];
        }
        sum.extend_from_slice(mine);
        sum.extend_from_slice(theirs);
        self.counts = sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.squares += other.squares;
    }
}

/// [`Sparse`], member by member.
type Members = (u64, u64, f64, f64, Vec<(u64, u64)>);

impl Serialize for Sparse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self {
            min,
            max,
            sum,
            squares,
            counts,
        } = self;
        (min, max, sum, squares, counts).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Sparse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (min, max, sum, squares, counts) = Members::deserialize(deserializer)?;
        let is_in_order = counts.is_sorted_by(|one, next| one.0 < next.0);
        let are_ends = match counts.is_empty() {
            true => (min, max) == (u64::MAX, 0),
            false => min <= max,
        };
        if !is_in_order || !are_ends {
            return Err(D::Error::custom("durations that are not in order"));
        }
        Ok(Self {
            min,
            max,
            sum,
            squares,
            counts,
        })
    }
}

impl Serialize for Durations {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Sparse::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Durations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Some(left) = ROOM.get().checked_sub(1) else {
            return Err(D::Error::custom("more distributions than there can be"));
        };
        ROOM.set(left);
        let mut all = Self::new();
        Merge::<Sparse>::merge(&mut all, &Sparse::deserialize(deserializer)?);
        Ok(all)
    }
}

thread_local! {
    /// Distributions that may still be read: see [`with_room_for`].
    static ROOM: Cell<usize> = const { Cell::new(0) };
}

/// Has `read` read so many distributions at most from what another machine sent: each takes a few bytes there, and
/// 190 kB here.
pub(crate) fn with_room_for<T>(distributions: usize, read: impl FnOnce() -> T) -> T {
    ROOM.set(distributions);
    let result = read();
    ROOM.set(0);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Durations from nanoseconds to hours, above the highest that a histogram tells apart too.
    fn many(seed: u64) -> Durations {
        let mut durations = Durations::new();
        let mut state = seed;
        for _ in 0..5_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            durations.record((state >> 20) >> (state % 44));
        }
        durations.record(u64::MAX / 3);
        durations
    }

    /// What a distribution says of itself.
    fn told(durations: &Durations) -> (String, String) {
        (durations.blob(), format!("{:?}", durations.summary()))
    }

    #[test]
    fn what_travels_is_the_same_there() {
        for durations in [many(1), Durations::new()] {
            let bytes = postcard::to_stdvec(&durations).unwrap();
            let read: Durations = with_room_for(1, || postcard::from_bytes(&bytes)).unwrap();
            assert_eq!(told(&read), told(&durations));
            assert!(bytes.len() < 60_000, "{}", bytes.len());
            // Each costs more here than there.
            assert!(with_room_for(0, || postcard::from_bytes::<Durations>(&bytes)).is_err());
        }
    }

    #[test]
    fn sums_are_the_same_in_either_form() {
        let parts = [many(1), many(2), Durations::new(), many(3)];
        let (mut dense, mut mixed) = (Durations::new(), Durations::new());
        let mut sparse = Sparse::from(&Durations::new());
        for part in &parts {
            dense.merge(part);
            Merge::merge(&mut mixed, &Sparse::from(part));
            sparse.merge(&Sparse::from(part));
        }
        assert_eq!(sparse, Sparse::from(&dense));
        assert_eq!(told(&mixed), told(&dense));
    }

    #[test]
    fn durations_that_cannot_be_are_refused() {
        let refused = |members: Members| {
            let bytes = postcard::to_stdvec(&members).unwrap();
            postcard::from_bytes::<Sparse>(&bytes).is_err()
        };
        assert!(!refused((5, 7, 12.0, 74.0, vec![(5, 1), (7, 1)])));
        assert!(refused((7, 5, 12.0, 74.0, vec![(5, 1), (7, 1)])));
        assert!(refused((5, 7, 12.0, 74.0, vec![(7, 1), (5, 1)])));
        assert!(refused((0, 0, 0.0, 0.0, vec![])));
    }
}
