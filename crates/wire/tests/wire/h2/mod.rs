//! The HTTP/2 client against scripted peers, one test for each rule, and against the `h2` crate.

pub(crate) mod common;
mod connect;
mod data;
mod floods;
mod headers;
mod peers;
mod properties;
mod requests;
mod settings;
mod states;
mod uploads;
