//! The commands that work on the directory of a site, and on snapshots. Both the program and the module of WebAssembly have them.

use clap::Subcommand;

use super::{CliError, compile, init, inspect, lint, schema, test, types};

#[derive(Debug, Subcommand)]
pub(super) enum SiteCommand {
    /// Write a small site to start from, with schemas for your editor.
    Init(init::InitArgs),
    /// Report all errors and warnings of the directory of a site. Writes nothing.
    ///
    /// With --against it also says how each experiment and audience changes if the site replaces another version.
    #[command(after_help = lint::EXAMPLES)]
    Lint(lint::LintArgs),
    /// Run the cases in the directory tests of a site directory: a visitor, a page, and the expected decision.
    ///
    /// Each case runs on a server in memory, which records the events of the visitor and answers the request for the page. Nothing
    /// listens on an address, and no file is written.
    #[command(after_help = test::EXAMPLES)]
    Test(test::TestArgs),
    /// Compile the directory of a site to a snapshot. Reports all errors at once.
    #[command(after_help = "Publish by compiling into the snapshots directory of a running server:\n  \
        parallax compile site/ -o /srv/parallax/snapshots/")]
    Compile(compile::CompileArgs),
    /// Write the TypeScript types of the components, queries and paths of a site.
    ///
    /// The types describe the values that the site has. Generate them again after each change.
    #[command(after_help = types::EXAMPLES)]
    Types(types::TypesArgs),
    /// Show the content of a snapshot, a segment of the log, or a checkpoint.
    #[command(after_help = inspect::EXAMPLES)]
    Inspect(inspect::InspectArgs),
    /// Print the JSON Schema of a kind of source file, for editors.
    Schema(schema::SchemaArgs),
}

impl SiteCommand {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<(), CliError> {
        match self {
            Self::Init(args) => init::init(args),
            Self::Lint(args) => lint::lint(args),
            Self::Test(args) => test::test(args),
            Self::Compile(args) => compile::compile_site(args),
            Self::Types(args) => types::write_types(args),
            Self::Inspect(args) => inspect::inspect_file(args),
            Self::Schema(args) => schema::print_schema(args),
        }
    }
}
