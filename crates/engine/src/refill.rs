//! Sending requests on a connection while the schedule, a slot and the connection allow.

use trilane_connection::{Quic, Stream, Version};
use trilane_wire::{Encoding, Refused, Request, StreamId};

use crate::context::Context;
use crate::exchanges::Exchanges;
use crate::grpc::{Writer, end_ours};

/// Requests, and messages of sessions, are added to what is sent at once up to here, in bytes.
pub(crate) const WRITE_BATCH: usize = 64 * 1024;

/// The bytes of a request's field section, as far as they are known when it is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoded {
    /// On the wire; those of HTTP/3 are counted by its connection.
    pub(crate) encoded: u64,
    pub(crate) decoded: u64,
}

/// A connection, as far as it takes requests.
pub(crate) trait Channel: Writer {
    /// How many more requests it takes now.
    fn capacity(&self) -> usize;
    /// What requests are encoded for.
    fn encoding(&self) -> Encoding;
    /// Whether what is sent now goes in early data.
    fn is_early(&self) -> bool;
    /// The largest field section that the peer accepts, in bytes, where it told one.
    fn largest_section(&self) -> Option<u64>;
    /// Whether the peer has said that it takes no sessions on streams (RFC 8441 §3).
    fn refuses_sessions(&self) -> bool;
    /// Sends a request.
    fn send(&mut self, request: &Request, slot: u32) -> Result<(StreamId, Encoded), Refused>;
}

impl Channel for Stream {
    #[inline]
    fn capacity(&self) -> usize {
        Stream::capacity(self)
    }

    #[inline]
    fn encoding(&self) -> Encoding {
        match self.version() {
            Some(Version::H1) => Encoding::H1,
            _ => Encoding::H2,
        }
    }

    #[inline]
    fn is_early(&self) -> bool {
        Stream::is_early(self)
    }

    #[inline]
    fn largest_section(&self) -> Option<u64> {
        self.h2()?
            .peer_settings()
            .max_header_list_size
            .map(u64::from)
    }

    fn refuses_sessions(&self) -> bool {
        self.h2().is_some_and(|h2| {
            let settings = h2.peer_settings();
            settings.received && !settings.connect_protocol
        })
    }

    #[inline]
    fn send(&mut self, request: &Request, slot: u32) -> Result<(StreamId, Encoded), Refused> {
        if self.encoding() == Encoding::H1 {
            let encoded = Encoded {
                encoded: request.h1_head().len() as u64,
                decoded: request.decoded_bytes() as u64,
            };
            return Stream::send(self, request, slot).map(|id| (id, encoded));
        }
        let sent = |stream: &Self| stream.h2().map_or(0, |h2| h2.sent_field_bytes());
        let before = sent(self);
        let id = Stream::send(self, request, slot)?;
        let encoded = Encoded {
            encoded: sent(self) - before,
            decoded: request.decoded_bytes() as u64,
        };
        Ok((id, encoded))
    }
}

impl Channel for Quic {
    fn capacity(&self) -> usize {
        Quic::capacity(self)
    }

    fn encoding(&self) -> Encoding {
        Encoding::H3
    }

    fn is_early(&self) -> bool {
        Quic::is_early(self)
    }

    fn largest_section(&self) -> Option<u64> {
        self.h3()?.peer_settings().max_field_section_size
    }

    fn refuses_sessions(&self) -> bool {
        true
    }

    fn send(&mut self, request: &Request, slot: u32) -> Result<(StreamId, Encoded), Refused> {
        let encoded = Encoded {
            encoded: 0,
            decoded: request.decoded_bytes() as u64,
        };
        Quic::send(self, request, slot).map(|id| (id, encoded))
    }
}

/// Sends requests, and what calls and sessions in flight have to write. True when only the size of what is sent
/// at once ended it.
pub(crate) fn refill(
    channel: &mut impl Channel,
    now: u64,
    exchanges: &mut Exchanges,
    context: &mut Context<'_>,
) -> bool {
    if let Some(plan) = &context.plan.websocket {
        let (masks, recorder) = (&mut context.masks, &mut context.tally.recorder);
        // First: what is over has its last word before another takes its slot.
        exchanges
            .sessions
            .advance(plan, channel, masks, recorder, now);
    }
    if let Some(plan) = &context.plan.calls {
        // For the same reason.
        exchanges.calls.expire(plan, channel, now);
        end_ours(plan, exchanges, &mut context.tally, now);
    }
    let mut more = send_requests(channel, now, exchanges, context);
    if let Some(plan) = &context.plan.calls {
        let recorder = &mut context.tally.recorder;
        more |= exchanges.calls.advance(plan, channel, recorder, now);
        end_ours(plan, exchanges, &mut context.tally, now);
    }
    more
}

fn send_requests(
    channel: &mut impl Channel,
    now: u64,
    exchanges: &mut Exchanges,
    context: &mut Context<'_>,
) -> bool {
    if context.plan.misfit(exchanges.origin(), &*channel).is_some() {
        return false;
    }
    let early = channel.is_early();
    // One that fits ends each round of refusals below; but what changes may not fit any more.
    let mut refusals = 0;
    while channel.gathered() < WRITE_BATCH {
        if early && context.holds_back_early() {
            return false;
        }
        let room = channel.capacity() > 0;
        let Some(slot) = exchanges.next_slot().filter(|_| room) else {
            return false;
        };
        let Some(mut pending) = context.next_request(now, exchanges) else {
            return false;
        };
        pending.intended = exchanges.intended(pending);
        let key = context.renew_key(pending);
        let request = match context.request(pending, channel.encoding()) {
            Ok(request) => request,
            Err(text) => {
                refusals += 1;
                context.unmade(pending, text, now, exchanges);
                if refusals > context.plan.turns.len() {
                    return false;
                }
                continue;
            }
        };
        let content = request.body().len() as u64;
        match channel.send(request, slot) {
            Ok((id, Encoded { encoded, decoded })) => {
                refusals = 0;
                context.count_start(pending, now, exchanges);
                exchanges.open(id, pending, content, now, early);
                context.open_call(id, pending, exchanges, now);
                if context.plan.websocket.is_some() {
                    exchanges.sessions.open(id, key);
                }
                let traffic = &mut context.tally.recorder.traffic;
                traffic.fields_sent_encoded += encoded;
                traffic.fields_sent_decoded += decoded;
            }
            Err(refused) => {
                refusals += 1;
                let goes_on = context.refused(pending, refused, now, exchanges);
                if !goes_on || refusals > context.plan.turns.len() {
                    return false;
                }
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;
    use crate::context::Clock;
    use crate::exchanges::Sink;
    use crate::failure::FailureKind;
    use crate::listed::Listed;
    use crate::options::{Options, Version};
    use crate::plan::{Plan, Transport};
    use crate::record::Recorder;
    use crate::schedule::Schedule;
    use crate::simulation::Simulation;
    use crate::tally::Tally;

    const NOW: u64 = 1_000_000;

    /// SETTINGS that accept field sections up to `limit` bytes.
    fn settings(limit: u32) -> Vec<u8> {
        let mut frame = vec![0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 6];
        frame.extend_from_slice(&limit.to_be_bytes());
        frame
    }

    /// A plan of ten requests that take turns between `paths`, on four streams of one connection.
    fn plan(paths: &[&str]) -> Plan {
        Plan::new(&options(paths)).unwrap()
    }

    fn options(paths: &[&str]) -> Options {
        Options {
            urls: paths.iter().map(|path| format!("http://a{path}")).collect(),
            version: Some(Version::H2c),
            connections: 1,
            streams: 4,
            requests: Some(10),
            ..Options::default()
        }
    }

    fn context(plan: &Plan) -> Context<'_> {
        let tally = Tally::new(plan, Recorder::new(false));
        let mut schedule = Schedule::new(plan, 0);
        schedule.begin(0);
        let begun = Instant::now();
        let system = Simulation::new(begun, true, Vec::new(), Rc::default());
        Context::new(plan, Clock(begun), Box::new(system), tally, schedule)
    }

    /// A connection whose peer has sent `settings`.
    fn connection(settings: &[u8], exchanges: &mut Exchanges, context: &mut Context<'_>) -> Stream {
        let Transport::Stream(config) = &context.plan.origins[0].transport else {
            panic!("HTTP/2 is spoken on a byte stream")
        };
        let now = Instant::now();
        let mut stream = Stream::new(Arc::clone(config), now);
        stream.connected(now).unwrap();
        give(&mut stream, settings, exchanges, context);
        stream
    }

    /// The peer sends `bytes`.
    fn give(
        stream: &mut Stream,
        bytes: &[u8],
        exchanges: &mut Exchanges,
        context: &mut Context<'_>,
    ) {
        let mut sink = Sink::<true> {
            now: NOW,
            exchanges,
            tally: &mut context.tally,
            cause: None,
        };
        stream
            .receive(Instant::now(), &mut bytes.to_vec(), &mut sink)
            .unwrap();
        while let bytes @ [_, ..] = stream.transmit().unwrap() {
            let length = bytes.len();
            stream.sent(length);
        }
    }

    #[test]
    fn a_peer_that_accepts_none_of_the_requests_is_sent_none() {
        let plan = plan(&["/", "/longer"]);
        let smallest = plan.prepared[0].section_size();
        let (mut exchanges, mut context) = (Exchanges::new(&plan, 0), context(&plan));
        let limit = smallest as u32 - 1;
        let mut stream = connection(&settings(limit), &mut exchanges, &mut context);
        let more = refill(&mut stream, NOW, &mut exchanges, &mut context);
        assert!(!more, "nothing would end a loop of refusals");
        assert!(!context.schedule.is_exhausted());
        assert_eq!(context.tally.recorder.started, 0);
        let refused = Refused::TooLarge {
            size: smallest,
            limit: limit.into(),
        };
        assert_eq!(plan.misfit(0, &stream), Some(refused));
    }

    #[test]
    fn requests_that_are_too_large_fail_and_hold_up_no_other() {
        let plan = plan(&["/", "/longer"]);
        let [smaller, larger] = &plan.prepared[..] else {
            panic!("two requests")
        };
        let (mut exchanges, mut context) = (Exchanges::new(&plan, 0), context(&plan));
        let limit = smaller.section_size() as u32;
        let mut stream = connection(&settings(limit), &mut exchanges, &mut context);
        assert_eq!(plan.misfit(0, &stream), None);
        assert!(!refill(&mut stream, NOW, &mut exchanges, &mut context));
        assert_eq!(exchanges.in_flight(), 4);
        let recorder = &context.tally.recorder;
        // Between the four that were sent.
        assert_eq!((recorder.started, recorder.failures.total()), (7, 3));
        let message = format!(
            "the field section of {} bytes is larger than the {limit} bytes that the peer accepts",
            larger.section_size()
        );
        let failures: Vec<_> = recorder.failures.iter().collect();
        assert_eq!(failures, [(FailureKind::Limit, 3, message.as_str())]);
    }

    #[test]
    fn requests_that_grow_too_large_are_refused_and_end_the_turn() {
        let path = "/".to_owned() + &"x".repeat(50);
        let plan = Plan::new(&Options {
            requests: None,
            streams: 64,
            listed: vec![Listed::new("", format!("http://a{path}{{seq}}"))],
            ..options(&[])
        })
        .unwrap();
        let (mut exchanges, mut context) = (Exchanges::new(&plan, 0), context(&plan));
        let limit = plan.prepared[0].section_size() as u32;
        let mut stream = connection(&settings(limit), &mut exchanges, &mut context);
        // The eleventh and those behind it have numbers of two digits.
        for _ in 0..8 {
            refill(&mut stream, NOW, &mut exchanges, &mut context);
        }
        assert_eq!(exchanges.in_flight(), 10);
        let recorder = &context.tally.recorder;
        assert!(recorder.started > 10);
        let (kind, count, _) = recorder.failures.iter().next().unwrap();
        assert_eq!((kind, count), (FailureKind::Limit, recorder.started - 10));
    }

    #[test]
    fn a_peer_that_changes_its_limit_is_believed() {
        let plan = plan(&["/"]);
        let (mut exchanges, mut context) = (Exchanges::new(&plan, 0), context(&plan));
        let mut stream = connection(&settings(10), &mut exchanges, &mut context);
        assert!(plan.misfit(0, &stream).is_some());
        give(&mut stream, &settings(1000), &mut exchanges, &mut context);
        assert_eq!(plan.misfit(0, &stream), None);
        refill(&mut stream, NOW, &mut exchanges, &mut context);
        assert_eq!(exchanges.in_flight(), 4);
    }
}
