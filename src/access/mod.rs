//! Access to the admin address: the roles, and the tokens and people that have them (`--access`).

mod caller;
mod file;
mod role;
mod token;

pub(crate) use self::caller::{ActorKind, Caller};
pub(crate) use self::file::AccessFile;
pub(crate) use self::role::{Area, Role};
pub(crate) use self::token::{new_token, token_hash};
