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
