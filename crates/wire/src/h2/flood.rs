//! Bounds on work that a peer can cause without progress (RFC 9113 §10.5).
//!
//! There is no clock here, so the account is kept in progress: what moves a request forward earns
//! credit up to a limit, what does not spends it.

use super::frame::{code, error};
use crate::ConnectionError;

/// What one frame costs. With nothing else going on, a peer has 1000 SETTINGS, 5000 PINGs or
/// 100,000 DATA frames of one byte before the connection ends.
pub(super) mod cost {
    pub(in crate::h2) const SETTINGS: u32 = 100;
    pub(in crate::h2) const PING: u32 = 20;
    pub(in crate::h2) const EMPTY: u32 = 100;
    pub(in crate::h2) const TINY_DATA: u32 = 1;
    pub(in crate::h2) const WINDOW_UPDATE: u32 = 10;
    /// A frame on a stream that has ended.
    pub(in crate::h2) const LATE: u32 = 20;
    /// A frame without a meaning to us.
    pub(in crate::h2) const IGNORED: u32 = 20;
}

/// What progress earns.
pub(super) mod gain {
    pub(in crate::h2) const REQUEST: u32 = 200;
    pub(in crate::h2) const RESPONSE: u32 = 200;
    pub(in crate::h2) const DATA_SENT: u32 = 100;
    pub(in crate::h2) const DATA_RECEIVED: u32 = 20;
}

const CREDIT: u32 = 100_000;

/// Bytes of answers to PING and SETTINGS that may wait for the transport.
const ANSWERS: usize = 64 * 1024;

/// The account of one connection.
#[derive(Debug)]
pub(super) struct Flood {
    credit: u32,
    /// Bytes of answers that may still be in `out`.
    answers: usize,
}

impl Flood {
    pub(super) fn new() -> Self {
        Self {
            credit: CREDIT,
            answers: 0,
        }
    }

    #[inline]
    pub(super) fn earn(&mut self, gain: u32) {
        self.credit = (self.credit + gain).min(CREDIT);
    }

    #[inline]
    pub(super) fn spend(&mut self, cost: u32, reason: &'static str) -> Result<(), ConnectionError> {
        match self.credit.checked_sub(cost) {
            Some(left) => {
                self.credit = left;
                Ok(())
            }
            None => Err(error(code::ENHANCE_YOUR_CALM, reason)),
        }
    }

    /// `out` still holds `waiting` bytes, so at most as many of answers.
    #[inline]
    pub(super) fn written(&mut self, waiting: usize) {
        self.answers = self.answers.min(waiting);
    }

    /// An answer of `bytes` goes to `out`.
    pub(super) fn answer(&mut self, bytes: usize) -> Result<(), ConnectionError> {
        self.answers += bytes;
        if self.answers > ANSWERS {
            return Err(error(
                code::ENHANCE_YOUR_CALM,
                "the peer asks for answers and does not read them",
            ));
        }
        Ok(())
    }
}
