//! The order of a scenario's requests, as a list of operations that a user goes through.

use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use crate::plan::{PlanError, usage};

use super::Flow;

/// Requests in one iteration at most: more are a mistake in a number.
const MOST: u64 = 1_000_000;

/// What a scenario does, with everything nested in it spread out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    operations: Vec<Operation>,
    /// How many loops there are, each of which counts.
    loops: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Operation {
    Send(u32),
    /// Nanoseconds, both included.
    Pause(u64, u64),
    /// A loop begins.
    Enter(usize),
    /// One more time through the loop ends; as long as it has been fewer than so many, go back.
    Again {
        counter: usize,
        times: u32,
        start: usize,
    },
    /// Goes to one of these, each as often as its weight.
    Choose(Vec<(u32, usize)>),
    Jump(usize),
}

/// Where a user is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    at: usize,
    counters: Vec<u32>,
    /// How often something was left to chance in this iteration.
    drawn: u64,
}

/// What a user does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Sends this of the listed requests.
    Send(u32),
    /// Waits for so many nanoseconds.
    Pause(u64),
    /// The iteration is complete.
    End,
}

impl Program {
    pub(crate) fn new(flow: &[Flow]) -> Result<Self, PlanError> {
        if requests(flow, Iterator::min) == 0 {
            return usage(
                "a scenario sends a request each time, whatever is chosen: write a step with a url",
            );
        }
        let most = requests(flow, Iterator::max);
        if most > MOST {
            return usage(format!(
                "one iteration of the scenario may send {most} requests, and at most {MOST} are sent: repeat less"
            ));
        }
        let mut program = Self {
            operations: Vec::new(),
            loops: 0,
        };
        program.add(flow);
        Ok(program)
    }

    fn add(&mut self, flow: &[Flow]) {
        for part in flow {
            match part {
                Flow::Send(step) => self.operations.push(Operation::Send(*step as u32)),
                Flow::Pause(low, high) => {
                    let [low, high] = [low, high].map(|time| nanoseconds(*time));
                    self.operations.push(Operation::Pause(low, high.max(low)));
                }
                Flow::Repeat(times, flow) => {
                    let counter = self.loops;
                    self.loops += 1;
                    self.operations.push(Operation::Enter(counter));
                    let start = self.operations.len();
                    self.add(flow);
                    self.operations.push(Operation::Again {
                        counter,
                        times: *times,
                        start,
                    });
                }
                Flow::Choose(choices) => self.add_choices(choices),
            }
        }
    }

    fn add_choices(&mut self, choices: &[(u32, Vec<Flow>)]) {
        let at = self.operations.len();
        self.operations.push(Operation::Choose(Vec::new()));
        let (mut targets, mut ends) = (Vec::new(), Vec::new());
        for (weight, flow) in choices {
            targets.push((*weight, self.operations.len()));
            self.add(flow);
            ends.push(self.operations.len());
            self.operations.push(Operation::Jump(0));
        }
        let behind = self.operations.len();
        self.operations[at] = Operation::Choose(targets);
        for end in ends {
            self.operations[end] = Operation::Jump(behind);
        }
    }

    /// Where an iteration begins.
    pub(crate) fn begin(&self) -> Cursor {
        Cursor {
            at: 0,
            counters: vec![0; self.loops],
            drawn: 0,
        }
    }

    /// What comes next at `cursor`, which goes behind it. What is left to chance follows from `number`,
    /// that of the iteration.
    pub(crate) fn next(&self, cursor: &mut Cursor, number: u64) -> Next {
        while let Some(operation) = self.operations.get(cursor.at) {
            cursor.at += 1;
            match operation {
                Operation::Send(step) => return Next::Send(*step),
                Operation::Pause(low, high) => {
                    return Next::Pause(cursor.draw(number).random_range(*low..=*high));
                }
                Operation::Enter(counter) => cursor.counters[*counter] = 0,
                Operation::Again {
                    counter,
                    times,
                    start,
                } => {
                    let done = &mut cursor.counters[*counter];
                    *done += 1;
                    if *done < *times {
                        cursor.at = *start;
                    }
                }
                Operation::Choose(targets) => {
                    let sum: u64 = targets.iter().map(|(weight, _)| u64::from(*weight)).sum();
                    let mut drawn = cursor.draw(number).random_range(0..sum);
                    for (weight, target) in targets {
                        cursor.at = *target;
                        let weight = u64::from(*weight);
                        if drawn < weight {
                            break;
                        }
                        drawn -= weight;
                    }
                }
                Operation::Jump(target) => cursor.at = *target,
            }
        }
        Next::End
    }
}

impl Cursor {
    /// Random numbers that are the same in every run.
    fn draw(&mut self, number: u64) -> Pcg64Mcg {
        self.drawn += 1;
        Pcg64Mcg::seed_from_u64(number ^ self.drawn.wrapping_mul(0xd1b5_4a32_d192_ed03))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX >> 1)
}

/// Requests that an iteration sends, where of each choice the one counts that `which` takes: the least or
/// the most.
fn requests(flow: &[Flow], which: fn(std::vec::IntoIter<u64>) -> Option<u64>) -> u64 {
    flow.iter().fold(0, |sum: u64, part| {
        sum.saturating_add(match part {
            Flow::Send(_) => 1,
            Flow::Pause(..) => 0,
            Flow::Repeat(times, flow) => requests(flow, which).saturating_mul((*times).into()),
            Flow::Choose(choices) => {
                let each = choices.iter().map(|(_, flow)| requests(flow, which));
                which(each.collect::<Vec<_>>().into_iter()).unwrap_or(0)
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(program: &Program, number: u64) -> Vec<u32> {
        let mut cursor = program.begin();
        let all = std::iter::from_fn(|| match program.next(&mut cursor, number) {
            Next::End => None,
            next => Some(next),
        });
        all.filter_map(|next| match next {
            Next::Send(step) => Some(step),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn loops_are_gone_through_anew_each_time() {
        let inner = Flow::Repeat(3, vec![Flow::Send(1)]);
        let flow = [Flow::Repeat(2, vec![Flow::Send(0), inner]), Flow::Send(2)];
        let program = Program::new(&flow).unwrap();
        assert_eq!(sent(&program, 0), [0, 1, 1, 1, 0, 1, 1, 1, 2]);
    }

    #[test]
    fn choices_have_their_weights() {
        let choices = vec![
            (3, vec![Flow::Send(1), Flow::Send(2)]),
            (1, vec![Flow::Send(3)]),
        ];
        let program = Program::new(&[Flow::Choose(choices), Flow::Send(4)]).unwrap();
        let all: Vec<_> = (0..4000).map(|number| sent(&program, number)).collect();
        let first = all.iter().filter(|sent| **sent == [1, 2, 4]).count();
        let second = all.iter().filter(|sent| **sent == [3, 4]).count();
        assert_eq!(first + second, 4000);
        // Three deviations of 3000.
        assert!((2918..=3082).contains(&first), "{first}");
        assert_eq!(sent(&program, 7), sent(&program, 7));
    }

    #[test]
    fn pauses_lie_between_their_ends() {
        let [low, high] = [1, 3].map(Duration::from_millis);
        let program = Program::new(&[Flow::Pause(low, high), Flow::Send(0)]).unwrap();
        let pauses: Vec<_> = (0..1000)
            .map(|number| match program.next(&mut program.begin(), number) {
                Next::Pause(time) => time,
                next => panic!("{next:?}"),
            })
            .collect();
        assert!(
            pauses
                .iter()
                .all(|pause| (1_000_000..=3_000_000).contains(pause))
        );
        let mean = pauses.iter().sum::<u64>() / 1000;
        assert!((1_900_000..2_100_000).contains(&mean), "{mean}");
    }

    #[test]
    fn an_iteration_without_a_request_is_refused() {
        let pause = Flow::Pause(Duration::ZERO, Duration::ZERO);
        for flow in [
            vec![],
            vec![pause.clone()],
            vec![Flow::Choose(vec![
                (1, vec![Flow::Send(0)]),
                (1, vec![pause]),
            ])],
        ] {
            let told = Program::new(&flow).unwrap_err().to_string();
            assert!(told.contains("sends a request each time"), "{told}");
        }
        let flow = [Flow::Repeat(u32::MAX, vec![Flow::Send(0)])];
        assert!(
            Program::new(&flow)
                .unwrap_err()
                .to_string()
                .contains("repeat less")
        );
    }
}
