//! One line of the audit log: who did something, from where, to which site and visitor, and the outcome. It never has content,
//! and names a visitor only by the digest that tombstones use.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::events::time;
use crate::limits::{AUDIT_DETAIL_BYTES_MAX, AUDIT_NAME_BYTES_MAX};
use crate::record::{IdKind, TombstoneKey, VisitorId};

/// Defines an enum whose variants have names in the audit log.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant,)*
        }

        impl $name {
            /// All variants.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name in the audit log.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

named! {
    /// The action of a line.
    AuditAction {
        /// A look at one visitor: the profile, the records, or the reasons for a page.
        View = "view",
        /// A list of visitors, or a search for them by a trait.
        Find = "find",
        /// An export of the records of a visitor.
        Export = "export",
        /// The erasure of a visitor.
        Erase = "erase",
        /// A request that was refused, because its client has no access.
        Refuse = "refuse",
        /// A version of a site that the server began to serve.
        Publish = "publish",
        /// An earlier version of a site that the server began to serve, or a site that it no longer serves.
        Rollback = "rollback",
        /// A change of tokens, users, keys or their rights.
        Access = "access",
        /// The start of the server, with its settings.
        Start = "start",
        /// The stop of the server.
        Stop = "stop",
        /// A shared link was made or revoked.
        Link = "link",
    }
}

named! {
    /// The outcome of an action.
    AuditOutcome {
        /// The action is about to begin. Another line has its end.
        Started = "started",
        /// The action is done.
        Done = "done",
        /// The action has failed.
        Failed = "failed",
        /// The client has no access, and nothing was done.
        Refused = "refused",
    }
}

named! {
    /// The kind of an actor.
    ActorKind {
        /// The holder of a named token.
        Token = "token",
        /// A user that a proxy or a provider has identified.
        User = "user",
        /// The holder of a shared link.
        Link = "link",
        /// The holder of the token of `--admin-token`.
        Operator = "operator",
        /// A client of this machine, on a server without a token.
        Loopback = "loopback",
        /// A client without credentials, or with wrong ones.
        None = "none",
        /// The server itself.
        Server = "server",
    }
}

/// The person or program that does something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Actor {
    kind: ActorKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

impl Actor {
    /// Creates an actor without a name.
    pub fn new(kind: ActorKind) -> Self {
        Self { kind, name: None }
    }

    /// Gives the actor a name. A name longer than [`AUDIT_NAME_BYTES_MAX`] is cut.
    #[must_use]
    pub fn with_name(self, name: &str) -> Self {
        Self { name: Some(cut(name, AUDIT_NAME_BYTES_MAX).to_owned()), ..self }
    }
}

/// The digest of the visitor ID that a line is about: the digest of the ID in tombstones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Subject(String);

impl Subject {
    /// Returns the digest of an ID under the key of a data directory.
    pub fn of(key: &TombstoneKey, visitor_id: VisitorId<'_>) -> Self {
        let VisitorId { site, id_kind, id } = visitor_id;
        let kind = match id_kind {
            IdKind::Anon => "anonId",
            IdKind::User => "userId",
        };
        Self(format!("{kind}:{}", key.tag(site, id_kind, id)))
    }
}

impl Display for Subject {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A line to write. Its time is that of [`AuditEntry::to_json`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    action: AuditAction,
    actor: Actor,
    outcome: AuditOutcome,
    from: Option<IpAddr>,
    site: Option<String>,
    subject: Option<Subject>,
    detail: String,
}

/// The members of a line, in their order.
#[derive(Serialize)]
struct Members<'a> {
    at: String,
    action: AuditAction,
    actor: &'a Actor,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a Subject>,
    outcome: AuditOutcome,
    #[serde(skip_serializing_if = "str::is_empty")]
    detail: &'a str,
}

impl AuditEntry {
    /// Creates a line without site, visitor and detail.
    pub fn new(action: AuditAction, actor: Actor, outcome: AuditOutcome) -> Self {
        Self { action, actor, outcome, from: None, site: None, subject: None, detail: String::new() }
    }

    /// Sets the address of the client.
    #[must_use]
    pub fn from(self, client: Option<IpAddr>) -> Self {
        Self { from: client, ..self }
    }

    /// Sets the site. An ID longer than [`AUDIT_NAME_BYTES_MAX`] is cut: it is none of a site.
    #[must_use]
    pub fn site(self, site: &str) -> Self {
        Self { site: Some(cut(site, AUDIT_NAME_BYTES_MAX).to_owned()), ..self }
    }

    /// Sets the visitor.
    #[must_use]
    pub fn subject(self, subject: Subject) -> Self {
        Self { subject: Some(subject), ..self }
    }

    /// Sets the outcome.
    #[must_use]
    pub fn outcome(self, outcome: AuditOutcome) -> Self {
        Self { outcome, ..self }
    }

    /// Sets a short text without content, such as `records=12`. It is cut at [`AUDIT_DETAIL_BYTES_MAX`] bytes.
    #[must_use]
    pub fn detail(self, detail: &str) -> Self {
        Self { detail: cut(detail, AUDIT_DETAIL_BYTES_MAX).to_owned(), ..self }
    }

    /// Returns the line as JSON.
    pub fn to_json(&self, now_ms: i64) -> Vec<u8> {
        let Self { action, actor, outcome, from, site, subject, detail } = self;
        let members = Members {
            at: time::to_text(now_ms),
            action: *action,
            actor,
            from: from.map(|client| client.to_canonical()),
            site: site.as_deref(),
            subject: subject.as_ref(),
            outcome: *outcome,
            detail,
        };
        serde_json::to_vec(&members).unwrap_or_default()
    }
}

/// Returns the longest beginning of `text` that has at most `bytes_max` bytes and ends with a whole character.
fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// A line that was read. A later release may have written an action that this one does not know.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AuditLine {
    /// The time of the line, in RFC 3339.
    pub at: String,
    pub action: String,
    pub actor: LineActor,
    /// The address of the client. `None` if the server itself is the actor.
    pub from: Option<String>,
    pub site: Option<String>,
    /// The digest of the visitor's ID, after `anonId:` or `userId:`.
    pub subject: Option<String>,
    pub outcome: String,
    #[serde(default)]
    pub detail: String,
}

/// The actor of a line that was read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LineActor {
    pub kind: String,
    pub name: Option<String>,
}

impl AuditLine {
    /// Parses the JSON of a record.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        serde_json::from_slice(payload).ok()
    }

    /// Returns the time in Unix milliseconds. `None` if the text is no time.
    pub fn at_ms(&self) -> Option<i64> {
        time::parse(&self.at)
    }
}
