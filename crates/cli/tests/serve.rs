//! `trilane serve` as a process: what it prints, when it ends, and how.
#![allow(clippy::unwrap_used)] // A helper that fails is a test that fails.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

/// A running server that a failing test does not leave behind.
struct Server {
    child: Child,
    out: BufReader<ChildStdout>,
    folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = command(flags)
            .args(["--port", "0", "--tls-port", "0"])
            .arg("--state")
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out, folder }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    fn json(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }

    fn end(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

fn command(flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trilane"));
    command.arg("serve").args(flags);
    command
}

fn connect(url: &Value) -> TcpStream {
    TcpStream::connect(url.as_str().unwrap().split("//").nth(1).unwrap()).unwrap()
}

fn hello(stream: &mut TcpStream) {
    stream
        .write_all(b"GET /hello HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"hello world") {
        let mut bytes = [0; 1024];
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "closed after {heard:?}");
        heard.extend_from_slice(&bytes[..count]);
    }
}

#[test]
fn json_lines_tell_the_addresses_and_then_the_cost() {
    let mut server = Server::start(&["--format", "json", "-t", "2"]);
    let ready = server.json();
    assert_eq!(ready["schema"], "trilane.serve/1");
    assert_eq!(ready["ready"], true);
    assert_eq!(ready["pid"], server.child.id());
    assert_eq!(ready["threads"], 2);
    let authority = server.folder.path().canonicalize().unwrap().join("ca.pem");
    assert_eq!(
        ready["cacert"].as_str().unwrap(),
        authority.to_str().unwrap()
    );
    assert!(
        ready["https"]
            .as_str()
            .unwrap()
            .starts_with("https://127.0.0.1:")
    );
    hello(&mut connect(&ready["http"]));
    server.signal("TERM");
    let stopped = server.json();
    assert_eq!(stopped["stopped"], true);
    assert_eq!(stopped["requests"], 1);
    assert!(stopped["user_s"].as_f64().unwrap() > 0.0);
    assert_eq!(stopped["udp_receive_drops"], 0);
    assert_eq!(server.end().code(), Some(0));
}

#[test]
fn the_first_start_says_how_to_trust_the_authority() {
    let mut server = Server::start(&["--for", "0s"]);
    assert!(server.line().starts_with("ready: http://127.0.0.1:"));
    assert_eq!(server.end().code(), Some(0));
    let mut said = String::new();
    let mut messages = server.child.stderr.take().unwrap();
    messages.read_to_string(&mut said).unwrap();
    assert!(
        said.contains("--cacert") && said.contains("ca.pem"),
        "{said}"
    );
}

#[test]
fn what_lets_others_in_is_warned_of() {
    let said = |flags: &[&str]| {
        let mut server = Server::start(&[flags, &["--for", "0s"]].concat());
        assert!(server.line().starts_with("ready: "));
        assert_eq!(server.end().code(), Some(0));
        let mut said = String::new();
        let mut messages = server.child.stderr.take().unwrap();
        messages.read_to_string(&mut said).unwrap();
        let warnings = said.lines().filter(|line| line.contains("warning"));
        (warnings.map(str::to_owned).collect::<Vec<_>>(), server)
    };
    let (none, made) = said(&[]);
    assert!(none.is_empty(), "{none:?}");
    let [chain, key] = ["cert.pem", "key.pem"].map(|name| made.folder.path().join(name));
    let own = [
        "--cert",
        chain.to_str().unwrap(),
        "--key",
        key.to_str().unwrap(),
    ];
    for (mode, count) in [(0o600, 0), (0o640, 0), (0o644, 1)] {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        let (warnings, _) = said(&own);
        assert_eq!(warnings.len(), count, "{mode:o}: {warnings:?}");
        assert!(
            warnings.iter().all(|line| line.contains("key.pem")),
            "{warnings:?}"
        );
    }
    for (address, count) in [("0.0.0.0", 1), ("127.0.0.2", 0)] {
        let (warnings, _) = said(&["--bind", address]);
        assert_eq!(warnings.len(), count, "{address}: {warnings:?}");
        assert!(
            warnings.iter().all(|line| line.contains(address)),
            "{warnings:?}"
        );
    }
}

#[test]
fn an_interrupt_stops_it_with_0() {
    let mut server = Server::start(&["--format", "json"]);
    let ready = server.json();
    // An idle connection does not hold the stop up.
    let mut stream = connect(&ready["http"]);
    hello(&mut stream);
    server.signal("INT");
    assert_eq!(server.end().code(), Some(0));
}

#[test]
fn a_long_answer_is_not_held_in_memory() {
    let mut server = Server::start(&["--format", "json"]);
    let ready = server.json();
    let mut stream = connect(&ready["http"]);
    stream
        .write_all(b"GET /bytes/256m HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .unwrap();
    let heard = std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
    assert!(heard > 256 << 20);
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak: u64 = peak
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    assert!(peak < 128 << 10, "{peak} KiB");
}

#[test]
fn a_second_signal_does_not_wait() {
    let mut server = Server::start(&[]);
    let ready = server.line();
    let url = Value::from(ready.split_ascii_whitespace().nth(1).unwrap());
    let mut stream = connect(&url);
    stream
        .write_all(b"GET /drip?bytes=2&duration=10m HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    let mut head = [0; 15];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head, *b"HTTP/1.1 200 OK");
    server.signal("TERM");
    let messages = BufReader::new(server.child.stderr.take().unwrap());
    assert!(
        messages
            .lines()
            .any(|line| line.unwrap().starts_with("stopping"))
    );
    server.signal("TERM");
    assert_eq!(server.end().code(), Some(130));
}

#[test]
fn it_ends_with_its_parent() {
    let mut server = Server::start(&["--format", "json", "--exit-with-parent"]);
    server.json();
    drop(server.child.stdin.take());
    assert_eq!(server.json()["stopped"], true);
    assert_eq!(server.end().code(), Some(0));
}

#[test]
fn a_line_is_answered_by_what_was_counted() {
    let mut server = Server::start(&["--format", "json", "--exit-with-parent"]);
    let ready = server.json();
    let ask = |server: &mut Server| {
        let stdin = server.child.stdin.as_mut().unwrap();
        stdin.write_all(b"count\n").unwrap();
        let told = server.json();
        assert_eq!(told["counted"], true);
        (told["requests"].clone(), told["connections"].clone())
    };
    assert_eq!(ask(&mut server), (0.into(), 0.into()));
    let mut stream = connect(&ready["http"]);
    hello(&mut stream);
    assert_eq!(ask(&mut server), (1.into(), 1.into()));
    hello(&mut connect(&ready["http"]));
    assert_eq!(ask(&mut server), (2.into(), 2.into()));
    drop(server.child.stdin.take());
    assert_eq!(server.json()["requests"], 2);
    assert_eq!(server.end().code(), Some(0));
}

#[test]
fn closed_input_alone_ends_nothing() {
    let mut server = Server::start(&["--format", "json"]);
    let ready = server.json();
    drop(server.child.stdin.take());
    hello(&mut connect(&ready["http"]));
    assert!(server.child.try_wait().unwrap().is_none());
}

#[test]
fn a_port_in_use_is_one_line_and_1() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = command(&["--port", &port]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(&port) && said.contains("--port"), "{said}");
}

#[test]
fn wrong_flags_are_2() {
    for flags in [
        &["-t", "0"][..],
        &["--cert", "x"],
        &["--cpu", "many"],
        &["--nonsense"],
    ] {
        let output = command(flags).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert!(output.stdout.is_empty(), "{flags:?}");
    }
}
