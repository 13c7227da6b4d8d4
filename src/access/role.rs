//! The roles, and the table of the areas that each may use.

use serde::{Deserialize, Serialize};

/// A role of a token or a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Numbers of Insights, without anything about one visitor.
    Viewer,
    /// Also visitors, without the traits that a site marks as private.
    Analyst,
    /// Also private traits, exports and erasures.
    Privacy,
    /// Explanations for invented visitors, and sizes of audiences.
    Composer,
    /// Everything, for all sites.
    Operator,
}

/// A group of endpoints of the admin address that the same roles may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Area {
    /// The rights of the caller.
    OwnAccess,
    /// The shared links.
    Links,
    /// The published sites.
    Sites,
    /// Numbers of Insights.
    Numbers,
    /// The sizes of the audiences.
    AudienceSizes,
    /// Lists of visitors, and the data of one visitor.
    Visitors,
    /// The export of all records of a visitor.
    Exports,
    /// The erasure of a visitor.
    Erasures,
    /// Decisions and their explanations.
    Decisions,
    /// The comparison of a snapshot with the published one.
    Changes,
    /// The metrics of the server.
    Metrics,
}

use Role::{Analyst, Composer, Operator, Privacy, Viewer};

/// The roles that may use each area. `docs/access.md` has the same table, by endpoint.
const TABLE: [(Area, &[Role]); 11] = [
    (Area::OwnAccess, &[Viewer, Analyst, Privacy, Composer, Operator]),
    (Area::Links, &[Analyst, Privacy, Operator]),
    (Area::Sites, &[Viewer, Analyst, Privacy, Composer, Operator]),
    (Area::Numbers, &[Viewer, Analyst, Privacy, Operator]),
    (Area::AudienceSizes, &[Viewer, Analyst, Privacy, Composer, Operator]),
    (Area::Visitors, &[Analyst, Privacy, Operator]),
    (Area::Exports, &[Privacy, Operator]),
    (Area::Erasures, &[Privacy, Operator]),
    (Area::Decisions, &[Analyst, Privacy, Composer, Operator]),
    (Area::Changes, &[Composer, Operator]),
    (Area::Metrics, &[Operator]),
];

impl Role {
    /// All roles, in the order of the columns of the table.
    pub(crate) const ALL: [Self; 5] = [Viewer, Analyst, Privacy, Composer, Operator];

    /// Returns the name of the role in the file and in answers.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Viewer => "viewer",
            Analyst => "analyst",
            Privacy => "privacy",
            Composer => "composer",
            Operator => "operator",
        }
    }

    /// Returns whether the role may use the area.
    pub(crate) fn may_use(self, area: Area) -> bool {
        TABLE.iter().any(|(row, roles)| *row == area && roles.contains(&self))
    }

    /// Returns whether the role sees the recorded visitors, and not only invented ones.
    pub(crate) fn sees_visitors(self) -> bool {
        self.may_use(Area::Visitors)
    }

    /// Returns whether the role sees traits that a site marks as private. An export has them in any case.
    pub(crate) fn sees_private_traits(self) -> bool {
        self.may_use(Area::Exports)
    }
}
