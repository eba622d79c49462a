#[derive(clap::Args)]
pub(crate) struct ServeArgs {}
pub(crate) fn run(_: ServeArgs) -> u8 {
    0
}
