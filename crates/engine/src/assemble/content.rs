//! What responses consisted of: messages of calls and of WebSockets, and events.

use serde_json::json;
use trilane_wire::websocket::Kind;

use super::{distribution, ratio};
use crate::events::{EventCounts, EventsPlan};
use crate::grpc::CallPlan;
use crate::outcome::{EventsOut, Grpc, WebSocketOut};
use crate::record::Recorder;
use crate::websocket::{SocketPlan, WebSocketMode};

impl Grpc {
    pub(super) fn new(plan: &CallPlan, recorder: &mut Recorder) -> Self {
        let counts = recorder.calls();
        let call = &plan.call;
        Self {
            method: call.method.full_name().to_owned(),
            kind: call.method.kind().name(),
            mode: call.mode.name(),
            schema: call.schema.clone(),
            compressed: call.gzip,
            deadline_s: call.deadline.map(|deadline| deadline.as_secs_f64()),
            messages: json!({"sent": counts.sent, "received": counts.received}),
            status: counts.statuses().collect(),
            message_latency: plan
                .receives_stream()
                .then(|| distribution(&counts.message)),
            codec: plan.decodes().then(|| {
                json!({
                    "encode_us": counts.encoding.mean_us(),
                    "decode_us": counts.decoding.mean_us(),
                })
            }),
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
