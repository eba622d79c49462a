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

#[cfg(test)]
mod tests {
    use std::{net::UdpSocket, time::Duration};

    use socket2::{Domain, Socket, Type};

    use super::*;

    fn join(address: &str) -> UdpSocket {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        socket.set_reuse_port(true).unwrap();
        let address: std::net::SocketAddr = address.parse().unwrap();
        socket.bind(&address.into()).unwrap();
        let socket = UdpSocket::from(socket);
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        socket
    }

    #[test]
    fn both_kinds_of_packet_go_where_their_connection_id_says() {
        let first = join("127.0.0.1:0");
        let address = first.local_addr().unwrap().to_string();
        let group = [first, join(&address), join(&address)];
        steer_by_connection_id(&group[0], 3).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for id in 0..=255 {
            let long = [0xc3, 0, 0, 0, 1, 8, id, 0, 0, 0, 0, 0, 0, 0];
            let short = [0x43, id, 0, 0, 0, 0, 0, 0, 0];
            for packet in [&long[..], &short] {
                client.send_to(packet, &address).unwrap();
                let mut bytes = [0; 20];
                let length = group[usize::from(id) % 3].recv(&mut bytes).unwrap();
                assert_eq!(&bytes[..length], packet);
            }
        }
        // Too short to have a connection id: anywhere, but no harm done.
        client.send_to(&[0xc0], &address).unwrap();
    }
}
