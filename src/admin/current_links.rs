//! The shared links of a running server, and their file in the data directory.

use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::access::{Link, token_hash};
use crate::data_files::LINKS_FILE;
use crate::limits::access::{LINK_BYTES_MAX, LINKS_MAX};
use crate::storage;

const FORMAT_VERSION: u32 = 1;
/// A larger file is damage. A link takes at most eight times its own text: the two bytes of an empty parameter are eight in JSON.
const FILE_BYTES_MAX: u64 = (8 * LINKS_MAX * LINK_BYTES_MAX) as u64;

/// The content of the file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: u32,
    links: Vec<Link>,
}

/// The reason why a link is not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("the server has {LINKS_MAX} shared links; revoke one, then try again")]
    TooMany,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The links in use, and their file.
#[derive(Debug, Default)]
pub(crate) struct CurrentLinks {
    path: PathBuf,
    current: Mutex<Arc<Vec<Link>>>,
    /// Held during a change, so that there is one at a time.
    change: Mutex<()>,
}

impl CurrentLinks {
    /// Reads the links of a data directory. If their file is damaged, no link counts.
    pub(crate) fn read(directory: &Path) -> Self {
        let path = directory.join(LINKS_FILE);
        let links = read_file(&path).unwrap_or_else(|error| {
            let path = path.display();
            tracing::warn!(%path, %error, "cannot read the shared links; none of them counts, and the next one replaces the file");
            Vec::new()
        });
        Self { path, current: Mutex::new(Arc::new(links)), change: Mutex::default() }
    }

    /// Returns the link that has a token, if it counts at `now_ms`.
    pub(super) fn find(&self, token: &[u8], now_ms: i64) -> Option<Link> {
        let links = self.load();
        if links.is_empty() {
            return None;
        }
        // The order of hashes tells nothing about a token that is not known.
        let hash = token_hash(token);
        links.iter().find(|link| link.has_token(&hash)).filter(|link| link.is_open(now_ms)).cloned()
    }

    /// Returns the links of a site that count at `now_ms`, in the order in which they were made.
    pub(super) fn of_site(&self, site: &str, now_ms: i64) -> Vec<Link> {
        let links = self.load();
        links.iter().filter(|link| link.site == site && link.is_open(now_ms)).cloned().collect()
    }

    /// Adds a link durably.
    ///
    /// # Errors
    /// There are too many, or the file cannot be written.
    pub(super) fn add(&self, link: Link, now_ms: i64) -> Result<(), LinkError> {
        self.edit(|links| {
            links.retain(|link| link.is_open(now_ms));
            if links.len() >= LINKS_MAX {
                return Err(LinkError::TooMany);
            }
            links.push(link);
            Ok(())
        })
    }

    /// Removes the link of a site with this ID durably. Returns whether there was one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn remove(&self, site: &str, id: &str) -> Result<bool, LinkError> {
        self.edit(|links| {
            let before = links.len();
            links.retain(|link| (&*link.site, &*link.id) != (site, id));
            Ok(links.len() < before)
        })
    }

    fn load(&self) -> Arc<Vec<Link>> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn edit<T>(&self, change: impl FnOnce(&mut Vec<Link>) -> Result<T, LinkError>) -> Result<T, LinkError> {
        let _changing = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let mut links = self.load().to_vec();
        let result = change(&mut links)?;
        let document = Document { format: FORMAT_VERSION, links };
        let bytes = serde_json::to_vec(&document).map_err(io::Error::other)?;
        storage::write_data_file(&self.path, &bytes)?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(document.links);
        Ok(result)
    }
}

fn read_file(path: &Path) -> io::Result<Vec<Link>> {
    let mut bytes = Vec::new();
    match storage::open_regular(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?.0.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?,
    };
    let Document { format, links } = serde_json::from_slice(&bytes)?;
    if format != FORMAT_VERSION {
        let reason = format!("its format {format} is unknown");
        return Err(io::Error::new(ErrorKind::InvalidData, reason));
    }
    Ok(links)
}
