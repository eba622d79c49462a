//! The server as its clients see it.

#![allow(clippy::unwrap_used)] // A helper that fails is a test that fails.

mod bindings;
mod channel;
mod common;
mod connect;
mod curl;
mod early_data;
mod endpoints;
mod followers;
mod generated;
mod grpc;
mod handshake;
mod hostile;
mod larking;
mod lifecycle;
mod malformed;
mod rest;
mod websocket;
