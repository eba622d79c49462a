//! WebSocket sessions (RFC 6455): requests whose response is a conversation, with a verdict of its own.
//!
//! A session begins with the opening handshake and ends with the Close frame of the server. In the mode
//! `echo` it sends messages and awaits each of them back; in the mode `subscribe` it takes what comes, which
//! is measured as events are.

mod count;
mod masks;
mod plan;
mod session;
mod sink;

pub(crate) use count::Counts;
pub(crate) use masks::Masks;
pub(crate) use plan::SocketPlan;
pub use plan::{WebSocket, WebSocketMode};
pub(crate) use session::Sessions;
pub(crate) use sink::SocketSink;
