//! Each target on the same random inputs in every run, and on those that showed a mistake once.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use trilane_fuzz::{TARGETS, Target};

/// Inputs for each target: some seconds for all of them, without optimisation.
const CASES: u32 = 200;

fn check(target: &Target, length: usize) {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: CASES,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let checked = runner.run(&vec(any::<u8>(), 0..length), |input| {
        (target.run)(&input);
        Ok(())
    });
    if let Err(error) = checked {
        panic!("{}: {error}", target.name);
    }
}

#[test]
fn random_inputs_show_no_mistake() {
    for target in TARGETS {
        check(target, 1000);
    }
}

#[test]
fn what_was_found_is_mended() {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("found");
    for folder in fs::read_dir(found).unwrap() {
        let folder = folder.unwrap();
        let name = folder.file_name();
        let target = TARGETS.iter().find(|target| *target.name == *name);
        let target = target.unwrap_or_else(|| panic!("{name:?} is no target"));
        for input in fs::read_dir(folder.path()).unwrap() {
            let path = input.unwrap().path();
            println!("{}", path.display());
            (target.run)(&fs::read(path).unwrap());
        }
    }
}
