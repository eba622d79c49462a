//! The floor.
fn main() {}
