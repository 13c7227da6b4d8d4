//! The HTTP client of the webhook. It follows no redirect, uses no proxy of the environment and keeps no
//! connection open.

use ureq::Agent;
use ureq::http::Uri;

use super::WebhookSettings;

/// A client for one receiver.
#[derive(Debug)]
pub(super) struct Client {
    agent: Agent,
    url: String,
    /// The value of `Authorization`.
    authorization: Option<String>,
    /// Host and port, for the log. The rest of the URL may contain a secret.
    receiver: String,
}

impl Client {
    pub(super) fn new(settings: &WebhookSettings) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(settings.timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .max_idle_connections(0)
            .user_agent(concat!("parallax/", env!("CARGO_PKG_VERSION")))
            .build();
        let uri: Option<Uri> = settings.url.parse().ok();
        let receiver = uri.and_then(|uri| Some(uri.authority()?.to_string())).unwrap_or_default();
        let authorization = settings.token.as_ref().map(|token| format!("Bearer {token}"));
        Self { agent: config.into(), url: settings.url.clone(), authorization, receiver }
    }

    /// Returns host and port of the receiver.
    pub(super) fn receiver(&self) -> &str {
        &self.receiver
    }

    /// Sends a JSON body.
    ///
    /// # Errors
    /// The cause, if no response with a status 2xx arrives in time.
    pub(super) fn post(&self, body: &str) -> Result<(), String> {
        let mut request = self.agent.post(&self.url).content_type("application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let response = request.send(body).map_err(|error| error.to_string())?;
        let status = response.status();
        if status.is_success() { Ok(()) } else { Err(format!("the receiver answered {}", status.as_u16())) }
    }
}
