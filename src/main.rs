//! The binary. All its code is in the library, so that tests and benchmarks can call it too.

#[global_allocator]
static ALLOCATOR: parallax::ExitingAllocator = parallax::ExitingAllocator;

fn main() -> std::process::ExitCode {
    parallax::run()
}
