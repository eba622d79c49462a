//! The HTTP/1.1 client against scripted servers, against itself, and against hyper and Python.

mod common;
mod fidelity;
mod malformed;
mod peers;
mod properties;
mod requests;
mod responses;
mod uploads;
