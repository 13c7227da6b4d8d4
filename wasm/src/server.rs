//! A server of one site in memory, for development and tests.

use std::cell::RefCell;

use parallax::hosted::{IdKind, Server, ServerOptions};

use super::{reply, text};

thread_local! {
    static SERVER: RefCell<Option<Server>> = const { RefCell::new(None) };
}

/// Starts a server, in place of the one before. The input is a snapshot, `dev` if requests may have `now`, else an empty text, and
/// the content of a file of identity keys, empty for none.
#[unsafe(no_mangle)]
pub extern "C" fn serve() -> *const u8 {
    reply(|strings| {
        let [snapshot, mode, identity_keys] = strings else {
            return Err("the input is not a snapshot, a mode and identity keys".to_owned());
        };
        let is_dev = match text(mode)? {
            "dev" => true,
            "" => false,
            mode => return Err(format!("mode {mode:?} is unknown; use \"dev\" or an empty text")),
        };
        let options = ServerOptions { is_dev, identity_keys: text(identity_keys)? };
        SERVER.set(Some(Server::start(snapshot, options)?));
        Ok(Vec::new())
    })
}

/// Replaces the snapshot of the server. The visitors stay. The input is the snapshot.
#[unsafe(no_mangle)]
pub extern "C" fn publish() -> *const u8 {
    reply(|strings| {
        let [snapshot] = strings else { return Err("the input is not one snapshot".to_owned()) };
        with_server(|server| server.publish(snapshot).map(|()| Vec::new()))
    })
}

/// Answers a complete request to any endpoint of Edge or Events, whose body has a length. The input is the request.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> *const u8 {
    reply(|strings| {
        let [request] = strings else { return Err("the input is not one request".to_owned()) };
        with_server(|server| {
            let mut response = Vec::new();
            server.answer(request, &mut response)?;
            Ok(response)
        })
    })
}

/// Returns the encoded profile of an ID, empty if nothing is recorded of it. The input is the site ID, `anon` or `user`, and the ID.
#[unsafe(no_mangle)]
pub extern "C" fn profile() -> *const u8 {
    reply(|strings| {
        let [site, id_kind, id] = strings else {
            return Err("the input is not a site, a kind of ID and an ID".to_owned());
        };
        let id_kind = match text(id_kind)? {
            "anon" => IdKind::Anon,
            "user" => IdKind::User,
            other => return Err(format!("a kind of ID {other:?} is unknown; use \"anon\" or \"user\"")),
        };
        let (site, id) = (text(site)?, text(id)?);
        with_server(|server| Ok(server.profile(site, id_kind, id)))
    })
}

/// Passes the server to a function.
fn with_server(function: impl FnOnce(&mut Server) -> Result<Vec<u8>, String>) -> Result<Vec<u8>, String> {
    SERVER.with_borrow_mut(|server| function(server.as_mut().ok_or("no server is started")?))
}
