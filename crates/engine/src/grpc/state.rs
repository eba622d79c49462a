//! The calls in flight on one connection, by slot.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use trilane_grpc::frame::{Collector, Reader};
use trilane_grpc::status::Code;
use trilane_wire::StreamId;

use super::message::Scratch;
use super::plan::{CallPlan, CallsPlan};
use crate::failure::FailureKind;
use crate::tally::Pending;

/// No stream has this number.
const ENDED: u64 = u64::MAX;

/// What the head of a response says of the compression of its messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Nothing, or that there is none.
    #[default]
    None,
    /// The one that was offered.
    Offered,
    /// One that was not.
    Other(String),
}

/// One call in flight.
#[derive(Debug)]
pub(crate) struct State {
    /// Of the stream; tells a call from the one before it in its slot.
    pub(super) number: u64,
    /// Which of the plan's it is.
    pub(super) request: u32,
    /// Its number in the run, from which follows what changes in its messages.
    pub(super) call: u64,
    pub(super) reader: Reader,
    /// In the mode `codec`: what has come of a message.
    pub(super) collector: Option<Collector>,
    /// What `grpc-status` said, and in words what there is to say where it was not OK.
    pub(super) status: Option<(Code, String)>,
    /// Whether that stood in the head: it counts where nothing follows.
    pub(super) in_head: bool,
    /// What an HTTP status other than 200 means, and the same in words.
    pub(super) http: Option<(Code, String)>,
    /// The HTTP status.
    pub(super) http_status: u16,
    /// Where the content is no framed messages: what has come of it.
    pub(super) body: Vec<u8>,
    /// Whether the message that ends the stream has come, where one does.
    pub(super) has_ended: bool,
    pub(super) encoding: Encoding,
    pub(super) saw_compressed: bool,
    /// The first thing that was wrong with the response, and the status that it has for that.
    pub(super) broken: Option<(FailureKind, Code, String)>,
    pub(super) received: u64,
    /// The read that brought messages last, and the one that brought some before it, at first the beginning of the
    /// call, in nanoseconds since the run began.
    pub(super) last: u64,
    pub(super) before: u64,
    /// When the messages left, or were due, that wait for their answer.
    pub(super) waiting: VecDeque<u64>,
    /// When a message last left or came, where the timeout counts from there; else 0.
    pub(super) alive: u64,
    /// When the call has lasted as long as it may; `u64::MAX` where it may last.
    pub(super) ends_at: u64,
    pub(super) upload: Upload,
}

/// Content that is written while the call goes on.
#[derive(Debug, Default)]
pub(super) struct Upload {
    pub(super) is_open: bool,
    /// Whether it stands among those that may have something to write.
    pub(super) is_due: bool,
    /// Messages that have been begun.
    pub(super) sent: u64,
    /// When the next message is due, where they have a rate.
    pub(super) next_at: u64,
    /// The instant of the timer that was set for it last.
    pub(super) timer: u64,
    /// The framed message that is being written, and how much of it has been.
    pub(super) frame: Vec<u8>,
    pub(super) written: usize,
    /// Bytes that have been written in all.
    pub(super) content_bytes: u64,
}

/// The calls in flight on one connection. Empty where the plan makes none.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub(super) slots: Vec<State>,
    /// Calls that may have something to write.
    pub(super) due: VecDeque<StreamId>,
    /// When calls have something to do, as instant, stream and slot; some have ended.
    pub(super) timers: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// Calls that have ended while their stream has not: it is given up before another request is sent, which may
    /// need its place.
    pub(super) ended: Vec<StreamId>,
    /// Calls that are over for us, and have not been counted.
    pub(super) over: Vec<StreamId>,
    pub(super) scratch: Scratch,
}

impl State {
    fn new() -> Self {
        Self {
            number: ENDED,
            request: 0,
            call: 0,
            reader: Reader::default(),
            collector: None,
            status: None,
            in_head: false,
            http: None,
            http_status: 0,
            body: Vec::new(),
            has_ended: false,
            encoding: Encoding::None,
            saw_compressed: false,
            broken: None,
            received: 0,
            last: 0,
            before: 0,
            waiting: VecDeque::new(),
            alive: 0,
            ends_at: u64::MAX,
            upload: Upload::default(),
        }
    }

    /// Notes the first thing that is wrong.
    #[cold]
    pub(super) fn break_off(
        &mut self,
        kind: FailureKind,
        code: Code,
        text: impl FnOnce() -> String,
    ) {
        if self.broken.is_none() {
            self.broken = Some((kind, code, text()));
        }
    }
}

impl Calls {
    /// The call in a slot has ended.
    #[inline]
    pub(crate) fn close(&mut self, slot: u32) {
        if let Some(state) = self.slots.get_mut(slot as usize) {
            state.number = ENDED;
        }
    }

    /// The connection is a new one, with stream numbers of its own.
    pub(crate) fn begin_connection(&mut self) {
        self.due.clear();
        self.ended.clear();
        self.timers.clear();
        self.over.clear();
    }

    pub(crate) fn new(plan: Option<&CallsPlan>, slots: usize) -> Self {
        let slots = if plan.is_some() { slots } else { 0 };
        Self {
            slots: (0..slots).map(|_| State::new()).collect(),
            ..Self::default()
        }
    }

    /// Whether the call on a stream has not ended.
    #[inline]
    pub(super) fn is_live(&self, id: StreamId) -> bool {
        self.slots[id.slot as usize].number == id.number
    }

    /// When a message of the call in a slot last left or came, where the timeout counts from there.
    #[inline]
    pub(crate) fn alive_at(&self, slot: usize) -> Option<u64> {
        let state = self.slots.get(slot)?;
        (state.alive != 0).then_some(state.alive)
    }

    /// When a call has something to do though nothing comes; some such instants are of calls that have ended.
    pub(crate) fn next_timer(&self) -> Option<u64> {
        self.timers.peek().map(|Reverse((at, ..))| *at)
    }

    /// It may have something to write.
    pub(super) fn is_due(&mut self, id: StreamId) {
        let upload = &mut self.slots[id.slot as usize].upload;
        if !std::mem::replace(&mut upload.is_due, true) {
            self.due.push_back(id);
        }
    }

    /// A call has been sent: its head, and its content where that is not streamed.
    pub(crate) fn open(&mut self, plan: &CallPlan, id: StreamId, pending: Pending, now: u64) {
        let state = &mut self.slots[id.slot as usize];
        let mut frame = std::mem::take(&mut state.upload.frame);
        let mut waiting = std::mem::take(&mut state.waiting);
        let mut body = std::mem::take(&mut state.body);
        frame.clear();
        waiting.clear();
        body.clear();
        let ends_at = plan
            .lasts
            .map_or(u64::MAX, |lasts| now.saturating_add(lasts));
        *state = State {
            number: id.number,
            request: pending.request,
            call: pending.number,
            last: now,
            before: now,
            waiting,
            alive: if plan.may_last { now } else { 0 },
            ends_at,
            upload: Upload {
                is_open: plan.is_streamed(),
                next_at: now,
                frame,
                ..Upload::default()
            },
            collector: plan
                .collects()
                .then(|| Collector::with_flags(plan.max_message, plan.protocol.flags())),
            body,
            ..State::new()
        };
        if ends_at != u64::MAX {
            self.timers.push(Reverse((ends_at, id.number, id.slot)));
        }
        if plan.is_streamed() {
            self.is_due(id);
        }
    }

    /// What a call that takes too long waits for, where there is something to say of it.
    pub(crate) fn waits_for(&self, plan: &CallsPlan, id: StreamId) -> Option<String> {
        let state = self.slots.get(id.slot as usize)?;
        let call = plan.of(state.request);
        let (sent, received) = (state.upload.sent, state.received);
        if call.awaits_answers() && !state.waiting.is_empty() {
            return Some(format!(
                "{sent} messages had left and {received} had come, and the next waits for an answer: to a server that does not answer each with one, type --answers any, or 1/10 where it answers every tenth"
            ));
        }
        call.may_last.then(|| {
            format!("{sent} messages had left and {received} had come: for streams that are silent for longer type a longer --timeout")
        })
    }
}
