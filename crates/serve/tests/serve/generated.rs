//! `generated/` is what tonic and protox make of the definitions. It is kept, so that a build of the
//! server needs no compiler of definitions.

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use tonic_prost_build::Builder;

#[test]
fn what_is_kept_is_what_the_definitions_say() -> Result<(), Box<dyn Error>> {
    let made = tempfile::tempdir()?;
    generate(made.path())?;
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("generated");
    for name in [
        "trilane.library.v1.rs",
        "library.fds",
        "client/trilane.library.v1.rs",
        "example/demo.greeter.v1.rs",
        "example/greeter.fds",
    ] {
        let made = fs::read(made.path().join(name))?;
        if env::var_os("TRILANE_GENERATE").is_some() {
            fs::write(root.join(name), &made)?;
        }
        assert!(
            fs::read(root.join(name))? == made,
            "crates/serve/generated/{name} is older than its definition. \
             Type: TRILANE_GENERATE=1 cargo test --package trilane-serve what_is_kept"
        );
    }
    Ok(())
}

fn generate(folder: &Path) -> Result<(), Box<dyn Error>> {
    let mut library = protox::Compiler::new(["../../proto"])?;
    library.include_imports(true).include_source_info(true);
    library.open_file("trilane/library/v1/library.proto")?;
    write(&library, server(), folder)?;
    write(&library, client(), &folder.join("client"))?;
    // Encoded by protox, which keeps the options that prost's types do not know. Comments are kept for
    // those who ask what the methods mean.
    fs::write(
        folder.join("library.fds"),
        library.encode_file_descriptor_set(),
    )?;
    let mut greeter = protox::Compiler::new(["examples", "../../proto"])?;
    greeter.include_imports(true).open_file("greeter.proto")?;
    let example = folder.join("example");
    write(&greeter, server(), &example)?;
    fs::write(
        example.join("greeter.fds"),
        greeter.encode_file_descriptor_set(),
    )?;
    Ok(())
}

fn write(from: &protox::Compiler, builder: Builder, folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    builder
        .out_dir(folder)
        .build_transport(false)
        .compile_fds(from.file_descriptor_set())?;
    Ok(())
}

fn server() -> Builder {
    tonic_prost_build::configure().build_client(false)
}

fn client() -> Builder {
    tonic_prost_build::configure().build_server(false)
}
