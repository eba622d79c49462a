//! The embedded server: one handler over HTTP/1.1, HTTP/2 and HTTP/3.
//!
//! A server is a set of worker threads, each with its own single-threaded runtime. HTTP/1.1 and
//! HTTP/2 with prior knowledge share one TCP port; HTTP/1.1 and HTTP/2 chosen by ALPN share the
//! TLS port; HTTP/3 has the same number on UDP. Connections are dealt to the workers in turn, so
//! that a few of them load all workers alike, and never move afterwards.
//!
//! ```no_run
//! # fn main() -> Result<(), trilane_serve::Error> {
//! use std::time::Duration;
//! use trilane_serve::{Config, Server};
//!
//! let server = Server::start(Config { port: 0, tls_port: 0, ..Config::default() })?;
//! println!("{}hello", server.addresses().http_url());
//! let cost = server.stop(Duration::from_secs(1));
//! println!("{} requests", cost.requests);
//! # Ok(())
//! # }
//! ```
//!
//! It serves services of gRPC too that are elsewhere ([`Forwarding`]), or in this process
//! ([`Forwarding::of_process`]; `examples/in_process.rs` is a whole program): over gRPC, gRPC-Web, and HTTP
//! by the rules of `google.api.http`.
//!
//! The protocols are hyper's, quinn's and h3's work, not ours: a client tested here has been
//! tested against somebody else's reading of the RFCs.

mod app;
mod caller;
mod certificate;
mod config;
mod connection;
mod cost;
mod h3;
mod library;
mod net;
mod rest;
mod rpc;
mod server;
mod services;
mod state;
mod sys;
mod tcp;
mod tls;
mod upstream;
mod value;
mod wait;
mod worker;

pub use certificate::make_cluster_identity;
pub use config::{Config, Congestion, Error, Forwarding};
pub use cost::{Cost, Counts};
pub use server::{Addresses, Server, Switch};
pub use trilane_grpc::Schema;
pub use trilane_transcode::{RuleError, ServiceConfig};
pub use upstream::{InProcess, Limits, Place, Upstream, backoff};
pub use wait::{Signals, Stop, StopWhen};

/// What the `server` field of every response says.
pub const SERVER_NAME: &str = concat!("trilane/", env!("CARGO_PKG_VERSION"));
