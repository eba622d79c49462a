//! System calls that no safe library offers.
#![allow(unsafe_code)]

use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};

/// What the kernel counted on one TCP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TcpInfo {
    pub(crate) segments_sent: u32,
    pub(crate) segments_received: u32,
    pub(crate) retransmits: u32,
    pub(crate) rtt_us: u32,
    pub(crate) path_mtu: u32,
}

/// Reads TCP_INFO; `None` where the socket has none.
pub(crate) fn tcp_info(fd: BorrowedFd<'_>) -> Option<TcpInfo> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `info` is a writable buffer of `length` bytes, and `fd` is open for the call.
    let status = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut length,
        )
    };
    if status != 0 {
        return None;
    }
    // SAFETY: every field of `tcp_info` is an integer, and the buffer was zeroed before the kernel
    // filled its front, so all of it is initialised.
    let info = unsafe { info.assume_init() };
    Some(TcpInfo {
        segments_sent: info.tcpi_segs_out,
        segments_received: info.tcpi_segs_in,
        retransmits: info.tcpi_total_retrans,
        rtt_us: info.tcpi_rtt,
        path_mtu: info.tcpi_pmtu,
    })
}
