//! What a user reads when TLS fails: what was wrong, with which certificate or file, and what to do.

use std::sync::{Arc, LazyLock};

use crate::tls_common::{Authority, Identity, Pair, refusal, server_config};
use proptest::prelude::*;
use rcgen::{BasicConstraints, IsCa, date_time_ymd};
use rustls::crypto::aws_lc_rs;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};
use trilane_transport::tls::{Config, Options, Session, TlsVersion};

#[test]
fn a_certificate_that_does_not_convince_is_named() {
    let authority = Authority::new();
    let names = ["a.example", "*.b.example", "192.0.2.1"];
    let past = |params: &mut rcgen::CertificateParams| {
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 2, 3);
    };
    let future = |params: &mut rcgen::CertificateParams| {
        params.not_before = date_time_ymd(2999, 12, 31);
        params.not_after = date_time_ymd(3000, 1, 1);
    };
    let authority_itself = |params: &mut rcgen::CertificateParams| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    };
    for (identity, name, expected) in [
        (
            Authority::stranger().issue(&["localhost"]),
            "localhost",
            "the certificate of localhost is signed by an authority that is not trusted here: trust it with --cacert FILE, or go on without checking with --insecure",
        ),
        (
            Authority::new().issue(&["localhost"]),
            "localhost",
            "a signature of localhost is wrong: either its authority only has the name of a trusted one (trust the right one with --cacert FILE), or it does not have the certificate's key",
        ),
        (
            authority.issue(&names),
            "localhost",
            "the certificate is not for localhost but for a.example, *.b.example, 192.0.2.1: give one of its names with --sni NAME, or go on without checking with --insecure",
        ),
        (
            authority.issue(&[]),
            "localhost",
            "the certificate of localhost names no host, and its subject does not count: issue one with -addext subjectAltName=DNS:localhost, or go on without checking with --insecure",
        ),
        (
            authority.issue_with(&["localhost"], past),
            "localhost",
            "the certificate of localhost expired on 2002-02-03: renew it, or go on without checking with --insecure",
        ),
        (
            authority.issue_with(&["localhost"], future),
            "localhost",
            "the certificate of localhost is not valid before 2999-12-31: check the clock, or go on without checking with --insecure",
        ),
        (
            authority.issue_with(&["localhost"], authority_itself),
            "localhost",
            "the certificate of localhost signs itself or is an authority's own (CA:TRUE), and is not trusted here: trust it with --cacert FILE",
        ),
        (
            authority.issue_with(&["localhost"], |params| {
                params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
            }),
            "localhost",
            "the certificate of localhost is not meant for servers: issue one with the purpose serverAuth, or go on without checking with --insecure",
        ),
    ] {
        for version in [&TLS12, &TLS13] {
            let server = server_config(&identity, version);
            assert_eq!(
                refusal(&authority.options(), server.clone(), name),
                expected
            );

            let insecure = Options {
                insecure: true,
                ..Options::default()
            };
            let mut pair = Pair::with(&Config::new(&insecure).unwrap(), Arc::new(server), name);
            pair.handshake().unwrap();
            pair.answer(b"pong");
            assert_eq!(pair.at_client, b"pong");
        }
    }
}

#[test]
fn the_server_learns_why_it_was_refused() {
    let server = server_config(&Authority::stranger().issue(&["localhost"]), &TLS13);
    let mut pair = Pair::new(&Authority::new().options(), server);
    pair.handshake().unwrap_err();
    let mut alert = &std::mem::take(&mut pair.out)[..];
    assert!(!alert.is_empty());
    while !alert.is_empty() {
        pair.server.read_tls(&mut alert).unwrap();
    }
    let error = pair.server.process_new_packets().unwrap_err();
    assert_eq!(
        error,
        rustls::Error::AlertReceived(rustls::AlertDescription::UnknownCA)
    );
}

#[test]
fn addresses_are_names_too() {
    let authority = Authority::new();
    let server = Arc::new(server_config(
        &authority.issue(&["127.0.0.1", "::1"]),
        &TLS13,
    ));
    let config = Config::new(&authority.options()).unwrap();
    for name in ["127.0.0.1", "::1", "[::1]"] {
        Pair::with(&config, Arc::clone(&server), name)
            .handshake()
            .unwrap();
    }
    assert_eq!(
        Session::new(&config, "a b").unwrap_err().0,
        "\"a b\" is not a name that a certificate can have: give one with --sni NAME"
    );
}

/// A server that shows a certificate of which it does not have the key.
#[derive(Debug)]
struct Impostor(Arc<CertifiedKey>);

impl ResolvesServerCert for Impostor {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

#[test]
fn insecure_still_checks_that_the_server_has_the_key() {
    let authority = Authority::new();
    let key = aws_lc_rs::sign::any_supported_type(&authority.issue(&["x"]).private_key()).unwrap();
    let certificates = authority.issue(&["localhost"]).certificates();
    let impostor = Impostor(Arc::new(CertifiedKey::new(certificates, key)));
    for version in [&TLS12, &TLS13] {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Impostor(Arc::clone(&impostor.0))));
        let text = refusal(
            &Options {
                insecure: true,
                ..Options::default()
            },
            server,
            "localhost",
        );
        assert!(
            text.starts_with("a signature of localhost is wrong"),
            "{text}"
        );
    }
}

#[test]
fn the_very_certificate_may_be_what_is_trusted() {
    // As `openssl req -x509` makes them: signed by its own key, CA:TRUE.
    let own = |change: fn(&mut rcgen::CertificateParams)| {
        let authority = Authority::with(|params| {
            params.subject_alt_names =
                vec![rcgen::SanType::DnsName("localhost".try_into().unwrap())];
            change(params);
        });
        let identity = authority.itself();
        (authority.options(), identity)
    };
    let old = |params: &mut rcgen::CertificateParams| {
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 2, 3);
    };
    for version in [&TLS12, &TLS13] {
        let (trusting, identity) = own(|_| {});
        let server = || server_config(&identity, version);
        let config = Config::new(&trusting).unwrap();
        let mut pair = Pair::with(&config, Arc::new(server()), "localhost");
        pair.handshake().unwrap();
        pair.answer(b"pong");
        assert_eq!(pair.at_client, b"pong");
        assert_eq!(
            refusal(&trusting, server(), "elsewhere.example"),
            "the certificate is not for elsewhere.example but for localhost: give one of its names with --sni NAME, or go on without checking with --insecure"
        );
        assert_eq!(
            refusal(&Authority::new().options(), server(), "localhost"),
            "the certificate of localhost signs itself or is an authority's own (CA:TRUE), and is not trusted here: trust it with --cacert FILE"
        );
        // Another that is an authority's own, though the trusted one has signed it, is not that one.
        let authority = Authority::new();
        let signed = authority.issue_with(&["localhost"], |params| {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        });
        assert!(
            refusal(
                &authority.options(),
                server_config(&signed, version),
                "localhost"
            )
            .contains("is not trusted here")
        );
        // Its key is asked for.
        let key = aws_lc_rs::sign::any_supported_type(&signed.private_key()).unwrap();
        let impostor = Impostor(Arc::new(CertifiedKey::new(identity.certificates(), key)));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(impostor));
        let text = refusal(&trusting, server, "localhost");
        assert!(
            text.starts_with("a signature of localhost is wrong"),
            "{text}"
        );
    }
    let (trusting, _) = own(old);
    let error = Config::new(&trusting).unwrap_err();
    assert!(error.0.contains("expired on 2002-02-03"), "{error}");
}

/// A server that asks for a client certificate of `authority`.
fn asking(
    identity: &Identity,
    authority: &Authority,
    version: &'static rustls::SupportedProtocolVersion,
) -> ServerConfig {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    let pem = authority.pem();
    let certificates = Identity {
        chain: pem,
        key: String::new(),
    }
    .certificates();
    roots.add_parsable_certificates(certificates);
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .unwrap();
    ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(identity.certificates(), identity.private_key())
        .unwrap()
}

fn with_client(options: Options, identity: &Identity) -> Options {
    let chain = ("client.pem".into(), identity.chain.clone().into());
    let key = ("client.key".into(), identity.key.clone().into());
    Options {
        client: Some((chain, key)),
        ..options
    }
}

#[test]
fn client_certificates_are_shown_where_asked_for() {
    let authority = Authority::new();
    let identity = authority.issue(&["localhost"]);
    for version in [&TLS12, &TLS13] {
        let server = asking(&identity, &authority, version);

        let known = with_client(authority.options(), &authority.issue(&["me"]));
        let mut pair = Pair::new(&known, server.clone());
        pair.handshake().unwrap();
        pair.answer(b"welcome");
        assert_eq!(pair.at_client, b"welcome");

        let unknown = with_client(authority.options(), &Authority::stranger().issue(&["me"]));
        let text = refusal(&unknown, server.clone(), "localhost");
        assert!(
            text.starts_with("localhost does not accept the client certificate"),
            "{text}"
        );
        assert!(text.ends_with("check --cert and --key"), "{text}");

        let text = refusal(&authority.options(), server, "localhost");
        assert_eq!(
            text,
            "localhost asks for a client certificate: give one with --cert FILE --key FILE"
        );
    }
}

#[test]
fn a_file_that_cannot_be_used_is_named() {
    let authority = Authority::new();
    let client = authority.issue(&["me"]);
    let other = authority.issue(&["me"]);
    let old = |params: &mut rcgen::CertificateParams| {
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 2, 3);
    };
    let trusting = |contents: &str| Options {
        authorities: vec![("ca.pem".into(), contents.into())],
        platform: true,
        ..Options::default()
    };
    let presenting = |chain: &str, key: &str| {
        with_client(
            Options::default(),
            &Identity {
                chain: chain.into(),
                key: key.into(),
            },
        )
    };
    let encrypted = client.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    for (options, expected) in [
        (trusting("hello"), "ca.pem has no certificate"),
        (trusting(&client.key), "ca.pem has no certificate"),
        (
            trusting("-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n"),
            "ca.pem is not a PEM file",
        ),
        (
            trusting("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            "ca.pem has a certificate that cannot be read",
        ),
        (
            trusting(&Authority::with(old).pem()),
            "the certificate in ca.pem expired on 2002-02-03",
        ),
        (presenting("", &client.key), "client.pem has no certificate"),
        (
            presenting(&client.chain, &client.chain),
            "client.key has no private key",
        ),
        (
            presenting(&client.chain, &encrypted),
            "the key in client.key is encrypted: decrypt it with",
        ),
        (
            presenting(&client.chain, &other.key),
            "the key in client.key does not belong to the first certificate in client.pem",
        ),
        (
            presenting(&authority.issue_with(&["me"], old).chain, &client.key),
            "the certificate in client.pem expired on 2002-02-03",
        ),
    ] {
        let text = Config::new(&options).unwrap_err().0;
        assert!(text.starts_with(expected), "{text}");
    }
    let bundle = Authority::with(old).pem() + &authority.pem();
    Config::new(&trusting(&bundle)).expect("a bundle may have old certificates");
}

#[test]
fn a_server_without_our_protocols_says_so() {
    let authority = Authority::new();
    let mut server = server_config(&authority.issue(&["localhost"]), &TLS13);
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    let alpn = vec![b"h2".to_vec(), b"x\n".to_vec()];
    let text = refusal(
        &Options {
            alpn,
            ..authority.options()
        },
        server,
        "localhost",
    );
    assert_eq!(
        text,
        "localhost does not speak HTTP/2 or x\\n: it takes no protocol that was offered by ALPN"
    );
}

fn session() -> (Session, Vec<u8>) {
    session_of(None)
}

fn session_of(version: Option<TlsVersion>) -> (Session, Vec<u8>) {
    let config = Config::new(&Options {
        insecure: true,
        version,
        ..Options::default()
    })
    .unwrap();
    let mut session = Session::new(&config, "localhost").unwrap();
    let mut out = Vec::new();
    session.start(&mut out).unwrap();
    (session, out)
}

#[test]
fn the_one_version_that_was_offered_is_what_a_server_does_not_speak() {
    for (version, spoken, other) in [
        (TlsVersion::V1_2, "TLS 1.2", "TLS 1.3"),
        (TlsVersion::V1_3, "TLS 1.3", "TLS 1.2"),
    ] {
        let (mut session, mut out) = session_of(Some(version));
        let mut alert = b"\x15\x03\x01\0\x02\x02\x46".to_vec();
        let error = session.receive(&mut alert, |_| (), &mut out).unwrap_err();
        let expected = format!(
            "localhost does not speak {spoken}, the only version that was offered: allow {other} as well"
        );
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_server_that_speaks_something_else_is_recognised() {
    for (answer, expected) in [
        (
            &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
            "the server localhost does not speak TLS on this port: it answers with plain HTTP",
        ),
        (
            b"\0\0\x12\x04\0\0\0\0\0",
            "the server localhost does not speak TLS on this port",
        ),
        (b"\x16\x03\x01\xff\xff", "TLS with localhost failed"),
        (
            b"\x15\x03\x01\0\x02\x02\x46",
            "localhost speaks neither TLS 1.2 nor TLS 1.3",
        ),
        (
            b"\x15\x03\x01\0\x02\x02\x28",
            "localhost refused the handshake",
        ),
        (
            b"\x15\x03\x01\0\x02\x02\x70",
            "the server does not know the name localhost: give the name it serves with --sni NAME",
        ),
        (
            b"\x15\x03\x01\0\x02\x02\x50",
            "localhost ended TLS with the alert InternalError",
        ),
    ] {
        for step in [1, answer.len()] {
            let (mut session, mut out) = session();
            let error = answer
                .chunks(step)
                .try_for_each(|piece| session.receive(&mut piece.to_vec(), |_| {}, &mut out))
                .expect_err(expected);
            assert!(error.0.starts_with(expected), "{error}");
        }
    }
    let (session, _) = session();
    let error = session.eof().unwrap_err();
    assert_eq!(
        error.0,
        "localhost closed the connection during the TLS handshake"
    );
}

#[test]
fn an_endless_handshake_is_bounded() {
    let (mut session, mut out) = session();
    // A ServerHello of 65535 bytes in records of one byte each.
    let mut sent = 0;
    let error = loop {
        let byte = *[2, 0, 0xff, 0xff].get(sent).unwrap_or(&0);
        sent += 1;
        assert!(
            sent < 65_535,
            "the limit comes before the end of the message"
        );
        if let Err(error) = session.receive(&mut [0x16, 3, 3, 0, 1, byte], |_| {}, &mut out) {
            break error;
        }
    };
    assert_eq!(error.0, "localhost sent a handshake larger than 256 KiB");
}

static ISSUED: LazyLock<(Options, Identity)> = LazyLock::new(|| {
    let authority = Authority::new();
    (authority.options(), authority.issue(&["localhost"]))
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever a server sends, the session ends in an error or waits for more.
    #[test]
    fn altered_bytes_never_panic(
        tls13: bool,
        step in 1usize..5000,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut: prop::sample::Index,
        garbage in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let (options, identity) = &*ISSUED;
        let version = if tls13 { &TLS13 } else { &TLS12 };
        let mut pair = Pair::new(options, server_config(identity, version));
        pair.step = step;
        pair.client.start(&mut pair.out).unwrap();
        for _ in 0..3 {
            let mut to_server = &std::mem::take(&mut pair.out)[..];
            while !to_server.is_empty() {
                pair.server.read_tls(&mut to_server).unwrap();
                let _ = pair.server.process_new_packets();
            }
            let mut to_client = Vec::new();
            while pair.server.wants_write() {
                pair.server.write_tls(&mut to_client).unwrap();
            }
            if to_client.is_empty() {
                break;
            }
            for (at, byte) in &changes {
                let at = at.index(to_client.len());
                to_client[at] = *byte;
            }
            to_client.truncate(cut.index(to_client.len()) + 1);
            to_client.extend_from_slice(&garbage);
            let _ = pair.give(&to_client);
        }
        let _ = pair.client.send(b"x", &mut pair.out);
        pair.client.close(&mut pair.out);
    }
}
