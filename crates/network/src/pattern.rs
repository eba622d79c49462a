//! Which packets are lost, said one by one.

use std::fmt;
use std::str::FromStr;

/// Counts of packets that pass and that are lost, in turns: `99/1` loses every hundredth.
///
/// It begins again after its last count. With a slash at its end it does not: `120/1/` loses the
/// 121st packet and no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// First of packets that pass.
    counts: Vec<u32>,
    repeats: bool,
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is not a pattern: write how many packets pass and how many are lost in \
                 turns, such as 99/1 for every hundredth, or 120/1/ for the 121st alone"
            )
        };
        let (counted, repeats) = match text.strip_suffix('/') {
            Some(counted) => (counted, false),
            None => (text, true),
        };
        let counts: Vec<u32> = counted
            .split('/')
            .map(|count| count.parse().map_err(|_| wrong()))
            .collect::<Result<_, _>>()?;
        // A repeated pattern ends with what is lost, or its turns would change places.
        let whole = if repeats {
            counts.len().is_multiple_of(2)
        } else {
            counts.len() >= 2
        };
        if !whole || counts.iter().all(|&count| count == 0) {
            return Err(wrong());
        }
        Ok(Self { counts, repeats })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = self.counts.iter().map(u32::to_string).collect();
        out.write_str(&counts.join("/"))?;
        out.write_str(if self.repeats { "" } else { "/" })
    }
}

/// A pattern under way.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    pattern: Pattern,
    /// Which count, and how many packets are left of it.
    place: usize,
    left: u32,
}

impl Turns {
    pub(crate) fn new(pattern: Pattern) -> Self {
        let left = pattern.counts[0];
        Self {
            pattern,
            place: 0,
            left,
        }
    }

    /// Whether the next packet is lost.
    pub(crate) fn lost(&mut self) -> bool {
        while self.left == 0 {
            let next = self.place + 1;
            if next == self.pattern.counts.len() && !self.pattern.repeats {
                return false;
            }
            self.place = next % self.pattern.counts.len();
            self.left = self.pattern.counts[self.place];
        }
        self.left -= 1;
        self.place % 2 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(pattern: &str, packets: usize) -> Vec<usize> {
        let mut turns = Turns::new(pattern.parse().unwrap());
        (1..=packets).filter(|_| turns.lost()).collect()
    }

    #[test]
    fn counts_take_turns() {
        assert_eq!(lost("99/1", 300), [100, 200, 300]);
        assert_eq!(lost("0/2/3/1", 12), [1, 2, 6, 7, 8, 12]);
    }

    #[test]
    fn a_slash_at_the_end_lets_the_rest_pass() {
        assert_eq!(lost("4/2/", 1000), [5, 6]);
        assert_eq!(lost("4/1/2/", 1000), [5]);
    }

    #[test]
    fn a_pattern_is_written_as_it_is_read() {
        for text in ["99/1", "0/2/3/1", "120/1/", "4/1/2/"] {
            assert_eq!(text.parse::<Pattern>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_not_a_pattern_is_named() {
        for text in [
            "", "/", "3", "3/", "a/1", "-1/1", "3/1/2", "0/0", "1//1", "0/0/",
        ] {
            let error = text.parse::<Pattern>().unwrap_err();
            assert!(error.contains("99/1"), "{text}: {error}");
        }
    }
}
