//! The system calls that make a network: namespaces, TUN interfaces and their addresses.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// Gives the calling thread a network namespace of its own, with a loopback interface that is down.
pub(crate) fn new_network_namespace() -> io::Result<()> {
    Ok(nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)?)
}

/// Gives the process a user namespace of its own, in which it may make others, and is who it was.
///
/// Only a process of one thread may ask for this.
pub(crate) fn new_user_namespace() -> io::Result<()> {
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER)?;
    // user_namespaces(7): without it an unprivileged process may not say which group it is.
    std::fs::write("/proc/self/setgroups", "deny")?;
    for (file, id) in [("uid_map", user.as_raw()), ("gid_map", group.as_raw())] {
        std::fs::write(format!("/proc/self/{file}"), format!("{id} {id} 1"))?;
    }
    Ok(())
}

/// A TUN interface in the namespace of the calling thread: whoever holds the file reads the IP
/// packets that leave through the interface, one at a time, and writes those that arrive there.
pub(crate) fn tun(name: &str) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    control(file.as_fd(), libc::TUNSETIFF, &request)?;
    Ok(file)
}

/// Gives an interface an address of a network of 256, and brings it up.
pub(crate) fn configure(name: &str, address: Ipv4Addr, mtu: usize) -> io::Result<()> {
    let socket = control_socket()?;
    let mut request = request(name);
    request.ifr_ifru.ifru_mtu = mtu as libc::c_int;
    control(socket.as_fd(), libc::SIOCSIFMTU, &request)?;
    for (asked, address) in [
        (libc::SIOCSIFADDR, address),
        (libc::SIOCSIFNETMASK, Ipv4Addr::new(255, 255, 255, 0)),
    ] {
        request.ifr_ifru.ifru_addr = socket_address(address);
        control(socket.as_fd(), asked, &request)?;
    }
    bring_up(name)
}

/// Brings an interface up.
pub(crate) fn bring_up(name: &str) -> io::Result<()> {
    let socket = control_socket()?;
    let mut request = request(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    control(socket.as_fd(), libc::SIOCSIFFLAGS, &request)
}

/// Gives what the calling thread starts next a namespace for processes: when that one ends, the
/// kernel ends all that descend from it.
pub(crate) fn new_process_namespace() -> io::Result<()> {
    Ok(nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWPID)?)
}

/// Puts a process before the one that the command will start, the first in their namespace.
///
/// It passes SIGTERM on, and ends as the program does, or with the thread that starts it. That it is
/// not the program itself lets this end as any other by a signal that it does not handle, which the
/// first process of a namespace does not (pid_namespaces(7)).
pub(crate) fn contain(command: &mut Command) {
    // SAFETY: between fork and exec the closure makes system calls alone, and allocates nothing.
    unsafe { command.pre_exec(|| fork_behind_guard()) };
}

/// Returns in the child of the calling process, which waits for it and never returns.
///
/// # Safety
/// Only a process with one thread, as between fork and exec, may call this.
unsafe fn fork_behind_guard() -> io::Result<()> {
    extern "C" fn pass_on(signal: libc::c_int) {
        // SAFETY: kill(2) may be called in a handler. -1 is all of the namespace but the caller.
        unsafe { libc::kill(-1, signal) };
    }
    // SAFETY: prctl(2), fork(2), signal(2), close_range(2), waitpid(2) and _exit(2) are called as
    // they are described; `status` lives while it is written to.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
            return Err(io::Error::last_os_error());
        }
        let child = match libc::fork() {
            -1 => return Err(io::Error::last_os_error()),
            0 => return Ok(()),
            child => child,
        };
        libc::signal(libc::SIGTERM, pass_on as *const () as libc::sighandler_t);
        // Among them is the one by which `spawn` learns that the program runs. The C library has had a
        // function for it since 2021 alone, and a program that names it does not start with an older one.
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
        let mut status = 0;
        loop {
            let ended = libc::waitpid(-1, &raw mut status, 0);
            if ended == child {
                let code = match libc::WIFEXITED(status) {
                    true => libc::WEXITSTATUS(status),
                    // As a shell says it.
                    false => 128 + libc::WTERMSIG(status),
                };
                libc::_exit(code);
            }
        }
    }
}

/// Lets the calling thread run before all that are not real-time (sched(7)), where that is allowed: to
/// root, and with CAP_SYS_NICE.
pub(crate) fn run_first() -> io::Result<()> {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: 0 is the calling thread, and the parameter lives until the call returns.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const lowest) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn control_socket() -> io::Result<std::os::fd::OwnedFd> {
    let kind = SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        kind,
        None,
    )?)
}

fn request(name: &str) -> libc::ifreq {
    // SAFETY: all of its members are integers, arrays of them, or pointers, for which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero, as what reads the name wants it.
    let room = request.ifr_name.len() - 1;
    for (place, byte) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    request
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut bytes = [0; 14];
    // Behind the port, which is zero (ip(7)).
    for (place, byte) in bytes[2..6].iter_mut().zip(address.octets()) {
        *place = byte as libc::c_char;
    }
    libc::sockaddr {
        sa_family: libc::AF_INET as libc::sa_family_t,
        sa_data: bytes,
    }
}

fn control(file: BorrowedFd<'_>, asked: libc::Ioctl, request: &libc::ifreq) -> io::Result<()> {
    // SAFETY: each of the requests above takes a pointer to an `ifreq`, which lives until the call
    // returns, and the file is open.
    match unsafe { libc::ioctl(file.as_raw_fd(), asked, std::ptr::from_ref(request)) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
