//! The one system call that no library wraps: steering QUIC packets to workers.
#![allow(unsafe_code)]

use std::{io, mem, os::fd::AsRawFd};

use nix::libc;

/// Makes the kernel give each datagram of a `SO_REUSEPORT` group to the socket whose position in
/// the group is the first byte of the destination connection id, modulo `sockets`.
///
/// Without it the kernel hashes addresses, and all connections of a client that keeps them on one
/// UDP socket would end on one worker.
pub(crate) fn steer_by_connection_id(socket: &impl AsRawFd, sockets: u32) -> io::Result<()> {
    let code = |op: u32, jt, jf, k| libc::sock_filter {
        // The opcodes are all below 2^16 by definition of classic BPF.
        code: op as u16,
        jt,
        jf,
        k,
    };
    let load = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
    // RFC 9000 section 17: the top bit of the first byte tells long headers (connection id after
    // version and length, at byte 6) from short ones (connection id at byte 1).
    let mut program = [
        code(load, 0, 0, 0),
        code(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 2, 0x80),
        code(load, 0, 0, 6),
        code(libc::BPF_JMP | libc::BPF_JA, 0, 0, 1),
        code(load, 0, 0, 1),
        code(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, 0, 0, sockets),
        code(libc::BPF_RET | libc::BPF_A, 0, 0, 0),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: `filter` points at `program`, both live across the call, and its length is right;
    // the kernel copies the program and checks it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const filter).cast(),
            mem::size_of_val(&filter) as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
