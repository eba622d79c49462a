//! TLS and QUIC sessions against rustls, OpenSSL, quinn and h3.
#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod early_data;
mod endpoint;
mod http3;
#[path = "../lockstep/mod.rs"]
mod lockstep;
mod quic;
mod support;
mod tls;
mod tls_common;
mod tls_openssl;
mod tls_refusals;
mod uploads;
