//! The streams that we reset, on which the peer may go on until it knows (RFC 9113 §5.1).

use std::collections::VecDeque;

const REMEMBERED: usize = 1024;

/// The last streams that we reset. Of older ones only the highest id is kept: below it nothing is
/// held against the peer.
#[derive(Debug, Default)]
pub(super) struct Resets {
    ids: VecDeque<u32>,
    forgotten: u32,
}

impl Resets {
    pub(super) fn add(&mut self, id: u32) {
        if self.ids.len() == REMEMBERED
            && let Some(oldest) = self.ids.pop_front()
        {
            self.forgotten = self.forgotten.max(oldest);
        }
        self.ids.push_back(id);
    }

    /// Whether a frame on the closed stream `id` may be late.
    pub(super) fn excuse(&self, id: u32) -> bool {
        id <= self.forgotten || self.ids.contains(&id)
    }

    /// The peer has ended the stream: nothing may follow.
    pub(super) fn ended(&mut self, id: u32) {
        self.ids.retain(|&other| other != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_excused_until_the_peer_ends_it() {
        let mut resets = Resets::default();
        resets.add(5);
        assert!(resets.excuse(5));
        assert!(!resets.excuse(3));
        resets.ended(5);
        assert!(!resets.excuse(5));
    }

    #[test]
    fn old_streams_are_excused_without_being_kept() {
        let mut resets = Resets::default();
        for id in 0..5000 {
            resets.add(2 * id + 1);
        }
        assert_eq!(resets.ids.len(), REMEMBERED);
        assert!((0..5000).all(|id| resets.excuse(2 * id + 1)));
        assert!(!resets.excuse(10_001));
    }
}
