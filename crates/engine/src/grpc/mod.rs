//! gRPC calls: requests whose content is framed messages and whose outcome stands in `grpc-status`
//! (gRPC over HTTP/2, <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>).
//!
//! In the mode `wire`, a unary call is a prepared request like any other. Calls whose messages are
//! encoded anew each time, or wait for answers, write their content message by message
//! ([`upload`]).

mod count;
mod plan;
mod sink;
mod state;
#[cfg(test)]
mod tests;
mod upload;

pub(crate) use count::Counts;
pub(crate) use plan::CallPlan;
pub use plan::{Call, CallMode};
pub(crate) use sink::CallSink;
pub(crate) use state::Calls;
pub(crate) use upload::Writer;
