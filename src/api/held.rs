//! Requests that wait for a publication: `wait` of `/v1/routes`. A held request keeps its connection and no thread.
//!
//! The watcher wakes each worker after it has replaced the catalog. The worker then asks for the requests that are
//! ready. The connection itself has the timer for the end of the wait.

use std::time::Duration;

use crate::clock::{self, Instant};
use crate::limits::{HELD_REQUESTS_MAX, HELD_REQUESTS_OF_CLIENT_MAX, HELD_REQUESTS_OF_SITE_MAX};
use crate::site::catalog::catalog::Catalog;

/// The held requests of one thread.
#[derive(Debug, Default)]
pub(super) struct HeldRequests {
    /// The requests by token.
    held: Vec<Option<HeldRequest>>,
    free_tokens: Vec<usize>,
    /// Tokens of requests that are ready and not yet returned by `next_ready`.
    ready: Vec<usize>,
    /// The generation of the last catalog that the requests were compared with.
    generation: u64,
    /// True if the server is draining. Then no request is held.
    is_draining: bool,
}

/// A request that waits until its site has another version, or until its time is over.
#[derive(Debug)]
struct HeldRequest {
    site: Box<str>,
    version: u64,
    /// The key of the client's address. `None` for a client on this machine.
    client_key: Option<u64>,
    deadline: Instant,
    is_ready: bool,
}

impl HeldRequests {
    /// Holds a request until `site` has another version than `version`, for at most `wait_s` seconds. Returns its
    /// token. Returns `None` if all places, or those of the site or of the client, are taken, or if the server is draining.
    pub(super) fn hold(
        &mut self,
        site: &str,
        version: u64,
        client_key: Option<u64>,
        wait_s: u64,
    ) -> Option<usize> {
        let count = |is_counted: &dyn Fn(&HeldRequest) -> bool| {
            self.held.iter().flatten().filter(|request| is_counted(request)).count()
        };
        let has_place = count(&|_| true) < HELD_REQUESTS_MAX
            && count(&|request| *request.site == *site) < HELD_REQUESTS_OF_SITE_MAX
            && (client_key.is_none()
                || count(&|request| request.client_key == client_key) < HELD_REQUESTS_OF_CLIENT_MAX);
        if self.is_draining || !has_place {
            return None;
        }
        let deadline = clock::instant() + Duration::from_secs(wait_s);
        let request = HeldRequest { site: site.into(), version, client_key, deadline, is_ready: false };
        let token = self.free_tokens.pop().unwrap_or_else(|| {
            self.held.push(None);
            self.held.len() - 1
        });
        self.held[token] = Some(request);
        Some(token)
    }

    /// Returns the token of a request that became ready, each one once.
    pub(super) fn next_ready(&mut self, catalog: &Catalog) -> Option<usize> {
        if self.generation != catalog.generation() {
            self.generation = catalog.generation();
            self.mark_ready(|request| {
                let site = catalog.by_site_id(&request.site);
                site.is_none_or(|site| site.version() != request.version)
            });
        }
        self.ready.pop()
    }

    /// Makes all requests ready, and holds no further one.
    pub(super) fn drain(&mut self) {
        self.is_draining = true;
        self.mark_ready(|_| true);
    }

    fn mark_ready(&mut self, is_ready: impl Fn(&HeldRequest) -> bool) {
        for (token, request) in self.held.iter_mut().enumerate() {
            if let Some(request) = request.as_mut().filter(|request| !request.is_ready && is_ready(request)) {
                request.is_ready = true;
                self.ready.push(token);
            }
        }
    }

    /// Returns whether a request can be answered before its deadline.
    pub(super) fn is_ready(&self, token: usize) -> bool {
        self.held.get(token).and_then(Option::as_ref).is_some_and(|request| request.is_ready)
    }

    /// Returns the time at which the wait of a request is over.
    pub(super) fn deadline(&self, token: usize) -> Option<Instant> {
        Some(self.held.get(token)?.as_ref()?.deadline)
    }

    /// Removes a request that is answered, or whose client is gone.
    pub(super) fn release(&mut self, token: usize) {
        if self.held.get_mut(token).and_then(Option::take).is_some() {
            self.free_tokens.push(token);
            self.ready.retain(|ready| *ready != token);
        }
    }
}
