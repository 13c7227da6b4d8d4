//! Time of a response from request bytes to response bytes, without the kernel.
//!
//! `cargo bench --bench resolve`. Each benchmark asserts its response first.

#[path = "bench/cases.rs"]
mod cases;
#[path = "bench/compiled.rs"]
mod compiled;
#[path = "bench/content.rs"]
mod content;
#[path = "bench/served.rs"]
mod served;
#[path = "bench/site.rs"]
mod site;

use cases::cases;
use compiled::compiled;
use content::site_with_content;
use divan::Bencher;
use served::TestHandler;

fn main() {
    divan::main();
}

#[divan::bench(args = cases().map(|case| case.name))]
fn answer(bencher: Bencher, name: &str) {
    let case = cases().into_iter().find(|case| case.name == name).expect("a case of this name");
    let mut served = TestHandler::new(&compiled(&site_with_content(), 1), None);
    case.assert(served.answer(&case.request));
    bencher.bench_local(move || served.answer(divan::black_box(&case.request)).len());
}
