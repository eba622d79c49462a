//! The trilane command: load and serve.
