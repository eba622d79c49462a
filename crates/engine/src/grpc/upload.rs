//! Content that is written message by message.

use std::time::Instant;

use trilane_connection::{Quic, Stream};
use trilane_wire::{FieldList, StreamId, Upload};

use super::plan::{CallPlan, write_frame};
use super::state::{Calls, State};
use crate::record::Recorder;

/// What takes the content of a call.
pub(crate) trait Writer {
    /// How many of `bytes` were taken.
    fn write(&mut self, stream: StreamId, bytes: &[u8]) -> usize;
    /// Ends the content.
    fn finish(&mut self, stream: StreamId);
    /// Whether the peer still takes content.
    fn is_open(&self, stream: StreamId) -> bool;
    /// Gives up what is left of the content, after the response has ended.
    fn give_up(&mut self, stream: StreamId);
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
        self.upload(stream) == Upload::Open
    }

    fn give_up(&mut self, stream: StreamId) {
        // Where the codec has not reset the stream when the response ended. HTTP/1.1 has no streams.
        let _ = self.cancel(stream);
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
        self.upload(stream) == Upload::Open
    }

    fn give_up(&mut self, stream: StreamId) {
        self.cancel(stream);
    }
}

impl Calls {
    /// Writes what the calls in flight have to write now.
    pub(crate) fn advance(
        &mut self,
        plan: &CallPlan,
        writer: &mut impl Writer,
        recorder: &mut Recorder,
        now: u64,
    ) {
        let mut due = std::mem::take(&mut self.due);
        due.retain(|&id| {
            let state = &mut self.slots[id.slot as usize];
            if state.number != id.number {
                // It has ended: what was left of its content is of no use.
                writer.give_up(id);
                return false;
            }
            state.advance(plan, id, writer, recorder, &mut self.scratch, now)
        });
        self.due = due;
    }
}

impl State {
    /// Writes as much as may be written. True where flow control, and nothing else, ended it.
    fn advance(
        &mut self,
        plan: &CallPlan,
        id: StreamId,
        writer: &mut impl Writer,
        recorder: &mut Recorder,
        scratch: &mut Vec<u8>,
        now: u64,
    ) -> bool {
        while self.upload.is_open {
            let upload = &mut self.upload;
            if !writer.is_open(id) {
                upload.is_open = false;
                return false;
            }
            while upload.written < upload.frame.len() {
                let taken = writer.write(id, &upload.frame[upload.written..]);
                if taken == 0 {
                    return true;
                }
                upload.written += taken;
                upload.content_bytes += taken as u64;
            }
            if upload.sent == plan.count {
                writer.finish(id);
                upload.is_open = false;
                return false;
            }
            if plan.answers_each() && self.received < upload.sent {
                return false;
            }
            upload.frame.clear();
            upload.written = 0;
            let index = upload.sent;
            if plan.decodes() {
                let begun = Instant::now();
                let message = &plan.call.messages[index % plan.call.messages.len()];
                write_frame(message, plan.call.gzip, scratch, &mut upload.frame);
                let spent = begun.elapsed().as_nanos() as u64;
                recorder.calls().encoding.add(spent, 1);
            } else {
                upload.frame.extend_from_slice(plan.frame(index));
            }
            upload.sent += 1;
            recorder.calls().sent += 1;
            if plan.answers_each() {
                self.last = now;
            }
        }
        false
    }
}
