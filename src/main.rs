//! The program: everything it does is in the library, so that tests and benchmarks can do it too.

fn main() -> std::process::ExitCode {
    parallax::cli::run()
}
