//! The parts that read files again after SIGHUP.

use std::path::PathBuf;
use std::sync::Arc;

use super::BootError;
use crate::admin::CurrentAccess;
use crate::api::user_verifier::UserVerifier;
use crate::api::visitor_token::TokenSealer;
use crate::config::{Config, key_file};
#[cfg(feature = "cluster")]
use crate::nats::thread::Renewal;
use crate::site::catalog::catalog::CurrentCatalog;
use crate::site::catalog::watcher::WatcherHandle;

/// The parts that read files again after SIGHUP.
pub(super) struct Reload {
    pub(super) watcher: WatcherHandle,
    /// The connections of the thread `cluster`.
    #[cfg(feature = "cluster")]
    pub(super) renewal: Renewal,
    pub(super) users: UserKeys,
    pub(super) tokens: TokenKeys,
    pub(super) access: Arc<CurrentAccess>,
}

impl Reload {
    /// Reads all files again, or has them read.
    pub(super) fn run(&self) {
        tracing::info!("received SIGHUP; reading all snapshots again");
        self.users.reload();
        self.tokens.reload();
        let _ = self.access.reload();
        self.watcher.rescan_all();
        #[cfg(feature = "cluster")]
        self.renewal.request();
    }
}

/// The keys of `--identity-keys`, and the verifier that has them.
pub(super) struct UserKeys {
    path: Option<PathBuf>,
    pub(super) verifier: Arc<UserVerifier>,
    current: CurrentCatalog,
}

impl UserKeys {
    /// Reads the keys. From now on each publication is reviewed: it may need a key that is missing.
    pub(super) fn read(config: &Config, current_catalog: &CurrentCatalog) -> Result<Self, BootError> {
        let keys = config.read_identity_keys().map_err(BootError::Keys)?;
        let verifier = Arc::new(UserVerifier::new(keys));
        let reviewer = Arc::clone(&verifier);
        let catalog = current_catalog.clone();
        current_catalog.on_change(Arc::new(move || reviewer.review(&catalog.load())));
        Ok(Self { path: config.identity_keys.clone(), verifier, current: current_catalog.clone() })
    }

    /// Reads the keys again. After a fault the keys in use stay.
    fn reload(&self) {
        let Some(path) = &self.path else { return };
        match key_file::read_identity_keys(path) {
            Ok(keys) => {
                tracing::info!(sites = keys.sites(), "read the identity keys again");
                self.verifier.set_keys(keys);
                self.verifier.review(&self.current.load());
            }
            Err(error) => tracing::warn!("{error}; the identity keys in use stay"),
        }
    }
}

/// The keys of `--visitor-keys`, and the sealer that has them.
pub(super) struct TokenKeys {
    path: Option<PathBuf>,
    pub(super) sealer: Arc<TokenSealer>,
}

impl TokenKeys {
    /// Reads the keys.
    pub(super) fn read(config: &Config) -> Result<Self, BootError> {
        let keys = config.read_visitor_keys().map_err(BootError::Keys)?;
        Ok(Self { path: config.visitor_keys.clone(), sealer: Arc::new(TokenSealer::new(keys)) })
    }

    /// Reads the keys again. After a fault the keys in use stay.
    fn reload(&self) {
        let Some(path) = &self.path else { return };
        match key_file::read_visitor_keys(path) {
            Ok(keys) => {
                tracing::info!("read the visitor keys again");
                self.sealer.set_keys(keys);
            }
            Err(error) => tracing::warn!("{error}; the visitor keys in use stay"),
        }
    }
}
