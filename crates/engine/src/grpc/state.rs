//! The calls in flight on one connection, by slot.

use trilane_grpc::frame::{Collector, Reader};
use trilane_grpc::status::Code;
use trilane_wire::StreamId;

use super::plan::CallPlan;
use crate::failure::FailureKind;

/// The largest message that is decoded, in bytes.
const LARGEST_MESSAGE: usize = 64 << 20;

/// No stream has this number.
const ENDED: u64 = u64::MAX;

/// One call in flight.
#[derive(Debug)]
pub(crate) struct State {
    /// Of the stream; tells a call from the one before it in its slot.
    pub(super) number: u64,
    pub(super) reader: Reader,
    /// In the mode `codec`: what has come of a message.
    pub(super) collector: Option<Collector>,
    /// What `grpc-status` said, and in words what there is to say where it was not OK.
    pub(super) status: Option<(Code, String)>,
    /// Whether the response says how its messages are compressed.
    pub(super) has_encoding: bool,
    pub(super) saw_compressed: bool,
    /// The first thing that was wrong with the response.
    pub(super) broken: Option<(FailureKind, String)>,
    pub(super) received: usize,
    /// When the last message left or came, in nanoseconds since the run began.
    pub(super) last: u64,
    pub(super) upload: Upload,
}

/// Content that is written while the call goes on.
#[derive(Debug, Default)]
pub(super) struct Upload {
    pub(super) is_open: bool,
    /// Messages that have been begun.
    pub(super) sent: usize,
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
    pub(super) due: Vec<StreamId>,
    pub(super) scratch: Vec<u8>,
}

impl State {
    fn new() -> Self {
        Self {
            number: ENDED,
            reader: Reader::default(),
            collector: None,
            status: None,
            has_encoding: false,
            saw_compressed: false,
            broken: None,
            received: 0,
            last: 0,
            upload: Upload::default(),
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
    }

    pub(crate) fn new(plan: Option<&CallPlan>, slots: usize) -> Self {
        let slots = if plan.is_some() { slots } else { 0 };
        Self {
            slots: (0..slots).map(|_| State::new()).collect(),
            due: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// A call has been sent: its head, and its content where that is not streamed.
    pub(crate) fn open(&mut self, plan: &CallPlan, id: StreamId, now: u64) {
        let state = &mut self.slots[id.slot as usize];
        let mut frame = std::mem::take(&mut state.upload.frame);
        frame.clear();
        *state = State {
            number: id.number,
            last: now,
            upload: Upload {
                is_open: plan.is_streamed(),
                frame,
                ..Upload::default()
            },
            collector: plan.decodes().then(|| Collector::new(LARGEST_MESSAGE)),
            ..State::new()
        };
        if plan.is_streamed() {
            self.due.push(id);
        }
    }
}
