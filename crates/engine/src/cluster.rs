//! A run on several machines: each carries out a share of the plan's threads, by the same plan, and one adds up what
//! they send.
//!
//! Nothing of a plan is dealt anew: a thread has the same connections, arrivals and numbers of requests whichever
//! machine it is on. What travels is what threads hand over on one machine too, their windows and reports, encoded by
//! postcard. It is read by the same build of the engine, and by no other.

mod gather;
mod lost;
mod share;
#[cfg(test)]
mod tests;
mod workers;

pub use gather::Gather;
pub use share::{Share, run_share};
pub use workers::{Member, WorkerOut};
