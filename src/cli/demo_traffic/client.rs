//! The requests of the invented visitors.

use std::time::Duration;

use serde_json::{Value as Json, json};
use ureq::Agent;

use super::visitors::{Treatment, Visit};
use crate::cli::CliError;

/// Time limit of a request. A batch takes milliseconds, and a server that is being stopped answers within seconds.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Paths that visits choose from. A larger site is visited on its first ones.
const ROUTES_MAX: usize = 1000;

/// The part of a receipt that counts events.
pub(super) struct Receipt {
    pub accepted: u64,
    pub duplicates: u64,
}

/// A client for one server and site.
pub(super) struct Client {
    agent: Agent,
    url: String,
    tracking_id: String,
}

impl Client {
    pub(super) fn new(url: &str, tracking_id: &str) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build();
        Self { agent: config.into(), url: url.to_owned(), tracking_id: tracking_id.to_owned() }
    }

    /// Returns the paths of the site. Short ones, which menus have, are first.
    ///
    /// # Errors
    /// An error, if no server answers or it does not know the site.
    pub(super) fn routes(&self) -> Result<Vec<String>, CliError> {
        let limit = ROUTES_MAX.to_string();
        let body = self.get("/v1/routes", &[("limit", &limit)])?;
        let routes = body["routes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let concrete = routes.iter().filter(|route| route["pattern"] != json!(true));
        let mut paths: Vec<String> =
            concrete.filter_map(|route| route["path"].as_str().map(str::to_owned)).collect();
        paths.sort_by_key(|path| (path.matches('/').count(), path.len()));
        Ok(paths)
    }

    /// Asks which variants the first page of the visit shows.
    pub(super) fn decide(&self, visit: &Visit, landing_path: &str) -> Result<Treatment, CliError> {
        let url = visit.landing_url(landing_path);
        let mut params = vec![("route", landing_path), ("anonId", &visit.anon_id), ("url", &url)];
        params.extend([("locale", visit.person.locale), ("country", visit.person.country)]);
        params.push(("userAgent", visit.person.user_agent));
        let body = self.get("/v1/variants", &params)?;
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        Ok(Treatment { variants: text("variants"), experiments: text("experiments") })
    }

    /// Sends a batch.
    pub(super) fn send(&self, events: &[Json]) -> Result<Receipt, CliError> {
        let body = json!({ "trackingId": self.tracking_id, "batch": events }).to_string();
        let request = self.agent.post(format!("{}/v1/track", self.url)).content_type("application/json");
        let receipt = self.read("/v1/track", request.send(&body))?;
        let number = |name: &str| receipt[name].as_u64().unwrap_or_default();
        if number("rejected") > 0 {
            return Err(CliError::System(format!("the server rejected events: {}", receipt["results"])));
        }
        Ok(Receipt { accepted: number("accepted"), duplicates: number("duplicates") })
    }

    fn get(&self, path: &str, params: &[(&str, &str)]) -> Result<Json, CliError> {
        let request = self.agent.get(format!("{}{path}", self.url));
        let request = request.query("trackingId", &self.tracking_id);
        self.read(path, request.query_pairs(params.iter().copied()).call())
    }

    fn read(
        &self,
        path: &str,
        response: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<Json, CliError> {
        let url = &self.url;
        let mut response = response.map_err(|error| {
            CliError::System(format!("{url} does not answer: {error}; start a server with `parallax`, or name its address with --to"))
        })?;
        let text =
            response.body_mut().read_to_string().map_err(|error| CliError::System(error.to_string()))?;
        let body: Json = serde_json::from_str(&text).unwrap_or_default();
        match (response.status().is_success(), body["detail"].as_str()) {
            (true, _) => Ok(body),
            (false, Some(detail)) => Err(CliError::Input(format!("{url}{path} refused: {detail}"))),
            (false, None) => Err(CliError::Input(format!(
                "{url}{path} answered {}; is this the public address of a Parallax server?",
                response.status().as_u16()
            ))),
        }
    }
}
