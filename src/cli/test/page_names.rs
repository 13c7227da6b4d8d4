//! The names that the expectations of a page can use: its zones and their variants, its experiments and their arms, and its
//! components.

use std::collections::{BTreeMap, BTreeSet};

use super::cases::CheckedCase;
use crate::invented::Visit;
use crate::nearest::nearest;
use crate::record::{HELD_OUT, NOT_HELD_OUT, SITE_HOLDOUT};
use crate::site::snapshot::format::{ArchivedPage, ArchivedRule, ArchivedSite};
use crate::site::source::diagnostics::{Diagnostic, Diagnostics, join_token};
use crate::site::source::read::Source;
use crate::site::source::types::{Members, Node, Route, Zone};

/// The name of the page itself among its components.
pub(super) const ROOT: &str = "root";

/// Names, each with its values.
type Choices<'s> = BTreeMap<&'s str, BTreeSet<&'s str>>;

/// The names of a page.
pub(super) struct PageNames<'s> {
    zones: Choices<'s>,
    experiments: Choices<'s>,
    /// The IDs of the components, also of those in variants.
    components: BTreeSet<&'s str>,
}

impl<'s> PageNames<'s> {
    pub(super) fn new(site: &'s ArchivedSite, source: &'s Source, page: &'s ArchivedPage) -> Self {
        let mut zones = Choices::new();
        let mut experiments = Choices::new();
        for zone in page.zones.iter() {
            zones.insert(zone.name.as_str(), zone.variants.iter().map(|variant| &*variant.key).collect());
            for rule in zone.rules.iter() {
                let ArchivedRule::Experiment { experiment, .. } = rule else { continue };
                let experiment = &site.experiments[usize::from(experiment.to_native())];
                let arms = experiments.entry(&*experiment.key).or_default();
                arms.extend(experiment.arms.iter().map(|arm| arm.as_str()));
                arms.insert(HELD_OUT);
            }
        }
        if site.holdout.is_some() {
            experiments.insert(SITE_HOLDOUT, BTreeSet::from([HELD_OUT, NOT_HELD_OUT]));
        }
        let mut components = BTreeSet::from([ROOT]);
        let of_page = source.routes.iter().filter(|(_, route)| route.path() == page.path.as_str());
        for (_, route) in of_page {
            if let Route::Page(route) = route {
                add_components(&route.layout.zones, &mut components);
            }
        }
        Self { zones, experiments, components }
    }

    /// Adds a diagnostic for each unknown name of a case.
    pub(super) fn check(&self, checked: &CheckedCase<'_>, diagnostics: &mut Diagnostics) {
        let CheckedCase { case, visit: Visit { file, pointer, .. }, .. } = checked;
        let zones = NamesOfKind { name_kind: "zone", value_kind: "variant", choices: &self.zones };
        let experiments =
            NamesOfKind { name_kind: "experiment", value_kind: "arm", choices: &self.experiments };
        let mut check = |names: &NamesOfKind<'_>, member: &str, name: &str, value: Option<&str>| {
            let pointer = join_token(&format!("{pointer}/{member}"), name);
            names.check(file, pointer, name, value, diagnostics);
        };
        for (zone, variant) in &case.r#override {
            check(&zones, "override", zone, Some(variant));
        }
        for (key, arm) in &case.visitor.arms {
            check(&experiments, "visitor/arms", key, Some(arm));
        }
        for (zone, variant) in &case.expect.variants {
            check(&zones, "expect/variants", zone, variant.as_deref());
        }
        for (key, arm) in &case.expect.experiments {
            check(&experiments, "expect/experiments", key, arm.as_deref());
        }
        let unknown = case.expect.props.keys().filter(|id| !self.components.contains(id.as_str()));
        for id in unknown {
            let pointer = join_token(&format!("{pointer}/expect/props"), id);
            diagnostics.add(unknown_key(file, pointer, "component", id, self.components.iter().copied()));
        }
    }
}

/// The names of one kind, each with its values of another kind.
struct NamesOfKind<'c> {
    name_kind: &'static str,
    value_kind: &'static str,
    choices: &'c Choices<'c>,
}

impl NamesOfKind<'_> {
    /// Adds a diagnostic if the name is unknown, or if the value is none of those of the name.
    fn check(
        &self,
        file: &str,
        pointer: String,
        name: &str,
        value: Option<&str>,
        diagnostics: &mut Diagnostics,
    ) {
        let Self { name_kind, value_kind, choices } = self;
        let Some(values) = choices.get(name) else {
            diagnostics.add(unknown_key(file, pointer, name_kind, name, choices.keys().copied()));
            return;
        };
        if let Some(value) = value.filter(|value| !values.contains(value)) {
            let expected = format!("{} of {name_kind} `{name}`", list(values.iter().copied()));
            diagnostics.add_unknown(file, pointer, value_kind, value, expected, values.iter().copied());
        }
    }
}

/// Returns the diagnostic of a member whose name the page does not have.
fn unknown_key<'n>(
    file: &str,
    pointer: String,
    kind: &str,
    name: &str,
    names: impl Iterator<Item = &'n str> + Clone,
) -> Diagnostic {
    let expected = match names.clone().next() {
        None => format!("no name, because the page has no {kind}"),
        Some(_) => format!("{} of the page", list(names.clone())),
    };
    let diagnostic = Diagnostic::at_key(file, pointer, expected, format!("{name:?}"));
    diagnostic.with_title(format!("unknown {kind} {name:?}")).with_nearest(nearest(name, names))
}

/// Number of names that a diagnostic lists. A large page has hundreds of components.
const NAMES_SHOWN_MAX: usize = 8;

fn list<'n>(names: impl Iterator<Item = &'n str> + Clone) -> String {
    let count = names.clone().count();
    let texts: Vec<String> = names.take(NAMES_SHOWN_MAX).map(|name| format!("`{name}`")).collect();
    let more = if count > NAMES_SHOWN_MAX { ", …" } else { "" };
    match count {
        1 => texts.concat(),
        _ => format!("one of {}{more}", texts.join(", ")),
    }
}

/// Adds the IDs of the components in zones.
fn add_components<'s, K>(zones: &'s Members<K, Zone>, ids: &mut BTreeSet<&'s str>) {
    for (_, zone) in &zones.0 {
        match zone {
            Zone::Plain(nodes) => add_nodes(nodes, ids),
            Zone::Personalized(zone) => {
                add_nodes(&zone.default, ids);
                zone.variants.0.iter().for_each(|(_, nodes)| add_nodes(nodes, ids));
            }
        }
    }
}

fn add_nodes<'s>(nodes: &'s [Node], ids: &mut BTreeSet<&'s str>) {
    for node in nodes {
        ids.insert(&*node.id);
        node.zones.iter().for_each(|zones| add_components(zones, ids));
    }
}
