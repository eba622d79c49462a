//! What is asked about events, checked: how they are told apart depends on what the responses are.

use crate::events::EventFormat;
use crate::grpc::CallsPlan;
use crate::options::Options;
use crate::plan::{PlanError, usage};
use crate::websocket::{SocketPlan, WebSocketMode};

/// Messages are those of calls that answer with a stream and of sessions that take what comes; lines are
/// in other content.
pub(crate) fn check_events(
    options: &Options,
    calls: Option<&CallsPlan>,
    websocket: Option<&SocketPlan>,
) -> Result<(), PlanError> {
    let Some(asked) = &options.events else {
        return Ok(());
    };
    let is_messages = asked.format == EventFormat::Messages;
    match (calls, websocket) {
        (None, None) if is_messages => usage(
            "--events messages: only gRPC calls and WebSockets have messages: type it with --grpc or a ws:// URL, or --events sse or ndjson",
        ),
        (None, None) => Ok(()),
        (Some(_), _) if !is_messages => usage(format!(
            "--events {}: a gRPC call is answered with messages: type --events messages",
            asked.format.name()
        )),
        (None, Some(plan)) if plan.mode == WebSocketMode::Echo => usage(format!(
            "--events {}: echoes are measured by their round trips: leave --events out, or type --ws subscribe",
            asked.format.name()
        )),
        (None, Some(_)) if !is_messages => usage(format!(
            "--events {}: over a WebSocket the server sends messages: type --events messages",
            asked.format.name()
        )),
        (None, Some(_)) => Ok(()),
        (Some(calls), _) if !calls.receives_streams() => usage(format!(
            "--events messages: {} answers with one message: leave --events out, or call a method that answers with a stream",
            calls.first().method.full_name()
        )),
        (Some(_), _) if asked.first.is_some() => usage(
            "--first-event looks at the text of an event, and messages of gRPC are none: leave it out",
        ),
        (Some(_), _) => Ok(()),
    }
}
