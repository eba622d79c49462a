//! What serving cost.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeVal,
};

/// What a running server has counted so far; it can be asked from any thread, also once the server
/// has stopped.
#[derive(Clone)]
pub struct Counts(pub(crate) Vec<Arc<Tally>>);

impl Counts {
    /// Requests received.
    pub fn requests(&self) -> u64 {
        self.0
            .iter()
            .map(|tally| tally.requests.load(Relaxed))
            .sum()
    }

    /// Connections that came to where requests may be sent, behind their handshake.
    pub fn connections(&self) -> u64 {
        let counted = self.0.iter().map(|tally| tally.connections.load(Relaxed));
        counted.sum()
    }
}

/// What one worker has counted: only that worker writes, so that no locked instruction is needed.
#[derive(Default)]
pub(crate) struct Tally {
    requests: AtomicU64,
    connections: AtomicU64,
}

impl Tally {
    pub(crate) fn count_request(&self) {
        self.requests
            .store(self.requests.load(Relaxed) + 1, Relaxed);
    }

    pub(crate) fn count_connection(&self) {
        let before = self.connections.load(Relaxed);
        self.connections.store(before + 1, Relaxed);
    }
}

/// What a server has used up, read when it stops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Processor time of the whole process in user mode, in seconds.
    pub user_s: f64,
    /// Processor time of the whole process in the kernel, in seconds.
    pub system_s: f64,
    /// Requests received.
    pub requests: u64,
    /// Datagrams that the kernel dropped because our receive buffers were full. `None` where the
    /// kernel does not tell.
    pub udp_receive_drops: Option<u64>,
}

impl Cost {
    pub(crate) fn read(requests: u64, udp_receive_drops: Option<u64>) -> Self {
        let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6;
        let (user_s, system_s) = getrusage(UsageWho::RUSAGE_SELF).map_or((0.0, 0.0), |usage| {
            (seconds(usage.user_time()), seconds(usage.system_time()))
        });
        Self {
            user_s,
            system_s,
            requests,
            udp_receive_drops,
        }
    }
}

/// Datagrams dropped so far by all sockets of this network namespace on a local UDP port.
pub(crate) fn udp_receive_drops(port: u16) -> Option<u64> {
    let tables: Vec<u64> = ["/proc/self/net/udp", "/proc/self/net/udp6"]
        .iter()
        .filter_map(|table| Some(sum_drops(&fs::read_to_string(table).ok()?, port)))
        .collect();
    (!tables.is_empty()).then(|| tables.iter().sum())
}

/// Adds the last column of the rows whose local address, the second, ends in this port.
fn sum_drops(table: &str, port: u16) -> u64 {
    let ending = format!(":{port:04X}");
    table
        .lines()
        .skip(1)
        .filter(|row| {
            row.split_ascii_whitespace()
                .nth(1)
                .is_some_and(|local| local.ends_with(&ending))
        })
        .filter_map(|row| row.split_ascii_whitespace().last()?.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_one_port_are_added() {
        let table = "  sl  local_address rem_address st tx rx tr tm retr uid timeout inode ref pointer drops\n\
            1: 0100007F:20FB 00000000:0000 07 0:0 00:0 0 0 0 5001 2 0000000000000000 7\n\
            2: 0100007F:20FB 00000000:0000 07 0:0 00:0 0 0 0 5002 2 0000000000000000 5\n\
            3: 0100007F:20FC 00000000:20FB 07 0:0 00:0 0 0 0 5003 2 0000000000000000 9\n";
        assert_eq!(sum_drops(table, 8443), 12);
        assert_eq!(sum_drops(table, 8445), 0);
    }
}
