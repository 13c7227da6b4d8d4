//! The binary. All its code is in the library, so that tests and benchmarks can call it too.

fn main() -> std::process::ExitCode {
    parallax::run()
}
