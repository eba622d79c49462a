//! A session against OpenSSL, by Python's `ssl` module.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::tls_common::{Authority, Identity};
use trilane_transport::tls::{Config, Info, Options, Session};

/// Serves connections one after another. On each it reads lines: `echo N` sends the N bytes that
/// follow back, `zeros N` sends N zero bytes, `who` the name in the client's certificate, `resumed`
/// whether it sees a resumption, `bye` closes with close_notify and waits for ours.
const SERVER: &str = r#"
import socket, ssl, sys
version, folder, ask = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
context.load_cert_chain(f"{folder}/chain.pem", f"{folder}/key.pem")
context.set_alpn_protocols(["http/1.1"])
if ask == "ask":
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(f"{folder}/ca.pem")
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    raw, _ = listener.accept()
    try:
        with context.wrap_socket(raw, server_side=True) as connection, connection.makefile("rwb") as stream:
            while line := stream.readline():
                match line.split():
                    case [b"echo", n]: stream.write(stream.read(int(n)))
                    case [b"zeros", n]: stream.write(bytes(int(n)))
                    case [b"who"]: stream.write(connection.getpeercert()["subjectAltName"][0][1].encode() + b"\n")
                    case [b"resumed"]: stream.write(str(connection.session_reused).encode() + b"\n")
                    case [b"bye"]:
                        connection.unwrap()
                        print("closed cleanly", flush=True)
                        break
                stream.flush()
    except OSError as error:
        print(error, flush=True)
"#;

struct Server {
    process: Child,
    lines: BufReader<std::process::ChildStdout>,
    port: u16,
    folder: tempfile::TempDir,
}

impl Server {
    /// `None` where this machine has no Python with `ssl`; in CI that is a failure.
    fn start(version: &str, authority: &Authority, ask: bool) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let identity = authority.issue(&["localhost"]);
        for (name, text) in [
            ("chain.pem", &identity.chain),
            ("key.pem", &identity.key),
            ("ca.pem", &authority.pem()),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let process = Command::new("python3")
            .args(["-c", SERVER, version])
            .arg(folder.path())
            .arg(if ask { "ask" } else { "-" })
            .stdout(Stdio::piped())
            .spawn();
        let mut port = String::new();
        let started = process.ok().and_then(|mut process| {
            let mut lines = BufReader::new(process.stdout.take()?);
            lines.read_line(&mut port).ok()?;
            let port = port.trim().parse().ok()?;
            Some(Self {
                process,
                lines,
                port,
                folder,
            })
        });
        if started.is_none() {
            assert!(std::env::var("CI").is_err(), "python3 with ssl is needed");
            eprintln!("skipped: python3 with ssl is not here");
        }
        started
    }

    fn connect(&self, config: &Config) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        // Instead of a hang, should the peers wait for each other.
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mut client = Client {
            stream,
            session: Session::new(config, "localhost").unwrap(),
            received: Vec::new(),
            out: Vec::new(),
        };
        client.session.start(&mut client.out).unwrap();
        while client.session.is_handshaking() {
            client.turn();
        }
        client
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Client {
    stream: TcpStream,
    session: Session,
    received: Vec<u8>,
    out: Vec<u8>,
}

impl Client {
    /// Writes what there is, then reads once. `false` at the end of the stream.
    fn turn(&mut self) -> bool {
        self.stream
            .write_all(&std::mem::take(&mut self.out))
            .unwrap();
        let mut buffer = vec![0; 40_000];
        let half = buffer.len() / 2;
        let read = self.stream.read(&mut buffer[half..]).unwrap();
        let begin = self.session.restore(&mut buffer, half);
        let received = &mut self.received;
        let take = |plaintext: &[u8]| received.extend_from_slice(plaintext);
        self.session
            .receive(&mut buffer[begin..half + read], take, &mut self.out)
            .unwrap();
        read > 0
    }

    fn ask(&mut self, request: &[u8], length: usize) -> Vec<u8> {
        self.session.send(request, &mut self.out).unwrap();
        while self.received.len() < length {
            assert!(self.turn(), "the server closed");
        }
        std::mem::take(&mut self.received)
    }

    fn line(&mut self, request: &[u8]) -> String {
        self.session.send(request, &mut self.out).unwrap();
        while !self.received.ends_with(b"\n") {
            assert!(self.turn(), "the server closed");
        }
        String::from_utf8(std::mem::take(&mut self.received))
            .unwrap()
            .trim()
            .into()
    }

    fn info(&self) -> Info {
        self.session.info().unwrap()
    }
}

fn options(authority: &Authority) -> Options {
    Options {
        alpn: vec![b"http/1.1".to_vec()],
        ..authority.options()
    }
}

#[test]
fn data_goes_both_ways_and_ends_cleanly() {
    for (version, expected) in [("TLSv1_2", "TLSv1.2"), ("TLSv1_3", "TLSv1.3")] {
        let authority = Authority::new();
        let Some(mut server) = Server::start(version, &authority, false) else {
            return;
        };
        let config = Config::new(&options(&authority)).unwrap();
        let mut client = server.connect(&config);
        assert_eq!(
            (client.info().version.as_str(), &client.info().alpn[..]),
            (expected, &b"http/1.1"[..])
        );

        // Less than the socket buffers hold, since both ends write before they read.
        let text: Vec<u8> = (0..100_000).map(|n| (n * 7 % 251) as u8).collect();
        let request = [&b"echo 100000\n"[..], &text].concat();
        assert_eq!(client.ask(&request, text.len()), text);
        assert_eq!(
            client.ask(b"zeros 3000000\n", 3_000_000),
            vec![0; 3_000_000]
        );

        client.session.send(b"bye\n", &mut client.out).unwrap();
        while !client.session.peer_closed() {
            assert!(client.turn(), "close_notify comes first");
        }
        client.session.close(&mut client.out);
        while client.turn() {}
        let mut line = String::new();
        server.lines.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "closed cleanly");
    }
}

#[test]
fn both_ends_agree_on_a_resumption() {
    for version in ["TLSv1_2", "TLSv1_3"] {
        let authority = Authority::new();
        let Some(server) = Server::start(version, &authority, false) else {
            return;
        };
        for resumption in [true, false] {
            let config = Config::new(&Options {
                resumption,
                ..options(&authority)
            })
            .unwrap();
            for expected in [false, resumption, resumption] {
                let mut client = server.connect(&config);
                assert_eq!(client.info().resumed, expected, "{version}");
                assert_eq!(
                    client.line(b"resumed\n"),
                    if expected { "True" } else { "False" }
                );
            }
        }
    }
}

#[test]
fn a_client_certificate_arrives() {
    for version in ["TLSv1_2", "TLSv1_3"] {
        let authority = Authority::new();
        let Some(server) = Server::start(version, &authority, true) else {
            return;
        };
        let Identity { chain, key } = authority.issue(&["me.example"]);
        let client = (
            ("me.pem".into(), chain.into()),
            ("me.key".into(), key.into()),
        );
        let config = Config::new(&Options {
            client: Some(client),
            ..options(&authority)
        })
        .unwrap();
        assert_eq!(server.connect(&config).line(b"who\n"), "me.example");
        assert!(server.folder.path().exists());
    }
}
