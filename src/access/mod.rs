//! Access to the admin address: the roles, the tokens and people that have them (`--access`), and shared links.

mod caller;
mod file;
mod link;
mod role;
mod token;

pub(crate) use self::caller::{Actor, ActorKind, Caller};
pub(crate) use self::file::AccessFile;
pub(crate) use self::link::{Link, LinkedPage, LinkedRequest};
pub(crate) use self::role::{Area, Role};
pub(crate) use self::token::{new_link_token, new_token, token_hash};
