//! Compiles layouts to pieces of finished JSON, with gaps for personalized zones.

mod items;
mod queries;

use std::collections::BTreeMap;

use self::items::ItemGap;
pub(super) use self::items::{ItemGaps, remove_unknown_fields};
use super::combinations;
use super::conditions::ConditionCompiler;
use super::embed::EmbeddedQueries;
use super::experiments::{self, Experiments};
use super::piece::PieceBuilder;
use crate::json;
use crate::limits::{
    BODY_RENDERED_BYTES_MAX, CANONICAL_BYTES_MAX, NODE_NESTING_MAX, ROUTE_VALUE_BYTES_MAX, RULES_MAX,
    VARIANTS_MAX, ZONES_MAX,
};
use crate::site::snapshot::format::{Condition, Page, Part, QueryCall, Rule, Variant, Zone, ZonePlace};
use crate::site::source::diagnostics::{Diagnostic, Diagnostics};
use crate::site::source::pattern::Name;
use crate::site::source::types::{self, Layout, Members, Node, PageRoute, PersonalizedZone};

/// A compiler for the layouts of a site, used for one page after the other.
pub(super) struct PageCompiler<'a, 's> {
    conditions: &'a mut ConditionCompiler<'s>,
    experiments: &'a Experiments,
    pub(super) embedded_queries: &'a mut EmbeddedQueries<'a>,
    pieces: &'a mut PieceBuilder,
    description: Vec<u8>,
    combinations_counted: usize,
    /// The maximum size of the last page, without the values of an item.
    body_bytes_max: usize,
}

impl<'a, 's> PageCompiler<'a, 's> {
    pub(super) fn new(
        condition_compiler: &'a mut ConditionCompiler<'s>,
        experiments: &'a Experiments,
        embedded_queries: &'a mut EmbeddedQueries<'a>,
        pieces: &'a mut PieceBuilder,
    ) -> Self {
        Self {
            conditions: condition_compiler,
            experiments,
            embedded_queries,
            pieces,
            description: Vec::new(),
            combinations_counted: 0,
            body_bytes_max: 0,
        }
    }

    /// Compiles the page of a route. If its paths are generated from items, the page has gaps for their values.
    pub(super) fn compile_page(
        &mut self,
        file: &str,
        route: &PageRoute,
        diagnostics: &mut Diagnostics,
    ) -> (Page, ItemGaps) {
        let PageRoute { path, layout, .. } = route;
        let mut drafting = LayoutCompiler {
            page_compiler: self,
            file,
            path,
            has_item: route.each.is_some(),
            diagnostics,
            text: Vec::new(),
            text_gaps: Vec::new(),
            item_gaps: ItemGaps::new(),
            zones: Vec::new(),
            embedded: Vec::new(),
            evaluations: 0,
        };
        let parts = drafting.compile_layout(layout);
        let LayoutCompiler { zones, embedded, item_gaps, .. } = drafting;
        let (parts, zones) = sort_zones_by_name(parts, zones);
        self.write_description(&parts, &zones, &embedded);
        let mut page = Page {
            path: path.clone(),
            zone_places: list_zone_places(&parts, &zones),
            parts,
            zones: zones.into_iter().map(|drafted| drafted.zone).collect(),
            embedded,
            combinations: 0,
            combinations_array_bytes: 0,
            combinations_truncated: false,
        };
        self.check_sizes(file, &page, diagnostics);
        experiments::check_text_length(file, layout, diagnostics);
        self.list_combinations(&mut page);
        (page, item_gaps)
    }

    /// Returns the contents of the last page and its rules, in bytes that differ for different contents. The
    /// items of its embedded queries are not included.
    pub(super) fn description(&self) -> &[u8] {
        &self.description
    }

    /// Returns the number of combinations of the last page, up to the limit of the count.
    pub(super) fn combinations_counted(&self) -> usize {
        self.combinations_counted
    }

    /// Appends the results of a page's queries for these parts of the path.
    pub(super) fn write_found_items(
        &mut self,
        calls: &[QueryCall],
        route_values: &BTreeMap<String, String>,
        out: &mut Vec<u8>,
    ) {
        self.embedded_queries.write_found_items(calls, route_values, self.pieces, out);
    }

    fn write_description(&mut self, parts: &[Part], zones: &[CompiledZone], calls: &[QueryCall]) {
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
                    Part::RouteValue(index, param) => {
                        let argument = &calls[usize::from(*index)].arguments[usize::from(*param)];
                        describe(format!("{argument:?}").as_bytes());
                    }
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
        let listed = combinations::find_combinations(page);
        self.combinations_counted = listed.counted;
        let mut text = vec![b'['];
        for (i, combination) in listed.first.iter().enumerate() {
            json::write_comma(&mut text, i);
            json::write_string(&mut text, combination);
        }
        text.push(b']');
        page.combinations_array_bytes = text.len() as u32;
        page.combinations_truncated = listed.truncated;
        text.extend_from_slice(format!(",\"truncated\":{}}}", listed.truncated).as_bytes());
        page.combinations = self.pieces.add(&text);
    }

    fn check_sizes(&mut self, file: &str, page: &Page, diagnostics: &mut Diagnostics) {
        let bytes = |part: &Part| match part {
            Part::Piece(index) => self.pieces.text(*index).len(),
            Part::Zone(_) => 0,
            Part::RouteValue(..) => ROUTE_VALUE_BYTES_MAX,
            Part::Query(index) => {
                self.embedded_queries.bytes_max(&page.embedded[usize::from(*index)], self.pieces)
            }
        };
        let body = max_total(page, &page.parts, &|_| 0, &bytes);
        self.body_bytes_max = body;
        if body > BODY_RENDERED_BYTES_MAX {
            let expected =
                format!("a layout of at most {BODY_RENDERED_BYTES_MAX} bytes with its largest variants");
            let title = "the layout is too large";
            diagnostics.add_titled(file, "/layout", title, expected, format!("{body} bytes"));
        }
        let pair = |variant: &Variant| variant.pair.len() + usize::from(!variant.pair.is_empty());
        let canonical = max_total(page, &page.parts, &pair, &|_| 0);
        if canonical > CANONICAL_BYTES_MAX {
            let expected = format!(
                "zone names and variant keys whose longest combination is at most {CANONICAL_BYTES_MAX} bytes"
            );
            let title = "the names of zones and variants are too long";
            diagnostics.add_titled(file, "/layout", title, expected, format!("{canonical} bytes"));
        }
    }
}

/// A compiled zone, and its rules as authored.
struct CompiledZone {
    zone: Zone,
    rules: String,
}

struct LayoutCompiler<'d, 'a, 's> {
    page_compiler: &'d mut PageCompiler<'a, 's>,
    file: &'d str,
    /// The path of the route.
    path: &'d str,
    /// True if the route has `each`.
    has_item: bool,
    diagnostics: &'d mut Diagnostics,
    /// Text that is not part of a piece yet.
    text: Vec<u8>,
    /// The gaps in `text`.
    text_gaps: Vec<ItemGap>,
    item_gaps: ItemGaps,
    zones: Vec<CompiledZone>,
    embedded: Vec<QueryCall>,
    /// The maximum number of items that these queries evaluate, over all variants.
    evaluations: usize,
}

impl LayoutCompiler<'_, '_, '_> {
    fn compile_layout(&mut self, layout: &Layout) -> Vec<Part> {
        let mut parts = Vec::new();
        self.text.extend_from_slice(b"\"layout\":{\"root\":{\"props\":");
        self.props(&layout.root.props, "/layout/root");
        self.text.push(b'}');
        self.members(&layout.zones, "/layout", &mut parts, 0);
        self.text.extend_from_slice(b"}}");
        self.end_piece(&mut parts);
        parts
    }

    fn end_piece(&mut self, parts: &mut Vec<Part>) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            let piece = self.page_compiler.pieces.add(&text);
            parts.push(Part::Piece(piece));
            if !self.text_gaps.is_empty() {
                self.item_gaps.insert(piece, std::mem::take(&mut self.text_gaps));
            }
        }
    }

    /// Writes `,"zones":{...}`.
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
            json::write_comma(&mut self.text, i);
            json::write_string(&mut self.text, name);
            self.text.push(b':');
            if depth == NODE_NESTING_MAX {
                let expected = format!("zones nested at most {NODE_NESTING_MAX} deep");
                self.wrong(&pointer, "zones are nested too deeply", expected, "a deeper zone");
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
            json::write_comma(&mut self.text, i);
            self.node(node, &format!("{pointer}/{i}"), parts, depth);
        }
        self.text.push(b']');
    }

    fn node(&mut self, node: &Node, pointer: &str, parts: &mut Vec<Part>, depth: usize) {
        self.text.extend_from_slice(b"{\"id\":");
        json::write_string(&mut self.text, &node.id);
        self.text.extend_from_slice(b",\"type\":");
        json::write_string(&mut self.text, &node.kind);
        self.text.extend_from_slice(b",\"props\":");
        self.props(&node.props, pointer);
        if let Some(query) = &node.query {
            self.query(query, pointer, parts);
        }
        if let Some(zones) = &node.zones {
            self.members(zones, pointer, parts, depth);
        }
        self.text.push(b'}');
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
            let diagnostic = Diagnostic::at_key(self.file, pointer, expected, format!("`{name}` again"));
            self.diagnostics.add(diagnostic.with_title(format!("duplicate personalized zone `{name}`")));
        }
        if self.zones.len() == ZONES_MAX {
            let expected = format!("at most {ZONES_MAX} personalized zones in a route");
            return self.wrong(pointer, "too many personalized zones", expected, "one more");
        }
        if zone.variants.0.len() > VARIANTS_MAX {
            let actual = zone.variants.0.len().to_string();
            let expected = format!("at most {VARIANTS_MAX} variants");
            return self.wrong(&format!("{pointer}/variants"), "too many variants", expected, &actual);
        }
        if zone.rules.len() > RULES_MAX {
            let actual = zone.rules.len().to_string();
            let expected = format!("at most {RULES_MAX} rules");
            return self.wrong(&format!("{pointer}/rules"), "too many rules", expected, &actual);
        }
        self.end_piece(parts);
        let index = self.zones.len();
        parts.push(Part::Zone(index as u8));
        let (variants, rules) = Default::default();
        let builder = Zone { name: name.to_string(), variants, rules };
        self.zones.push(CompiledZone { zone: builder, rules: format!("{:?}", zone.rules) });

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

    fn variant(
        &mut self,
        zone_name: &str,
        key: &str,
        nodes: &[Node],
        pointer: &str,
        depth: usize,
    ) -> Variant {
        let mut parts = Vec::new();
        self.nodes(nodes, pointer, &mut parts, depth);
        self.end_piece(&mut parts);
        let pair = if key == "default" { String::new() } else { format!("{zone_name}:{key}") };
        Variant { key: key.into(), pair, selected: format!("\"{zone_name}\":\"{key}\""), parts }
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
                let audience =
                    self.page_compiler.conditions.audience_index(file, &at, audience, self.diagnostics);
                let variant = self.key(variant, variants, &format!("{pointer}/variant"));
                Rule::Audience { audience, variant }
            }
            types::Rule::When { when, variant } => {
                let when = self.condition(when, pointer);
                let variant = self.key(variant, variants, &format!("{pointer}/variant"));
                Rule::When { when, variant }
            }
            types::Rule::Experiment { experiment, when } => {
                let arms = experiment.variants.iter().enumerate();
                let arms = arms
                    .map(|(i, key)| self.key(key, variants, &format!("{pointer}/experiment/variants/{i}")))
                    .collect();
                let when = when.as_ref().map(|when| self.condition(when, pointer));
                let experiment = self.page_compiler.experiments.index(&experiment.key);
                Rule::Experiment { experiment, arms, when }
            }
        }
    }

    fn condition(&mut self, authored_condition: &serde_json::Value, pointer: &str) -> Condition {
        let pointer = format!("{pointer}/when");
        let program =
            self.page_compiler.conditions.compile(self.file, &pointer, authored_condition, self.diagnostics);
        Condition { program, authored: authored_condition.to_string() }
    }

    /// Returns the index of a variant. An unknown variant is reported and replaced by `default`.
    fn key(&mut self, key: &str, variants: &[Variant], pointer: &str) -> u8 {
        if let Some(at) = variants.iter().position(|variant| *variant.key == *key) {
            return at as u8;
        }
        let known = variants.iter().map(|variant| &*variant.key);
        self.diagnostics.add_unknown(self.file, pointer, "variant", key, "a variant of this zone", known);
        0
    }

    fn wrong(&mut self, pointer: &str, title: &str, expected: String, actual: &str) {
        self.diagnostics.add_titled(self.file, pointer, title, expected, actual);
    }
}

/// Sorts the zones by name and updates every reference to them.
fn sort_zones_by_name(mut parts: Vec<Part>, mut zones: Vec<CompiledZone>) -> (Vec<Part>, Vec<CompiledZone>) {
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

/// Lists the places of the zones in the order of the layout: a zone comes before the zones in its variants.
fn list_zone_places(parts: &[Part], zones: &[CompiledZone]) -> Vec<ZonePlace> {
    let mut places = Vec::with_capacity(zones.len());
    add_zone_places(parts, zones, None, &mut places);
    places
}

fn add_zone_places(
    parts: &[Part],
    zones: &[CompiledZone],
    outer_variant: Option<(u8, u8)>,
    zone_places: &mut Vec<ZonePlace>,
) {
    for part in parts {
        if let Part::Zone(zone) = *part {
            zone_places.push(ZonePlace { zone, within: outer_variant });
            for (index, variant) in zones[usize::from(zone)].zone.variants.iter().enumerate() {
                add_zone_places(&variant.parts, zones, Some((zone, index as u8)), zone_places);
            }
        }
    }
}

/// Returns the largest possible sum of the sizes of variants and other parts, over all combinations of
/// variants.
fn max_total(
    page: &Page,
    parts: &[Part],
    variant_size: &dyn Fn(&Variant) -> usize,
    other_size: &dyn Fn(&Part) -> usize,
) -> usize {
    let part = |part: &Part| match part {
        Part::Piece(_) | Part::RouteValue(..) | Part::Query(_) => other_size(part),
        Part::Zone(index) => {
            let variants = page.zones[usize::from(*index)].variants.iter();
            variants
                .map(|v| variant_size(v) + max_total(page, &v.parts, variant_size, other_size))
                .max()
                .unwrap_or(0)
        }
    };
    parts.iter().map(part).sum()
}
