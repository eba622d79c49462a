//! What happens on UDP sockets that connections share.

use std::io;
use std::mem;

use super::Worker;
use crate::io::Completion;
use crate::run::RunError;

impl Worker<'_> {
    /// Whether a socket that connections share is in this place.
    #[inline]
    pub(super) fn is_shared(&self, place: u32) -> bool {
        let shared = self.context.shared.as_ref();
        shared.is_some_and(|shared| shared.is_at(place))
    }

    /// Lets the links on a shared socket take what has happened on it.
    pub(super) fn turn_of_several(
        &mut self,
        socket: u32,
        completion: Completion,
    ) -> Result<(), RunError> {
        match completion {
            Completion::Datagrams => self.hand_out(socket),
            Completion::Room => self.tell_all(socket, || Completion::Room),
            Completion::Unreachable => self.tell_all(socket, || Completion::Unreachable),
            Completion::NoDatagrams(error) => {
                let (kind, told) = (error.kind(), error.to_string());
                let again = || Completion::NoDatagrams(io::Error::new(kind, told.clone()));
                let outcome = self.tell_all(socket, again);
                if let Some(shared) = &mut self.context.shared {
                    shared.close(socket, &mut *self.context.system);
                }
                outcome
            }
            Completion::Connected(_)
            | Completion::Received(_)
            | Completion::Discarded(_)
            | Completion::End
            | Completion::Failed(_) => Ok(()),
        }
    }

    /// Tells each link on a socket of something that concerns all of them.
    fn tell_all(
        &mut self,
        socket: u32,
        completion: impl Fn() -> Completion,
    ) -> Result<(), RunError> {
        for place in 0..self.links.len() {
            let link = &mut self.links[place];
            if link.is_on(socket) {
                let outcome = link.on_completion(completion(), &mut self.context);
                self.after(place as u32, outcome)?;
            }
        }
        Ok(())
    }

    /// Hands out the datagrams that one read of a socket brought, each to the link that it is for, and has those
    /// links look at them.
    fn hand_out(&mut self, socket: u32) -> Result<(), RunError> {
        let (context, links) = (&mut self.context, &mut self.links);
        let Some(shared) = &mut context.shared else {
            return Ok(());
        };
        let now = context.system.now();
        let mut handed = mem::take(&mut shared.handed);
        while let Some(batch) = context.system.datagrams() {
            shared.receive(socket, now, batch, |place, datagram| {
                if links[place as usize].take(datagram) {
                    handed.push(place);
                }
            });
        }
        for place in handed.drain(..) {
            let has_to_answer = links[place as usize].look(now, context);
            if let Some(shared) = context.shared.as_mut().filter(|_| has_to_answer) {
                shared.unanswered.push(place);
            }
        }
        if let Some(shared) = &mut context.shared {
            shared.handed = handed;
        }
        Ok(())
    }

    /// Answers the datagrams of shared sockets, when these have no more of them.
    pub(super) fn answer_several(&mut self) -> Result<(), RunError> {
        let Some(shared) = &mut self.context.shared else {
            return Ok(());
        };
        let mut unanswered = mem::take(&mut shared.unanswered);
        for place in unanswered.drain(..) {
            let now = self.context.now();
            let outcome = self.links[place as usize].pump(now, &mut self.context);
            self.after(place, outcome)?;
        }
        if let Some(shared) = &mut self.context.shared {
            shared.unanswered = unanswered;
        }
        Ok(())
    }
}
