//! What responses consisted of: messages of calls and of WebSockets, and events.

use serde_json::json;
use trilane_grpc::status::Code;
use trilane_wire::websocket::Kind;

use super::{distribution, ratio};
use crate::events::{EventCounts, EventsPlan};
use crate::grpc::CallsPlan;
use crate::outcome::{EventsOut, Grpc, MethodOut, StreamsOut, WebSocketOut};
use crate::record::Recorder;
use crate::websocket::{SocketPlan, WebSocketMode};

impl Grpc {
    pub(super) fn new(plan: &CallsPlan, recorder: &mut Recorder, window_s: f64) -> Self {
        let counts = recorder.calls();
        let asked = &plan.asked;
        let first = plan.first();
        let several = plan.methods.len() > 1;
        let methods = plan.methods.iter().enumerate().map(|(index, method)| {
            let counts = counts.method(index);
            MethodOut {
                method: method.full_name().to_owned(),
                kind: method.kind().name(),
                ok: counts.ok,
                failed: counts.failed,
                latency: distribution(&counts.lasted),
            }
        });
        let methods = several.then(|| methods.collect());
        let per_second = |count: u64| ratio(count as f64, window_s).unwrap_or(0.0);
        let receives_streams = plan.receives_streams();
        Self {
            method: first.method.full_name().to_owned(),
            kind: first.method.kind().name(),
            methods,
            protocol: asked.protocol.name(),
            mode: asked.mode.name(),
            schema: asked.schema.clone(),
            compressed: asked.gzip,
            deadline_s: asked.deadline.map(|deadline| deadline.as_secs_f64()),
            max_message_bytes: asked.max_message as u64,
            expected: first.expected().map(Code::name).collect(),
            messages: json!({"sent": counts.sent, "received": counts.received}),
            messages_per_s: json!({
                "sent": per_second(counts.sent),
                "received": per_second(counts.received),
            }),
            status: counts.statuses().collect(),
            status_latency: counts
                .lasted()
                .map(|(name, lasted)| (name, distribution(lasted)))
                .collect(),
            message_latency: receives_streams.then(|| distribution(&counts.message)),
            streams: plan.has_streams().then(|| StreamsOut {
                messages: first.count,
                messages_in_flight: first.awaits_answers().then_some(first.window),
                answers: first.awaits_answers().then(|| asked.answers.text()),
                message_rate_per_s: asked.message_rate,
                duration_s: asked.stream_duration.map(|lasts| lasts.as_secs_f64()),
                half_close: first.half_close.name(),
            }),
            codec: plan.decodes().then(|| {
                json!({
                    "encode_us": counts.encoding.mean_us(),
                    "decode_us": counts.decoding.mean_us(),
                })
            }),
            response: counts.response.take().map(|response| *response),
        }
    }
}

impl WebSocketOut {
    pub(super) fn new(plan: &SocketPlan, recorder: &mut Recorder, window_s: f64) -> Self {
        let counts = recorder.websocket();
        Self {
            mode: plan.mode.name(),
            kind: match plan.kind {
                Kind::Text => "text",
                Kind::Binary => "binary",
            },
            message_bytes: plan.payload.len() as u64,
            messages_per_session: plan.awaits(),
            window: plan.window as u64,
            messages: json!({"sent": counts.sent, "received": counts.received}),
            received_per_s: ratio(counts.received as f64, window_s).unwrap_or(0.0),
            round_trip: (plan.mode == WebSocketMode::Echo)
                .then(|| distribution(&counts.round_trip)),
        }
    }
}

impl EventsOut {
    pub(super) fn new(plan: &EventsPlan, counts: &EventCounts, window_s: f64) -> Self {
        Self {
            format: plan.asked.format.name(),
            first_event: plan.asked.first.clone(),
            received: counts.received,
            events_per_s: ratio(counts.received as f64, window_s).unwrap_or(0.0),
            first: distribution(&counts.first),
            without_first: counts.without_first,
            gap: distribution(&counts.gap),
            stall_s: plan.asked.stall.as_secs_f64(),
            stalls: counts.stalls,
            stalled_s: counts.stalled as f64 / 1e9,
        }
    }
}
