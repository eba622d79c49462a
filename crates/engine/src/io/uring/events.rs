//! What the ring tells, as completions of the worker's.

use std::time::Instant;

use rustix::io::Errno;
use trilane_connection::HEADROOM;
use trilane_ring::{Event, Interest, Received, Token};
use trilane_socket::{Moved, stream};

use super::{Kept, Last, Purpose, Task, Uring, known, note, parts, recycle};
use crate::io::Completion;
use crate::io::socket::{Socket, read_datagrams};

impl Uring {
    /// What an event comes to; `None` where it comes to nothing yet.
    #[inline]
    pub(super) fn take(&mut self, event: Event, moved: &mut Moved) -> Option<(u32, Completion)> {
        match event {
            Event::Received {
                token,
                received,
                armed,
            } => {
                let (_, place, generation) = parts(token);
                self.received_for(place, generation, received, armed, moved)
            }
            Event::Sent { bytes, sent, token } => {
                let (_, place, generation) = parts(token);
                self.sent_for(place, generation, bytes, sent)
            }
            Event::Ready { token, armed } => self.ready(token, armed, moved),
        }
    }

    #[inline]
    fn received_for(
        &mut self,
        place: u32,
        generation: u32,
        received: Received,
        armed: bool,
        moved: &mut Moved,
    ) -> Option<(u32, Completion)> {
        let Some(open) = known(&mut self.places, place, generation) else {
            if let Received::Bytes(filled) = received {
                self.ring.give_back(filled);
            }
            return None;
        };
        open.receiving = armed;
        let in_order = !open.held && open.kept.is_empty();
        let kept = match received {
            Received::Bytes(filled) => {
                moved.bytes += filled.len() as u64;
                if in_order {
                    let length = filled.len();
                    self.last = Last::Filled(filled);
                    if !armed {
                        self.receive_later(place);
                    }
                    return Some((place, Completion::Received(length)));
                }
                let bytes = self.ring.bytes(&filled)[HEADROOM..].to_vec();
                self.ring.give_back(filled);
                Kept::Bytes(bytes)
            }
            Received::Failed(Errno::NOBUFS | Errno::CANCELED) => {
                self.receive_later(place);
                return None;
            }
            Received::End if in_order => return Some((place, Completion::End)),
            Received::Failed(error) if in_order => return Some((place, Completion::Failed(error))),
            Received::End => Kept::End,
            Received::Failed(error) => Kept::Failed(error),
        };
        if let Some(open) = known(&mut self.places, place, generation) {
            open.kept.push_back(kept);
        }
        None
    }

    fn sent_for(
        &mut self,
        place: u32,
        generation: u32,
        mut bytes: Vec<u8>,
        sent: Result<usize, Errno>,
    ) -> Option<(u32, Completion)> {
        let token = self.token(place, Purpose::Stream);
        let Some(open) = known(&mut self.places, place, generation) else {
            recycle(&mut self.spare, bytes);
            return None;
        };
        open.sending = false;
        match sent {
            Ok(count) => {
                bytes.drain(..count);
                bytes.append(&mut open.waiting);
            }
            Err(_) => {
                open.broken = true;
                open.waiting.clear();
                bytes.clear();
            }
        }
        if bytes.is_empty() {
            recycle(&mut self.spare, bytes);
        } else {
            open.sending = true;
            note(&mut self.lost, self.ring.send(&open.socket, bytes, token));
        }
        let room = std::mem::replace(&mut open.refused, false);
        room.then_some((place, Completion::Room))
    }

    fn ready(&mut self, token: Token, armed: bool, moved: &mut Moved) -> Option<(u32, Completion)> {
        let (purpose, place, generation) = parts(token);
        if purpose == Purpose::Lingering {
            self.linger(token);
            return None;
        }
        let open = known(&mut self.places, place, generation)?;
        match purpose {
            Purpose::Connect => {
                let Socket::Stream { fd, is_connected } = &mut open.socket else {
                    return None;
                };
                *is_connected = true;
                moved.calls += 1;
                let outcome = stream::connect_error(fd);
                if outcome.is_ok() {
                    self.receive_later(place);
                }
                Some((place, Completion::Connected(outcome)))
            }
            Purpose::Room => {
                open.refused = false;
                Some((place, Completion::Room))
            }
            Purpose::Datagrams => {
                if !armed {
                    let token = self.token(place, Purpose::Datagrams);
                    let open = known(&mut self.places, place, generation)?;
                    note(
                        &mut self.lost,
                        self.ring.poll_each_time(&open.socket, token),
                    );
                }
                self.tasks.push_back(Task {
                    place,
                    generation,
                    reads: 0,
                    done: false,
                });
                None
            }
            Purpose::Stream | Purpose::Lingering => None,
        }
    }

    /// Has a connection that is over read on.
    pub(super) fn linger(&mut self, token: Token) {
        let index = self.lingering.iter().position(|(other, _)| *other == token);
        if let Some(index) = index
            && !(self.lingering[index].1.advance(Instant::now()) && self.watch(index))
        {
            self.lingering.swap_remove(index);
        }
    }

    /// Waits for what a connection that is over can go on with.
    pub(super) fn watch(&mut self, index: usize) -> bool {
        let (token, lingering) = &self.lingering[index];
        let interest = if lingering.wants_room() {
            Interest::Both
        } else {
            Interest::Read
        };
        self.ring.poll(lingering, interest, *token).is_ok()
    }

    /// Reads datagrams of a socket, or tells of bytes that were kept.
    pub(super) fn carry_out(&mut self, task: &mut Task, moved: &mut Moved) -> Option<Completion> {
        let place = &mut self.places[task.place as usize];
        let open = place.open.as_mut()?;
        task.reads += 1;
        if let Socket::Datagrams(socket) = &open.socket {
            let (completion, more) = read_datagrams(socket, &mut self.inbox, moved)?;
            task.done = !more;
            return Some(completion);
        }
        if open.held {
            return None;
        }
        match open.kept.pop_front() {
            Some(Kept::Bytes(bytes)) => {
                self.kept.resize(HEADROOM, 0);
                self.kept.extend_from_slice(&bytes);
                self.last = Last::Kept;
                Some(Completion::Received(bytes.len()))
            }
            Some(Kept::End) => Some(Completion::End),
            Some(Kept::Failed(error)) => Some(Completion::Failed(error)),
            None => {
                self.receive_later(task.place);
                None
            }
        }
    }

    /// Hands over what a place has to send. False where it has not all gone.
    pub(super) fn settle(&mut self, place: u32) -> bool {
        let generation = self.places[place as usize].generation;
        let mine = (Purpose::Stream, place, generation);
        loop {
            let open = known(&mut self.places, place, generation);
            if !open.is_some_and(|open| open.sending) {
                return true;
            }
            // What the socket takes is sent at once.
            if self.ring.submit().is_err() {
                return false;
            }
            loop {
                match self.ring.next() {
                    Some(Event::Sent { bytes, sent, token }) if parts(token) == mine => {
                        // Room is nobody's concern on a connection that ends.
                        let _ = self.sent_for(place, generation, bytes, sent);
                        break;
                    }
                    Some(event) => self.early.push_back(event),
                    None => return false,
                }
            }
        }
    }
}
