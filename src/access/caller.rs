//! The client of a request, and its rights.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::link::Link;
use super::role::{Area, Role};

/// The kind of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActorKind {
    /// A token of the file.
    Token,
    /// A person that a proxy has signed in.
    User,
    /// A shared link.
    Link,
    /// The token of `--admin-token`.
    Operator,
    /// A request from this machine to a server without tokens.
    Loopback,
}

impl ActorKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::User => "user",
            Self::Link => "link",
            Self::Operator => "operator",
            Self::Loopback => "loopback",
        }
    }
}

/// The name of a client, for the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Actor {
    pub(crate) kind: ActorKind,
    /// The name of the token or of the person, or the ID of the link. Empty for the other kinds.
    pub(crate) name: Box<str>,
}

/// The sites of a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sites {
    All,
    /// These sites and their previews.
    Listed(Box<[Box<str>]>),
}

impl Sites {
    fn has(&self, site: &str) -> bool {
        let is_of = |listed: &str| {
            site.strip_prefix(listed).is_some_and(|rest| rest.is_empty() || rest.starts_with("--"))
        };
        match self {
            Self::All => true,
            Self::Listed(sites) => sites.iter().any(|listed| is_of(listed)),
        }
    }
}

/// A role for some sites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) role: Role,
    pub(super) sites: Sites,
}

/// The client of a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) actor: Actor,
    grants: Vec<Grant>,
    /// The link that the client has opened.
    link: Option<Arc<Link>>,
}

impl Caller {
    pub(super) fn new(kind: ActorKind, name: &str, grants: Vec<Grant>) -> Self {
        Self { actor: Actor { kind, name: name.into() }, grants, link: None }
    }

    /// Returns the client that has opened a shared link: a viewer of its site, but only for its questions.
    pub(crate) fn with_link(link: Link) -> Self {
        let sites = Sites::Listed([link.site.as_str().into()].into());
        let caller = Self::new(ActorKind::Link, &link.id, vec![Grant { role: Role::Viewer, sites }]);
        Self { link: Some(Arc::new(link)), ..caller }
    }

    /// Returns whether the client may ask this question. Only a shared link restricts the questions of its role.
    pub(crate) fn may_ask(&self, path: &str, query: &[(String, String)]) -> bool {
        self.link.as_ref().is_none_or(|link| link.admits(path, query))
    }

    /// Returns the link that the client has opened.
    pub(crate) fn link(&self) -> Option<&Link> {
        self.link.as_deref()
    }

    /// Returns the client that may do everything.
    pub(crate) fn operator(kind: ActorKind) -> Self {
        Self::new(kind, "", vec![Grant { role: Role::Operator, sites: Sites::All }])
    }

    /// Returns whether the client may use the area for some site.
    pub(crate) fn may_use(&self, area: Area) -> bool {
        self.grants.iter().any(|grant| grant.role.may_use(area))
    }

    /// Returns whether the client may use the area for the site.
    pub(crate) fn may_use_for(&self, area: Area, site: &str) -> bool {
        self.has_role(site, |role| role.may_use(area))
    }

    /// Returns whether the client sees the recorded visitors of the site, and not only invented ones.
    pub(crate) fn sees_visitors(&self, site: &str) -> bool {
        self.has_role(site, Role::sees_visitors)
    }

    /// Returns whether the client sees the private traits of the visitors of the site.
    pub(crate) fn sees_private_traits(&self, site: &str) -> bool {
        self.has_role(site, Role::sees_private_traits)
    }

    /// Returns whether the client may use the area for all sites.
    pub(crate) fn may_use_for_all(&self, area: Area) -> bool {
        self.grants.iter().any(|grant| grant.role.may_use(area) && grant.sites == Sites::All)
    }

    fn has_role(&self, site: &str, accepts: impl Fn(Role) -> bool) -> bool {
        self.grants.iter().any(|grant| accepts(grant.role) && grant.sites.has(site))
    }

    /// Returns the answer of `GET /access`.
    pub(crate) fn to_json(&self) -> Json {
        let grant = |grant: &Grant| match &grant.sites {
            Sites::All => json!({ "role": grant.role, "sites": ["*"] }),
            Sites::Listed(sites) => json!({ "role": grant.role, "sites": sites }),
        };
        json!({
            "kind": self.actor.kind.name(),
            "name": self.actor.name,
            "grants": self.grants.iter().map(grant).collect::<Json>(),
        })
    }
}
