//! Starting, stopping, and asking clients to leave.

use std::{net::TcpListener, time::Duration};

use crate::common::{Client, LONG, Target, VERSIONS, run, start, start_with};
use http::Request;
use trilane_serve::{Config, Error, Server};

/// Waits until the server has received so many.
async fn requests_reach(target: &Target, count: u64) {
    while target.server.requests() < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn stopping_finishes_what_is_in_flight() {
    for version in VERSIONS {
        let target = start();
        run(async {
            let mut client = Client::connect(&target, version).await;
            client.get("/hello").await;
            let (answer, cost) = tokio::join!(client.get("/drip?bytes=20&duration=300ms"), async {
                requests_reach(&target, 2).await;
                tokio::task::spawn_blocking(|| target.server.stop(LONG))
                    .await
                    .unwrap()
            });
            assert_eq!(answer.body.len(), 20, "{version}");
            assert_eq!(cost.requests, 2, "{version}");
            assert!(cost.user_s + cost.system_s > 0.0);
        });
    }
}

#[test]
fn idle_connections_do_not_hold_up_a_stop() {
    let target = start_with(|config| config.threads = 2);
    run(async {
        let mut clients = Vec::new();
        for version in VERSIONS {
            let unused = Client::connect(&target, version).await;
            let mut used = Client::connect(&target, version).await;
            used.get("/hello").await;
            clients.extend([unused, used]);
        }
        tokio::task::spawn_blocking(|| target.server.stop(LONG))
            .await
            .unwrap();
    });
}

#[test]
fn a_grace_that_is_over_ends_everything() {
    let target = start();
    run(async {
        let mut client = Client::connect(&target, "h2").await;
        let request = client.try_send(Request::get("/delay/10m"), "");
        let (answer, _) = tokio::join!(request, async {
            requests_reach(&target, 1).await;
            tokio::task::spawn_blocking(|| target.server.stop(Duration::from_millis(100))).await
        });
        assert!(answer.is_err());
    });
}

#[test]
fn all_requests_are_counted_over_all_workers() {
    let target = start_with(|config| config.threads = 3);
    run(async {
        for version in VERSIONS {
            for _ in 0..3 {
                let mut client = Client::connect(&target, version).await;
                client.get("/hello").await;
                client.get("/hello").await;
            }
        }
    });
    assert_eq!(target.server.requests(), 30);
    assert_eq!(target.server.stop(LONG).requests, 30);
}

#[test]
fn clients_are_asked_to_leave_after_so_many_requests() {
    for version in VERSIONS {
        let target = start_with(|config| config.keepalive_requests = Some(3));
        run(async {
            let mut client = Client::connect(&target, version).await;
            let mut answered = 0;
            // HTTP/2 lets requests through that were sent before its GOAWAY arrived.
            while let Ok(answer) = client.try_send(Request::get("/hello"), "").await {
                assert_eq!(answer.body, "hello world");
                answered += 1;
                let is_last = version.starts_with("h1") && answered == 3;
                let close = if is_last { "close" } else { "" };
                assert_eq!(answer.field("connection"), close, "{version}");
                assert!(answered < 100, "{version} never asked to leave");
            }
            assert!(answered >= 3, "{version}: {answered}");
            // A new connection starts afresh.
            Client::connect(&target, version).await.get("/hello").await;
        });
    }
}

#[test]
fn a_port_in_use_is_named_with_the_way_out() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        port: 0,
        tls_port: 0,
        state: Some(folder.path().to_owned()),
        ..Config::default()
    };
    for (config, flag) in [
        (
            Config {
                port,
                ..config.clone()
            },
            "--port",
        ),
        (
            Config {
                tls_port: port,
                ..config
            },
            "--tls-port",
        ),
    ] {
        let error = Server::start(config).err().unwrap();
        assert!(matches!(error, Error::PortInUse { .. }));
        let text = error.to_string();
        assert!(
            text.contains(&port.to_string()) && text.contains(flag),
            "{text}"
        );
    }
}

#[test]
fn two_servers_do_not_share_a_port_unnoticed() {
    let target = start_with(|config| config.threads = 2);
    let addresses = target.server.addresses();
    for (port, tls_port) in [(addresses.http.port(), 0), (0, addresses.https.port())] {
        let config = Config {
            port,
            tls_port,
            state: Some(target.folder.path().to_owned()),
            ..Config::default()
        };
        assert!(matches!(
            Server::start(config),
            Err(Error::PortInUse { .. })
        ));
    }
}

#[test]
fn the_authority_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        port: 0,
        tls_port: 0,
        state: Some(folder.path().join("state")),
        ..Config::default()
    };
    let first = Server::start(config.clone()).unwrap();
    assert!(first.made_new_ca());
    let authority = std::fs::read(first.ca_path().unwrap()).unwrap();
    first.stop(LONG);
    let second = Server::start(config).unwrap();
    assert!(!second.made_new_ca());
    assert_eq!(authority, std::fs::read(second.ca_path().unwrap()).unwrap());
}

#[test]
fn settings_that_cannot_work_are_refused() {
    for config in [
        Config {
            threads: 0,
            ..Config::default()
        },
        Config {
            threads: 1000,
            ..Config::default()
        },
        Config {
            streams: 0,
            ..Config::default()
        },
        Config {
            keepalive_requests: Some(0),
            ..Config::default()
        },
    ] {
        assert!(matches!(Server::start(config), Err(Error::Config(_))));
    }
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        port: 0,
        tls_port: 0,
        state: Some(folder.path().to_owned()),
        cpus: vec![1023],
        ..Config::default()
    };
    let error = Server::start(config).err().unwrap().to_string();
    assert!(error.contains("processor 1023"), "{error}");
}

#[test]
fn workers_run_where_they_are_pinned() {
    let target = start_with(|config| config.cpus = vec![0]);
    run(async {
        let mut client = Client::connect(&target, "h1").await;
        assert_eq!(client.get("/hello").await.status, 200);
    });
    let pinned = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|task| {
            std::fs::read_to_string(task.unwrap().path().join("status")).unwrap_or_default()
        })
        .any(|status| status.contains("serve-0") && status.contains("Cpus_allowed_list:\t0\n"));
    assert!(pinned);
}
