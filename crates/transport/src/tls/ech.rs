//! Encrypted Client Hello (RFC 9849): the name of the server is told to that server alone.

use std::sync::{Mutex, PoisonError};

use rustls::PeerIncompatible;
use rustls::client::{EchConfig, EchMode};
use rustls::crypto::aws_lc_rs::hpke::ALL_SUPPORTED_SUITES;
use rustls::internal::msgs::codec::Codec;
use rustls_pki_types::EchConfigListBytes;

use super::Error;

/// What a server said that could not open the hello: its own ECHConfigList, where it sent one.
pub(super) type Retry = Option<Vec<u8>>;

/// Whether a server has rejected what one configuration offers.
#[derive(Debug, Default)]
pub(super) struct Rejection(Mutex<Option<Retry>>);

impl Rejection {
    pub(super) fn retry(&self) -> Option<Retry> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Looks for it in the error of a handshake, whose certificate was for the public name.
    pub(super) fn notice(&self, error: &rustls::Error) {
        let rustls::Error::PeerIncompatible(PeerIncompatible::ServerRejectedEncryptedClientHello(
            configs,
        )) = error
        else {
            return;
        };
        let list = configs.as_ref().map(Codec::get_encoding);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(list);
    }
}

/// The first of the configurations in an ECHConfigList that we know how to use.
pub(super) fn mode(list: &[u8]) -> Result<EchMode, Error> {
    EchConfig::new(EchConfigListBytes::from(list), ALL_SUPPORTED_SUITES)
        .map(EchMode::from)
        .map_err(|error| {
            Error(format!(
                "the server's configuration of Encrypted Client Hello cannot be used: {error}"
            ))
        })
}
