//! What passed, in a file that Wireshark and tcpdump read.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Nanos;

/// Instants in nanoseconds, and IP packets without a header below (draft-ietf-opsawg-pcap §4).
const MAGIC: u32 = 0xA1B2_3C4D;
const LINKTYPE_RAW: u32 = 101;
/// Bytes of a packet that are kept: all of them.
const SNAPLEN: u32 = 65_535;

/// A file in the format of libpcap.
#[derive(Debug)]
pub(crate) struct Recording {
    file: BufWriter<File>,
    /// When the network's clock began.
    begun: Duration,
}

impl Recording {
    /// Begins a file; `now` is the instant of the network.
    pub(crate) fn new(file: File, now: Nanos) -> io::Result<Self> {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let mut file = BufWriter::new(file);
        file.write_all(&MAGIC.to_ne_bytes())?;
        for version in [2u16, 4] {
            file.write_all(&version.to_ne_bytes())?;
        }
        for field in [0, 0, SNAPLEN, LINKTYPE_RAW] {
            file.write_all(&field.to_ne_bytes())?;
        }
        let begun = wall.saturating_sub(Duration::from_nanos(now));
        Ok(Self { file, begun })
    }

    /// The network's clock begins anew, at what was `now`.
    pub(crate) fn begin_anew(&mut self, now: Nanos) {
        self.begun += Duration::from_nanos(now);
    }

    /// Notes a packet that arrived at `at`.
    pub(crate) fn note(&mut self, at: Nanos, packet: &[u8]) -> io::Result<()> {
        let at = self.begun + Duration::from_nanos(at);
        let length = packet.len() as u32;
        for field in [at.as_secs() as u32, at.subsec_nanos(), length, length] {
            self.file.write_all(&field.to_ne_bytes())?;
        }
        self.file.write_all(packet)
    }

    /// Writes what is not written yet.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.file.flush()
    }
}
