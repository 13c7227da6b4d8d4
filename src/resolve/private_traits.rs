//! Traits that a client must not see in a JSON document about a visitor: a profile, an explanation, or a recorded event.

use serde_json::Value as Json;

use crate::site::snapshot::format::ArchivedSite;

/// The member with the traits of a visitor. A condition on a trait has a path that begins with it.
const TRAITS: &str = "traits";

/// The traits that a client must not see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HiddenTraits {
    Listed(Vec<String>),
    /// All of them, because no published site says which ones are private.
    All,
}

impl HiddenTraits {
    /// The client sees all traits.
    pub(crate) const NONE: Self = Self::Listed(Vec::new());

    /// Returns the private traits of a site.
    pub(crate) fn of_site(site: Option<&ArchivedSite>) -> Self {
        site.map_or(Self::All, |site| {
            Self::Listed(site.traits.private.iter().map(ToString::to_string).collect())
        })
    }

    /// Returns whether the client must not see a trait.
    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Self::Listed(names) => names.iter().any(|hidden| hidden == name),
            Self::All => true,
        }
    }

    /// Removes the values of the traits from a document, at any depth: the members of each `traits`, and the `actual` value of each
    /// tested condition.
    pub(crate) fn remove_from(&self, document: &mut Json) {
        if *self == Self::NONE {
            return;
        }
        match document {
            Json::Array(items) => items.iter_mut().for_each(|item| self.remove_from(item)),
            Json::Object(members) => {
                if let Some(Json::Object(traits)) = members.get_mut(TRAITS) {
                    traits.retain(|name, _| !self.has(name));
                }
                let path = members.get("path").and_then(Json::as_str);
                if path.is_some_and(|path| self.has_path(path)) && members.contains_key("actual") {
                    members.insert("actual".to_owned(), Json::Null);
                }
                members.values_mut().for_each(|member| self.remove_from(member));
            }
            _ => {}
        }
    }

    /// Returns whether a path of a condition is that of such a trait, or of a part of one.
    fn has_path(&self, path: &str) -> bool {
        let of_trait = path.strip_prefix(TRAITS).and_then(|rest| rest.strip_prefix('.'));
        of_trait.is_some_and(|path| match self {
            Self::Listed(names) => names.iter().any(|name| {
                path.strip_prefix(&**name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            }),
            Self::All => true,
        })
    }
}
