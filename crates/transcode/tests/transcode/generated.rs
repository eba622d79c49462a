//! `generated/` is what protox makes of the definition. It is kept, so that a build needs no compiler
//! of definitions.

use std::{env, fs};

use prost::Message;

#[test]
fn what_is_kept_is_what_the_definition_says() {
    let set = protox::compile(["google/rpc/error_details.proto"], ["proto"]).unwrap();
    let (made, kept) = (set.encode_to_vec(), "generated/error_details.fds");
    if env::var_os("TRILANE_GENERATE").is_some() {
        fs::write(kept, &made).unwrap();
    }
    assert!(
        fs::read(kept).unwrap() == made,
        "crates/transcode/{kept} is older than its definition. \
         Type: TRILANE_GENERATE=1 cargo test --package trilane-transcode what_is_kept"
    );
}
