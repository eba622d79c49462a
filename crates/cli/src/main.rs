//! The trilane command.

fn main() {}
