//! The content of a snapshot, as text and JSON, and the check of all its pieces.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use flate2::read::DeflateDecoder;
use serde_json::{Value as Json, json};

use crate::checksum;
use crate::events::time;
use crate::site::catalog::snapshot_names::list_snapshot_names;
use crate::site::comparison::metrics_json;
use crate::site::query::run::evaluations_max;
use crate::site::snapshot::format::{
    ArchivedExperiment, ArchivedPage, ArchivedPart, ArchivedQuery, ArchivedRoute, ArchivedRouteTarget,
    ArchivedSite,
};
use crate::site::snapshot::open::{Snapshot, SnapshotBudget, SnapshotError};
use crate::site::snapshot::pieces::Pieces;

/// Opens the snapshot at `path`, without a memory limit.
///
/// # Errors
/// Returns the reason why a server would not serve it.
pub(crate) fn open_snapshot(path: &Path) -> Result<Snapshot, SnapshotError> {
    Snapshot::open(path, &SnapshotBudget::new(u64::MAX))
}

/// Renders the snapshot as one JSON object.
pub(crate) fn to_json(snapshot: &Snapshot) -> String {
    let site = snapshot.site();
    let audiences = site.audiences.iter().map(|a| json!({ "key": a.key.as_str(), "name": a.name.as_str() }));
    let time_of = |time_ms: Option<i64>| time_ms.map(time::to_text);
    let experiments = site.experiments.iter().map(|e| {
        let coverages = e.coverages.iter().map(|step| {
            let from = Some(step.from_ms.to_native()).filter(|from_ms| *from_ms != i64::MIN);
            json!({ "from": time_of(from), "share": step.share.to_native() })
        });
        json!({ "key": e.key.get(), "seed": e.seed.as_str(), "arms": e.arms.iter().map(|arm| arm.as_str()).collect::<Vec<_>>(),
            "weights": e.weights.iter().map(|weight| weight.to_native()).collect::<Vec<_>>(), "coverages": coverages.collect::<Vec<_>>(),
            "from": time_of(e.from_ms.as_ref().map(|from_ms| from_ms.to_native())), "to": time_of(e.to_ms.as_ref().map(|to_ms| to_ms.to_native())),
            "winner": e.winner.as_ref().map(|arm| e.arms[usize::from(*arm)].as_str()), "holdout": e.holdout.to_native(), "metrics": metrics_json(&e.metrics) })
    });
    let holdout = site.holdout.as_ref().map(|holdout| {
        json!({ "share": holdout.share.to_native(), "seed": holdout.seed.as_str(), "rules": holdout.covers_rules })
    });
    let document = json!({
        "kind": "snapshot", "site": site.site.get(), "trackingId": site.tracking_id.as_str(),
        "name": site.name.as_str(), "preview": site.preview.as_ref().map(|name| name.as_str()), "version": snapshot.version().to_string(), "bytes": snapshot.file_bytes(),
        "hash": HEXLOWER.encode(&snapshot.hash()), "updatedAt": site.updated_at.as_ref().map(|t| t.as_str()),
        "audiences": audiences.collect::<Vec<_>>(), "holdout": holdout, "experiments": experiments.collect::<Vec<_>>(),
        "collections": collections(site, snapshot.pieces()).into_iter().map(|(name, items)| json!({ "name": name, "items": items }))
            .collect::<Vec<_>>(),
        "queries": site.queries.iter().map(query_json).collect::<Vec<_>>(),
        "routes": site.routes.iter().map(|route| route_json(site, route)).collect::<Vec<_>>(),
    });
    format!("{document:#}")
}

/// Returns the collections that queries use, each with the number of its items that some query can return.
fn collections<'s>(site: &'s ArchivedSite, pieces: Pieces<'s>) -> BTreeMap<&'s str, usize> {
    let mut found: BTreeMap<&str, BTreeSet<&[u8]>> = BTreeMap::new();
    for query in site.queries.iter() {
        let ids = query.items.iter().map(|item| item_id(pieces.text(item.piece.to_native())));
        found.entry(&query.collection).or_default().extend(ids);
    }
    found.into_iter().map(|(name, ids)| (name, ids.len())).collect()
}

/// Returns the ID at the start of an item's text.
fn item_id(text: &[u8]) -> &[u8] {
    let end = text.windows(9).position(|part| part == b",\"type\":\"").unwrap_or(text.len());
    &text[..end]
}

fn query_json(query: &ArchivedQuery) -> Json {
    let indexed: Vec<&str> = indexed_params(query).collect();
    let params = query.params.iter().map(|param| json!({ "name": param.name.as_str(), "takes": param.accepts.as_str(),
        "optional": param.optional || param.default.is_some(), "indexed": indexed.contains(&param.name.as_str()) }));
    json!({ "key": query.key.as_str(), "collection": query.collection.as_str(), "params": params.collect::<Vec<_>>(),
        "orderBy": query.order.as_str(), "limit": query.limit.to_native(), "items": query.items.len(),
        "lists": query.index.lists.len(), "evaluationsMax": evaluations_max(query),
        "ranges": query.scan.iter().flat_map(|scan| scan.columns.iter()).map(|column| column.path.as_str()).collect::<Vec<_>>() })
}

fn indexed_params(query: &ArchivedQuery) -> impl Iterator<Item = &str> {
    let params = query.index.params.iter();
    params.map(|indexed| query.params[usize::from(indexed.param.to_native())].name.as_str())
}

fn route_json(site: &ArchivedSite, route: &ArchivedRoute) -> Json {
    match &route.target {
        ArchivedRouteTarget::Redirect(leads) => {
            json!({ "path": route.path.get(), "to": leads.to.as_str(), "status": leads.status.to_native() })
        }
        ArchivedRouteTarget::Page(index) => {
            let page = &site.pages[index.to_native() as usize];
            let zones = page.zones.iter().map(|zone| {
                let keys = zone.variants.iter().map(|v| v.key.get());
                json!({ "name": zone.name.as_str(), "variants": keys.collect::<Vec<_>>(), "rules": zone.rules.len() })
            });
            let (text, deflate) = page_sizes(site, page);
            json!({ "path": route.path.get(), "pattern": page.path.as_str(), "zones": zones.collect::<Vec<_>>(),
                "textBytes": text, "deflateBytes": deflate })
        }
    }
}

/// Renders the snapshot as lines for a terminal.
pub(crate) fn to_text(snapshot: &Snapshot) -> String {
    let site = snapshot.site();
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "site         {} ({}), {}", site.site, site.tracking_id, site.name);
    if let Some(name) = site.preview.as_ref() {
        let _ = writeln!(out, "preview      {name}");
    }
    let _ = writeln!(out, "version      {}, {} bytes", snapshot.version(), snapshot.file_bytes());
    let _ = writeln!(out, "hash         {}", HEXLOWER.encode(&snapshot.hash()));
    for audience in site.audiences.iter() {
        let _ = writeln!(out, "audience     {}  {}", audience.key, audience.name);
    }
    if let Some(holdout) = site.holdout.as_ref() {
        let rules = if holdout.covers_rules { "all rules" } else { "experiments" };
        let _ = writeln!(
            out,
            "holdout      {} of all visitors, from {rules}; seed {}",
            holdout.share, holdout.seed
        );
    }
    for experiment in site.experiments.iter() {
        let arms = experiment.arms.iter().zip(experiment.weights.iter());
        let arms = arms.map(|(arm, weight)| format!("{arm} {weight}")).collect::<Vec<_>>().join(", ");
        let _ = writeln!(out, "experiment   {}  {arms}{}", experiment.key, experiment_times(experiment));
    }
    for (name, items) in collections(site, snapshot.pieces()) {
        let _ = writeln!(out, "collection   {name}: {items} items that queries can return");
    }
    for query in site.queries.iter() {
        let _ = writeln!(out, "query        {}", query_line(query));
    }
    for route in site.routes.iter() {
        match &route.target {
            ArchivedRouteTarget::Redirect(leads) => {
                let _ = writeln!(out, "redirect     {} -> {} ({})", route.path, leads.to, leads.status);
            }
            ArchivedRouteTarget::Page(index) => {
                let page = &site.pages[index.to_native() as usize];
                if *route.path != *page.path {
                    let _ = writeln!(out, "route        {}  of {}", route.path, page.path);
                    continue;
                }
                let (text, deflate) = page_sizes(site, page);
                let _ =
                    writeln!(out, "route        {}  {text} bytes of text, {deflate} deflated", route.path);
                for zone in page.zones.iter() {
                    let keys: Vec<_> = zone.variants.iter().map(|v| v.key.get()).collect();
                    let keys = keys.join(" ");
                    let _ = writeln!(out, "  zone       {}: {keys}; {} rules", zone.name, zone.rules.len());
                }
            }
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// Returns the coverages of an experiment, its begin, its end and its winner.
fn experiment_times(experiment: &ArchivedExperiment) -> String {
    let mut out = String::new();
    for step in experiment.coverages.iter() {
        let _ = write!(out, "; coverage {}", step.share);
        if step.from_ms.to_native() != i64::MIN {
            let _ = write!(out, " from {}", time::to_text(step.from_ms.to_native()));
        }
    }
    for (name, time_ms) in [("from", &experiment.from_ms), ("to", &experiment.to_ms)] {
        if let Some(time_ms) = time_ms.as_ref() {
            let _ = write!(out, "; {name} {}", time::to_text(time_ms.to_native()));
        }
    }
    if let Some(winner) = experiment.winner.as_ref() {
        let _ = write!(out, "; winner {}", experiment.arms[usize::from(*winner)]);
    }
    out
}

fn query_line(query: &ArchivedQuery) -> String {
    let params: Vec<&str> = query.params.iter().map(|param| param.name.as_str()).collect();
    let looked_at = match evaluations_max(query) {
        0 => format!("{} precomputed lists", query.index.lists.len()),
        most => format!("scans up to {most} items"),
    };
    let params = params.join(", ");
    format!("{}({params}) of {}: {} items, {looked_at}", query.key, query.collection, query.items.len())
}

/// Returns the bytes of all pieces of all variants, as text and deflated. Items that depend on the path are
/// not counted.
fn page_sizes(site: &ArchivedSite, page: &ArchivedPage) -> (usize, usize) {
    let variants = page.zones.iter().flat_map(|zone| zone.variants.iter());
    let parts = page.parts.iter().chain(variants.flat_map(|variant| variant.parts.iter()));
    let pieces = parts.filter_map(|part| match part {
        ArchivedPart::Piece(index) => Some(&site.pieces[index.to_native() as usize]),
        ArchivedPart::Zone(_) | ArchivedPart::RouteValue(..) | ArchivedPart::Query(_) => None,
    });
    pieces.fold((0, 0), |(text, deflate), piece| {
        (text + piece.text_bytes.to_native() as usize, deflate + piece.deflate_bytes.to_native() as usize)
    })
}

/// A checked file with its report: `Err` if the file is bad.
pub(crate) type CheckedFile = (PathBuf, Result<String, String>);

/// Checks the snapshot at `path`, or all snapshots of that directory, sorted by name.
///
/// # Errors
/// Returns an error if the path cannot be read.
pub fn check(path: &Path) -> io::Result<Vec<CheckedFile>> {
    let files: Vec<PathBuf> = match path.metadata()?.is_dir() {
        true => list_snapshot_names(path)?.iter().map(|name| path.join(name)).collect(),
        false => vec![path.to_owned()],
    };
    Ok(files.into_iter().map(|file| (file.clone(), check_file(&file))).collect())
}

fn check_file(path: &Path) -> Result<String, String> {
    let snapshot = open_snapshot(path).map_err(|refusal| refusal.to_string())?;
    let pieces = snapshot.pieces();
    if let Some(at) = (0..pieces.len()).find(|at| !is_intact(pieces, *at)) {
        return Err(format!("piece {at} does not inflate to its text"));
    }
    Ok(format!("sound, site {} version {}", snapshot.site().site, snapshot.version()))
}

/// Returns whether the deflated form of a piece inflates to its text, and its CRC and shift match the text.
fn is_intact(pieces: Pieces<'_>, index: u32) -> bool {
    let piece = pieces.get(index);
    let text = pieces.text(index);
    let mut inflated = Vec::with_capacity(text.len());
    // The run of blocks has no last block, so the decoder reports "unexpected end" after the text.
    let _ = DeflateDecoder::new(pieces.deflate(index)).take(text.len() as u64 + 1).read_to_end(&mut inflated);
    inflated == text
        && checksum::crc32(text) == piece.crc
        && checksum::crc32_shift(text.len()) == piece.crc_shift
}
