//! Content that is written message by message.

use std::cmp::Reverse;
use std::time::Instant;

use trilane_connection::{Quic, Stream};
use trilane_grpc::status::Code;
use trilane_wire::{FieldList, StreamId, Upload as Taken};

use super::asked::{Answers, HalfClose};
use super::message::Scratch;
use super::plan::{CallPlan, CallsPlan};
use super::state::{Calls, State};
use crate::failure::FailureKind;
use crate::record::Recorder;
use crate::refill::WRITE_BATCH;

/// What takes the content of a call.
pub(crate) trait Writer {
    /// How many of `bytes` were taken.
    fn write(&mut self, stream: StreamId, bytes: &[u8]) -> usize;
    /// Ends the content.
    fn finish(&mut self, stream: StreamId);
    /// Whether the peer still takes content.
    fn is_open(&self, stream: StreamId) -> bool;
    /// Gives up what is left of the content, after the response has ended, or both.
    fn give_up(&mut self, stream: StreamId);
    /// Bytes that wait to be sent.
    fn gathered(&self) -> usize;
}

impl Writer for Stream {
    fn write(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        Stream::write(self, stream, bytes)
    }

    fn finish(&mut self, stream: StreamId) {
        // Neither a length nor trailers were announced: nothing can be missing.
        let _ = Stream::finish(self, stream, &FieldList::new());
    }

    fn is_open(&self, stream: StreamId) -> bool {
        self.upload(stream) == Taken::Open
    }

    fn give_up(&mut self, stream: StreamId) {
        // Where the codec has not reset the stream when the response ended. HTTP/1.1 has no streams.
        let _ = self.cancel(stream);
    }

    #[inline]
    fn gathered(&self) -> usize {
        Stream::gathered(self)
    }
}

impl Writer for Quic {
    fn write(&mut self, stream: StreamId, bytes: &[u8]) -> usize {
        Quic::write(self, stream, bytes)
    }

    fn finish(&mut self, stream: StreamId) {
        let _ = Quic::finish(self, stream, &FieldList::new());
    }

    fn is_open(&self, stream: StreamId) -> bool {
        self.upload(stream) == Taken::Open
    }

    fn give_up(&mut self, stream: StreamId) {
        self.cancel(stream);
    }

    fn gathered(&self) -> usize {
        Quic::gathered(self)
    }
}

/// What a call that was to write waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// Room: flow control, or the size of what is sent at once.
    Room,
    /// An instant.
    Until(u64),
    /// An answer, or nothing more.
    Event,
    /// Nothing: it is over for us.
    Over,
}

impl Calls {
    /// Gives up the streams of calls that have ended, and the calls that have lasted as long as they may, and wakes those that have something to write
    /// by now.
    pub(crate) fn expire(&mut self, plan: &CallsPlan, writer: &mut impl Writer, now: u64) {
        for id in self.ended.drain(..) {
            writer.give_up(id);
        }
        while let Some(&Reverse((at, number, slot))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            let id = StreamId { number, slot };
            if !self.is_live(id) {
                continue;
            }
            let state = &self.slots[slot as usize];
            if now >= state.ends_at && plan.of(state.request).is_given_up() {
                writer.give_up(id);
                self.over.push(id);
            } else if state.upload.is_open {
                self.is_due(id);
            }
        }
    }

    /// Writes what the calls in flight have to write now. True where only the size of what is sent at once
    /// ended it.
    pub(crate) fn advance(
        &mut self,
        plan: &CallsPlan,
        writer: &mut impl Writer,
        recorder: &mut Recorder,
        now: u64,
    ) -> bool {
        for _ in 0..self.due.len() {
            if writer.gathered() >= WRITE_BATCH {
                return true;
            }
            let Some(id) = self.due.pop_front() else {
                break;
            };
            let state = &mut self.slots[id.slot as usize];
            if state.number != id.number {
                // It has ended: what was left of its content is of no use.
                writer.give_up(id);
                continue;
            }
            state.upload.is_due = false;
            let plan = plan.of(state.request);
            match state.advance(plan, id, writer, recorder, &mut self.scratch, now) {
                Wait::Room => self.is_due(id),
                Wait::Until(at) if at != state.upload.timer => {
                    state.upload.timer = at;
                    self.timers.push(Reverse((at, id.number, id.slot)));
                }
                Wait::Until(_) => (),
                Wait::Event => (),
                Wait::Over => {
                    writer.give_up(id);
                    self.over.push(id);
                    // For another to take its place, in the next turn: it may end in the same way.
                    self.timers.push(Reverse((now, id.number, id.slot)));
                }
            }
        }
        !self.due.is_empty() && writer.gathered() >= WRITE_BATCH
    }
}

impl State {
    /// Writes as much as may be written, and says what the call waits for then.
    fn advance(
        &mut self,
        plan: &CallPlan,
        id: StreamId,
        writer: &mut impl Writer,
        recorder: &mut Recorder,
        scratch: &mut Scratch,
        now: u64,
    ) -> Wait {
        while self.upload.is_open {
            let upload = &mut self.upload;
            if !writer.is_open(id) {
                upload.is_open = false;
                return Wait::Event;
            }
            while upload.written < upload.frame.len() {
                let taken = writer.write(id, &upload.frame[upload.written..]);
                if taken == 0 {
                    return Wait::Room;
                }
                upload.written += taken;
                upload.content_bytes += taken as u64;
                if self.alive != 0 {
                    self.alive = now;
                }
            }
            let is_late = now >= self.ends_at;
            if is_late || plan.count.is_some_and(|count| upload.sent >= count) {
                let ends = match plan.half_close {
                    HalfClose::Sent => true,
                    HalfClose::Answered => is_late || self.waiting.is_empty(),
                    HalfClose::Never => false,
                };
                if ends {
                    writer.finish(id);
                    upload.is_open = false;
                }
                return Wait::Event;
            }
            if plan.awaits_answers() && self.waiting.len() as u64 >= plan.window {
                return Wait::Event;
            }
            let mut due = now;
            if let Some(interval) = plan.interval {
                if upload.next_at > now {
                    return Wait::Until(upload.next_at);
                }
                due = upload.next_at;
                upload.next_at += interval;
            }
            if writer.gathered() >= WRITE_BATCH {
                return Wait::Room;
            }
            if let Err(text) = self.make(plan, recorder, scratch) {
                self.break_off(FailureKind::Body, Code::Internal, || text);
                return Wait::Over;
            }
            if plan.awaits_answers() {
                self.waiting.push_back(due);
            }
        }
        Wait::Event
    }

    /// Makes the next message, to be written.
    fn make(
        &mut self,
        plan: &CallPlan,
        recorder: &mut Recorder,
        scratch: &mut Scratch,
    ) -> Result<(), String> {
        let upload = &mut self.upload;
        upload.frame.clear();
        upload.written = 0;
        let index = upload.sent;
        match plan.frame(index).filter(|_| !plan.decodes()) {
            Some(frame) => upload.frame.extend_from_slice(frame),
            None => {
                let begun = Instant::now();
                plan.encode(self.call, index, scratch, &mut upload.frame)?;
                let spent = begun.elapsed().as_nanos() as u64;
                recorder.calls().encoding.add(spent, 1);
            }
        }
        upload.sent += 1;
        recorder.calls().sent += 1;
        Ok(())
    }

    /// So many answers have come: takes the messages that they answer from those that wait, and gives `each`
    /// when the last of these left, or was due.
    pub(super) fn answered(&mut self, plan: &CallPlan, count: u64, mut each: impl FnMut(u64)) {
        for answer in self.received - count..self.received {
            match plan.answers {
                Answers::Any => (),
                Answers::Each(of_each) => {
                    if (answer + 1).is_multiple_of(of_each)
                        && let Some(since) = self.waiting.pop_front()
                    {
                        each(since);
                    }
                }
                Answers::OneIn(messages) => {
                    let mut last = None;
                    for _ in 0..messages {
                        last = self.waiting.pop_front().or(last);
                    }
                    if let Some(since) = last {
                        each(since);
                    }
                }
            }
        }
    }
}
