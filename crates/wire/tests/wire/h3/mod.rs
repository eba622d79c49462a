//! The HTTP/3 client against scripted peers.

mod common;
mod connect;
mod control;
mod requests;
mod responses;
mod splits;
mod uploads;
