//! `connect()`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use pyo3::prelude::*;
use trilane_client::{ConnectOptions, Connecting, Connection, Proxy, ProxyProtocol, Version};

use super::connecting::PyConnecting;
use super::connection::PyConnection;
use super::fields::Given;
use super::tls::{self, PyTls};
use super::{errors, waiting};

/// What is connected: a connection, or one that is being made.
#[derive(IntoPyObject)]
pub(crate) enum Connected {
    Made(PyConnection),
    Begun(PyConnecting),
}

/// The arguments are documented in the stub.
#[pyfunction]
#[pyo3(signature = (
    host, port, *, scheme = "https", versions = None, tls = None, server_name = None, timeout = None,
    source = None, proxy = None, race = 0.25, unix = None, driven = false,
    proxy_scheme = "http", proxy_auth = None, addresses = None, ech = None, wait = true, streams = None,
))]
#[expect(clippy::too_many_arguments, reason = "named in Python")]
pub(crate) fn connect(
    py: Python<'_>,
    host: String,
    port: u16,
    scheme: &str,
    versions: Option<Vec<String>>,
    tls: Option<&Bound<'_, PyTls>>,
    server_name: Option<String>,
    timeout: Option<f64>,
    source: Option<(String, u16)>,
    proxy: Option<(String, u16, Bound<'_, PyAny>)>,
    race: f64,
    unix: Option<PathBuf>,
    driven: bool,
    proxy_scheme: &str,
    proxy_auth: Option<(Vec<u8>, Vec<u8>)>,
    addresses: Option<Vec<IpAddr>>,
    ech: Option<Vec<u8>>,
    wait: bool,
    streams: Option<u32>,
) -> PyResult<Connected> {
    let secure = is_secure(py, scheme)?;
    let versions = versions_of(py, versions, secure)?;
    let tls = match tls {
        Some(tls) => Some(tls.get().0.clone()),
        None if secure || proxy_scheme == "https" => Some(tls::platform(py)?),
        None => None,
    };
    let options = ConnectOptions {
        host,
        port,
        secure,
        versions,
        tls,
        server_name,
        timeout: waiting::limit(py, timeout)?,
        source: source.map(|source| address(py, &source)).transpose()?,
        proxy: proxy
            .map(|proxy| proxy_of(py, proxy, proxy_scheme, proxy_auth))
            .transpose()?,
        race: waiting::limit(py, Some(race))?.unwrap_or(std::time::Duration::MAX),
        driven,
        unix,
        addresses,
        ech,
        streams,
    };
    if wait {
        return waiting::wait(py, |patience| Connection::connect(&options, patience))
            .map(|connection| Connected::Made(PyConnection::new(connection)));
    }
    py.detach(|| Connecting::begin(options))
        .map(|connecting| Connected::Begun(PyConnecting::new(connecting)))
        .map_err(|error| errors::raised(py, &error))
}

pub(super) fn is_secure(py: Python<'_>, scheme: &str) -> PyResult<bool> {
    match scheme {
        "https" => Ok(true),
        "http" => Ok(false),
        _ => {
            let message = format!("the scheme {scheme:?} is not known: http and https are");
            Err(errors::mistake(py, message))
        }
    }
}

pub(super) fn version_of(py: Python<'_>, name: &str) -> PyResult<Version> {
    match name {
        "h1" => Ok(Version::H1),
        "h2" => Ok(Version::H2),
        "h3" => Ok(Version::H3),
        _ => {
            let message = format!("the version {name:?} is not known: h1, h2 and h3 are");
            Err(errors::mistake(py, message))
        }
    }
}

fn versions_of(py: Python<'_>, names: Option<Vec<String>>, secure: bool) -> PyResult<Vec<Version>> {
    let Some(names) = names else {
        return Ok(if secure {
            vec![Version::H2, Version::H1]
        } else {
            vec![Version::H1]
        });
    };
    if names.is_empty() {
        return Err(errors::mistake(
            py,
            "versions names none: h1, h2 and h3 are known",
        ));
    }
    names.iter().map(|name| version_of(py, name)).collect()
}

fn address(py: Python<'_>, (host, port): &(String, u16)) -> PyResult<SocketAddr> {
    // As the sockets of Python take it, empty means any.
    let host = if host.is_empty() { "0.0.0.0" } else { host };
    let ip: Result<IpAddr, _> = host.trim_matches(['[', ']']).parse();
    let ip = ip.map_err(|_| {
        let message =
            format!("the source {host:?} is not an address: give an IP address of this machine");
        errors::mistake(py, message)
    })?;
    Ok(SocketAddr::new(ip, *port))
}

fn proxy_of(
    py: Python<'_>,
    (host, port, fields): (String, u16, Bound<'_, PyAny>),
    scheme: &str,
    credentials: Option<(Vec<u8>, Vec<u8>)>,
) -> PyResult<Proxy> {
    let protocol = match scheme {
        "http" | "https" => {
            let given = Given::new(&fields)?;
            let fields = given.borrowed().into_iter();
            ProxyProtocol::Connect {
                fields: fields
                    .map(|(name, value)| (name.to_vec(), value.to_vec()))
                    .collect(),
                secure: scheme == "https",
            }
        }
        "socks5" | "socks5h" => ProxyProtocol::Socks5 {
            credentials,
            resolves: scheme == "socks5h",
        },
        _ => {
            let message = format!(
                "the proxy's scheme {scheme:?} is not known: http, https, socks5 and socks5h are"
            );
            return Err(errors::mistake(py, message));
        }
    };
    Ok(Proxy {
        host,
        port,
        protocol,
    })
}
