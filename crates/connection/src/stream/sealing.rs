//! From the codec through TLS to what is sent.

use std::mem;

use trilane_transport::tls;

use super::Stream;
use crate::phase::{Over, Phase};
use crate::queue::SendQueue;

/// The most early data that is sent, in bytes, as it is kept to be sent again; servers take 16 KiB or
/// less unless told otherwise.
const EARLY_DATA: usize = 64 * 1024;

impl Stream {
    /// Moves what the codec has written through TLS.
    pub(super) fn seal(&mut self) -> Result<(), Over> {
        if !self.is_intact() {
            self.plain.abandon();
        }
        if self.phase != Phase::Open {
            self.seal_early();
            return Ok(());
        }
        let Some(session) = &mut self.tls else {
            return Ok(());
        };
        move_through(session, &mut self.plain, &mut self.queue)
    }

    /// Moves what the codec has written through TLS as early data, as far as that goes. The rest waits
    /// for the end of the handshake.
    fn seal_early(&mut self) {
        let Self {
            tls: Some(session),
            plain,
            queue,
            early,
            ..
        } = self
        else {
            return;
        };
        while !plain.is_empty() && early.len() < EARLY_DATA {
            let out = queue.tail();
            let (_, taken) = plain.front(EARLY_DATA - early.len(), |plaintext| {
                let taken = session.send_early(plaintext, out);
                early.extend_from_slice(&plaintext[..taken]);
                taken
            });
            if taken == 0 {
                return;
            }
            queue.take_sealed(plain, taken);
        }
    }

    /// Sends once more what has gone in early data that the server has rejected: it has not read any
    /// of it (RFC 8446 §4.2.10).
    pub(super) fn repeat_early_data(&mut self) -> Result<(), Over> {
        let early = mem::take(&mut self.early);
        match &mut self.tls {
            Some(session) if !early.is_empty() && !session.took_early_data() => {
                session.send(&early, self.queue.tail()).map_err(Over::Tls)
            }
            _ => Ok(()),
        }
    }
}

/// Moves all of `plain` through TLS into `queue`.
pub(super) fn move_through(
    session: &mut tls::Session,
    plain: &mut SendQueue,
    queue: &mut SendQueue,
) -> Result<(), Over> {
    while !plain.is_empty() {
        let out = queue.tail();
        let (record, sealed) = plain.front(tls::RECORD_PLAINTEXT, |plaintext| {
            session.send(plaintext, out)
        });
        if let Err(error) = sealed {
            plain.abandon();
            return Err(Over::Tls(error));
        }
        queue.take_sealed(plain, record);
    }
    Ok(())
}
