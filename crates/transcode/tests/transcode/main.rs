//! Transcoding by its specification, by any requests, and beside vanguard's answers.
#![allow(clippy::unwrap_used, reason = "a test may end so")]

mod answers;
mod connect;
mod differential;
mod messages;
mod properties;
mod specification;
mod support;
