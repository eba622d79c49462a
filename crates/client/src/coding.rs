//! Content codings (RFC 9110 §8.4): gzip, deflate, br and zstd, in any order, as a stream.
//!
//! Content may have been coded several times; a [`Decoder`] undoes the codings from the last to the
//! first. It pulls: a coding is only given more input once the one that reads from it has used up
//! what it had, so a few bytes that expand enormously never expand further than the caller asks.
//!
//! A peer chooses the bytes, so three things bound the work: the caller's limit on the result, a
//! guard against expansion, applied to every coding in the chain, and a cap on the chain's length.

use std::fmt;

use crate::{Error, Kind};

mod stage;

use stage::Stage;

/// Codings that one message may name; nobody needs two, and each costs a window of memory.
const MOST_CODINGS: usize = 5;
/// What one step of a coding may produce, and what is held between two codings.
const STEP: usize = 64 * 1024;
/// Output up to here is never taken for a bomb: small texts of one letter compress very well.
const GUARD_FROM: u64 = 1024 * 1024;
/// deflate reaches 1,032 on nothing but zeros; real content stays far below.
const GUARD_RATIO: u64 = 1000;

/// Undoes the codings of one message.
pub struct Decoder {
    links: Vec<Link>,
    /// What is left to decode; without codings it is the content itself.
    received: Input,
    limit: Option<u64>,
    produced: u64,
    failure: Option<Error>,
}

impl Decoder {
    /// `codings` are names in the order of the `content-encoding` field: the one applied first comes
    /// first. Case does not matter; `identity` stands for nothing. `limit` bounds the decoded bytes
    /// of the whole message.
    ///
    /// # Errors
    ///
    /// [`Kind::Local`]: a name that is not known, or more than five of them.
    pub fn new<S: AsRef<str>>(codings: &[S], limit: Option<u64>) -> Result<Self, Error> {
        let names = codings.iter().map(AsRef::as_ref);
        let names: Vec<&str> = names
            .filter(|name| !name.eq_ignore_ascii_case("identity"))
            .collect();
        if names.len() > MOST_CODINGS {
            return Err(unusable(format!(
                "the content is coded {} times, more than {MOST_CODINGS} are not undone: read it undecoded",
                names.len()
            )));
        }
        // The last coding applied is the first to be undone.
        let links = names
            .into_iter()
            .rev()
            .map(Link::new)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            links,
            received: Input::default(),
            limit,
            produced: 0,
            failure: None,
        })
    }

    /// Takes more content and returns what it decodes to, at most `most` bytes of it. What does not
    /// fit waits for the next call, which may bring no data: an empty answer asks for more of it.
    ///
    /// # Errors
    ///
    /// [`Kind::Decoding`]: broken content, more than the limit, or a decompression bomb; every later call repeats it.
    pub fn decode(&mut self, data: &[u8], most: Option<usize>) -> Result<Vec<u8>, Error> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.received.push(data);
        let mut output = Vec::new();
        let outcome = self.pull(&mut output, most.unwrap_or(usize::MAX));
        match outcome {
            Ok(()) => Ok(output),
            Err(error) => {
                self.failure = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Says that the content has ended and returns what was still waiting.
    ///
    /// # Errors
    ///
    /// As [`Self::decode`], or content that stops before its coding says that it ends. No content
    /// at all is no error: servers send the field with empty messages too.
    pub fn finish(&mut self) -> Result<Vec<u8>, Error> {
        let output = self.decode(&[], None)?;
        let unfinished = self.links.iter().find(|link| !link.may_end());
        let Some(link) = unfinished else {
            return Ok(output);
        };
        let error = broken(format!(
            "the content ends in the middle of its {} coding, after {} bytes: it was cut off",
            link.stage.name(),
            link.consumed
        ));
        self.failure = Some(error.clone());
        Err(error)
    }

    fn pull(&mut self, output: &mut Vec<u8>, most: usize) -> Result<(), Error> {
        let mut room = most;
        if let Some(limit) = self.limit {
            // One byte more than allowed is enough to know.
            let left = (limit - self.produced).saturating_add(1);
            room = room.min(usize::try_from(left).unwrap_or(usize::MAX));
        }
        pull(&mut self.links, &mut self.received, output, room)?;
        self.produced += output.len() as u64;
        match self.limit {
            Some(limit) if self.produced > limit => Err(broken(format!(
                "the content decodes to more than the limit of {limit} bytes: raise the limit to accept it"
            ))),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.links.iter().rev().map(|link| link.stage.name());
        formatter
            .debug_struct("Decoder")
            .field("codings", &names.collect::<Vec<_>>())
            .field("produced", &self.produced)
            .finish_non_exhaustive()
    }
}

fn broken(message: String) -> Error {
    Error::new(Kind::Decoding, message)
}

/// Codings that cannot be undone, whatever the content is.
fn unusable(message: String) -> Error {
    Error::new(Kind::Local, message)
}

/// Bytes that wait to be used, from the front.
#[derive(Default)]
struct Input {
    bytes: Vec<u8>,
    at: usize,
}

impl Input {
    fn push(&mut self, data: &[u8]) {
        if self.at == self.bytes.len() {
            self.bytes.clear();
        } else if self.at >= STEP {
            // Rarely and in bulk, so that a slow reader costs no quadratic copying.
            self.bytes.drain(..self.at);
        } else {
            self.bytes.extend_from_slice(data);
            return;
        }
        self.at = 0;
        self.bytes.extend_from_slice(data);
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }
}

/// One coding and the bytes that it reads.
struct Link {
    stage: Stage,
    input: Input,
    consumed: u64,
    produced: u64,
    /// The last step filled its output: there may be more without more input.
    full: bool,
    /// Bytes that followed its end.
    trailing: usize,
}

impl Link {
    fn new(name: &str) -> Result<Self, Error> {
        Ok(Self {
            stage: Stage::named(name)?,
            input: Input::default(),
            consumed: 0,
            produced: 0,
            full: false,
            trailing: 0,
        })
    }

    fn may_end(&self) -> bool {
        self.consumed == 0 && self.input.rest().is_empty() || self.stage.ended()
    }

    /// Decodes once, into at most `room` more bytes of `output`.
    fn step(&mut self, output: &mut Vec<u8>, room: usize) -> Result<(), Error> {
        let start = output.len();
        let input = self.input.rest();
        // Clearing the room costs far less than filling it; small content gets a small room.
        let guess = input.len().saturating_mul(4).max(start).clamp(1024, STEP);
        output.resize(start + room.min(guess), 0);
        let (used, made) = self
            .stage
            .step(input, &mut output[start..])
            .map_err(|reason| self.damaged(reason))?;
        self.full = start + made == output.len();
        output.truncate(start + made);
        self.input.at += used;
        self.consumed += used as u64;
        self.produced += made as u64;
        let left = self.input.rest().len();
        if used > 0 || made > 0 || left == 0 {
            return Ok(());
        }
        // A newline of a template, zeros of a tape: who has read to the end has no use for them, and
        // neither browsers nor Requests and HTTPX look at them. What never ends is something else.
        self.input.at += left;
        self.trailing += left;
        if !self.stage.ended() || self.trailing > STEP {
            return Err(self.damaged("too many bytes follow its end"));
        }
        Ok(())
    }

    fn damaged(&self, reason: &str) -> Error {
        broken(format!(
            "the content is not valid {}, near its byte {}: {reason}",
            self.stage.name(),
            self.consumed
        ))
    }

    fn guard(&self, received: u64) -> Result<(), Error> {
        if self.produced <= GUARD_FROM || self.produced / GUARD_RATIO <= received {
            return Ok(());
        }
        Err(broken(format!(
            "{received} bytes of content decode to more than {} by {}, over {GUARD_RATIO} times as much: \
             refused as a decompression bomb, read it undecoded",
            self.produced,
            self.stage.name()
        )))
    }
}

/// Appends up to `room` bytes that the last of `links` decodes from those before it.
fn pull(
    links: &mut [Link],
    received: &mut Input,
    output: &mut Vec<u8>,
    room: usize,
) -> Result<(), Error> {
    let Some((last, earlier)) = links.split_last_mut() else {
        let count = room.min(received.rest().len());
        output.extend_from_slice(&received.rest()[..count]);
        received.at += count;
        return Ok(());
    };
    let end = output.len().saturating_add(room);
    while output.len() < end {
        if last.input.rest().is_empty() && !last.full {
            last.input.push(&[]);
            pull(earlier, received, &mut last.input.bytes, STEP)?;
            if last.input.rest().is_empty() {
                break;
            }
        }
        last.step(output, end - output.len())?;
        // Against what came from the peer, not against what an earlier coding made of it.
        last.guard(earlier.first().map_or(last.consumed, |link| link.consumed))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
