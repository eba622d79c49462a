//! gRPC calls: requests whose content is framed messages and whose outcome stands in `grpc-status`
//! (gRPC over HTTP/2, <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>).
//!
//! In the mode `wire`, a unary call is a prepared request like any other. Calls whose messages are
//! encoded anew each time, wait for answers or leave at a rate write their content message by message
//! ([`upload`]).

mod asked;
mod count;
mod ending;
mod kept;
mod message;
mod plan;
mod protocol;
mod response;
mod sink;
mod state;
#[cfg(test)]
pub(crate) mod tests;
mod upload;

pub use asked::{Answers, Call, CallMode, CallOptions, HalfClose, Message};
pub(crate) use count::Counts;
pub(crate) use ending::{code_of, code_of_error};
pub use kept::Response;
pub(crate) use message::{MessageTemplate, Scratch};
pub(crate) use plan::CallsPlan;
pub use protocol::Protocol;
pub(crate) use sink::{CallSink, end_ours};
pub(crate) use state::Calls;
pub(crate) use upload::Writer;
