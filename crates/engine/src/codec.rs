//! The codec of a TCP connection, HTTP/1.1 or HTTP/2, and its side of a turn.

use trilane_wire::{ConnectionError, End, Events, Refused, StreamId, h1, h2};

use crate::context::Context;
use crate::grpc::{CallSink, H2Writer};
use crate::plan::{Plan, Version};
use crate::streams::{Sink, Streams, Tally};

/// Requests are added to a turn's write up to here.
const WRITE_BATCH: usize = 64 * 1024;

/// What speaks HTTP on a TCP connection.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "HTTP/1.1 has the most connections and the shortest turns"
)]
pub(crate) enum Codec {
    H1(h1::Connection),
    H2(Box<h2::Connection>),
}

impl Codec {
    /// How many more requests it takes now.
    pub(crate) fn capacity(&self) -> usize {
        match self {
            Codec::H1(codec) => codec.capacity(),
            Codec::H2(codec) => codec.capacity(),
        }
    }

    /// Whether `produce` has something to write now.
    pub(crate) fn has_output(&self) -> bool {
        match self {
            Codec::H1(codec) => codec.has_output(),
            Codec::H2(codec) => codec.has_output(),
        }
    }

    /// Writes more of the pending bodies.
    pub(crate) fn produce(&mut self, out: &mut Vec<u8>) {
        match self {
            Codec::H1(codec) => codec.produce(out),
            Codec::H2(codec) => codec.produce(out),
        }
    }

    /// A codec for `version`; HTTP/2 writes its preface to `out`.
    pub(crate) fn new(version: Version, plan: &Plan, out: &mut Vec<u8>) -> Self {
        match version {
            Version::H2 | Version::H2c => {
                let config = h2::Config {
                    stream_window: plan.stream_window,
                    connection_window: plan.connection_window,
                    max_streams: plan.streams as u32,
                    ..h2::Config::default()
                };
                Codec::H2(Box::new(h2::Connection::new(config, out)))
            }
            _ => Codec::H1(h1::Connection::new(h1::Limits::default())),
        }
    }

    /// Whether the peer has shown that it speaks the version: with HTTP/2 it has sent SETTINGS.
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Codec::H1(_) => true,
            Codec::H2(codec) => codec.peer_settings().received,
        }
    }

    /// Why the peer can never be sent any of the plan's requests.
    #[inline]
    pub(crate) fn misfit(&self, plan: &Plan) -> Option<Refused> {
        match self {
            Codec::H1(_) => None,
            Codec::H2(codec) => {
                plan.misfit(codec.peer_settings().max_header_list_size.map(u64::from))
            }
        }
    }

    /// Whether nothing more can happen.
    pub(crate) fn is_finished(&self) -> bool {
        match self {
            Codec::H1(codec) => codec.is_closing() && codec.outstanding() == 0,
            Codec::H2(codec) => codec.is_closing() && codec.outstanding() == 0,
        }
    }

    /// The transport has ended: ends or fails what is outstanding.
    pub(crate) fn eof(&mut self, end: End, sink: &mut impl Events) {
        match self {
            Codec::H1(codec) => codec.eof(end, sink),
            Codec::H2(codec) => codec.eof(sink),
        }
    }

    /// Resets one stream. False where the version has none: the connection has to go.
    pub(crate) fn cancel(&mut self, stream: StreamId, out: &mut Vec<u8>) -> bool {
        match self {
            Codec::H1(_) => false,
            Codec::H2(codec) => {
                codec.cancel(stream, out);
                true
            }
        }
    }

    /// The peer's SETTINGS, once it has sent them.
    pub(crate) fn settings(&self) -> Option<h2::PeerSettings> {
        match self {
            Codec::H1(_) => None,
            Codec::H2(codec) => Some(codec.peer_settings()).filter(|settings| settings.received),
        }
    }

    /// Gives the codec what came from the peer.
    #[inline]
    pub(crate) fn feed<const FULL: bool>(
        &mut self,
        bytes: &[u8],
        now: u64,
        streams: &mut Streams,
        tally: &mut Tally<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ConnectionError> {
        if let Some(plan) = &tally.plan.call {
            let mut sink = CallSink {
                now,
                plan,
                streams,
                tally,
                cause: None,
            };
            return self.receive(bytes, &mut sink, out);
        }
        let mut sink: Sink<'_, '_, FULL> = Sink {
            now,
            streams,
            tally,
            cause: None,
        };
        self.receive(bytes, &mut sink, out)
    }

    #[inline]
    fn receive(
        &mut self,
        bytes: &[u8],
        sink: &mut impl Events,
        out: &mut Vec<u8>,
    ) -> Result<(), ConnectionError> {
        match self {
            Codec::H1(codec) => codec.receive(bytes, sink, out),
            Codec::H2(codec) => codec.receive(bytes, sink, out),
        }
    }

    /// Writes what calls in flight have to write.
    fn advance_calls(&mut self, now: u64, streams: &mut Streams, context: &mut Context<'_>) {
        let (Codec::H2(codec), Some(plan)) = (self, &context.plan.call) else {
            return;
        };
        let mut writer = H2Writer {
            codec,
            out: &mut context.plain,
        };
        let recorder = &mut context.tally.recorder;
        streams.calls.advance(plan, &mut writer, recorder, now);
    }

    /// Sends requests while the schedule, a slot and the codec allow. True when only the size of the
    /// write ended it.
    pub(crate) fn refill(
        &mut self,
        now: u64,
        streams: &mut Streams,
        context: &mut Context<'_>,
    ) -> bool {
        let more = self.send_requests(now, streams, context);
        self.advance_calls(now, streams, context);
        more
    }

    fn send_requests(
        &mut self,
        now: u64,
        streams: &mut Streams,
        context: &mut Context<'_>,
    ) -> bool {
        // One that fits ends each round of refusals below: they are no endless loop.
        if self.misfit(context.plan).is_some() {
            return false;
        }
        while context.plain.len() < WRITE_BATCH {
            let Some(slot) = streams.next_slot().filter(|_| self.capacity() > 0) else {
                return false;
            };
            let Some(pending) = context.next_request(now) else {
                return false;
            };
            let request = &context.plan.prepared[pending.request as usize];
            let (sent, encoded) = match self {
                Codec::H1(codec) => (
                    codec.send(request, slot, &mut context.plain),
                    request.h1_head().len() as u64,
                ),
                Codec::H2(codec) => {
                    let before = codec.sent_field_bytes();
                    let sent = codec.send(request, slot, &mut context.plain);
                    (sent, codec.sent_field_bytes() - before)
                }
            };
            match sent {
                Ok(id) => {
                    context.count_start(pending, now);
                    streams.open(id, pending, now);
                    context.open_call(id, streams, now);
                    let decoded = match self {
                        Codec::H1(_) => encoded,
                        Codec::H2(_) => request.decoded_bytes() as u64,
                    };
                    let traffic = &mut context.tally.recorder.traffic;
                    traffic.fields_sent_encoded += encoded;
                    traffic.fields_sent_decoded += decoded;
                    traffic.body_sent += request.body().len() as u64;
                }
                Err(refused) if context.refused(pending, refused, now) => (),
                Err(_) => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::context::Clock;
    use crate::failure::Kind;
    use crate::options::Options;
    use crate::record::Recorder;
    use crate::schedule::Schedule;

    const NOW: u64 = 1_000_000;

    /// SETTINGS that accept field sections up to `limit` bytes.
    fn settings(limit: u32) -> Vec<u8> {
        let mut frame = vec![0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 6];
        frame.extend_from_slice(&limit.to_be_bytes());
        frame
    }

    /// A plan of ten requests that take turns between `paths`, on four streams of one connection.
    fn plan(paths: &[&str]) -> Plan {
        Plan::new(&Options {
            urls: paths.iter().map(|path| format!("http://a{path}")).collect(),
            version: Some(Version::H2c),
            connections: 1,
            streams: 4,
            requests: Some(10),
            ..Options::default()
        })
        .unwrap()
    }

    fn context(plan: &Plan) -> Context<'_> {
        let tally = Tally::new(plan, Recorder::new(false));
        let mut schedule = Schedule::new(plan, 0);
        schedule.begin(0);
        Context::new(plan, Clock(Instant::now()), tally, schedule)
    }

    /// A codec whose peer has sent `settings`.
    fn codec(settings: &[u8], streams: &mut Streams, context: &mut Context<'_>) -> Codec {
        let plan = context.plan;
        let mut codec = Codec::new(Version::H2c, plan, &mut context.plain);
        let (tally, out) = (&mut context.tally, &mut context.plain);
        codec
            .feed::<true>(settings, NOW, streams, tally, out)
            .unwrap();
        codec
    }

    #[test]
    fn a_peer_that_accepts_none_of_the_requests_is_sent_none() {
        let plan = plan(&["/", "/longer"]);
        let smallest = plan.prepared[0].section_size();
        let (mut streams, mut context) = (Streams::new(&plan), context(&plan));
        let limit = smallest as u32 - 1;
        let mut codec = codec(&settings(limit), &mut streams, &mut context);
        let more = codec.refill(NOW, &mut streams, &mut context);
        assert!(!more, "nothing would end a loop of refusals");
        assert!(!context.schedule.is_exhausted());
        assert_eq!(context.tally.recorder.started, 0);
        let refused = Refused::TooLarge {
            size: smallest,
            limit: limit.into(),
        };
        assert_eq!(codec.misfit(&plan), Some(refused));
    }

    #[test]
    fn requests_that_are_too_large_fail_and_hold_up_no_other() {
        let plan = plan(&["/", "/longer"]);
        let [smaller, larger] = &plan.prepared[..] else {
            panic!("two requests")
        };
        let (mut streams, mut context) = (Streams::new(&plan), context(&plan));
        let limit = smaller.section_size() as u32;
        let mut codec = codec(&settings(limit), &mut streams, &mut context);
        assert_eq!(codec.misfit(&plan), None);
        assert!(!codec.refill(NOW, &mut streams, &mut context));
        assert_eq!(streams.in_flight(), 4);
        let recorder = &context.tally.recorder;
        // Between the four that were sent.
        assert_eq!((recorder.started, recorder.failures.total()), (7, 3));
        let message = format!(
            "the field section of {} bytes is larger than the {limit} bytes that the peer accepts",
            larger.section_size()
        );
        let failures: Vec<_> = recorder.failures.iter().collect();
        assert_eq!(failures, [(Kind::Limit, 3, message.as_str())]);
    }

    #[test]
    fn a_peer_that_changes_its_limit_is_believed() {
        let plan = plan(&["/"]);
        let (mut streams, mut context) = (Streams::new(&plan), context(&plan));
        let mut codec = codec(&settings(10), &mut streams, &mut context);
        assert!(codec.misfit(&plan).is_some());
        let (tally, out) = (&mut context.tally, &mut context.plain);
        codec
            .feed::<true>(&settings(1000), NOW, &mut streams, tally, out)
            .unwrap();
        assert_eq!(codec.misfit(&plan), None);
        codec.refill(NOW, &mut streams, &mut context);
        assert_eq!(streams.in_flight(), 4);
    }
}
