//! How bytes are sealed: TLS over a byte stream ([`tls`]) and QUIC over datagrams ([`quic`]), both
//! without sockets, clocks or threads.

pub mod quic;
pub mod tls;
