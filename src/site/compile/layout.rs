//! A layout to pieces of finished JSON with holes for its personalized zones.

use std::collections::BTreeMap;

use super::combinations;
use super::conditions::Conditions;
use super::embed::{Contents, Place};
use super::experiments::Experiments;
use super::piece::Pieces;
use crate::json;
use crate::limits::{
    BODY_RENDERED_BYTES_MAX, CANONICAL_BYTES_MAX, EMBEDDED_MAX, NODE_NESTING_MAX, QUERY_EVALUATIONS_MAX,
    RULES_MAX, VARIANTS_MAX, ZONES_MAX,
};
use crate::nearest::nearest;
use crate::site::snapshot::format::{Embedded, Given, Page, Part, Rule, Variant, Zone};
use crate::site::source::diagnostics::{Mistake, Mistakes};
use crate::site::source::pattern::Name;
use crate::site::source::types::{self, EmbeddedQuery, Layout, Members, Node, PersonalizedZone};

/// Compiles layouts one after the other.
pub(super) struct Layouts<'a, 's> {
    conditions: &'a mut Conditions<'s>,
    experiments: &'a Experiments,
    pub(super) contents: &'a mut Contents<'a>,
    pieces: &'a mut Pieces,
    description: Vec<u8>,
    combinations_counted: usize,
}

impl<'a, 's> Layouts<'a, 's> {
    pub(super) fn new(
        conditions: &'a mut Conditions<'s>,
        experiments: &'a Experiments,
        contents: &'a mut Contents<'a>,
        pieces: &'a mut Pieces,
    ) -> Self {
        Self { conditions, experiments, contents, pieces, description: Vec::new(), combinations_counted: 0 }
    }

    pub(super) fn page(&mut self, file: &str, path: &str, layout: &Layout, mistakes: &mut Mistakes) -> Page {
        let mut drafting = Drafting {
            layouts: self,
            file,
            path,
            mistakes,
            text: Vec::new(),
            zones: Vec::new(),
            embedded: Vec::new(),
            evaluations: 0,
        };
        let parts = drafting.layout(layout);
        let Drafting { zones, embedded, .. } = drafting;
        let (parts, zones) = sorted_by_name(parts, zones);
        self.describe(&parts, &zones);
        let mut page = Page {
            path: path.to_owned(),
            parts,
            zones: zones.into_iter().map(|drafted| drafted.zone).collect(),
            embedded,
            combinations: 0,
            combinations_array_bytes: 0,
            combinations_truncated: false,
        };
        self.check_sizes(file, &page, mistakes);
        self.list_combinations(&mut page);
        page
    }

    /// What the last page can show, and by which rules, in bytes that tell any two contents apart. What its embedded queries
    /// find is not in it.
    pub(super) fn description(&self) -> &[u8] {
        &self.description
    }

    /// How many combinations the last page has, as far as they are counted.
    pub(super) fn combinations_counted(&self) -> usize {
        self.combinations_counted
    }

    /// Appends what each of a page's queries finds for these parts of the path.
    pub(super) fn find(
        &mut self,
        embedded: &[Embedded],
        route: &BTreeMap<String, String>,
        out: &mut Vec<u8>,
    ) {
        self.contents.found(embedded, route, self.pieces, out);
    }

    fn describe(&mut self, parts: &[Part], zones: &[DraftedZone]) {
        let Self { description, pieces, .. } = self;
        description.clear();
        let mut describe = |text: &[u8]| {
            description.extend_from_slice(&(text.len() as u64).to_le_bytes());
            description.extend_from_slice(text);
        };
        let describe_parts = |parts: &[Part], describe: &mut dyn FnMut(&[u8])| {
            for part in parts {
                match part {
                    Part::Piece(index) => describe(pieces.text(*index)),
                    Part::Zone(index) => describe(zones[usize::from(*index)].zone.name.as_bytes()),
                    Part::Query(index) => describe(&index.to_le_bytes()),
                }
            }
        };
        describe_parts(parts, &mut describe);
        for drafted in zones {
            describe(drafted.rules.as_bytes());
            for variant in &drafted.zone.variants {
                describe(variant.key.as_bytes());
                describe_parts(&variant.parts, &mut describe);
            }
        }
    }

    fn list_combinations(&mut self, page: &mut Page) {
        let listed = combinations::of(page);
        self.combinations_counted = listed.counted;
        let mut text = vec![b'['];
        for (i, combination) in listed.first.iter().enumerate() {
            if i > 0 {
                text.push(b',');
            }
            json::string(&mut text, combination);
        }
        text.push(b']');
        page.combinations_array_bytes = text.len() as u32;
        page.combinations_truncated = listed.truncated;
        text.extend_from_slice(format!(",\"truncated\":{}}}", listed.truncated).as_bytes());
        page.combinations = self.pieces.add(text);
    }

    fn check_sizes(&self, file: &str, page: &Page, mistakes: &mut Mistakes) {
        let bytes = |part: &Part| match part {
            Part::Piece(index) => self.pieces.text(*index).len(),
            Part::Zone(_) => 0,
            Part::Query(index) => self.contents.bytes_max(&page.embedded[usize::from(*index)], self.pieces),
        };
        let body = longest(page, &page.parts, &|_| 0, &bytes);
        if body > BODY_RENDERED_BYTES_MAX {
            let expected =
                format!("a layout of at most {BODY_RENDERED_BYTES_MAX} bytes with its largest variants");
            mistakes.add(Mistake::of_value(file, "/layout", expected, format!("{body} bytes")));
        }
        let pair = |variant: &Variant| variant.pair.len() + usize::from(!variant.pair.is_empty());
        let canonical = longest(page, &page.parts, &pair, &|_| 0);
        if canonical > CANONICAL_BYTES_MAX {
            let expected =
                format!("zones and keys whose longest combination is at most {CANONICAL_BYTES_MAX} bytes");
            mistakes.add(Mistake::of_value(file, "/layout", expected, format!("{canonical} bytes")));
        }
    }
}

/// A zone, and its rules as they were authored.
struct DraftedZone {
    zone: Zone,
    rules: String,
}

struct Drafting<'d, 'a, 's> {
    layouts: &'d mut Layouts<'a, 's>,
    file: &'d str,
    /// Of the route.
    path: &'d str,
    mistakes: &'d mut Mistakes,
    /// Text that is not in a piece yet.
    text: Vec<u8>,
    zones: Vec<DraftedZone>,
    embedded: Vec<Embedded>,
    /// Items that these may have to look at, in all variants.
    evaluations: usize,
}

impl Drafting<'_, '_, '_> {
    fn layout(&mut self, layout: &Layout) -> Vec<Part> {
        let mut parts = Vec::new();
        self.text.extend_from_slice(b"\"layout\":{\"root\":{\"props\":");
        json::minified(&mut self.text, layout.root.props.get());
        self.text.push(b'}');
        self.members(&layout.zones, "/layout", &mut parts, 0);
        self.text.extend_from_slice(b"}}");
        self.end_piece(&mut parts);
        parts
    }

    fn end_piece(&mut self, parts: &mut Vec<Part>) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            parts.push(Part::Piece(self.layouts.pieces.add(text)));
        }
    }

    /// `,"zones":{...}`
    fn members(
        &mut self,
        zones: &Members<Name, types::Zone>,
        pointer: &str,
        parts: &mut Vec<Part>,
        depth: usize,
    ) {
        self.text.extend_from_slice(b",\"zones\":{");
        for (i, (name, zone)) in zones.0.iter().enumerate() {
            let pointer = format!("{pointer}/zones/{name}");
            if i > 0 {
                self.text.push(b',');
            }
            json::string(&mut self.text, name);
            self.text.push(b':');
            if depth == NODE_NESTING_MAX {
                let expected = format!("zones nested at most {NODE_NESTING_MAX} deep");
                self.wrong(&pointer, expected, "a deeper one");
                continue;
            }
            match zone {
                types::Zone::Plain(nodes) => self.nodes(nodes, &pointer, parts, depth + 1),
                types::Zone::Personalized(zone) => self.personalized(name, zone, &pointer, parts, depth + 1),
            }
        }
        self.text.push(b'}');
    }

    fn nodes(&mut self, nodes: &[Node], pointer: &str, parts: &mut Vec<Part>, depth: usize) {
        self.text.push(b'[');
        for (i, node) in nodes.iter().enumerate() {
            if i > 0 {
                self.text.push(b',');
            }
            self.node(node, &format!("{pointer}/{i}"), parts, depth);
        }
        self.text.push(b']');
    }

    fn node(&mut self, node: &Node, pointer: &str, parts: &mut Vec<Part>, depth: usize) {
        self.text.extend_from_slice(b"{\"id\":");
        json::string(&mut self.text, &node.id);
        self.text.extend_from_slice(b",\"type\":");
        json::string(&mut self.text, &node.kind);
        self.text.extend_from_slice(b",\"props\":");
        json::minified(&mut self.text, node.props.get());
        if let Some(query) = &node.query {
            self.query(query, pointer, parts);
        }
        if let Some(zones) = &node.zones {
            self.members(zones, pointer, parts, depth);
        }
        self.text.push(b'}');
    }

    /// `,"query":{...},"items":[...],"nextCursor":...`
    fn query(&mut self, query: &EmbeddedQuery, pointer: &str, parts: &mut Vec<Part>) {
        self.text.extend_from_slice(b",\"query\":{\"id\":");
        json::string(&mut self.text, &query.id);
        if let Some(params) = &query.params {
            self.text.extend_from_slice(b",\"params\":{");
            for (i, (name, value)) in params.0.iter().enumerate() {
                if i > 0 {
                    self.text.push(b',');
                }
                json::string(&mut self.text, name);
                self.text.push(b':');
                json::minified(&mut self.text, value.get());
            }
            self.text.push(b'}');
        }
        self.text.extend_from_slice(b"},\"items\":[");
        let at = Place { file: self.file, pointer: &format!("{pointer}/query"), path: self.path };
        let Some(embedded) = self.layouts.contents.embed(query, &at, self.mistakes) else { return };
        if !embedded.given.iter().any(|given| matches!(given, Given::Route(_))) {
            let Layouts { contents, pieces, .. } = &mut *self.layouts;
            return contents.first_page(&embedded, &at, pieces, &mut self.text, self.mistakes);
        }
        self.evaluations += self.layouts.contents.evaluations_max(&embedded);
        if self.evaluations > QUERY_EVALUATIONS_MAX {
            let expected = format!(
                "queries whose answers are known ahead, or that look at no more than {QUERY_EVALUATIONS_MAX} items, \
                 all of this page together"
            );
            let came = format!("{} items up to here", self.evaluations);
            return self.wrong(at.pointer, expected, &came);
        }
        if self.embedded.len() == EMBEDDED_MAX {
            let expected = format!("at most {EMBEDDED_MAX} queries that name a part of the path");
            return self.wrong(at.pointer, expected, "another");
        }
        self.end_piece(parts);
        parts.push(Part::Query(self.embedded.len() as u16));
        self.embedded.push(embedded);
    }

    fn personalized(
        &mut self,
        name: &Name,
        zone: &PersonalizedZone,
        pointer: &str,
        parts: &mut Vec<Part>,
        depth: usize,
    ) {
        if self.zones.iter().any(|z| *z.zone.name == **name) {
            let expected = "a name that no other personalized zone of this route has".to_owned();
            let mistake =
                Mistake::of_key(self.file, pointer, expected, format!("`{name}`, which stands twice"));
            self.mistakes.add(mistake);
        }
        if self.zones.len() == ZONES_MAX {
            return self.wrong(
                pointer,
                format!("at most {ZONES_MAX} personalized zones in a route"),
                "another",
            );
        }
        if zone.variants.0.len() > VARIANTS_MAX {
            let came = zone.variants.0.len().to_string();
            return self.wrong(
                &format!("{pointer}/variants"),
                format!("at most {VARIANTS_MAX} variants"),
                &came,
            );
        }
        if zone.rules.len() > RULES_MAX {
            let came = zone.rules.len().to_string();
            return self.wrong(&format!("{pointer}/rules"), format!("at most {RULES_MAX} rules"), &came);
        }
        self.end_piece(parts);
        let index = self.zones.len();
        parts.push(Part::Zone(index as u8));
        let (variants, rules) = Default::default();
        let draft = Zone { name: name.to_string(), variants, rules };
        self.zones.push(DraftedZone { zone: draft, rules: format!("{:?}", zone.rules) });

        let mut authored: Vec<_> = zone.variants.0.iter().map(|(key, nodes)| (&**key, nodes)).collect();
        authored.sort_by_key(|(key, _)| *key);
        let outside = std::mem::take(&mut self.text);
        let mut variants =
            vec![self.variant(name, "default", &zone.default, &format!("{pointer}/default"), depth)];
        for (key, nodes) in authored {
            variants.push(self.variant(name, key, nodes, &format!("{pointer}/variants/{key}"), depth));
        }
        self.text = outside;
        let rules = self.rules(zone, &variants, pointer);
        self.zones[index].zone.variants = variants;
        self.zones[index].zone.rules = rules;
    }

    fn variant(&mut self, zone: &str, key: &str, nodes: &[Node], pointer: &str, depth: usize) -> Variant {
        let mut parts = Vec::new();
        self.nodes(nodes, pointer, &mut parts, depth);
        self.end_piece(&mut parts);
        let pair = if key == "default" { String::new() } else { format!("{zone}:{key}") };
        Variant { key: key.to_owned(), pair, selected: format!("\"{zone}\":\"{key}\""), parts }
    }

    fn rules(&mut self, zone: &PersonalizedZone, variants: &[Variant], pointer: &str) -> Vec<Rule> {
        let rules = zone.rules.iter().enumerate();
        rules.map(|(i, rule)| self.rule(rule, variants, &format!("{pointer}/rules/{i}"))).collect()
    }

    fn rule(&mut self, rule: &types::Rule, variants: &[Variant], pointer: &str) -> Rule {
        let file = self.file;
        match rule {
            types::Rule::Audience { audience, variant } => {
                let at = format!("{pointer}/audience");
                let program = self.layouts.conditions.audience(file, &at, audience, self.mistakes);
                let variant = self.key(variant, variants, &format!("{pointer}/variant"));
                Rule::When { program, variant, audience: true }
            }
            types::Rule::When { when, variant } => {
                let program = self.condition(when, pointer);
                let variant = self.key(variant, variants, &format!("{pointer}/variant"));
                Rule::When { program, variant, audience: false }
            }
            types::Rule::Experiment { experiment, when } => {
                let arms = experiment.variants.iter().enumerate();
                let arms = arms
                    .map(|(i, key)| self.key(key, variants, &format!("{pointer}/experiment/variants/{i}")))
                    .collect();
                let when = when.as_ref().map(|when| self.condition(when, pointer));
                Rule::Experiment { experiment: self.layouts.experiments.index(&experiment.key), arms, when }
            }
        }
    }

    fn condition(&mut self, when: &serde_json::Value, pointer: &str) -> Vec<u8> {
        let pointer = format!("{pointer}/when");
        self.layouts.conditions.compile(self.file, &pointer, when, self.mistakes)
    }

    /// The index of a variant; of one that is not there, `default`.
    fn key(&mut self, key: &str, variants: &[Variant], pointer: &str) -> u8 {
        if let Some(at) = variants.iter().position(|variant| variant.key == key) {
            return at as u8;
        }
        self.unknown(pointer, "a variant of this zone", key, variants.iter().map(|v| v.key.as_str()));
        0
    }

    fn unknown<'k>(
        &mut self,
        pointer: &str,
        expected: &str,
        came: &str,
        known: impl Iterator<Item = &'k str>,
    ) {
        let mistake = Mistake::of_value(self.file, pointer, expected, format!("{came:?}"));
        self.mistakes.add(mistake.with_nearest(nearest(came, known)));
    }

    fn wrong(&mut self, pointer: &str, expected: String, came: &str) {
        self.mistakes.add(Mistake::of_value(self.file, pointer, expected, came));
    }
}

/// Zones in order of their names, and every reference to them changed accordingly.
fn sorted_by_name(mut parts: Vec<Part>, mut zones: Vec<DraftedZone>) -> (Vec<Part>, Vec<DraftedZone>) {
    let mut order: Vec<usize> = (0..zones.len()).collect();
    order.sort_by(|a, b| zones[*a].zone.name.cmp(&zones[*b].zone.name));
    let mut new_index = vec![0; zones.len()];
    for (new, old) in order.iter().enumerate() {
        new_index[*old] = new as u8;
    }
    let renumber = |parts: &mut [Part]| {
        for part in parts {
            if let Part::Zone(index) = part {
                *index = new_index[usize::from(*index)];
            }
        }
    };
    renumber(&mut parts);
    for drafted in &mut zones {
        drafted.zone.variants.iter_mut().for_each(|variant| renumber(&mut variant.parts));
    }
    zones.sort_by(|a, b| a.zone.name.cmp(&b.zone.name));
    (parts, zones)
}

/// The greatest sum of what variants and other parts weigh, over all choices.
fn longest(
    page: &Page,
    parts: &[Part],
    variant: &dyn Fn(&Variant) -> usize,
    other: &dyn Fn(&Part) -> usize,
) -> usize {
    let part = |part: &Part| match part {
        Part::Piece(_) | Part::Query(_) => other(part),
        Part::Zone(index) => {
            let variants = page.zones[usize::from(*index)].variants.iter();
            variants.map(|v| variant(v) + longest(page, &v.parts, variant, other)).max().unwrap_or(0)
        }
    };
    parts.iter().map(part).sum()
}
