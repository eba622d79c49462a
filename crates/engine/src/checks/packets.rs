//! What is asked of QUIC, checked.

use trilane_transport::quic::LARGEST_PROBE;

use crate::options::{Options, Version};
use crate::plan::{PlanError, given, usage};

/// What is QUIC's own is for HTTP/3.
pub(super) fn check_quic(options: &Options, version: Option<Version>) -> Result<(), PlanError> {
    let asked = given(&[
        (
            "--quic-initial-packet-size",
            options.quic_initial_packet_size.is_some(),
        ),
        ("--quic-ack-frequency", options.quic_ack_frequency.is_some()),
        ("--quic-mtu-discovery off", !options.quic_mtu_discovery),
    ]);
    if let Some(flag) = asked.filter(|_| version != Some(Version::H3)) {
        return usage(format!(
            "{flag} is about QUIC, which HTTP/3 alone goes over: type it with --h3"
        ));
    }
    // RFC 9000 §14.1, and what an Ethernet frame has room for behind IPv6 and UDP.
    let (least, most) = (1200, u32::from(LARGEST_PROBE));
    match options.quic_initial_packet_size {
        Some(size) if !(least..=most).contains(&size) => usage(format!(
            "--quic-initial-packet-size {size} is not between {least} and {most} bytes: type --quic-initial-packet-size {most}"
        )),
        _ if options.quic_ack_frequency == Some(0) => usage(
            "--quic-ack-frequency 0 acknowledges nothing: type --quic-ack-frequency 1 for each packet",
        ),
        _ => Ok(()),
    }
}
