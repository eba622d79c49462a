//! What went wrong, for a person who has to act on it.

use std::net::IpAddr;

use rustls::{AlertDescription, CertificateError, InvalidMessage, PeerIncompatible};
use rustls_pki_types::UnixTime;

use super::pins::NotPinned;
use super::{Error, TlsVersion};

/// Names of a certificate that a message lists; some have hundreds.
const MAX_NAMES: usize = 5;

/// What the ways out are called that messages name: flags of a command, or arguments of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// What trusts an authority, behind "with".
    pub authority: &'static str,
    /// What goes on without checking, behind "with"; `None` where nothing does.
    pub unchecked: Option<&'static str>,
    /// How to go on where the certificate has other names.
    pub one_of_its_names: &'static str,
    /// How to go on where the server serves other names.
    pub served_name: &'static str,
    /// How to go on where the server's name is none that a certificate can have.
    pub a_name: &'static str,
    /// What gives the name, in brackets, or nothing.
    pub name: &'static str,
    /// What gives a client certificate, behind "with".
    pub certificate: &'static str,
    /// What gave the client certificate, behind "check".
    pub given_certificate: &'static str,
    /// How to go on where the client's key is encrypted, beside decrypting it.
    pub password: Option<&'static str>,
}

impl Words {
    /// The flags of `trilane load`.
    pub const LOAD: Self = Self {
        authority: "--cacert FILE",
        unchecked: Some("--insecure"),
        one_of_its_names: "give one of its names with --sni NAME",
        served_name: "give the name it serves with --sni NAME",
        a_name: "give one with --sni NAME",
        name: " (--sni NAME)",
        certificate: "--cert FILE --key FILE",
        given_certificate: "--cert and --key",
        password: None,
    };

    /// A way out that is left to all, where there is one.
    pub(super) fn or_unchecked(&self) -> String {
        let or = |flag| format!(", or go on without checking with {flag}");
        self.unchecked.map(or).unwrap_or_default()
    }

    /// The same, where it is the only one.
    fn only_unchecked(&self) -> String {
        let only = |flag| format!(": go on without checking with {flag}");
        self.unchecked.map(only).unwrap_or_default()
    }
}

/// Describes an error of the handshake or of the session with `server`, to which `alpn` was offered, and of the
/// versions of TLS this alone, where it was one.
pub(crate) fn describe(
    error: &rustls::Error,
    server: &str,
    alpn: &[Vec<u8>],
    only: Option<TlsVersion>,
    words: &Words,
) -> Error {
    Error(match error {
        rustls::Error::InvalidCertificate(error) => certificate(error, server, words),
        rustls::Error::AlertReceived(alert) => self::alert(*alert, server, alpn, only, words),
        rustls::Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        )
        | rustls::Error::InvalidMessage(InvalidMessage::UnknownProtocolVersion) => {
            no_version(server, only)
        }
        rustls::Error::DecryptError => {
            format!("a record from {server} could not be decrypted: it was altered on the way")
        }
        error => format!("TLS with {server} failed: {error}"),
    })
}

fn certificate(error: &CertificateError, server: &str, words: &Words) -> String {
    let or_unchecked = words.or_unchecked();
    match error {
        CertificateError::UnknownIssuer => format!(
            "the certificate of {server} is signed by an authority that is not trusted here: trust it with {}{or_unchecked}",
            words.authority
        ),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!(
                "the certificate of {server} expired on {}: renew it{or_unchecked}",
                date(*not_after)
            )
        }
        CertificateError::NotValidYetContext { not_before, .. } => format!(
            "the certificate of {server} is not valid before {}: check the clock{or_unchecked}",
            date(*not_before)
        ),
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            let kind = server.parse::<IpAddr>().map_or("DNS", |_| "IP");
            format!(
                "the certificate of {server} names no host, and its subject does not count: issue one with -addext subjectAltName={kind}:{server}{or_unchecked}"
            )
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names = names(presented);
            format!(
                "the certificate is not for {server} but for {names}: {}{or_unchecked}",
                words.one_of_its_names
            )
        }
        // rustls says the same of a certificate's signature and of the handshake's.
        CertificateError::BadSignature => format!(
            "a signature of {server} is wrong: either its authority only has the name of a trusted one (trust the right one with {}), or it does not have the certificate's key",
            words.authority
        ),
        CertificateError::Revoked => format!("the certificate of {server} was revoked"),
        CertificateError::InvalidPurposeContext { .. } | CertificateError::InvalidPurpose => {
            format!(
                "the certificate of {server} is not meant for servers: issue one with the purpose serverAuth{or_unchecked}"
            )
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => format!(
            "the certificate of {server} is signed in a way that is not accepted, such as with SHA-1: issue one with SHA-256{or_unchecked}"
        ),
        CertificateError::BadEncoding => {
            let unchecked = words.only_unchecked();
            format!("the certificate of {server} is malformed{unchecked}")
        }
        CertificateError::Other(other) if other.0.is::<NotPinned>() => {
            format!("the certificate of {server} is not acceptable: {}", other.0)
        }
        // Everybody meets this one who makes a certificate with `openssl req -x509`.
        error if is_of_authority(error) => format!(
            "the certificate of {server} signs itself or is an authority's own (CA:TRUE), and is not trusted here: trust it with {}",
            words.authority
        ),
        error if is_of_old_version(error) => format!(
            "the certificate of {server} is no X.509 certificate of version 3, as TLS wants it: issue one with extensions{or_unchecked}"
        ),
        error => {
            let unchecked = words
                .unchecked
                .map(|flag| format!("; to go on without checking: {flag}"));
            let unchecked = unchecked.unwrap_or_default();
            let reason = reason(error);
            format!("the certificate of {server} is not acceptable: {reason}{unchecked}")
        }
    }
}

/// What rustls says of a certificate, without the types that it is wrapped in.
pub(super) fn reason(error: &CertificateError) -> String {
    match error {
        error if is_of_old_version(error) => {
            "it is not of version 3 of X.509, as TLS wants it".to_owned()
        }
        CertificateError::Other(other) => other.0.to_string(),
        error => error.to_string(),
    }
}

/// Whether a server's certificate is refused as it is that of an authority, for which rustls has no variant
/// of its own.
pub(super) fn is_of_authority(error: &CertificateError) -> bool {
    matches!(error, CertificateError::Other(other) if other.0.to_string().contains("CaUsedAsEndEntity"))
}

/// Whether a certificate is refused as it is of version 1 or 2, for which rustls has no variant of its own.
pub(super) fn is_of_old_version(error: &CertificateError) -> bool {
    matches!(error, CertificateError::Other(other) if other.0.to_string().contains("UnsupportedCertVersion"))
}

/// A server has no version in common with us, who offered `only` this, or both.
fn no_version(server: &str, only: Option<TlsVersion>) -> String {
    let (offered, other) = match only {
        None => return format!("{server} speaks neither TLS 1.2 nor TLS 1.3"),
        Some(TlsVersion::V1_2) => ("TLS 1.2", "TLS 1.3"),
        Some(TlsVersion::V1_3) => ("TLS 1.3", "TLS 1.2"),
    };
    format!(
        "{server} does not speak {offered}, the only version that was offered: allow {other} as well"
    )
}

fn alert(
    alert: AlertDescription,
    server: &str,
    alpn: &[Vec<u8>],
    only: Option<TlsVersion>,
    words: &Words,
) -> String {
    match alert {
        AlertDescription::NoApplicationProtocol => {
            let offered: Vec<_> = alpn
                .iter()
                .map(|id| match &id[..] {
                    b"http/1.1" => "HTTP/1.1".to_owned(),
                    b"h2" => "HTTP/2".to_owned(),
                    b"h3" => "HTTP/3".to_owned(),
                    other => other.escape_ascii().to_string(),
                })
                .collect();
            format!(
                "{server} does not speak {}: it takes no protocol that was offered by ALPN",
                offered.join(" or ")
            )
        }
        AlertDescription::CertificateRequired => {
            let with = words.certificate;
            format!("{server} asks for a client certificate: give one with {with}")
        }
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied => {
            format!(
                "{server} does not accept the client certificate ({alert:?}): check {}",
                words.given_certificate
            )
        }
        AlertDescription::ProtocolVersion => no_version(server, only),
        AlertDescription::UnrecognisedName => {
            format!(
                "the server does not know the name {server}: {}",
                words.served_name
            )
        }
        AlertDescription::HandshakeFailure => format!(
            "{server} refused the handshake: it has no cipher in common with us, does not know the name{} or asks for a client certificate ({})",
            words.name, words.certificate
        ),
        alert => format!("{server} ended TLS with the alert {alert:?}"),
    }
}

/// A list of names as rustls gives them: `DnsName("a.example")`.
fn names(presented: &[String]) -> String {
    let mut names: Vec<_> = presented
        .iter()
        .take(MAX_NAMES)
        .map(|name| {
            let name = name.split_once('(').map_or(name.as_str(), |(_, rest)| rest);
            // They come from the peer and go to a terminal.
            name.trim_end_matches(')')
                .trim_matches('"')
                .escape_default()
                .to_string()
        })
        .collect();
    if presented.len() > MAX_NAMES {
        names.push(format!("{} more", presented.len() - MAX_NAMES));
    }
    names.join(", ")
}

/// A day of the Gregorian calendar in UTC, as 2026-11-30.
pub(super) fn date(time: UnixTime) -> String {
    // Howard Hinnant's civil_from_days: years begin in March, so that leap days end them, and the
    // calendar repeats after an era of 400 years. A UnixTime is not negative.
    let days = time.as_secs() / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_709_251_199, "2024-02-29"),
            (1_709_251_200, "2024-03-01"),
            (4_102_444_800, "2100-01-01"),
            (253_402_300_799, "9999-12-31"),
        ] {
            let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
            assert_eq!(date(time), expected);
        }
    }

    #[test]
    fn names_from_a_peer_are_few_and_printable() {
        let presented: Vec<_> = (0..7)
            .map(|n| format!("DnsName(\"{n}\x1b.example\")"))
            .collect();
        assert_eq!(names(&presented[..2]), "0\\u{1b}.example, 1\\u{1b}.example");
        assert!(names(&presented).ends_with(", 2 more"));
        assert_eq!(names(&["IpAddress(::1)".into()]), "::1");
    }
}
