//! Records that rustls' server would not send, sealed with its keys.

use std::io::{Read, Write};
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::{ServerConfig, ServerConnection};
use rustls_pki_types::{PrivatePkcs8KeyDer, ServerName};

use super::*;
use crate::tls::handshake::Handshake;
use crate::tls::{Config, Options};

/// A server that gives no tickets.
fn server_config() -> Arc<ServerConfig> {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".into()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    config.enable_secret_extraction = true;
    config.send_tls13_tickets = 0;
    Arc::new(config)
}

/// A client that has shaken hands with the server.
fn connected() -> (Records, ServerConnection) {
    let options = Options {
        insecure: true,
        ..Options::default()
    };
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = Handshake::new(&Config::new(&options).unwrap(), name).unwrap();
    let mut server = ServerConnection::new(server_config()).unwrap();
    let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
    loop {
        let taken = client
            .receive(&mut to_client, &mut |_| {}, &mut to_server)
            .unwrap();
        to_client.drain(..taken.bytes);
        if to_server.is_empty() {
            break;
        }
        while !to_server.is_empty() {
            let read = server.read_tls(&mut &to_server[..]).unwrap();
            to_server.drain(..read);
            server.process_new_packets().unwrap();
        }
        while server.wants_write() {
            server.write_tls(&mut to_client).unwrap();
        }
    }
    assert!(client.may_be_left(&to_client));
    (client.leave().unwrap(), server)
}

/// A client that has shaken hands, and what seals with the server's keys.
fn forged() -> (Records, Sealing) {
    let (records, server) = connected();
    let secrets = server.dangerous_extract_secrets().unwrap();
    (records, Sealing::new(secrets.tx).unwrap())
}

/// What the client makes of records of these types and contents.
fn taken(records: &mut Records, sealing: &mut Sealing, sent: &[(ContentType, &[u8])]) -> Taken {
    let mut bytes = Vec::new();
    for (kind, content) in sent {
        sealing.seal(*kind, content, &mut bytes).unwrap();
    }
    let (mut plaintext, mut answer) = (Vec::new(), Vec::new());
    let result = records.open(
        &mut bytes,
        &mut |content| plaintext.extend_from_slice(content),
        &mut answer,
    );
    Taken {
        result,
        plaintext,
        answer,
    }
}

struct Taken {
    result: Result<Opened, Error>,
    plaintext: Vec<u8>,
    answer: Vec<u8>,
}

const TICKET: &[u8] = &[
    4, 0, 0, 16, // NewSessionTicket of 16 bytes
    0, 0, 14, 16, // lifetime: an hour
    1, 2, 3, 4, // age_add
    1, 9, // nonce
    0, 2, 7, 7, // ticket
    0, 0, // extensions
];

#[test]
fn a_ticket_may_come_in_two_records_but_not_around_others() {
    let (mut records, mut sealing) = forged();
    let (begin, end) = TICKET.split_at(7);
    let sent = [
        (ContentType::Handshake, begin),
        (ContentType::Handshake, end),
        (ContentType::ApplicationData, b"hello"),
    ];
    let taken_whole = taken(&mut records, &mut sealing, &sent);
    assert!(!taken_whole.result.unwrap().closed);
    assert_eq!(taken_whole.plaintext, b"hello");
    assert_eq!(records.tickets(), 1);
    assert!(taken_whole.answer.is_empty());

    let sent = [
        (ContentType::Handshake, begin),
        (ContentType::ApplicationData, b"hello"),
    ];
    let interleaved = taken(&mut records, &mut sealing, &sent);
    let error = PeerMisbehaved::MessageInterleavedWithHandshakeMessage;
    assert_eq!(interleaved.result, Err(error.into()));
    assert!(!interleaved.answer.is_empty(), "an alert");
}

#[test]
fn what_has_no_place_behind_the_handshake_is_refused() {
    let cases: [(ContentType, &[u8]); 8] = [
        // A message of no type that comes later: ServerHello.
        (ContentType::Handshake, &[2, 0, 0, 0]),
        (ContentType::Handshake, &[]),
        // One that is larger than any.
        (ContentType::Handshake, &[4, 1, 0, 1]),
        (ContentType::Handshake, &[4, 0, 0, 2, 0, 0]),
        // KeyUpdate that asks for something unknown, and one with something behind it.
        (ContentType::Handshake, &[24, 0, 0, 1, 2]),
        (ContentType::Handshake, &[24, 0, 0, 1, 0, 4]),
        (ContentType::Heartbeat, &[1]),
        (ContentType::Alert, &[2]),
    ];
    for sent in cases {
        let (mut records, mut sealing) = forged();
        let refused = taken(&mut records, &mut sealing, &[sent]);
        assert!(refused.result.is_err(), "{sent:?}");
        assert!(!refused.answer.is_empty(), "{sent:?}: an alert");
    }
}

#[test]
fn alerts_end_the_connection_and_only_an_error_is_one() {
    let (mut records, mut sealing) = forged();
    let sent: [(ContentType, &[u8]); 3] = [
        (ContentType::Alert, &[1, 90]),
        (ContentType::ApplicationData, b"last"),
        (ContentType::Alert, &[1, 0]),
    ];
    let closed = taken(&mut records, &mut sealing, &sent);
    assert!(closed.result.unwrap().closed);
    assert_eq!(closed.plaintext, b"last");

    let (mut records, mut sealing) = forged();
    let failed = taken(
        &mut records,
        &mut sealing,
        &[(ContentType::Alert, &[2, 80])],
    );
    let error = Error::AlertReceived(AlertDescription::InternalError);
    assert_eq!(failed.result, Err(error));
    assert!(failed.answer.is_empty(), "nobody is there to be told");
}

#[test]
fn records_that_are_damaged_bare_or_too_long_are_refused() {
    let whole = |records: &mut Records, bytes: &mut [u8]| {
        let mut answer = Vec::new();
        let result = records.open(bytes, &mut |_| panic!("no content"), &mut answer);
        assert!(!answer.is_empty(), "an alert");
        result
    };
    let (mut records, mut sealing) = forged();
    let mut bytes = Vec::new();
    let kind = ContentType::ApplicationData;
    sealing.seal(kind, b"hello", &mut bytes).unwrap();
    bytes[HEADER + 2] ^= 1;
    assert_eq!(whole(&mut records, &mut bytes), Err(Error::DecryptError));

    let (mut records, _) = forged();
    let mut bare = [21, 3, 3, 0, 2, 1, 0];
    assert!(whole(&mut records, &mut bare).is_err());

    // It need not have come to be known.
    let (mut records, _) = forged();
    let mut long = [23, 3, 3, 0x41, 0x01];
    let error = Err(Error::PeerSentOversizedRecord);
    assert_eq!(whole(&mut records, &mut long), error);
}

#[test]
fn a_peer_that_renews_its_keys_over_and_over_is_refused() {
    let (mut records, mut server) = connected();
    let mut refused = None;
    for update in 1..=MOST_UPDATES + 1 {
        server.refresh_traffic_keys().unwrap();
        let mut bytes = Vec::new();
        server.write_tls(&mut bytes).unwrap();
        let result = records.open(&mut bytes, &mut |_| {}, &mut Vec::new());
        if result.is_err() {
            refused = Some(update);
            break;
        }
    }
    assert_eq!(refused, Some(MOST_UPDATES + 1));
}

#[test]
fn a_key_seals_no_more_records_than_it_may() {
    let (mut records, mut server) = connected();
    records.limit = 3;
    let text: Vec<u8> = (0..9 * RECORD_PLAINTEXT + 5).map(|n| n as u8).collect();
    let mut bytes = Vec::new();
    records.seal(&text, &mut bytes).unwrap();
    let mut read = Vec::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        server.read_tls(&mut rest).unwrap();
        server.process_new_packets().unwrap();
        let mut piece = vec![0; 64 * 1024];
        if let Ok(count) = server.reader().read(&mut piece) {
            read.extend_from_slice(&piece[..count]);
        }
    }
    assert!(read == text);
    // Two of three records are content, and the third says that another key follows.
    assert_eq!(records.sealing.sequence, 2);

    server.writer().write_all(b"answer").unwrap();
    let mut answer = Vec::new();
    server.write_tls(&mut answer).unwrap();
    let mut got = Vec::new();
    let opened = records.open(
        &mut answer,
        &mut |content| got.extend_from_slice(content),
        &mut bytes,
    );
    assert!(opened.is_ok());
    assert_eq!(got, b"answer");
}
