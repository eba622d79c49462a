//! System calls that no safe library offers.
#![allow(unsafe_code)]

use std::mem::{MaybeUninit, size_of, size_of_val};
use std::os::fd::{AsRawFd, BorrowedFd};

/// What the kernel counted on one TCP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TcpInfo {
    pub(crate) segments_sent: u32,
    pub(crate) segments_received: u32,
    pub(crate) retransmits: u32,
    pub(crate) rtt_us: u32,
    /// `u32::MAX` before anything was measured.
    pub(crate) min_rtt_us: u32,
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
        min_rtt_us: info.tcpi_min_rtt,
        path_mtu: info.tcpi_pmtu,
    })
}

/// Ticks in a second of what `/proc/stat` tells (proc_stat(5)).
pub(crate) fn clock_ticks_per_s() -> Option<f64> {
    // SAFETY: it takes a number and returns one.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    (ticks > 0).then_some(ticks as f64)
}

/// Bytes that TCP was given and the peer has not acknowledged (SIOCOUTQ); `None` where the kernel does not
/// tell.
pub(crate) fn unacknowledged(fd: BorrowedFd<'_>) -> Option<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ, which SIOCOUTQ is another name of, writes one int, and `fd` is open for the call.
    let status = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
    (status == 0).then(|| u64::try_from(bytes).ok()).flatten()
}

/// Datagrams that the kernel dropped because the buffer of the socket was full (SO_MEMINFO), since the
/// socket was made; `None` where the kernel does not tell.
pub(crate) fn dropped_datagrams(fd: BorrowedFd<'_>) -> Option<u32> {
    // What it counts, by the index of `include/uapi/linux/sock_diag.h`.
    const DROPS: usize = 8;
    let mut counts = [0u32; DROPS + 1];
    let mut length = size_of_val(&counts) as libc::socklen_t;
    // SAFETY: `counts` is a writable buffer of `length` bytes, and `fd` is open for the call.
    let status = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            counts.as_mut_ptr().cast(),
            &mut length,
        )
    };
    let told = status == 0 && length as usize == size_of_val(&counts);
    told.then(|| counts[DROPS])
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn datagrams_that_found_no_room_are_counted_by_socket() {
        let full = UdpSocket::bind("127.0.0.1:0").unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&full, 4096).unwrap();
        for _ in 0..100 {
            other
                .send_to(&[0; 1000], full.local_addr().unwrap())
                .unwrap();
        }
        let drops = dropped_datagrams(full.as_fd()).unwrap();
        full.set_nonblocking(true).unwrap();
        let mut kept = 0;
        while full.recv(&mut [0; 1000]).is_ok() {
            kept += 1;
        }
        assert_eq!(drops + kept, 100);
        assert!(drops > 0);
        assert_eq!(dropped_datagrams(other.as_fd()), Some(0));
    }
}
