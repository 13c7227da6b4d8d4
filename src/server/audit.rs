//! The audit log of the server: opens it, and writes the lines about the server itself: its start and stop, the served versions,
//! and the keys that it reads again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::BootError;
use super::event_log::EventLog;
use crate::admin::CurrentAccess;
use crate::audit::{Actor, ActorKind, AuditAction, AuditEntry, AuditLog, AuditOutcome};
use crate::clock::SystemClock;
use crate::config::Config;
use crate::limits::AUDIT_STOP_MS;
use crate::site::catalog::catalog::{Catalog, CurrentCatalog};
use crate::storage::disk::RealDisk;

/// Starts the audit log of the data directory, which is locked. `parallax dev` has none.
pub(super) fn start(
    config: &Config,
    event_log: &EventLog,
    current_catalog: &CurrentCatalog,
    access: &CurrentAccess,
) -> Result<AuditLog, BootError> {
    const DAY_MS: i64 = 24 * 60 * 60 * 1000;
    if config.is_dev {
        return Ok(AuditLog::off());
    }
    let clock = Arc::new(SystemClock::new());
    let retain_ms = i64::from(config.audit_retain_days) * DAY_MS;
    let key = event_log.tombstone_key.clone();
    let audit = AuditLog::start(Arc::new(RealDisk), &config.data, clock, key, retain_ms);
    let audit = audit.map_err(BootError::Thread)?;
    let version = env!("CARGO_PKG_VERSION");
    let settings = &config.settings_digest;
    let mut detail = format!("version={version} settings={settings}");
    if access.is_configured() {
        detail = format!("{detail} access={}", access.load().digest());
    }
    record(&audit, &by_server(AuditAction::Start).detail(&detail));
    record_publications(&audit, current_catalog);
    Ok(audit)
}

/// Notes in the audit log that the keys were read again.
pub(super) fn record_reload(audit: &AuditLog) {
    record(audit, &by_server(AuditAction::Access).detail("SIGHUP: keys and snapshots are read again"));
}

/// Writes the last line of the process. It must be called while the data directory is locked.
pub(super) fn record_stop(audit: &AuditLog) {
    let time_max = Duration::from_millis(AUDIT_STOP_MS);
    if let Err(error) = audit.record_durably_within(&by_server(AuditAction::Stop), time_max) {
        tracing::warn!(%error, "the audit log has no line about this stop");
    }
}

/// Writes a line for each change of a served version from now on. The versions that are served now were published before.
fn record_publications(audit: &AuditLog, current_catalog: &CurrentCatalog) {
    let served = Mutex::new(served_versions(&current_catalog.load()));
    let audit = audit.clone();
    let catalog = current_catalog.clone();
    // The thread that changes the catalog calls this after each change, so no version is left out.
    current_catalog.on_change(Arc::new(move || {
        let mut before = served.lock().unwrap_or_else(PoisonError::into_inner);
        let now = served_versions(&catalog.load());
        for entry in changes(&before, &now) {
            record(&audit, &entry);
        }
        *before = now;
    }));
}

/// The version and the hash of each served snapshot, by site ID.
type ServedVersions = BTreeMap<String, (u64, [u8; 32])>;

fn served_versions(catalog: &Catalog) -> ServedVersions {
    let sites = catalog.sites().iter();
    sites.map(|site| (site.site().site.to_string(), (site.version(), site.snapshot().hash()))).collect()
}

/// Returns a line for each site whose served version differs.
fn changes(before: &ServedVersions, now: &ServedVersions) -> Vec<AuditEntry> {
    let mut entries = Vec::new();
    for (site, (version, hash)) in now {
        let earlier = before.get(site);
        if earlier.is_some_and(|earlier| *earlier == (*version, *hash)) {
            continue;
        }
        let is_lower = earlier.is_some_and(|(earlier, _)| version < earlier);
        let action = if is_lower { AuditAction::Rollback } else { AuditAction::Publish };
        let before = earlier.map_or("none".to_owned(), |(earlier, _)| earlier.to_string());
        entries.push(by_server(action).site(site).detail(&format!("version={version} before={before}")));
    }
    for (site, (version, _)) in before.iter().filter(|(site, _)| !now.contains_key(*site)) {
        let entry = by_server(AuditAction::Rollback).site(site);
        entries.push(entry.detail(&format!("version=none before={version}")));
    }
    entries
}

fn by_server(action: AuditAction) -> AuditEntry {
    AuditEntry::new(action, Actor::new(ActorKind::Server), AuditOutcome::Done)
}

/// Queues a line about something that has happened already.
fn record(audit: &AuditLog, entry: &AuditEntry) {
    if let Err(error) = audit.record_later(entry) {
        tracing::error!(%error, ?entry, "the audit log has lost a line");
    }
}
