//! Tells the module which revision it was built from.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=TRILANE_REVISION");
    println!("cargo::rerun-if-changed=build.rs");
    let revision = std::env::var("TRILANE_REVISION")
        .ok()
        .or_else(git)
        .unwrap_or_default();
    println!("cargo::rustc-env=TRILANE_REVISION={revision}");
}

/// Short hash of HEAD; none outside a checkout.
fn git() -> Option<String> {
    let path = |name: &str| -> Option<String> {
        let output = Command::new("git")
            .args(["rev-parse", "--git-path", name])
            .output()
            .ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // Written on every commit and checkout, in worktrees too.
    println!("cargo::rerun-if-changed={}", path("logs/HEAD")?);
    let output = Command::new("git")
        .args(["rev-parse", "--short", "HEAD"])
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
