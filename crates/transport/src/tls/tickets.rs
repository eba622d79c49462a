//! The sessions that a client may resume, of all connections that share a configuration.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls_pki_types::ServerName;

/// Servers of which sessions of TLS 1.2 and key exchange groups are kept, times rustls' eight.
const SESSIONS: usize = 256;

/// Tickets of TLS 1.3 that are kept, over all servers. rustls would keep eight of each server, which
/// are too few where hundreds of connections to one are replaced at a time.
const TICKETS: usize = 4096;

/// Where tickets are kept. Each serves one connection: whoever sees a ticket used twice knows that
/// both are of one client (RFC 8446 appendix C.4), and a server that takes early data has to refuse
/// the second (RFC 8446 §8.1).
pub(super) struct Tickets {
    others: ClientSessionMemoryCache,
    /// The newest last.
    tls13: Mutex<VecDeque<(ServerName<'static>, Tls13ClientSessionValue)>>,
}

impl Tickets {
    pub(super) fn new() -> Self {
        Self {
            others: ClientSessionMemoryCache::new(SESSIONS),
            tls13: Mutex::new(VecDeque::new()),
        }
    }

    fn tls13(&self) -> MutexGuard<'_, VecDeque<(ServerName<'static>, Tls13ClientSessionValue)>> {
        // Each call leaves whole tickets behind, whatever becomes of its thread.
        self.tls13.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Tickets are secrets.
        f.debug_struct("Tickets").finish_non_exhaustive()
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        self.others.set_kx_hint(server_name, group);
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.others.kx_hint(server_name)
    }

    fn set_tls12_session(&self, server_name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.others.set_tls12_session(server_name, value);
    }

    fn tls12_session(&self, server_name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.others.tls12_session(server_name)
    }

    fn remove_tls12_session(&self, server_name: &ServerName<'static>) {
        self.others.remove_tls12_session(server_name);
    }

    fn insert_tls13_ticket(
        &self,
        server_name: ServerName<'static>,
        value: Tls13ClientSessionValue,
    ) {
        let mut tickets = self.tls13();
        if tickets.len() == TICKETS {
            tickets.pop_front();
        }
        tickets.push_back((server_name, value));
    }

    fn take_tls13_ticket(
        &self,
        server_name: &ServerName<'static>,
    ) -> Option<Tls13ClientSessionValue> {
        let mut tickets = self.tls13();
        let newest = tickets.iter().rposition(|(name, _)| name == server_name)?;
        tickets.remove(newest).map(|(_, ticket)| ticket)
    }
}
