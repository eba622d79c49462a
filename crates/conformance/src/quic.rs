//! What a server of HTTP/3 says over QUIC.

use std::collections::VecDeque;
use std::time::Instant;

use trilane_quic_peer::{QuicPeer, StreamId, Told, stream_id};

use crate::{Case, Played, Sight, Step};

/// What is done on one connection.
#[derive(Debug)]
pub struct QuicPlay {
    case: &'static Case,
    begun: bool,
    /// What is to be done, with the stream of its request.
    due: VecDeque<(&'static Step, StreamId)>,
    /// Bytes of the first of them that QUIC has taken.
    taken: usize,
}

impl QuicPlay {
    /// A server that waits for requests.
    pub fn new(case: &'static Case) -> Self {
        Self {
            case,
            begun: false,
            due: VecDeque::new(),
            taken: 0,
        }
    }

    /// Looks at what a datagram has brought.
    pub fn hear(&mut self, peer: &mut QuicPeer, played: &mut Played) {
        for request in peer.begun() {
            if !self.begun {
                self.begun = true;
                self.plan(played.begin(self.case), request);
            }
            self.plan(played.answer(self.case), request);
        }
        for told in peer.told() {
            played.seen.insert(match told {
                Told::Close(code) => (Sight::Close, code),
                Told::Stop(code) => (Sight::Stop, code),
            });
        }
    }

    /// Does the next step, which leaves in a datagram of its own. False where there is none, or QUIC does not
    /// take all of it yet.
    pub fn go_on(&mut self, now: Instant, peer: &mut QuicPeer) -> bool {
        let Some(&(step, request)) = self.due.front() else {
            return false;
        };
        let stream = |number| {
            if number == 0 {
                request
            } else {
                stream_id(number)
            }
        };
        match step {
            Step::Say(number, bytes, end) => {
                let taken = peer.write(stream(*number), &bytes.0[self.taken..]);
                self.taken += taken;
                if self.taken < bytes.0.len() {
                    return taken > 0;
                }
                self.taken = 0;
                if *end {
                    peer.finish(stream(*number));
                }
            }
            Step::Reset(number, code) => peer.reset(stream(*number), *code),
            Step::Stop(number, code) => peer.stop(stream(*number), *code),
            Step::Close(code) => peer.close(now, *code),
        }
        self.due.pop_front();
        true
    }

    fn plan(&mut self, steps: &'static [Step], request: StreamId) {
        self.due.extend(steps.iter().map(|step| (step, request)));
    }
}
