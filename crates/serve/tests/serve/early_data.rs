//! Early data (RFC 8470): what is served in it, and what is too early there.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use http::{Method, Request, StatusCode};
use rustls::{ClientConfig, ClientConnection};
use rustls_pki_types::ServerName;

use crate::common::{Client, Target, VERSIONS, run, start, start_with, trust};

/// A client of HTTP/1.1 that sends early data where it has a ticket for it.
fn client(target: &Target) -> Arc<ClientConfig> {
    let mut config = trust(target, b"http/1.1");
    config.enable_early_data = true;
    Arc::new(config)
}

fn request(method: &str, content: &str) -> String {
    let length = content.len();
    format!(
        "{method} /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{content}"
    )
}

/// Gets a ticket by a whole request on a connection of its own.
fn get_ticket(target: &Target, config: &Arc<ClientConfig>) {
    let (mut session, mut socket) = connect(target, config);
    assert!(session.early_data().is_none(), "there is no ticket");
    let mut stream = rustls::Stream::new(&mut session, &mut socket);
    stream.write_all(request("GET", "").as_bytes()).unwrap();
    // The ticket comes before the answer.
    stream.read_exact(&mut [0; 12]).unwrap();
}

fn connect(target: &Target, config: &Arc<ClientConfig>) -> (ClientConnection, TcpStream) {
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(config.clone(), name).unwrap();
    let socket = TcpStream::connect(target.server.addresses().https).unwrap();
    (session, socket)
}

/// The beginning of what the server answers to a request in early data while the end of the handshake
/// is held back, and the connection.
fn answer_to_early(
    target: &Target,
    config: &Arc<ClientConfig>,
    request: &str,
) -> (String, ClientConnection, TcpStream) {
    let (mut session, mut socket) = connect(target, config);
    let mut early = session.early_data().expect("a ticket allows it");
    early.write_all(request.as_bytes()).unwrap();
    while session.wants_write() {
        session.write_tls(&mut socket).unwrap();
    }
    let mut answer = Vec::new();
    while !answer.windows(4).any(|four| four == b"\r\n\r\n") {
        assert_ne!(session.read_tls(&mut socket).unwrap(), 0);
        let state = session.process_new_packets().unwrap();
        let begin = answer.len();
        answer.resize(begin + state.plaintext_bytes_to_read(), 0);
        session.reader().read_exact(&mut answer[begin..]).unwrap();
    }
    assert!(session.is_early_data_accepted());
    (String::from_utf8(answer).unwrap(), session, socket)
}

#[test]
fn a_safe_request_is_answered_before_the_handshake_is_done() {
    let target = start_with(|config| config.early_data = true);
    let config = client(&target);
    get_ticket(&target, &config);
    let (answer, mut session, mut socket) = answer_to_early(&target, &config, &request("GET", ""));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // The connection goes on behind its handshake, and then takes all methods.
    let mut stream = rustls::Stream::new(&mut session, &mut socket);
    stream
        .write_all(request("POST", "hello").as_bytes())
        .unwrap();
    let mut head = [0; 13];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 ");
}

#[test]
fn an_unsafe_request_is_too_early_before_the_handshake_is_done() {
    let target = start_with(|config| config.early_data = true);
    for content in ["", "hello"] {
        let config = client(&target);
        get_ticket(&target, &config);
        let (answer, ..) = answer_to_early(&target, &config, &request("POST", content));
        assert!(answer.starts_with("HTTP/1.1 425 Too Early\r\n"), "{answer}");
    }
}

#[test]
fn a_ticket_is_good_for_early_data_once() {
    let target = start_with(|config| config.early_data = true);
    let config = client(&target);
    get_ticket(&target, &config);
    let (mut session, mut socket) = connect(&target, &config);
    let mut early = session.early_data().unwrap();
    early.write_all(request("GET", "").as_bytes()).unwrap();
    let mut flight = Vec::new();
    while session.wants_write() {
        session.write_tls(&mut flight).unwrap();
    }
    socket.write_all(&flight).unwrap();
    // Whoever has seen it sends it again; the ServerHello says that it has been looked at.
    let mut replay = TcpStream::connect(target.server.addresses().https).unwrap();
    replay.write_all(&flight).unwrap();
    for socket in [&mut socket, &mut replay] {
        socket.read_exact(&mut [0; 100]).unwrap();
    }
    let cost = target.server.stop(Duration::from_secs(5));
    assert_eq!(
        cost.requests, 2,
        "one for the ticket, and one in early data"
    );
}

#[test]
fn early_data_is_not_taken_unless_told() {
    let target = start();
    let config = client(&target);
    get_ticket(&target, &config);
    let (mut session, _) = connect(&target, &config);
    assert!(
        session.early_data().is_none(),
        "the ticket does not allow it"
    );
}

#[test]
fn what_was_early_data_before_a_proxy_is_too_early_as_well() {
    let taking = start_with(|config| config.early_data = true);
    let not_taking = start();
    run(async {
        for version in VERSIONS {
            let secure = !matches!(version, "h1" | "h2c");
            for (target, refuses) in [(&taking, secure), (&not_taking, false)] {
                let mut client = Client::connect(target, version).await;
                for (method, is_safe) in [(Method::GET, true), (Method::POST, false)] {
                    let asked = Request::builder().method(method).uri("/hello");
                    let answer = client.send(asked.header("early-data", "1"), "").await;
                    let expected = match refuses && !is_safe {
                        true => StatusCode::TOO_EARLY,
                        false => StatusCode::OK,
                    };
                    assert_eq!(answer.status, expected, "{version}");
                }
            }
        }
    });
}
