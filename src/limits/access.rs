//! Limits of the file of `--access`.

/// Size of the file, in bytes: 5,000 people with an address and three sites fit. A larger file is refused.
pub const ACCESS_FILE_BYTES_MAX: usize = 1024 * 1024;
/// Entries of the file: tokens, people and groups together. Each request of a person compares its groups with them. A file with
/// more is refused.
pub const ACCESS_ENTRIES_MAX: usize = 10_000;
/// Sites of one entry. A larger team writes "*". An entry with more is refused.
pub const ACCESS_SITES_MAX: usize = 1_000;
/// Length of a name: of a token, a person or a group, in bytes. An e-mail address has at most 254 (RFC 5321 section 4.5.3.1). A
/// longer name in the file is refused, and one in a header belongs to nobody.
pub const ACCESS_NAME_BYTES_MAX: usize = 256;
/// Groups of one person that count, in the header of a proxy. A person has those after them without effect.
pub const ACCESS_GROUPS_MAX: usize = 256;
/// Longest life of a token that `parallax token new` makes, in days. A longer one is refused.
pub const TOKEN_DAYS_MAX: u32 = 3_650;

/// Shared links that have not ended. One more is refused until a link is revoked or has ended.
pub const LINKS_MAX: usize = 256;
/// Size of the page and the requests of a shared link, in bytes. A page of the console has up to ten requests of some hundred
/// bytes, and the longest filters of a URL. A larger one is refused.
pub const LINK_BYTES_MAX: usize = 16 * 1024;
/// Longest life of a shared link, in days. A longer one is refused.
pub const LINK_DAYS_MAX: u32 = 365;
