//! Compiles the properties of breakdowns, and the searchable and private traits of a site.

use crate::limits::TRAIT_NAME_BYTES_MAX;
use crate::site::goals::PropertyPath;
use crate::site::snapshot::segment_format::TraitNames;
use crate::site::source::diagnostics::Diagnostics;
use crate::site::source::types;

/// Returns the properties of breakdowns, sorted. Reports invalid ones.
pub(super) fn compile_properties(site: &types::Site, diagnostics: &mut Diagnostics) -> Vec<String> {
    let expected = "the path of a property without `properties.`, such as `plan` or `cart.coupon`";
    let is_path = |name: &str| PropertyPath::below_properties(name).is_some();
    sorted("properties", &site.properties, expected, is_path, diagnostics)
}

/// Returns the searchable and the private traits, sorted. Reports invalid ones.
pub(super) fn compile_traits(site: &types::Site, diagnostics: &mut Diagnostics) -> TraitNames {
    let expected = format!("the name of a trait of at most {TRAIT_NAME_BYTES_MAX} bytes, such as `email`");
    let is_name = |name: &str| name.len() <= TRAIT_NAME_BYTES_MAX;
    let searchable = sorted("searchable", &site.searchable, &expected, is_name, diagnostics);
    let private = sorted("private", &site.private, &expected, is_name, diagnostics);
    TraitNames { searchable, private }
}

/// Returns the names in a member of `site.json`, sorted. Reports names that are invalid or repeated.
/// `expected` is the noun phrase of a valid name.
fn sorted(
    member: &str,
    names: &[String],
    expected: &str,
    is_valid: impl Fn(&str) -> bool,
    diagnostics: &mut Diagnostics,
) -> Vec<String> {
    for (index, name) in names.iter().enumerate() {
        let pointer = format!("/{member}/{index}");
        if !is_valid(name) {
            diagnostics.add_titled("site.json", pointer, "invalid name", expected, format!("{name:?}"));
        } else if names[..index].contains(name) {
            let expected = "each name once";
            diagnostics.add_titled("site.json", pointer, "a repeated name", expected, format!("{name:?}"));
        }
    }
    let mut names = names.to_vec();
    names.sort_unstable();
    names
}
