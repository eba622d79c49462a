//! Transcoding by its specification, by any requests, and beside vanguard's answers.
#![allow(clippy::unwrap_used, reason = "a test may end so")]

mod answers;
mod connect;
mod differential;
mod generated;
mod json;
mod messages;
mod openapi;
mod properties;
mod raw;
mod service_config;
mod specification;
mod support;
