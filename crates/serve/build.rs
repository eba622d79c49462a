//! Generates the library service from its definition, without protoc.

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
};

const PROTOS: &str = "../../proto";
const EXAMPLES: &str = "examples";
const LIBRARY: &str = "trilane/library/v1/library.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={PROTOS}");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut compiler = protox::Compiler::new([PROTOS])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_file(LIBRARY)?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .compile_fds(compiler.file_descriptor_set())?;
    // The tests' client.
    let client = out.join("client");
    fs::create_dir_all(&client)?;
    tonic_prost_build::configure()
        .out_dir(&client)
        .build_server(false)
        .build_transport(false)
        .compile_fds(compiler.file_descriptor_set())?;
    // Encoded by protox, which keeps the options that prost's types do not know. Comments are kept for
    // those who ask what the methods mean.
    fs::write(
        out.join("library.fds"),
        compiler.encode_file_descriptor_set(),
    )?;
    example(&out)
}

/// The service of `examples/in_process.rs`, as a program of its own would have it.
fn example(out: &Path) -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={EXAMPLES}");
    let mut compiler = protox::Compiler::new([EXAMPLES, PROTOS])?;
    compiler.include_imports(true).open_file("greeter.proto")?;
    let folder = out.join("example");
    fs::create_dir_all(&folder)?;
    tonic_prost_build::configure()
        .out_dir(&folder)
        .build_client(false)
        .build_transport(false)
        .compile_fds(compiler.file_descriptor_set())?;
    fs::write(
        folder.join("greeter.fds"),
        compiler.encode_file_descriptor_set(),
    )?;
    Ok(())
}
