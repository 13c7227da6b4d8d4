//! Spelling suggestions for unknown names.

/// Returns the candidate nearest to a misspelt name, ignoring case.
///
/// A typo is a wrong, missing or extra letter, or two swapped letters. One typo for three letters is allowed,
/// and at least one. Of equally near candidates the first in text order is returned, so the result does not
/// depend on the order of candidates.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let name = name.to_lowercase();
    let length = name.chars().count();
    let near = candidates.into_iter().filter_map(|candidate| {
        let other = candidate.chars().count();
        let slips_max = (length.max(other) / 3).max(1);
        // The difference in length is a lower bound on the typos. So a long text costs nothing.
        let slips = (length.abs_diff(other) <= slips_max)
            .then(|| strsim::damerau_levenshtein(&name, &candidate.to_lowercase()))?;
        (slips <= slips_max).then_some((slips, candidate))
    });
    near.min().map(|(_, candidate)| candidate.to_owned())
}
