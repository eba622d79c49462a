//! Connections as lists of operations, of the caller and of the peer.
//!
//! Each input is played four times: with the peer's bytes at once and cut up, with fields and without.
//! All four must report the same, and each is held to the model of [`caller`].

mod caller;
mod fields;
pub(crate) mod h1;
mod h1_peer;
pub(crate) mod h2;
mod h2_frames;
mod h2_peer;
pub(crate) mod h3;
mod h3_peer;
pub(crate) mod stream;
