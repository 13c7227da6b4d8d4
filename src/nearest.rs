//! The name that somebody probably meant.

/// The candidate nearest to a misspelt name: at most one slip (a letter wrong, missing, added, or two swapped) in three
/// letters, but one in any case; letter case aside. Of equally near ones the first by text, so that the answer does not
/// depend on the order of candidates.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let name = name.to_lowercase();
    let length = name.chars().count();
    let near = candidates.into_iter().filter_map(|candidate| {
        let other = candidate.chars().count();
        let slips_max = (length.max(other) / 3).max(1);
        // Slips are at least the difference in length: a long text costs nothing.
        let slips = (length.abs_diff(other) <= slips_max)
            .then(|| strsim::damerau_levenshtein(&name, &candidate.to_lowercase()))?;
        (slips <= slips_max).then_some((slips, candidate))
    });
    near.min().map(|(_, candidate)| candidate.to_owned())
}
