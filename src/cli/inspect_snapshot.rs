//! What a snapshot holds, for people; and whether all of it is sound.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::DeflateDecoder;
use serde_json::{Value as Json, json};

use crate::checksum;
use crate::site::catalog::directory::names;
use crate::site::query::run::evaluations_max;
use crate::site::snapshot::format::{
    ArchivedPage, ArchivedPart, ArchivedPiece, ArchivedQuery, ArchivedRoute, ArchivedShows, ArchivedSite,
};
use crate::site::snapshot::open::{Budget, Refusal, Snapshot};

/// Opens the snapshot at `path`.
///
/// # Errors
/// Why it cannot be served.
pub fn inspect(path: &Path) -> Result<Snapshot, Refusal> {
    Snapshot::open(path, &Budget::new(u64::MAX))
}

/// One JSON object.
pub fn json(snapshot: &Snapshot) -> String {
    let site = snapshot.site();
    let audiences = site.audiences.iter().map(|a| json!({ "key": a.key.as_str(), "name": a.name.as_str() }));
    let experiments = site.experiments.iter().map(|e| {
        let ranges = e.ranges.iter().map(|r| [r.from.to_native(), r.to.to_native()]);
        json!({ "key": e.key.as_str(), "seed": e.seed.as_str(), "ranges": ranges.collect::<Vec<_>>(),
            "holdout": e.holdout.to_native() })
    });
    let shown = json!({
        "kind": "snapshot", "site": site.site.as_str(), "trackingId": site.tracking_id.as_str(),
        "name": site.name.as_str(), "version": snapshot.version().to_string(), "bytes": snapshot.bytes(),
        "hash": hex(&snapshot.hash()), "updatedAt": site.updated_at.as_ref().map(|t| t.as_str()),
        "audiences": audiences.collect::<Vec<_>>(), "experiments": experiments.collect::<Vec<_>>(),
        "collections": collections(site).into_iter().map(|(name, items)| json!({ "name": name, "items": items }))
            .collect::<Vec<_>>(),
        "queries": site.queries.iter().map(query_json).collect::<Vec<_>>(),
        "routes": site.routes.iter().map(|route| route_json(site, route)).collect::<Vec<_>>(),
    });
    format!("{shown:#}")
}

/// The collections that queries ask, and how many of their items some query can find.
fn collections(site: &ArchivedSite) -> BTreeMap<&str, usize> {
    let mut found: BTreeMap<&str, BTreeSet<&[u8]>> = BTreeMap::new();
    for query in site.queries.iter() {
        let ids = query.items.iter().map(|item| id(&site.pieces[item.piece.to_native() as usize].text));
        found.entry(&query.collection).or_default().extend(ids);
    }
    found.into_iter().map(|(name, ids)| (name, ids.len())).collect()
}

/// The id in an item's text, with which it begins.
fn id(text: &[u8]) -> &[u8] {
    let end = text.windows(9).position(|part| part == b",\"type\":\"").unwrap_or(text.len());
    &text[..end]
}

fn query_json(query: &ArchivedQuery) -> Json {
    let indexed: Vec<&str> = indexed(query).collect();
    let params = query.params.iter().map(|param| json!({ "name": param.name.as_str(), "takes": param.says.as_str(),
        "optional": param.optional || param.default.is_some(), "indexed": indexed.contains(&param.name.as_str()) }));
    json!({ "key": query.key.as_str(), "collection": query.collection.as_str(), "params": params.collect::<Vec<_>>(),
        "orderBy": query.order.as_str(), "limit": query.limit.to_native(), "items": query.items.len(),
        "lists": query.index.lists.len(), "evaluationsMax": evaluations_max(query),
        "ranges": query.scan.iter().flat_map(|scan| scan.columns.iter()).map(|column| column.path.as_str()).collect::<Vec<_>>() })
}

fn indexed(query: &ArchivedQuery) -> impl Iterator<Item = &str> {
    let params = query.index.params.iter();
    params.map(|indexed| query.params[usize::from(indexed.param.to_native())].name.as_str())
}

fn route_json(site: &ArchivedSite, route: &ArchivedRoute) -> Json {
    match &route.shows {
        ArchivedShows::Redirect(leads) => {
            json!({ "path": route.path.as_str(), "to": leads.to.as_str(), "status": leads.status.to_native() })
        }
        ArchivedShows::Page(index) => {
            let page = &site.pages[index.to_native() as usize];
            let zones = page.zones.iter().map(|zone| {
                let keys = zone.variants.iter().map(|v| v.key.as_str());
                json!({ "name": zone.name.as_str(), "variants": keys.collect::<Vec<_>>(), "rules": zone.rules.len() })
            });
            let (text, deflate) = sizes(site, page);
            json!({ "path": route.path.as_str(), "pattern": page.path.as_str(), "zones": zones.collect::<Vec<_>>(),
                "textBytes": text, "deflateBytes": deflate })
        }
    }
}

/// Lines for a terminal.
pub fn text(snapshot: &Snapshot) -> String {
    let site = snapshot.site();
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "site         {} ({}), {}", site.site, site.tracking_id, site.name);
    let _ = writeln!(out, "version      {}, {} bytes", snapshot.version(), snapshot.bytes());
    let _ = writeln!(out, "hash         {}", hex(&snapshot.hash()));
    for audience in site.audiences.iter() {
        let _ = writeln!(out, "audience     {}  {}", audience.key, audience.name);
    }
    for experiment in site.experiments.iter() {
        let ranges = experiment.ranges.iter().map(|r| format!("{}-{}", r.from, r.to));
        let _ = writeln!(out, "experiment   {}  {}", experiment.key, ranges.collect::<Vec<_>>().join(" "));
    }
    for (name, items) in collections(site) {
        let _ = writeln!(out, "collection   {name}: {items} items that queries can find");
    }
    for query in site.queries.iter() {
        let _ = writeln!(out, "query        {}", query_line(query));
    }
    for route in site.routes.iter() {
        match &route.shows {
            ArchivedShows::Redirect(leads) => {
                let _ = writeln!(out, "redirect     {} -> {} ({})", route.path, leads.to, leads.status);
            }
            ArchivedShows::Page(index) => {
                let page = &site.pages[index.to_native() as usize];
                if route.path != page.path {
                    let _ = writeln!(out, "route        {}  of {}", route.path, page.path);
                    continue;
                }
                let (text, deflate) = sizes(site, page);
                let _ =
                    writeln!(out, "route        {}  {text} bytes of text, {deflate} deflated", route.path);
                for zone in page.zones.iter() {
                    let keys: Vec<_> = zone.variants.iter().map(|v| v.key.as_str()).collect();
                    let _ = writeln!(
                        out,
                        "  zone       {}: {}; {} rules",
                        zone.name,
                        keys.join(" "),
                        zone.rules.len()
                    );
                }
            }
        }
    }
    out.truncate(out.trim_end().len());
    out
}

fn query_line(query: &ArchivedQuery) -> String {
    let params: Vec<&str> = query.params.iter().map(|param| param.name.as_str()).collect();
    let looked_at = match evaluations_max(query) {
        0 => format!("{} lists known ahead", query.index.lists.len()),
        most => format!("looks at up to {most} items"),
    };
    format!(
        "{}({}) of {}: {} items, {looked_at}",
        query.key,
        params.join(", "),
        query.collection,
        query.items.len()
    )
}

/// Bytes of all pieces, of all variants; those of items that depend on the path left out.
fn sizes(site: &ArchivedSite, page: &ArchivedPage) -> (usize, usize) {
    let variants = page.zones.iter().flat_map(|zone| zone.variants.iter());
    let parts = page.parts.iter().chain(variants.flat_map(|variant| variant.parts.iter()));
    let pieces = parts.filter_map(|part| match part {
        ArchivedPart::Piece(index) => Some(&site.pieces[index.to_native() as usize]),
        ArchivedPart::Zone(_) | ArchivedPart::Query(_) => None,
    });
    pieces.fold((0, 0), |(text, deflate), p| (text + p.text.len(), deflate + p.deflate.len()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is to be said of one file.
pub type Checked = (PathBuf, Result<String, String>);

/// Checks the snapshot at `path`, or all in that folder, by name.
///
/// # Errors
/// The path cannot be looked at.
pub fn check(path: &Path) -> io::Result<Vec<Checked>> {
    let files: Vec<PathBuf> = match path.metadata()?.is_dir() {
        true => names(path)?.iter().map(|name| path.join(name)).collect(),
        false => vec![path.to_owned()],
    };
    Ok(files
        .into_iter()
        .map(|file| {
            let result = check_file(&file);
            (file, result)
        })
        .collect())
}

fn check_file(path: &Path) -> Result<String, String> {
    let snapshot = inspect(path).map_err(|refusal| refusal.to_string())?;
    if let Some(at) = snapshot.site().pieces.iter().position(|piece| !is_sound(piece)) {
        return Err(format!("piece {at} does not inflate to its text"));
    }
    Ok(format!("sound, site {} version {}", snapshot.site().site, snapshot.version()))
}

/// Whether both codings of a piece say the same, and its checksum is theirs.
fn is_sound(piece: &ArchivedPiece) -> bool {
    let mut inflated = Vec::with_capacity(piece.text.len());
    // A run of blocks without a last one ends in "unexpected end" behind its text.
    let _ =
        DeflateDecoder::new(&piece.deflate[..]).take(piece.text.len() as u64 + 1).read_to_end(&mut inflated);
    inflated == piece.text[..]
        && checksum::crc(&piece.text) == piece.crc
        && checksum::crc_shift(piece.text.len()) == piece.shift
}
