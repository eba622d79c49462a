//! Streams of events in the content of responses: server-sent events, lines of JSON, and messages which
//! gRPC and WebSocket frame.

use std::time::Duration;

use regex::bytes::Regex;
use serde::{Deserialize, Serialize};
use trilane_wire::StreamId;

use crate::latency::Durations;
use crate::plan::{PlanError, usage, wrong_regex};

/// What is kept of an event's text to look for the first one, in bytes.
const LONGEST: usize = 64 * 1024;

/// How events are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventFormat {
    /// Server-sent events (WHATWG HTML §9.2): an empty line ends each, and comments are none.
    Sse,
    /// Newline-delimited JSON, or any other lines.
    Ndjson,
    /// Messages, which gRPC or WebSocket tells apart.
    Messages,
}

impl EventFormat {
    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sse => "sse",
            Self::Ndjson => "ndjson",
            Self::Messages => "messages",
        }
    }
}

/// What is asked about the events of responses.
#[derive(Clone, Debug)]
pub struct EventsAsked {
    /// How they are told apart.
    pub format: EventFormat,
    /// A regular expression: the first event whose text it matches is the first one.
    pub first: Option<String>,
    /// A longer gap between two events is a stall.
    pub stall: Duration,
}

/// The same, checked.
#[derive(Debug)]
pub(crate) struct EventsPlan {
    pub(crate) asked: EventsAsked,
    first: Option<Regex>,
    stall: u64,
}

impl EventsPlan {
    pub(crate) fn new(asked: &EventsAsked) -> Result<Self, PlanError> {
        let first = asked.first.as_deref().map(Regex::new).transpose();
        let first = match first {
            Ok(first) => first,
            Err(error) => return usage(format!("--first-event: {}", wrong_regex(&error))),
        };
        Ok(Self {
            asked: asked.clone(),
            first,
            stall: asked.stall.as_nanos() as u64,
        })
    }
}

/// What one worker counts of events; nothing grows with their number.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EventCounts {
    pub(crate) received: u64,
    /// From the first byte of the request to the first event, or to the one that was looked for.
    pub(crate) first: Durations,
    /// Responses that were complete without such an event.
    pub(crate) without_first: u64,
    /// From an event to the next one of its response.
    pub(crate) gap: Durations,
    /// How many of these were stalls, and how long these were together, in nanoseconds.
    pub(crate) stalls: u64,
    pub(crate) stalled: u64,
}

impl EventCounts {
    pub(crate) fn new() -> Self {
        Self {
            received: 0,
            first: Durations::new(),
            without_first: 0,
            gap: Durations::new(),
            stalls: 0,
            stalled: 0,
        }
    }

    /// Begins anew, at the end of the warm-up.
    pub(crate) fn clear(&mut self) {
        self.first.clear();
        self.gap.clear();
        (self.received, self.without_first) = (0, 0);
        (self.stalls, self.stalled) = (0, 0);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.first.merge(&other.first);
        self.gap.merge(&other.gap);
        self.received += other.received;
        self.without_first += other.without_first;
        self.stalls += other.stalls;
        self.stalled += other.stalled;
    }
}

/// The responses in flight on one connection, by slot. Empty where events are not asked about.
#[derive(Debug, Default)]
pub(crate) struct EventStreams(Vec<Response>);

/// What has come of one response.
#[derive(Debug, Default)]
struct Response {
    /// When the last event came; 0 before the first.
    last: u64,
    /// Whether the first event, or the one that was looked for, has come.
    has_first: bool,
    lines: Lines,
    /// The text of the event that is being received, as long as it is looked at.
    text: Vec<u8>,
}

/// The line that is being received, and what those before it were.
#[derive(Debug, Default)]
struct Lines {
    /// Its first bytes.
    head: [u8; 8],
    length: usize,
    /// Whether something else than blanks is in it.
    is_filled: bool,
    /// Whether a line has ended in this response.
    is_behind_first: bool,
    /// Whether the last byte was a CR, which an LF may follow that ends nothing.
    after_cr: bool,
    /// Whether the event has data, without which it is none.
    has_data: bool,
}

impl Lines {
    /// Takes a part of a line, without its end.
    fn extend(&mut self, part: &[u8]) {
        if let Some(room) = self.head.get_mut(self.length..) {
            let count = room.len().min(part.len());
            room[..count].copy_from_slice(&part[..count]);
        }
        self.length += part.len();
        self.is_filled |= part.iter().any(|byte| !byte.is_ascii_whitespace());
    }

    /// The line has ended. Says whether an event has with it.
    fn end(&mut self, format: EventFormat) -> bool {
        let line = &self.head[..self.length.min(self.head.len())];
        let ended = match format {
            EventFormat::Ndjson => self.is_filled,
            // Their frames tell.
            EventFormat::Messages => false,
            EventFormat::Sse if line.is_empty() => std::mem::take(&mut self.has_data),
            EventFormat::Sse => {
                // A byte order mark may stand before everything.
                let line = match line.strip_prefix("\u{feff}".as_bytes()) {
                    Some(line) if !self.is_behind_first => line,
                    _ => line,
                };
                let is_whole = self.length <= self.head.len();
                self.has_data |= line.starts_with(b"data:") || (line == b"data" && is_whole);
                false
            }
        };
        (self.length, self.is_filled, self.is_behind_first) = (0, false, true);
        ended
    }
}

impl EventStreams {
    pub(crate) fn new(plan: Option<&EventsPlan>, slots: usize) -> Self {
        let slots = if plan.is_some() { slots } else { 0 };
        Self((0..slots).map(|_| Response::default()).collect())
    }

    /// A request is sent, whose response will be in this slot.
    #[inline]
    pub(crate) fn open(&mut self, slot: u32) {
        if let Some(response) = self.0.get_mut(slot as usize) {
            let mut text = std::mem::take(&mut response.text);
            text.clear();
            *response = Response {
                text,
                ..Response::default()
            };
        }
    }

    /// A piece of the content of a response has come at `now`, to a request sent at `start`.
    pub(crate) fn data(
        &mut self,
        plan: &EventsPlan,
        id: StreamId,
        bytes: &[u8],
        (start, now): (u64, u64),
        counts: &mut EventCounts,
    ) {
        let response = &mut self.0[id.slot as usize];
        let mut rest = bytes;
        if response.lines.after_cr && rest.first() == Some(&b'\n') {
            rest = &rest[1..];
        }
        if !bytes.is_empty() {
            response.lines.after_cr = false;
        }
        let is_sse = plan.asked.format == EventFormat::Sse;
        while let Some(end) = rest
            .iter()
            .position(|&byte| byte == b'\n' || is_sse && byte == b'\r')
        {
            let is_cr = rest[end] == b'\r';
            response.line(plan, &rest[..end]);
            if response.lines.end(plan.asked.format) {
                response.event(plan, (start, now), counts);
            }
            rest = &rest[end + 1..];
            match rest.first() {
                Some(b'\n') if is_cr => rest = &rest[1..],
                None => response.lines.after_cr = is_cr,
                Some(_) => (),
            }
        }
        response.line(plan, rest);
    }

    /// A piece of a message of text, in which the first event may be looked for.
    #[inline]
    pub(crate) fn text(&mut self, plan: &EventsPlan, id: StreamId, piece: &[u8]) {
        self.0[id.slot as usize].keep(plan, piece);
    }

    /// A message of a response has come whole at `now`, to a request sent at `start`.
    pub(crate) fn message(
        &mut self,
        plan: &EventsPlan,
        id: StreamId,
        at: (u64, u64),
        counts: &mut EventCounts,
    ) {
        self.0[id.slot as usize].event(plan, at, counts);
    }

    /// The response is complete at `now`: a line without an end is one, too.
    pub(crate) fn end(
        &mut self,
        plan: &EventsPlan,
        id: StreamId,
        (start, now): (u64, u64),
        counts: &mut EventCounts,
    ) {
        let response = &mut self.0[id.slot as usize];
        if plan.asked.format == EventFormat::Ndjson && response.lines.end(EventFormat::Ndjson) {
            response.event(plan, (start, now), counts);
        }
        counts.without_first += u64::from(!response.has_first);
    }
}

impl Response {
    /// A part of a line, without its end.
    fn line(&mut self, plan: &EventsPlan, part: &[u8]) {
        if part.is_empty() {
            return;
        }
        self.lines.extend(part);
        if plan.first.is_some() && !self.has_first {
            // Lines of one event are told apart by what stands between them.
            if self.lines.length == part.len() && !self.text.is_empty() {
                self.text.push(b'\n');
            }
            self.keep(plan, part);
        }
    }

    /// Keeps a piece of the text of an event, where it is looked at.
    fn keep(&mut self, plan: &EventsPlan, piece: &[u8]) {
        if plan.first.is_some() && !self.has_first {
            let room = LONGEST.saturating_sub(self.text.len());
            self.text.extend_from_slice(&piece[..room.min(piece.len())]);
        }
    }

    fn event(&mut self, plan: &EventsPlan, (start, now): (u64, u64), counts: &mut EventCounts) {
        counts.received += 1;
        if self.last != 0 {
            let gap = now.saturating_sub(self.last);
            counts.gap.record(gap);
            if gap > plan.stall {
                counts.stalls += 1;
                counts.stalled += gap;
            }
        }
        self.last = now;
        if !self.has_first {
            self.has_first = plan
                .first
                .as_ref()
                .is_none_or(|first| first.is_match(&self.text));
            self.text.clear();
            if self.has_first {
                counts.first.record(now.saturating_sub(start));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: StreamId = StreamId { number: 1, slot: 0 };
    const MS: u64 = 1_000_000;

    fn plan(format: EventFormat, first: Option<&str>) -> EventsPlan {
        EventsPlan::new(&EventsAsked {
            format,
            first: first.map(str::to_owned),
            stall: Duration::from_millis(5),
        })
        .unwrap()
    }

    /// What is counted of `content` that comes in pieces of `size`, a millisecond apart.
    fn counted(plan: &EventsPlan, content: &[u8], size: usize) -> EventCounts {
        let mut counts = EventCounts::new();
        let mut streams = EventStreams::new(Some(plan), 1);
        streams.open(0);
        let mut now = MS;
        for piece in content.chunks(size) {
            now += MS;
            streams.data(plan, ID, piece, (MS, now), &mut counts);
        }
        streams.end(plan, ID, (MS, now), &mut counts);
        counts
    }

    #[test]
    fn events_are_told_apart_wherever_the_content_is_cut() {
        // Three events; a comment, an event without data and an unfinished one are none.
        for content in [
            "data: a\n\n: keep-alive\n\nevent: x\ndata\n\nid: 7\n\ndata:b\ndata:c\n\ndata: d\n",
            "data: a\r\n\r\n: keep-alive\r\n\r\nevent: x\r\ndata\r\n\r\nid: 7\r\n\r\ndata:b\r\ndata:c\r\n\r\ndata: d\r\n",
            "data: a\r\r: keep-alive\r\revent: x\rdata\r\rid: 7\r\rdata:b\rdata:c\r\rdata: d\r",
            "\u{feff}data: a\n\n\n\ndata:\n\ndatabase: x\n\ndata: c\n\n",
        ] {
            for size in 1..=content.len() {
                let plan = plan(EventFormat::Sse, None);
                let counts = counted(&plan, content.as_bytes(), size);
                assert_eq!(counts.received, 3, "{content:?} in pieces of {size}");
                assert_eq!((counts.first.count(), counts.gap.count()), (1, 2));
            }
        }
        for content in ["{}\n\n{}\r\n \n{}\n", "{}\n{}\n{}"] {
            for size in 1..=content.len() {
                let plan = plan(EventFormat::Ndjson, None);
                let counts = counted(&plan, content.as_bytes(), size);
                assert_eq!(counts.received, 3, "{content:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn the_first_event_may_be_one_that_is_looked_for() {
        let content = b"data: {\"id\": 1}\n\nevent: token\ndata: {\"choices\": 2}\n\ndata: {\"choices\": 3}\n\n";
        for size in 1..=content.len() {
            let plan = plan(EventFormat::Sse, Some("data: \\{\"choices\""));
            let counts = counted(&plan, content, size);
            assert_eq!((counts.received, counts.first.count()), (3, 1));
            assert_eq!(counts.without_first, 0);
        }
        let both = plan(EventFormat::Sse, Some("(?s)event: token.*choices"));
        assert_eq!(counted(&both, content, 7).first.count(), 1);
        let none = plan(EventFormat::Sse, Some("nothing like this"));
        let counts = counted(&none, content, 7);
        assert_eq!((counts.first.count(), counts.without_first), (0, 1));
    }

    #[test]
    fn gaps_that_are_long_are_stalls() {
        let plan = plan(EventFormat::Ndjson, None);
        let mut counts = EventCounts::new();
        let mut streams = EventStreams::new(Some(&plan), 1);
        streams.open(0);
        for now in [10, 12, 18, 19, 30] {
            streams.data(&plan, ID, b"x\n", (9 * MS, now * MS), &mut counts);
        }
        assert_eq!((counts.stalls, counts.stalled), (2, 17 * MS));
        let first = counts.first.summary().max.unwrap();
        assert!((first - 0.001).abs() < 1e-5, "{first}");
        // The next response in the slot begins anew.
        streams.open(0);
        streams.data(&plan, ID, b"x\n", (40 * MS, 50 * MS), &mut counts);
        assert_eq!((counts.gap.count(), counts.first.count()), (4, 2));
    }

    #[test]
    fn a_wrong_expression_is_told_in_one_line() {
        let told = EventsPlan::new(&EventsAsked {
            format: EventFormat::Sse,
            first: Some("data: {(".into()),
            stall: Duration::from_secs(1),
        })
        .unwrap_err()
        .to_string();
        assert!(
            told.starts_with("--first-event: ") && !told.contains('\n'),
            "{told}"
        );
    }
}
