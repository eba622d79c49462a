//! The client's side of SOCKS version 5 (RFC 1928), with user and password (RFC 1929).

use std::fmt;
use std::net::IpAddr;

const VERSION: u8 = 5;
/// The version of the negotiation of user and password (RFC 1929 §2).
const PASSWORD_VERSION: u8 = 1;
const NO_AUTHENTICATION: u8 = 0;
const USER_PASSWORD: u8 = 2;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;
/// What is counted by one byte: names, users and passwords.
const LONGEST: usize = 255;

/// What a SOCKS proxy is told, encoded.
#[derive(Clone)]
pub(crate) struct Request {
    /// The target: type of address, address, port (RFC 1928 §5).
    target: Vec<u8>,
    /// User and password, where there are some (RFC 1929 §2).
    credentials: Option<Vec<u8>>,
}

impl Request {
    /// `host` is an address, or a name that the proxy resolves. The error says what cannot be told.
    pub(crate) fn new(
        host: &str,
        port: u16,
        credentials: Option<(&[u8], &[u8])>,
    ) -> Result<Self, String> {
        let host = host.trim_matches(['[', ']']);
        let mut target = match host.parse() {
            Ok(IpAddr::V4(address)) => [&[IPV4][..], &address.octets()].concat(),
            Ok(IpAddr::V6(address)) => [&[IPV6][..], &address.octets()].concat(),
            Err(_) => {
                let mut target = vec![NAME];
                counted(&mut target, host.as_bytes())
                    .map_err(|length| format!("a SOCKS proxy takes names of 1 to {LONGEST} bytes, and {host:?} has {length}"))?;
                target
            }
        };
        target.extend_from_slice(&port.to_be_bytes());
        let credentials = credentials.map(|(user, password)| {
            let mut all = vec![PASSWORD_VERSION];
            for (what, part) in [("user", user), ("password", password)] {
                counted(&mut all, part).map_err(|length| {
                    format!("a SOCKS proxy takes a {what} of 1 to {LONGEST} bytes, and this one has {length}")
                })?;
            }
            Ok::<_, String>(all)
        });
        Ok(Self {
            target,
            credentials: credentials.transpose()?,
        })
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the password.
        f.debug_struct("socks::Request").finish_non_exhaustive()
    }
}

/// Appends `bytes` behind their count; the count itself where it is none of 1 to 255.
fn counted(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), usize> {
    let count = u8::try_from(bytes.len()).ok().filter(|&count| count > 0);
    out.push(count.ok_or(bytes.len())?);
    out.extend_from_slice(bytes);
    Ok(())
}

/// What the proxy says next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Method,
    Authentication,
    Reply,
}

/// A tunnel that has been asked for.
#[derive(Debug)]
pub(crate) struct Asking {
    request: Request,
    step: Step,
    /// The message of the proxy that has not come to its end: 262 bytes at most.
    held: Vec<u8>,
}

impl Asking {
    /// Writes the greeting: the methods of authentication that are possible (RFC 1928 §3).
    pub(crate) fn new(request: &Request, out: &mut Vec<u8>) -> Self {
        let methods: &[u8] = match request.credentials {
            Some(_) => &[NO_AUTHENTICATION, USER_PASSWORD],
            None => &[NO_AUTHENTICATION],
        };
        out.extend_from_slice(&[VERSION, methods.len() as u8]);
        out.extend_from_slice(methods);
        Self {
            request: request.clone(),
            step: Step::Method,
            held: Vec::new(),
        }
    }

    /// Takes what the proxy sends, and writes what it is told next. Once the tunnel is there it says how
    /// many bytes were the proxy's own; an error where the proxy refuses.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, String> {
        for (taken, &byte) in (1..).zip(bytes) {
            self.held.push(byte);
            if self.advance(out)? {
                return Ok(Some(taken));
            }
        }
        Ok(None)
    }

    /// Goes on where a message is complete; true where the tunnel is there.
    fn advance(&mut self, out: &mut Vec<u8>) -> Result<bool, String> {
        let &[version, answer, ref rest @ ..] = &self.held[..] else {
            return Ok(false);
        };
        match self.step {
            Step::Method => {
                expect_version(version)?;
                match (answer, &self.request.credentials) {
                    (NO_AUTHENTICATION, _) => self.ask(out),
                    (USER_PASSWORD, Some(credentials)) => {
                        out.extend_from_slice(credentials);
                        self.step = Step::Authentication;
                        self.held.clear();
                    }
                    (_, Some(_)) => {
                        return Err(
                            "it takes neither user and password nor a request without".into()
                        );
                    }
                    (_, None) => {
                        return Err(
                            "it wants to know who asks: give its URL user and password".into()
                        );
                    }
                }
                Ok(false)
            }
            Step::Authentication if answer == 0 => {
                self.ask(out);
                Ok(false)
            }
            Step::Authentication => Err("it does not accept the user and the password".into()),
            Step::Reply => {
                expect_version(version)?;
                if answer != 0 {
                    return Err(refusal(answer));
                }
                // A reserved byte, the type of the address, and its first byte (RFC 1928 §6).
                let length = match *rest {
                    [_, IPV4, ..] => 4,
                    [_, IPV6, ..] => 16,
                    [_, NAME, count, ..] => 1 + usize::from(count),
                    [] | [_] | [_, NAME] => return Ok(false),
                    [_, kind, ..] => {
                        return Err(format!("its answer has an address of type {kind}"));
                    }
                };
                Ok(rest.len() == 2 + length + 2)
            }
        }
    }

    /// Asks for the connection (RFC 1928 §4).
    fn ask(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[VERSION, CONNECT, 0]);
        out.extend_from_slice(&self.request.target);
        self.step = Step::Reply;
        self.held.clear();
    }
}

fn expect_version(version: u8) -> Result<(), String> {
    if version == VERSION {
        Ok(())
    } else {
        Err(format!(
            "it does not speak SOCKS 5: its answer begins with the byte {version}"
        ))
    }
}

/// The reply field in words (RFC 1928 §6).
fn refusal(reply: u8) -> String {
    let words = match reply {
        1 => "general failure of the SOCKS server",
        2 => "connection not allowed by its ruleset",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused",
        6 => "TTL expired",
        7 => "command not supported",
        8 => "address type not supported",
        _ => "a reason without a name",
    };
    format!("{words} (SOCKS reply {reply})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(host: &str, credentials: Option<(&[u8], &[u8])>) -> (Asking, Vec<u8>) {
        let mut out = Vec::new();
        let request = Request::new(host, 443, credentials).unwrap();
        (Asking::new(&request, &mut out), out)
    }

    /// The bytes of RFC 1928 and RFC 1929, cut at every place.
    #[test]
    fn a_tunnel_is_made_however_the_answers_are_cut() {
        let answers = b"\x05\x02\x01\x00\x05\x00\x00\x01\x7f\x00\x00\x01\x1f\x90beyond";
        for cut in 0..answers.len() {
            let (mut asking, mut out) = asked("a.example", Some((b"user", b"word")));
            assert_eq!(out, b"\x05\x02\x00\x02");
            out.clear();
            let first = asking.receive(&answers[..cut], &mut out).unwrap();
            let taken = match first {
                Some(taken) => taken,
                None => cut + asking.receive(&answers[cut..], &mut out).unwrap().unwrap(),
            };
            assert_eq!(&answers[taken..], b"beyond");
            let told = b"\x01\x04user\x04word\x05\x01\x00\x03\x09a.example\x01\xbb";
            assert_eq!(out, told);
        }
    }

    #[test]
    fn addresses_are_told_as_such() {
        for (host, told) in [
            (
                "127.0.0.1",
                &b"\x05\x01\x00\x01\x7f\x00\x00\x01\x01\xbb"[..],
            ),
            (
                "[::1]",
                b"\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x01\xbb",
            ),
        ] {
            let (mut asking, mut out) = asked(host, None);
            assert_eq!(out, b"\x05\x01\x00");
            out.clear();
            assert_eq!(asking.receive(b"\x05\x00", &mut out), Ok(None));
            assert_eq!(out, told);
            let reply = [b"\x05\x00\x00\x04", &[0; 18][..]].concat();
            assert_eq!(asking.receive(&reply, &mut out), Ok(Some(reply.len())));
        }
    }

    #[test]
    fn refusals_say_why() {
        for (answers, why) in [
            (&b"\x05\xff"[..], "wants to know who asks"),
            (b"\x05\x00\x05\x05", "connection refused (SOCKS reply 5)"),
            (b"\x05\x00\x05\x00\x00\x09\x00", "address of type 9"),
            (b"HTTP/1.1 400", "does not speak SOCKS 5"),
        ] {
            let (mut asking, mut out) = asked("a.example", None);
            let refused = asking.receive(answers, &mut out).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        let (mut asking, mut out) = asked("a.example", Some((b"user", b"wrong")));
        let refused = asking.receive(b"\x05\x02\x01\x01", &mut out).unwrap_err();
        assert!(refused.contains("does not accept"), "{refused}");
    }

    #[test]
    fn what_cannot_be_told_is_an_error() {
        let long = "a".repeat(256);
        assert!(Request::new(&long, 1, None).unwrap_err().contains("256"));
        assert!(
            Request::new("a", 1, Some((b"", b"x")))
                .unwrap_err()
                .contains("user")
        );
    }
}
