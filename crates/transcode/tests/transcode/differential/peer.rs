//! The Go program with vanguard and grpc-gateway, and one HTTP request to it.

use std::{
    env,
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::Duration,
};

const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Peer {
    port: u16,
    child: Child,
}

pub(crate) struct Response {
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
    pub(crate) content: Vec<u8>,
}

impl Response {
    /// The value of the field with this name in lower case.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.as_str())
    }
}

impl Peer {
    /// Builds and starts it; `None`, with the reason on standard output, where there is no Go.
    pub(crate) fn start(descriptors: &[u8], service: &str) -> Option<Self> {
        Self::start_by("vanguard", descriptors, service)
    }

    /// As [`Peer::start`], with vanguard or grpc-gateway.
    pub(crate) fn start_by(by: &str, descriptors: &[u8], service: &str) -> Option<Self> {
        if Command::new("go").arg("version").output().is_err() {
            println!("skipped: the program go is missing");
            assert!(
                env::var("CI").as_deref() != Ok("true"),
                "go is missing, and CI=true wants every test: install Go"
            );
            return None;
        }
        let (program, set) = BUILT.get_or_init(|| build(descriptors));
        let mut child = Command::new(program)
            .arg("-descriptors")
            .arg(set)
            .args(["-service", service, "-by", by])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let port = line.trim().parse().expect("the program prints its port");
        Some(Peer { port, child })
    }

    /// Sends one request over a connection of its own. HTTP/1.0, so that nothing is chunked.
    pub(crate) fn send(
        &self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        content: &[u8],
    ) -> Response {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        let mut head = format!("{method} {target} HTTP/1.0\r\nhost: localhost\r\n");
        for (name, value) in fields {
            head += &format!("{name}: {value}\r\n");
        }
        if !content.is_empty() && !fields.iter().any(|(name, _)| *name == "content-type") {
            head += "content-type: application/json\r\n";
        }
        head += &format!("content-length: {}\r\n\r\n", content.len());
        // Go answers some requests before it has read their content, and resets the connection half a
        // second later: the response came in before the reset.
        let reset = |problem: &io::Error| {
            matches!(
                problem.kind(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
            )
        };
        let mut all = Vec::new();
        let exchanged = stream
            .write_all(&[head.as_bytes(), content].concat())
            .or_else(|problem| reset(&problem).then_some(()).ok_or(problem))
            .and_then(|()| stream.read_to_end(&mut all));
        if let Err(problem) = exchanged {
            assert!(reset(&problem), "{method} {target}: {problem}");
        }
        let response = parse(&all);
        if let Some(length) = response.field("content-length")
            && method != "HEAD"
        {
            assert_eq!(response.content.len().to_string(), length, "{target}");
        }
        response
    }
}

/// The program and the file with the descriptors, made once for all tests.
static BUILT: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();

fn build(descriptors: &[u8]) -> (PathBuf, PathBuf) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = folder.join("transcode-others");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/others"))
        .status()
        .unwrap();
    assert!(built.success(), "go build failed: see above");
    let set = folder.join("transcode-bindings.bin");
    std::fs::write(&set, descriptors).unwrap();
    (program, set)
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Its input ends with the pipe; it is waited for, so that none is left behind.
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parse(all: &[u8]) -> Response {
    let end = all
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("a response has a head");
    let head = std::str::from_utf8(&all[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let fields = lines
        .map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        })
        .collect();
    Response {
        status: status.parse().unwrap(),
        fields,
        content: all[end + 4..].to_vec(),
    }
}
