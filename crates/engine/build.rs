//! Tells the build which revision and profile it is; `TRILANE_REVISION` says it where there is no checkout.

use std::env;
use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    println!("cargo::rerun-if-env-changed=TRILANE_REVISION");
    let revision = env::var("TRILANE_REVISION")
        .ok()
        .or_else(|| git(&["rev-parse", "--short=12", "HEAD"]))
        .unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=TRILANE_REVISION={revision}");
    let profile = env::var("PROFILE").unwrap_or_else(|_| "unknown".into());
    println!("cargo::rustc-env=TRILANE_PROFILE={profile}");
    println!("cargo::rerun-if-changed=build.rs");
    if let Some(directory) = git(&["rev-parse", "--absolute-git-dir"]) {
        println!("cargo::rerun-if-changed={directory}/logs/HEAD");
    }
}
