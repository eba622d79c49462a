//! What can be told about a connection.

use std::time::Duration;

use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionStats, VarInt, coding::Codec};

/// The peer's transport parameters (RFC 9000 §18.2); defaults where it sent none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerParameters {
    /// max_idle_timeout, in milliseconds; 0 for none.
    pub max_idle_timeout: u64,
    /// max_udp_payload_size, in bytes.
    pub max_udp_payload_size: u64,
    /// initial_max_data, in bytes.
    pub initial_max_data: u64,
    /// initial_max_stream_data_bidi_remote, in bytes: what we may send on a request stream.
    pub initial_max_stream_data_bidi_remote: u64,
    /// initial_max_stream_data_uni, in bytes.
    pub initial_max_stream_data_uni: u64,
    /// initial_max_streams_bidi: the requests that may be outstanding.
    pub initial_max_streams_bidi: u64,
    /// initial_max_streams_uni.
    pub initial_max_streams_uni: u64,
    /// ack_delay_exponent.
    pub ack_delay_exponent: u64,
    /// max_ack_delay, in milliseconds.
    pub max_ack_delay: u64,
    /// active_connection_id_limit.
    pub active_connection_id_limit: u64,
}

impl PeerParameters {
    /// quinn-proto keeps the fields to itself but writes them as they stand on the wire.
    pub(super) fn read(parameters: &TransportParameters) -> Self {
        let mut wire = Vec::new();
        parameters.write(&mut wire);
        let mut wire = &wire[..];
        // What quinn-proto leaves out has its default value.
        let mut read = Self {
            max_udp_payload_size: 65527,
            ack_delay_exponent: 3,
            max_ack_delay: 25,
            active_connection_id_limit: 2,
            ..Self::default()
        };
        while let (Ok(id), Ok(length)) = (VarInt::decode(&mut wire), VarInt::decode(&mut wire)) {
            let length = (length.into_inner() as usize).min(wire.len());
            let (mut value, rest) = wire.split_at(length);
            wire = rest;
            let field = match id.into_inner() {
                0x01 => &mut read.max_idle_timeout,
                0x03 => &mut read.max_udp_payload_size,
                0x04 => &mut read.initial_max_data,
                0x06 => &mut read.initial_max_stream_data_bidi_remote,
                0x07 => &mut read.initial_max_stream_data_uni,
                0x08 => &mut read.initial_max_streams_bidi,
                0x09 => &mut read.initial_max_streams_uni,
                0x0a => &mut read.ack_delay_exponent,
                0x0b => &mut read.max_ack_delay,
                0x0e => &mut read.active_connection_id_limit,
                _ => continue,
            };
            if let Ok(number) = VarInt::decode(&mut value) {
                *field = number.into_inner();
            }
        }
        read
    }
}

/// What a connection has counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// The smallest round-trip time.
    pub min_rtt: Duration,
    /// Congestion window, in bytes.
    pub congestion_window: u64,
    /// Times that the congestion window was cut.
    pub congestion_events: u64,
    /// Largest UDP payload that the path takes, in bytes.
    pub mtu: u16,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets declared lost, path MTU probes apart.
    pub lost_packets: u64,
    /// Bytes of lost packets.
    pub lost_bytes: u64,
    /// Path MTU probes sent.
    pub mtu_probes: u64,
    /// UDP datagrams sent.
    pub sent_datagrams: u64,
    /// Bytes of UDP payload sent.
    pub sent_bytes: u64,
    /// UDP datagrams received.
    pub received_datagrams: u64,
    /// Bytes of UDP payload received.
    pub received_bytes: u64,
    /// ACK frames received.
    pub received_acks: u64,
    /// ACK frames sent.
    pub sent_acks: u64,
    /// ACK_FREQUENCY frames sent: none where the peer does not know them.
    pub sent_ack_frequency: u64,
    /// STREAM frames received.
    pub received_stream_frames: u64,
}

impl From<ConnectionStats> for Stats {
    fn from(stats: ConnectionStats) -> Self {
        Self {
            rtt: stats.path.rtt,
            min_rtt: stats.path.min_rtt,
            congestion_window: stats.path.cwnd,
            congestion_events: stats.path.congestion_events,
            mtu: stats.path.current_mtu,
            sent_packets: stats.path.sent_packets,
            lost_packets: stats.path.lost_packets,
            lost_bytes: stats.path.lost_bytes,
            mtu_probes: stats.path.sent_plpmtud_probes,
            sent_datagrams: stats.udp_tx.datagrams,
            sent_bytes: stats.udp_tx.bytes,
            received_datagrams: stats.udp_rx.datagrams,
            received_bytes: stats.udp_rx.bytes,
            received_acks: stats.frame_rx.acks,
            sent_acks: stats.frame_tx.acks,
            sent_ack_frequency: stats.frame_tx.ack_frequency,
            received_stream_frames: stats.frame_rx.stream,
        }
    }
}
