//! Tells the build which revision and profile it is; `TRILANE_REVISION` says it where there is no checkout.

use std::{env, path::PathBuf, process::Command};

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
    println!("cargo::rustc-env=TRILANE_PROFILE={}", profile());
    println!("cargo::rerun-if-changed=build.rs");
    if let Some(directory) = git(&["rev-parse", "--absolute-git-dir"]) {
        println!("cargo::rerun-if-changed={directory}/logs/HEAD");
    }
}

/// The profile's name. `PROFILE` has the one that it inherits from; the folder above `build` has its own.
fn profile() -> String {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    out.ancestors()
        .find(|folder| folder.ends_with("build"))
        .and_then(|build| build.parent()?.file_name()?.to_str())
        .map(str::to_owned)
        .or_else(|| env::var("PROFILE").ok())
        .unwrap_or_else(|| "unknown".into())
}
