//! What is understood of each tool's command line, and what it means.

use base64::Engine as _;
use clap::{Args, Parser};

/// A line of ours.
type Words = Result<Vec<String>, String>;

/// Words of ours, one flag after the other.
#[derive(Default)]
struct Line(Vec<String>);

impl Line {
    fn version(flag: &str) -> Self {
        Self(vec![flag.to_owned()])
    }

    fn word(mut self, word: &str) -> Self {
        self.0.push(word.to_owned());
        self
    }

    fn word_if(self, given: bool, word: &str) -> Self {
        if given { self.word(word) } else { self }
    }

    fn flag(self, flag: &str, value: impl ToString) -> Self {
        let value = value.to_string();
        self.word(flag).word(&value)
    }

    fn flag_if(self, flag: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.flag(flag, value),
            None => self,
        }
    }

    fn fields(self, fields: &[String]) -> Self {
        fields
            .iter()
            .fold(self, |line, field| line.flag("-H", field))
    }

    /// A field of which the tool is told the value alone.
    fn field_if(self, name: &str, value: Option<&String>) -> Self {
        self.flag_if("-H", value.map(|value| format!("{name}:{value}")))
    }

    /// The method, the content and what describes it; the fields come last, with [`Self::fields`].
    fn asked(self, asked: &Asked) -> Self {
        self.flag_if("-X", asked.method.as_ref())
            .flag_if("-b", asked.body.as_ref())
            .flag_if(
                "-b",
                asked.body_file.as_ref().map(|file| format!("@{file}")),
            )
            .field_if("content-type", asked.content_type.as_ref())
            .field_if("accept", asked.accept.as_ref())
    }

    /// A duration, without a warm-up as none of these tools has one, or a number of requests.
    fn length(self, duration: Option<&String>, requests: u64) -> Self {
        match duration {
            Some(duration) => self.flag("-d", duration),
            None => self.flag("-n", requests),
        }
    }

    fn urls(mut self, urls: Vec<String>) -> Vec<String> {
        self.0.extend(urls);
        self.0
    }
}

/// Whether the first URL is one of TLS.
fn is_https(url: &str) -> bool {
    url.get(..6)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"))
}

/// The value of Authorization for a name and a password with a colon between them (RFC 7617).
fn basic(credentials: &String) -> String {
    format!(
        "Basic {}",
        base64::engine::general_purpose::STANDARD.encode(credentials)
    )
}

/// wrk and wrk2.
#[derive(Parser)]
#[command(name = "wrk", disable_version_flag = true)]
pub(super) struct Wrk {
    #[arg(short, long, default_value = "10")]
    connections: String,
    #[arg(short, long, default_value = "10s")]
    duration: String,
    #[arg(short, long, default_value = "2")]
    threads: String,
    #[arg(short = 'H', long)]
    header: Vec<String>,
    /// Told in any case.
    #[arg(short = 'L', long)]
    latency: bool,
    /// Told in any case.
    #[arg(short = 'U', long = "u_latency")]
    uncorrected: bool,
    #[arg(long, default_value = "2s")]
    timeout: String,
    /// Of wrk2.
    #[arg(short = 'R', long)]
    rate: Option<String>,
    url: String,
}

impl Wrk {
    pub(super) fn words(self, has_rate: bool) -> Words {
        match (has_rate, &self.rate) {
            (false, Some(_)) => return Err("-R is wrk2's: type --compat wrk2".into()),
            (true, None) => return Err("wrk2 needs a rate: type -R 2000".into()),
            _ => (),
        }
        // What both of them tell in any case.
        let _ = (self.latency, self.uncorrected);
        Ok(Line::version("--h1")
            .flag("--warmup", "0s")
            .flag("-c", self.connections)
            .flag("-t", self.threads)
            .flag("-d", self.duration)
            .flag("--timeout", self.timeout)
            .flag_if("-R", self.rate)
            .fields(&self.header)
            .urls(vec![self.url]))
    }
}

/// h2load of nghttp2.
#[derive(Parser)]
#[command(name = "h2load", disable_version_flag = true)]
pub(super) struct H2load {
    #[arg(short = 'n', long, default_value_t = 1)]
    requests: u64,
    #[arg(short, long, default_value = "1")]
    clients: String,
    #[arg(short, long, default_value = "1")]
    threads: String,
    #[arg(short = 'm', long = "max-concurrent-streams", default_value = "1")]
    streams: String,
    #[arg(short = 'D', long)]
    duration: Option<String>,
    #[arg(long)]
    warm_up_time: Option<String>,
    #[arg(short = 'H', long)]
    header: Vec<String>,
    #[arg(short, long)]
    data: Option<String>,
    /// Connections in a second.
    #[arg(short, long)]
    rate: Option<String>,
    #[arg(long)]
    h1: bool,
    #[arg(short = 'p', long, default_value = "h2c", value_parser = ["h2c", "http/1.1"])]
    no_tls_proto: String,
    #[arg(short, long, value_parser = clap::value_parser!(u32).range(1..=30))]
    window_bits: Option<u32>,
    #[arg(short = 'W', long, value_parser = clap::value_parser!(u32).range(1..=30))]
    connection_window_bits: Option<u32>,
    #[arg(required = true)]
    urls: Vec<String>,
}

impl H2load {
    pub(super) fn words(self) -> Words {
        let window = |bits: u32| (1u32 << bits) - 1;
        let h1 = self.h1 || self.no_tls_proto != "h2c" && !is_https(&self.urls[0]);
        let line = match (h1, is_https(&self.urls[0])) {
            (true, _) => Line::version("--h1"),
            (false, false) => Line::version("--h2c"),
            // ALPN decides.
            (false, true) => Line::default(),
        };
        let timed = self.duration.is_some();
        let line = line.flag("-c", self.clients);
        let line = if h1 {
            line
        } else {
            line.flag("-m", self.streams)
        };
        let warm_up = self.warm_up_time.unwrap_or_else(|| "0s".into());
        Ok(line
            .flag("-t", self.threads)
            .length(self.duration.as_ref(), self.requests)
            .flag_if("--warmup", timed.then_some(warm_up))
            .flag_if("--connect-rate", self.rate)
            .flag_if("--stream-window", self.window_bits.map(window))
            .flag_if(
                "--connection-window",
                self.connection_window_bits.map(window),
            )
            .flag_if("-b", self.data.map(|file| format!("@{file}")))
            .fields(&self.header)
            .urls(self.urls))
    }
}

/// What oha and hey send.
#[derive(Args)]
struct Asked {
    #[arg(short)]
    method: Option<String>,
    #[arg(short = 'H')]
    header: Vec<String>,
    #[arg(short = 'd')]
    body: Option<String>,
    #[arg(short = 'D', conflicts_with = "body")]
    body_file: Option<String>,
    #[arg(short = 'T')]
    content_type: Option<String>,
    #[arg(short = 'A')]
    accept: Option<String>,
}

/// oha.
#[derive(Parser)]
#[command(name = "oha", disable_version_flag = true)]
pub(super) struct Oha {
    #[arg(short = 'n', default_value_t = 200)]
    requests: u64,
    #[arg(short, default_value = "50")]
    connections: String,
    #[arg(short, default_value = "1")]
    parallel: String,
    #[arg(short = 'z')]
    duration: Option<String>,
    #[arg(short = 'q')]
    rate: Option<String>,
    #[arg(short, long)]
    timeout: Option<String>,
    #[command(flatten)]
    request: Asked,
    #[arg(long, conflicts_with = "http_version")]
    http2: bool,
    #[arg(long, value_parser = ["1.1", "2", "3"])]
    http_version: Option<String>,
    #[arg(long)]
    insecure: bool,
    #[arg(long)]
    cacert: Option<String>,
    #[arg(long)]
    disable_keepalive: bool,
    /// There is none here.
    #[arg(long)]
    no_tui: bool,
    /// A rate has it in any case.
    #[arg(long)]
    latency_correction: bool,
    url: String,
}

impl Oha {
    pub(super) fn words(self) -> Words {
        let version = match (self.http2, self.http_version.as_deref()) {
            (true, _) | (_, Some("2")) if is_https(&self.url) => "--h2",
            (true, _) | (_, Some("2")) => "--h2c",
            (false, Some("3")) => "--h3",
            (false, _) => "--h1",
        };
        // There is no other display, and no other latency under a rate.
        let _ = (self.no_tui, self.latency_correction);
        let line = Line::version(version).flag_if("--warmup", self.duration.as_ref().map(|_| "0s"));
        let line = line.flag("-c", self.connections);
        let line = if version == "--h1" {
            line
        } else {
            line.flag("-m", self.parallel)
        };
        Ok(line
            .length(self.duration.as_ref(), self.requests)
            .flag_if("-R", self.rate)
            .flag_if("--timeout", self.timeout)
            .asked(&self.request)
            .word_if(self.insecure, "--insecure")
            .flag_if("--cacert", self.cacert)
            .word_if(self.disable_keepalive, "--new-connections")
            .fields(&self.request.header)
            .urls(vec![self.url]))
    }
}

/// hey, whose long flags have one dash: see [`two_dashes`].
#[derive(Parser)]
#[command(name = "hey", disable_version_flag = true)]
pub(super) struct Hey {
    #[arg(short = 'n', default_value_t = 200)]
    requests: u64,
    #[arg(short, default_value_t = 50)]
    connections: u64,
    #[arg(short = 'z')]
    duration: Option<String>,
    /// Requests per second of each worker, which are as many as the connections.
    #[arg(short = 'q')]
    rate: Option<f64>,
    /// Seconds.
    #[arg(short, default_value_t = 20)]
    timeout: u64,
    #[command(flatten)]
    request: Asked,
    #[arg(short = 'a')]
    auth: Option<String>,
    #[arg(long)]
    h2: bool,
    #[arg(long)]
    cpus: Option<String>,
    #[arg(long)]
    disable_keepalive: bool,
    /// Nothing is decoded here.
    #[arg(long)]
    disable_compression: bool,
    /// Nothing is followed here.
    #[arg(long)]
    disable_redirects: bool,
    url: String,
}

/// Long flags of hey as other programs have them.
pub(super) fn two_dashes(words: &[String]) -> Vec<String> {
    let is_long = |word: &str| {
        word.strip_prefix('-')
            .is_some_and(|flag| flag == "h2" || flag == "cpus" || flag.starts_with("disable-"))
    };
    words
        .iter()
        .map(|word| match is_long(word) {
            true => format!("-{word}"),
            false => word.clone(),
        })
        .collect()
}

impl Hey {
    pub(super) fn words(self) -> Words {
        let version = match (self.h2, is_https(&self.url)) {
            (true, true) => "--h2",
            (true, false) => return Err("-h2 takes TLS: type an https URL".into()),
            (false, _) => "--h1",
        };
        let _ = (self.disable_compression, self.disable_redirects);
        if self.timeout == 0 {
            return Err("-t 0 waits for ever, which is never done here: type -t 20".into());
        }
        Ok(Line::version(version)
            .flag_if("--warmup", self.duration.as_ref().map(|_| "0s"))
            .flag("-c", self.connections)
            .length(self.duration.as_ref(), self.requests)
            .flag_if("-R", self.rate.map(|rate| rate * self.connections as f64))
            .flag("--timeout", format!("{}s", self.timeout))
            .asked(&self.request)
            .field_if("authorization", self.auth.as_ref().map(basic).as_ref())
            .flag_if("-t", self.cpus)
            .word_if(self.disable_keepalive, "--new-connections")
            .fields(&self.request.header)
            .urls(vec![self.url]))
    }
}

/// ab of the Apache HTTP Server.
#[derive(Parser)]
#[command(name = "ab", disable_version_flag = true)]
pub(super) struct Ab {
    #[arg(short = 'n')]
    requests: Option<u64>,
    #[arg(short, default_value = "1")]
    connections: String,
    /// Seconds.
    #[arg(short = 't')]
    duration: Option<String>,
    #[arg(short = 'k')]
    keepalive: bool,
    #[arg(short = 'p')]
    post_file: Option<String>,
    #[arg(short = 'u', conflicts_with = "post_file")]
    put_file: Option<String>,
    #[arg(short = 'T')]
    content_type: Option<String>,
    #[arg(short = 'H')]
    header: Vec<String>,
    #[arg(short = 'C')]
    cookie: Option<String>,
    #[arg(short = 'A')]
    auth: Option<String>,
    #[arg(short)]
    method: Option<String>,
    #[arg(short = 'i')]
    head: bool,
    /// Seconds.
    #[arg(short = 's', default_value = "30")]
    timeout: String,
    /// Bodies of other lengths are no failure here in any case.
    #[arg(short = 'l')]
    lengths: bool,
    /// Nothing but the result is written here.
    #[arg(short = 'q')]
    quiet: bool,
    /// Errors of sockets end no run here.
    #[arg(short = 'r')]
    resilient: bool,
    url: String,
}

impl Ab {
    pub(super) fn words(self) -> Words {
        let _ = (self.lengths, self.quiet, self.resilient);
        let method = match (&self.method, self.head, &self.post_file, &self.put_file) {
            (Some(method), ..) => Some(method.as_str()),
            (None, true, ..) => Some("HEAD"),
            (None, false, Some(_), _) => Some("POST"),
            (None, false, None, Some(_)) => Some("PUT"),
            (None, false, None, None) => None,
        };
        let file = self.post_file.as_ref().or(self.put_file.as_ref());
        let requests = self.requests.or(self.duration.is_none().then_some(1));
        Ok(Line::version("--h1")
            .flag("-c", self.connections)
            .flag_if("-n", requests)
            .flag_if("-d", self.duration.as_ref())
            .flag_if("--warmup", self.duration.as_ref().map(|_| "0s"))
            .flag("--timeout", format!("{}s", self.timeout))
            .word_if(!self.keepalive, "--new-connections")
            .flag_if("-X", method)
            .flag_if("-b", file.map(|file| format!("@{file}")))
            .field_if("content-type", self.content_type.as_ref())
            .field_if("cookie", self.cookie.as_ref())
            .field_if("authorization", self.auth.as_ref().map(basic).as_ref())
            .fields(&self.header)
            .urls(vec![self.url]))
    }
}
