//! Decisions without an HTTP response, for a program that has the rules of one site.

use std::sync::Arc;

use super::context::RequestContext;
use super::scratch::{Settings, VisitorScratch};
use super::{resolve, selection, variants};
use crate::http::date::DateLine;
use crate::http::params::{Param, Params};
use crate::http::request::{Method, Request, Surface};
use crate::problem::Problem;
use crate::resolve::path::RoutePath;
use crate::resolve::user_agent::UserAgentParser;
use crate::site::catalog::catalog::Catalog;
use crate::site::snapshot::format::ArchivedRouteTarget;
use crate::visitors::lookup::ProfileReader;

/// A decider with the buffers of one thread.
pub(crate) struct LocalDecider {
    settings: Settings,
    date: DateLine,
    catalog: Catalog,
    params: Vec<u8>,
    path: RoutePath,
    canonical: Vec<u8>,
    visitor: VisitorScratch,
}

/// The reason why Edge must decide.
#[derive(Debug)]
pub(crate) enum AskEdge {
    /// Edge would answer with this problem, or by another rule.
    Problem(&'static str, &'static str),
    /// The request is not one that a program without Edge can answer.
    Unsupported(&'static str),
}

impl From<Problem<'_>> for AskEdge {
    fn from(problem: Problem<'_>) -> Self {
        Self::Problem(problem.kind.code, problem.kind.title)
    }
}

impl LocalDecider {
    /// Creates a decider for the only site of a catalog.
    pub(crate) fn new(catalog: Catalog, profiles: ProfileReader) -> Self {
        let mut visitor = VisitorScratch::new(Arc::new(UserAgentParser::new()));
        visitor.profiles = Some(profiles);
        Self {
            settings: Settings { explain: true, ..Settings::default() },
            date: DateLine::new(0),
            catalog,
            params: Vec::new(),
            path: RoutePath::new(),
            canonical: Vec::new(),
            visitor,
        }
    }

    /// Appends the body that `/v1/variants` has for a request.
    ///
    /// # Errors
    /// Edge must decide.
    pub(crate) fn decide(&mut self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), AskEdge> {
        let Self { settings, date, catalog, params: buffer, path, canonical, visitor } = self;
        if request.method != Method::Get || request.path != "/v1/variants" {
            return Err(AskEdge::Unsupported("the request is not a GET of /v1/variants"));
        }
        let mut params = Params::default();
        params.read(request.query, buffer)?;
        let context = RequestContext::new(request, &params, catalog, Surface::Public, settings, date)?;
        let inspection = context.inspection()?;
        if params.get(Param::Include).is_some() || params.get(Param::Visitor).is_some() {
            return Err(AskEdge::Unsupported("only Edge lists combinations and gives tokens"));
        }
        if context.site().verifies_users && params.get(Param::UserId).is_some() {
            return Err(AskEdge::Unsupported("only Edge verifies user IDs"));
        }
        let (_, route) = context.route(path)?;
        match &route.target {
            ArchivedRouteTarget::Redirect(redirect) => {
                resolve::write_redirect_body(&context, route, redirect, path, out);
            }
            ArchivedRouteTarget::Page(index) => {
                let page = &context.site().pages[index.to_native() as usize];
                let selection = selection::select_for_visitor(&context, page, inspection, visitor)?;
                let experiments = visitor.decision_buffers.experiments.text();
                variants::write_decision_body(&context, &selection, path, experiments, canonical, out);
            }
        }
        Ok(())
    }
}
