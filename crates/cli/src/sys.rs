//! What runs before Rust's runtime, which no safe code can.
#![allow(unsafe_code)]

/// What the loader calls before `main`, in the place where it looks for that.
#[used]
// SAFETY: the section holds pointers to functions of C that are called once, on the only thread there
// is; this one needs nothing of the runtime's.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    trilane_cli::occupy_standard_streams();
}
