//! The visitor that a request to the visitor endpoints names.

use serde_json::Value as Json;

use super::visitor_profile::visitor_json;
use crate::events::visitor::{is_anon_id, is_placeholder};
use crate::http::params::{Param, Params};
use crate::limits::{SITE_ID_BYTES_MAX, USER_ID_BYTES_MAX};
use crate::problem::{self, Problem};
use crate::record::{IdKind, VisitorId};
use crate::site::catalog::catalog::Catalog;
use crate::visitors::lookup::{self, ProfileReader};
use crate::visitors::ownership::OwnershipSource;
use crate::visitors::profile::profile::Profile;

/// The visitor that a request names.
#[derive(Debug, Clone, Copy)]
pub(super) struct VisitorQuery<'a> {
    pub site: &'a str,
    pub id_kind: IdKind,
    pub id: &'a str,
    /// Export only records after this seq.
    pub since: u64,
}

/// The visitor of a job.
pub(super) struct NamedVisitor {
    pub site: String,
    pub id_kind: IdKind,
    pub id: String,
}

impl NamedVisitor {
    pub(super) fn id(&self) -> VisitorId<'_> {
        VisitorId { site: &self.site, id_kind: self.id_kind, id: &self.id }
    }
}

impl<'a> VisitorQuery<'a> {
    pub(super) fn parse(query: &'a str, buffer: &'a mut Vec<u8>) -> Result<Self, Problem<'a>> {
        Self::from_params(&Params::parse(query, buffer)?)
    }

    pub(super) fn from_params(params: &Params<'a>) -> Result<Self, Problem<'a>> {
        let site = params
            .get(Param::Site)
            .ok_or(Problem::new(problem::MISSING_SITE, "The parameter 'site' is missing."))?;
        let (id_kind, id) = match (params.get(Param::AnonId), params.get(Param::UserId)) {
            (Some(id), None) => (IdKind::Anon, id),
            (None, Some(id)) => (IdKind::User, id),
            _ => {
                return Err(Problem::new(
                    problem::MISSING_VISITOR,
                    "The request must have either 'anonId' or 'userId'.",
                ));
            }
        };
        if site.len() > SITE_ID_BYTES_MAX {
            let wrong = Problem::invalid_value(problem::INVALID_PARAM, "a site ID of at most 64 bytes", site);
            return Err(wrong.at(Param::Site.name()));
        }
        check_id(id_kind, id)?;
        let since = params.get(Param::Since).map_or(Ok(0), |since| {
            let wrong = Problem::invalid_value(problem::INVALID_PARAM, "the seq of a record", since);
            since.parse().map_err(|_| wrong.at(Param::Since.name()))
        })?;
        Ok(Self { site, id_kind, id, since })
    }

    /// Checks that a published site or the log has the site ID.
    pub(super) fn check_site(&self, catalog: &Catalog, source: &OwnershipSource) -> Result<(), Problem<'a>> {
        if catalog.by_site_id(self.site).is_some() || source.known.knows_site(self.site) {
            return Ok(());
        }
        let sentence = "Neither a published site nor the log has site ID {}.";
        let problem = Problem::with_value(problem::SITE_NOT_FOUND, sentence, self.site);
        Err(problem.at(Param::Site.name()))
    }

    pub(super) fn named_visitor(&self) -> NamedVisitor {
        NamedVisitor { site: self.site.to_owned(), id_kind: self.id_kind, id: self.id.to_owned() }
    }

    /// Returns the profile at a seq as JSON, with the enrolments of the served version.
    pub(super) fn profile_json(&self, profiles: &mut ProfileReader, catalog: &Catalog, seq: u64) -> Json {
        let visitors = profiles.pin();
        let site = catalog.by_site_id(self.site).map(|snapshot| snapshot.site());
        visitor_json(self.site, self.find_profile(&visitors), seq, site)
    }

    pub(super) fn find_profile<'v>(&self, profiles: &'v lookup::PinnedProfiles<'_>) -> Option<Profile<'v>> {
        profiles.find(self.site, self.id_kind, self.id)
    }

    /// Returns the requested ID and the IDs in the profile that it leads to.
    pub(super) fn profile_ids(&self, profiles: &mut ProfileReader) -> Vec<(IdKind, String)> {
        let visitors = profiles.pin();
        let profile = self.find_profile(&visitors);
        let user = profile.and_then(|profile| profile.user_id()).map(|id| (IdKind::User, id));
        let anonymous = profile.iter().flat_map(Profile::anon_ids).map(|id| (IdKind::Anon, id));
        let others = user.into_iter().chain(anonymous).filter(|other| *other != (self.id_kind, self.id));
        let all = [(self.id_kind, self.id)].into_iter().chain(others);
        all.map(|(id_kind, id)| (id_kind, id.to_owned())).collect()
    }
}

/// Checks that events can have the ID, so that a typing error cannot look like a completed erasure.
///
/// # Errors
/// `placeholder_id`, `invalid_anon_id`, `invalid_param`.
fn check_id(id_kind: IdKind, id: &str) -> Result<(), Problem<'_>> {
    let (param, is_valid, code, expected) = match id_kind {
        IdKind::Anon => {
            (Param::AnonId, is_anon_id(id), problem::INVALID_ANON_ID, "1 to 128 bytes of visible ASCII")
        }
        IdKind::User => {
            (Param::UserId, id.len() <= USER_ID_BYTES_MAX, problem::INVALID_PARAM, "1 to 256 bytes of text")
        }
    };
    if is_placeholder(id) {
        let sentence = "{} is a placeholder, and no event is recorded with it.";
        return Err(Problem::with_value(problem::PLACEHOLDER_ID, sentence, id).at(param.name()));
    }
    match is_valid {
        true => Ok(()),
        false => Err(Problem::invalid_value(code, expected, id).at(param.name())),
    }
}
