//! What is asked about events, checked: how they are told apart depends on what the responses are.

use crate::events::EventFormat;
use crate::grpc::CallPlan;
use crate::options::Options;
use crate::plan::{PlanError, usage};

/// Messages are those of calls that answer with a stream, and lines are in other content.
pub(crate) fn check_events(options: &Options, call: Option<&CallPlan>) -> Result<(), PlanError> {
    let Some(asked) = &options.events else {
        return Ok(());
    };
    let is_messages = asked.format == EventFormat::Messages;
    match call {
        None if is_messages => usage(
            "--events messages: only gRPC calls have messages: type it with --grpc, or --events sse or ndjson",
        ),
        None => Ok(()),
        Some(_) if !is_messages => usage(format!(
            "--events {}: a gRPC call is answered with messages: type --events messages",
            asked.format.name()
        )),
        Some(call) if !call.receives_stream() => usage(format!(
            "--events messages: {} answers with one message: leave --events out, or call a method that answers with a stream",
            call.call.method.full_name()
        )),
        Some(_) if asked.first.is_some() => usage(
            "--first-event looks at the text of an event, and messages of gRPC are none: leave it out",
        ),
        Some(_) => Ok(()),
    }
}
