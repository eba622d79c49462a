//! Compiles the details of errors that are known without the caller's descriptors.

use std::{env, error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let set = protox::compile(["google/rpc/error_details.proto"], ["proto"])?;
    let out = env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    fs::write(
        Path::new(&out).join("error_details.bin"),
        prost::Message::encode_to_vec(&set),
    )?;
    Ok(())
}
