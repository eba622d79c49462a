//! QUIC (RFC 9000) by quinn-proto, datagrams in and datagrams out. To be shaped by its owner.
