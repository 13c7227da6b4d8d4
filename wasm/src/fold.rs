//! Folds events into the profile of one visitor, and decides by it.

use std::cell::RefCell;

use parallax::hosted::{Edge, EventFolder, Site};

use super::{framed, reply};

thread_local! {
    static OPEN: RefCell<Option<Open>> = const { RefCell::new(None) };
}

/// An open site, with a handler for each function.
struct Open {
    edge: Edge,
    folder: EventFolder,
}

/// Opens a snapshot, in place of the one before. The input is its bytes.
#[unsafe(no_mangle)]
pub extern "C" fn open() -> *const u8 {
    reply(|strings| {
        let [snapshot] = strings else { return Err("the input is not one snapshot".to_owned()) };
        let site = Site::open(snapshot)?;
        OPEN.set(Some(Open { edge: Edge::new(&site), folder: EventFolder::new(&site) }));
        Ok(Vec::new())
    })
}

/// Decides for a visitor. The input is its encoded profile, empty for a new one, and a complete request to
/// `/v1/variants`. The output is the complete response.
#[unsafe(no_mangle)]
pub extern "C" fn decide_with_profile() -> *const u8 {
    reply(|strings| {
        let [profile, request] = strings else {
            return Err("the input is not a profile and a request".to_owned());
        };
        with_open(|open| {
            let mut response = Vec::new();
            open.edge.decide(profile, request, &mut response)?;
            Ok(response)
        })
    })
}

/// Folds events. The input is a complete request to an event endpoint, and then the encoded profiles of the IDs that it names, that
/// of its visitor first. A profile is empty for a new ID. The output has two outputs within it: the complete response, and the
/// encoded profile of the visitor after the events.
#[unsafe(no_mangle)]
pub extern "C" fn fold() -> *const u8 {
    reply(|strings| {
        let (request, profiles) = strings.split_first().ok_or("the input has no request")?;
        with_open(|open| {
            let mut response = Vec::new();
            let profile = open.folder.fold(profiles, request, &mut response)?;
            Ok([framed(0, &response), framed(0, &profile)].concat())
        })
    })
}

/// Passes the open site to a function.
fn with_open(function: impl FnOnce(&mut Open) -> Result<Vec<u8>, &'static str>) -> Result<Vec<u8>, String> {
    OPEN.with_borrow_mut(|open| {
        let open = open.as_mut().ok_or("no snapshot is open")?;
        function(open).map_err(str::to_owned)
    })
}
