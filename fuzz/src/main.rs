//! The program that libFuzzer drives: the target whose name is in `FUZZ_TARGET`. Without a name it lists
//! the targets.
#![no_main]

use std::process::exit;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use trilane_fuzz::{TARGETS, Target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let Ok(name) = std::env::var("FUZZ_TARGET") else {
        TARGETS
            .iter()
            .for_each(|target| println!("{}", target.name));
        exit(0);
    };
    let named = TARGETS.iter().find(|target| target.name == name);
    named.unwrap_or_else(|| {
        eprintln!("{name} is no fuzz target: there are the names that come without FUZZ_TARGET");
        exit(2);
    })
});

fuzz_target!(
    init: {
        LazyLock::force(&TARGET);
    },
    |data: &[u8]| (TARGET.run)(data)
);
