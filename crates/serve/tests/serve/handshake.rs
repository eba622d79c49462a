//! What makes a handshake longer: Retry, and a long chain of certificates.

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::mpsc,
    thread,
};

use trilane_serve::{Config, Error, Server};

use crate::common::{Target, quic_by, run, start, start_with, tls};

/// A relay for one client; tells the first byte of each datagram of the server.
fn relay(server: SocketAddr) -> (SocketAddr, mpsc::Receiver<u8>) {
    let near = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let far = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    far.connect(server).unwrap();
    let address = near.local_addr().unwrap();
    let (seen, told) = mpsc::channel();
    thread::spawn(move || {
        let mut buffer = [0; 65_536];
        let (length, client) = near.recv_from(&mut buffer).unwrap();
        near.connect(client).unwrap();
        far.send(&buffer[..length]).unwrap();
        let (up_near, up_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        thread::spawn(move || {
            let mut buffer = [0; 65_536];
            while let Ok(length) = up_near.recv(&mut buffer) {
                let _ = up_far.send(&buffer[..length]);
            }
        });
        while let Ok(length) = far.recv(&mut buffer) {
            let _ = near.send(&buffer[..length]);
            if seen.send(buffer[0]).is_err() {
                return;
            }
        }
    });
    (address, told)
}

/// What the server sent first while a client of quinn's connected.
fn first_packet(target: &Target) -> u8 {
    let (address, told) = relay(target.server.addresses().https);
    run(async {
        quic_by(target, address).await;
    });
    told.recv().unwrap()
}

/// The type of a packet with a long header (RFC 9000 section 17.2).
fn kind(first: u8) -> u8 {
    assert_eq!(first & 0x80, 0x80, "a long header");
    first >> 4 & 0b11
}

#[test]
fn a_client_proves_its_address_where_it_has_to() {
    const INITIAL: u8 = 0;
    const RETRY: u8 = 3;
    assert_eq!(kind(first_packet(&start())), INITIAL);
    assert_eq!(
        kind(first_packet(&start_with(|config| config.retry = true))),
        RETRY
    );
}

/// RFC 9000 section 8.1. quinn alone sends a whole datagram where a byte is left, and more to who stays silent.
#[test]
fn nobody_is_sent_more_than_three_times_what_came() {
    let target = start_with(|config| config.chain_size = Some(10_000));
    let https = target.server.addresses().https;
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let near = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    run(async {
        let address = near.local_addr().unwrap();
        // A ClientHello with a key of ML-KEM takes two.
        let hello = tokio::task::spawn_blocking(move || {
            [0; 2].map(|_| {
                let mut buffer = [0; 2000];
                let (length, _) = near.recv_from(&mut buffer).unwrap();
                buffer[..length].to_vec()
            })
        });
        let hello = tokio::select! {
            hello = hello => hello.unwrap(),
            _ = quic_by(&target, address) => panic!("nobody answers it"),
        };
        for mut datagram in hello {
            // As long as those of browsers; what is behind the packet says nothing.
            datagram.resize(1250, 0);
            silent.send_to(&datagram, https).unwrap();
        }
        let mut buffer = [0; 2000];
        let mut received = silent.recv(&mut buffer).unwrap();
        // Served after it by the same thread.
        quic_by(&target, https).await;
        silent.set_nonblocking(true).unwrap();
        while let Ok(length) = silent.recv(&mut buffer) {
            received += length;
        }
        let sent = 2 * 1250;
        assert!((2 * sent..=3 * sent).contains(&received), "{received}");
    });
}

#[test]
fn a_chain_is_as_large_as_was_asked() {
    for size in [1_000, 4_500, 10_000] {
        let target = start_with(|config| config.chain_size = Some(size));
        run(async {
            let stream = tls(&target, target.server.addresses().https, b"h2").await;
            let chain = stream.get_ref().1.peer_certificates().unwrap();
            assert_eq!(chain.len(), 2);
            assert_eq!(chain.iter().map(|each| each.len()).sum::<usize>(), size);
        });
    }
}

#[test]
fn a_chain_cannot_be_smaller_than_its_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        port: 0,
        tls_port: 0,
        state: Some(folder.path().to_owned()),
        chain_size: Some(100),
        ..Config::default()
    };
    let Err(Error::Config(words)) = Server::start(config) else {
        panic!("100 bytes are too few");
    };
    assert!(
        words.starts_with("--chain-size 100: the chain has "),
        "{words}"
    );
}
