//! The sessions of one connection, by slot, and what they write.

use std::collections::VecDeque;

use trilane_wire::StreamId;
use trilane_wire::websocket::{self, Decoder, KEY_LENGTH, Opcode, code};

use super::masks::Masks;
use super::plan::{SocketPlan, WebSocketMode};
use crate::failure::FailureKind;
use crate::record::Recorder;
use crate::refill::{Channel, WRITE_BATCH};

/// Frames are gathered up to here before they are written, in bytes.
const BATCH: usize = 16 * 1024;

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    /// Of the stream; tells a session from the one before it in its slot.
    pub(super) number: u64,
    /// Whether its verdict has been given.
    pub(super) is_over: bool,
    /// That of the handshake; HTTP/2 has none.
    pub(super) key: Option<[u8; KEY_LENGTH]>,
    pub(super) decoder: Decoder,
    pub(super) talk: Talk,
}

/// What has been said.
#[derive(Debug, Default)]
pub(super) struct Talk {
    /// Whether the server has accepted.
    pub(super) is_open: bool,
    /// Whether it stands among those that may have something to write.
    pub(super) is_due: bool,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// When the messages left that wait for their echo.
    pub(super) waiting: VecDeque<u64>,
    /// How much of an echo has come.
    pub(super) matched: usize,
    /// The payload of a ping that has not been answered: of several the last (RFC 6455 §5.5.3).
    pub(super) ping: Option<Vec<u8>>,
    /// The Close frame that is to be sent, and whether one has been.
    pub(super) farewell: Option<u16>,
    pub(super) said_farewell: bool,
    /// What the server's Close frame said.
    pub(super) closed: Option<(Option<u16>, String)>,
    /// The first thing that was wrong with what came.
    pub(super) broken: Option<(FailureKind, String)>,
    /// Frames that are being written, and how much of them has been.
    frames: Vec<u8>,
    written: usize,
}

/// The sessions on one connection. Empty where the plan has none.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    pub(super) slots: Vec<Session>,
    /// Those that may have something to write.
    pub(super) due: Vec<StreamId>,
}

impl Session {
    fn new() -> Self {
        Self {
            number: 0,
            is_over: true,
            key: None,
            decoder: Decoder::default(),
            talk: Talk::default(),
        }
    }
}

impl Sessions {
    pub(crate) fn new(plan: Option<&SocketPlan>, slots: usize) -> Self {
        let slots = if plan.is_some() { slots } else { 0 };
        Self {
            slots: (0..slots).map(|_| Session::new()).collect(),
            due: Vec::new(),
        }
    }

    /// The connection is a new one, with stream numbers of its own.
    pub(crate) fn begin_connection(&mut self) {
        self.due.clear();
    }

    /// The opening handshake has been sent, over HTTP/1.1 with this key.
    pub(crate) fn open(&mut self, id: StreamId, key: Option<[u8; KEY_LENGTH]>) {
        let session = &mut self.slots[id.slot as usize];
        let talk = std::mem::take(&mut session.talk);
        let (mut frames, mut waiting) = (talk.frames, talk.waiting);
        frames.clear();
        waiting.clear();
        *session = Session {
            number: id.number,
            is_over: false,
            key,
            decoder: Decoder::default(),
            talk: Talk {
                frames,
                waiting,
                ..Talk::default()
            },
        };
    }

    /// The session in a slot has ended.
    #[inline]
    pub(crate) fn close(&mut self, slot: u32) {
        if let Some(session) = self.slots.get_mut(slot as usize) {
            session.is_over = true;
        }
    }

    /// The session, while it has no verdict.
    pub(super) fn live(&mut self, id: StreamId) -> Option<&mut Session> {
        let session = &mut self.slots[id.slot as usize];
        (session.number == id.number && !session.is_over).then_some(session)
    }

    /// It may have something to write.
    pub(super) fn is_due(&mut self, id: StreamId) {
        let talk = &mut self.slots[id.slot as usize].talk;
        if !std::mem::replace(&mut talk.is_due, true) {
            self.due.push(id);
        }
    }

    /// Writes what the sessions have to write now.
    pub(crate) fn advance(
        &mut self,
        plan: &SocketPlan,
        writer: &mut impl Channel,
        masks: &mut Masks,
        recorder: &mut Recorder,
        now: u64,
    ) {
        let slots = &mut self.slots;
        self.due.retain(|&id| {
            let session = &mut slots[id.slot as usize];
            if session.number != id.number {
                // Another has its slot.
                writer.give_up(id);
                return false;
            }
            let is_over = session.is_over;
            let talk = &mut session.talk;
            talk.is_due = talk.advance(plan, id, is_over, writer, masks, recorder, now);
            talk.is_due
        });
    }
}

impl Talk {
    /// Writes as much as may be written. True where flow control ended it, or the size of what is sent at
    /// once. The stream of a session that is over is reset behind its Close frame, as browsers do: its verdict
    /// is known, not every server ends it, and a peer allows only so many.
    #[expect(
        clippy::too_many_arguments,
        reason = "what is written, where to, and its accounts"
    )]
    fn advance(
        &mut self,
        plan: &SocketPlan,
        id: StreamId,
        is_over: bool,
        writer: &mut impl Channel,
        masks: &mut Masks,
        recorder: &mut Recorder,
        now: u64,
    ) -> bool {
        loop {
            while self.written < self.frames.len() {
                let taken = writer.write(id, &self.frames[self.written..]);
                if taken == 0 && is_over && plan.is_multiplexed() {
                    writer.give_up(id);
                    return false;
                }
                if taken == 0 {
                    return writer.is_open(id);
                }
                self.written += taken;
            }
            if writer.gathered() >= WRITE_BATCH && !is_over {
                // The next follow when these have gone.
                return true;
            }
            self.frames.clear();
            self.written = 0;
            self.gather(plan, is_over, masks, recorder, now);
            if self.frames.is_empty() {
                if is_over && plan.is_multiplexed() {
                    writer.give_up(id);
                }
                return false;
            }
        }
    }

    /// Makes the frames that are to be sent now.
    fn gather(
        &mut self,
        plan: &SocketPlan,
        is_over: bool,
        masks: &mut Masks,
        recorder: &mut Recorder,
        now: u64,
    ) {
        if self.said_farewell {
            return;
        }
        if let Some(payload) = self.ping.take() {
            websocket::write(Opcode::Pong, &payload, masks.next(), &mut self.frames);
        }
        while self.is_open && !is_over && self.may_send(plan) && self.frames.len() < BATCH {
            let payload = &plan.payload;
            websocket::write(plan.opcode(), payload, masks.next(), &mut self.frames);
            self.sent += 1;
            recorder.websocket().sent += 1;
            if plan.mode == WebSocketMode::Echo {
                self.waiting.push_back(now);
            }
        }
        if plan.awaits().is_some_and(|count| self.received >= count) {
            self.farewell.get_or_insert(code::NORMAL);
        }
        if let Some(code) = self.farewell {
            websocket::write_close(code, masks.next(), &mut self.frames);
            self.said_farewell = true;
        }
    }

    fn may_send(&self, plan: &SocketPlan) -> bool {
        self.farewell.is_none() && self.sent < plan.sends() && self.waiting.len() < plan.window
    }

    /// Whether a message or the end of them could be sent now.
    pub(super) fn has_more(&self, plan: &SocketPlan) -> bool {
        let is_done = plan.awaits().is_some_and(|count| self.received >= count);
        self.ping.is_some() || is_done || self.farewell.is_some() || self.may_send(plan)
    }
}
