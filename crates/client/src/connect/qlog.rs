//! What QUIC connections write for whoever debugs them, where `QLOGDIR` says so.

use std::fs::OpenOptions;
use std::io::{ErrorKind, LineWriter};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, process};

use trilane_transport::quic;

use crate::{Error, Kind};

/// The folder, by the name that curl and quiche have for it.
const FOLDER: &str = "QLOGDIR";
/// Connections of this process that wrote one.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The configuration for one connection, which writes a file of its own where it is asked for.
///
/// Only its user may read the file: it tells whom we talk to, and when.
pub(super) fn logged(config: quic::Config, title: &str) -> Result<quic::Config, Error> {
    let Some(folder) = env::var_os(FOLDER).filter(|folder| !folder.is_empty()) else {
        return Ok(config);
    };
    let folder = PathBuf::from(folder);
    let began = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis();
    let file = loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("trilane-{began}-{}-{count}.sqlog", process::id());
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(folder.join(name));
        match made {
            Ok(file) => break file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => (),
            Err(error) => {
                let folder = folder.display();
                let message = format!(
                    "{FOLDER}={folder}: no file can be made there ({error}): name a folder that can be written to"
                );
                return Err(Error::new(Kind::Local, message));
            }
        }
    };
    // A record at a time: a program that is killed leaves what it had so far.
    config
        .logged(Box::new(LineWriter::new(file)), title.into())
        .map_err(|error| Error::new(Kind::Local, error.to_string()))
}
