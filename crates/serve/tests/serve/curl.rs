//! The same with curl, which shares no code with us.

use std::process::Command;

use crate::common::{Target, start};

/// `None` where curl is missing; on CI that is a failure.
fn curl(target: &Target, flags: &[&str], path: &str) -> Option<String> {
    let addresses = target.server.addresses();
    let url = match flags.contains(&"--tls") {
        true => addresses.https_url(),
        false => addresses.http_url(),
    };
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "30", "--cacert"])
        .arg(target.server.ca_path().unwrap())
        .args(flags.iter().filter(|flag| **flag != "--tls"))
        .arg(format!("{}{path}", url.trim_end_matches('/')))
        .output();
    match output {
        Ok(output) => {
            assert!(output.status.success(), "{flags:?} {path}: {output:?}");
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "curl is missing: {error}");
            println!("skipped: curl cannot be run: {error}");
            None
        }
    }
}

#[test]
fn curl_reads_every_endpoint_over_tcp() {
    let target = start();
    for (flags, version) in [
        (&["--http1.1"][..], "1.1"),
        (&["--http2-prior-knowledge"], "2"),
        (&["--http1.1", "--tls"], "1.1"),
        (&["--http2", "--tls"], "2"),
    ] {
        for (path, expected) in [
            ("/hello", "200"),
            ("/bytes/100k", "200"),
            ("/status/418", "418"),
            ("/delay/10ms", "200"),
            ("/headers", "200"),
            ("/books", "200"),
            ("/site/", "200"),
            ("/drip?bytes=10&duration=20ms", "200"),
            ("/none", "404"),
            ("/bytes/x", "400"),
        ] {
            let report = [
                "--output",
                "/dev/null",
                "--write-out",
                "%{http_code} %{http_version}",
            ];
            let Some(told) = curl(&target, &[flags, &report].concat(), path) else {
                return;
            };
            assert_eq!(told, format!("{expected} {version}"), "{flags:?} {path}");
        }
        let posted = [flags, &["--data-binary", "some text"]].concat();
        assert_eq!(
            curl(&target, &posted, "/echo").as_deref(),
            Some("some text")
        );
        let packed = [flags, &["--compressed"]].concat();
        assert_eq!(
            curl(&target, &packed, "/books"),
            curl(&target, flags, "/books")
        );
    }
}

#[test]
fn curl_verifies_the_certificate_for_every_name() {
    let target = start();
    let port = target.server.addresses().https.port();
    for name in ["localhost", "127.0.0.1", "[::1]"] {
        // The server listens on 127.0.0.1; only the name in the URL changes.
        let connect = format!("{name}:{port}:127.0.0.1:{port}");
        let output = Command::new("curl")
            .args([
                "--silent",
                "--show-error",
                "--connect-to",
                &connect,
                "--cacert",
            ])
            .arg(target.server.ca_path().unwrap())
            .arg(format!("https://{name}:{port}/hello"))
            .output();
        let output = match output {
            Ok(output) => output,
            Err(error) => {
                assert!(std::env::var_os("CI").is_none(), "curl is missing: {error}");
                println!("skipped: curl cannot be run: {error}");
                return;
            }
        };
        assert_eq!(output.stdout, b"hello world", "{name}: {output:?}");
    }
}
