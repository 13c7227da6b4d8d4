//! Recognizes data of the Puck editor in a route file. It resembles a layout, so without this its first errors would
//! not say that the whole form is another one.
//!
//! Puck's document is `{content, root, zones}`. Its components have their `id` inside `props`, and may have `readOnly`.
//! The zones of all components are in one object, under names such as `Columns-1:left`.

use std::ops::Range;

use jsonc_parser::ast::{Object, Value};

use super::diagnostics::{Diagnostic, Diagnostics, Target, push_token, span_of};

/// The steps that turn Puck's data into a layout.
const CONVERSION: &[&str] = &[
    "a page is `{\"path\": \"/pricing\", \"layout\": {\"root\": {\"props\": {}}, \"zones\": {\"main\": []}}}`",
    "move `props.id` of each component to `id`, beside `type` and `props`",
    "move the components of `content` to a zone of the layout, such as `zones.main`",
    "move each zone `PARENT:NAME` to `zones.NAME` of the component with the ID PARENT, and `root:NAME` to the layout",
    "move the components in a prop (a slot) to a zone of their component",
    "leave out `readOnly`, and keep only `props` of `root`",
    "docs/authoring.md has an example under \"Pages of Puck\"",
];

/// A part of a file that is Puck's data.
struct PuckPart {
    pointer: String,
    span: Range<usize>,
    feature: Feature,
}

/// A feature that an object has only in Puck's data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Feature {
    Content,
    ZoneOfParent,
    IdInProps,
    ReadOnly,
}

impl Feature {
    fn description(self) -> &'static str {
        match self {
            Self::Content => "`content` beside `root` or `zones`",
            Self::ZoneOfParent => "zones with names such as `PARENT:NAME`",
            Self::IdInProps => "`id` inside `props`",
            Self::ReadOnly => "`readOnly` beside `props`",
        }
    }
}

/// Puts one error in the place of those that Puck's data causes. `diagnostics` are those of the route file `file`. A whole
/// document causes all of them, a component those inside of it.
pub(super) fn replace_diagnostics(file: &str, tree: &Value<'_>, diagnostics: Diagnostics) -> Diagnostics {
    let mut parts = Vec::new();
    collect_parts(tree, &mut String::new(), &mut parts);
    let is_caused = |diagnostic: &Diagnostic| {
        let Target::Span(span) = &diagnostic.target else { return false };
        let is_inside = |part: &PuckPart| part.span.start <= span.start && span.end <= part.span.end;
        parts.iter().any(|part| part.feature == Feature::Content || is_inside(part))
    };
    let (caused, mut others): (Vec<_>, Vec<_>) = diagnostics.into_vec().into_iter().partition(is_caused);
    if let (Some(first), false) = (parts.first(), caused.is_empty()) {
        let feature = first.feature.description();
        let diagnostic = Diagnostic::at_value(file, first.pointer.clone(), "the form of a page", feature);
        let title = format!("this is data of the Puck editor ({feature}) and has to be converted");
        let target = Target::Span(first.span.clone());
        others.push(Diagnostic { target, help: CONVERSION, ..diagnostic.with_title(title) });
    }
    Diagnostics::from(others)
}

/// Collects the outermost parts in the order of the file. Props contain any JSON, so they are left out.
fn collect_parts(value: &Value<'_>, pointer: &mut String, parts: &mut Vec<PuckPart>) {
    let length = pointer.len();
    match value {
        Value::Object(object) => {
            if let Some(feature) = puck_feature(object) {
                return parts.push(PuckPart { pointer: pointer.clone(), span: span_of(value), feature });
            }
            for member in object.properties.iter().filter(|member| member.name.as_str() != "props") {
                push_token(pointer, member.name.as_str());
                collect_parts(&member.value, pointer, parts);
                pointer.truncate(length);
            }
        }
        Value::Array(array) => {
            for (index, element) in array.elements.iter().enumerate() {
                push_token(pointer, &index.to_string());
                collect_parts(element, pointer, parts);
                pointer.truncate(length);
            }
        }
        _ => {}
    }
}

/// Returns the feature that an object has only in Puck's data.
fn puck_feature(object: &Object<'_>) -> Option<Feature> {
    let member = |name: &str| object.properties.iter().find(|member| member.name.as_str() == name);
    let object_of = |name: &str| member(name).and_then(|member| member.value.as_object());
    let is_array = |value: &Value<'_>| matches!(value, Value::Array(_));
    let has_zone_of_parent = |zones: &Object<'_>| {
        zones.properties.iter().any(|zone| zone.name.as_str().contains(':') && is_array(&zone.value))
    };
    let has_content = member("content").is_some_and(|content| is_array(&content.value));
    if has_content && (object_of("root").is_some() || object_of("zones").is_some()) {
        return Some(Feature::Content);
    }
    if object_of("zones").is_some_and(has_zone_of_parent) {
        return Some(Feature::ZoneOfParent);
    }
    let props = object_of("props")?;
    if member("type").is_some()
        && member("id").is_none()
        && props.properties.iter().any(|prop| prop.name.as_str() == "id")
    {
        return Some(Feature::IdInProps);
    }
    member("readOnly").map(|_| Feature::ReadOnly)
}
