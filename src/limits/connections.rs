//! Limits of connections: their number, their buffers, and their memory.

use super::{
    CANONICAL_BYTES_MAX, COMBINATIONS_LISTED_MAX, HEAD_BYTES_MAX, ROUTE_BYTES_MAX, ROUTES_PAGE_BYTES_MAX,
};

/// Largest default number of connections on the public address, if the limit on file descriptors and the memory
/// allow it. At `CONNECTION_BYTES` each they take half a GiB.
pub(crate) const CONNECTIONS_MAX_DEFAULT: usize = 65_536;
/// Default number of connections on the admin address. Its clients are scrapers, load balancers and a few
/// people. A further connection closes the one that has waited longest.
pub(crate) const ADMIN_CONNECTIONS_DEFAULT: usize = 256;
/// Number of connections on the admin address for which descriptors are kept, however low their limit is.
pub(crate) const ADMIN_CONNECTIONS_MIN: usize = 8;
/// Number of rejected connections (too many) that one worker keeps open until the client has read the
/// response. Further rejected connections get the response and are closed at once.
pub(crate) const LINGERING_REJECTIONS_MAX: usize = 2;
/// Bytes that the server reads and discards after a response that ends the connection. nginx sends a body of up to 1 MiB, its default
/// limit, before it reads the response, and answers 502 if the server closes the connection meanwhile.
pub const DISCARDED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Largest default memory limit of all connections together for responses not yet sent. It holds 280 of the largest
/// responses, or 1,000 clients that request much and read nothing. Requests beyond it get 503.
pub(crate) const CONNECTIONS_MEMORY_BYTES_DEFAULT: usize = 512 * 1024 * 1024;
/// Smallest useful memory limit of one worker for responses: two of the largest.
pub(crate) const CONNECTIONS_MEMORY_BYTES_MIN: usize = 4 * 1024 * 1024;
/// Largest default memory limit of all connections together for request bodies being received. It holds 1,100 bodies
/// of 270 KB, or 10,000 of the usual size. Beyond it the slowest body gets 408.
pub(crate) const BODIES_MEMORY_BYTES_DEFAULT: usize = 384 * 1024 * 1024;
/// Smallest useful memory limit of one worker for bodies: one of the largest size, and the begin of others.
pub(crate) const BODIES_MEMORY_BYTES_MIN: usize = 1024 * 1024;
/// Number of `X-Forwarded-For` header fields of one request that are parsed. The last ones count. Most
/// proxies append to the existing field, so this allows four proxies in a row that each add a field of their
/// own.
pub(crate) const FORWARDED_FIELDS_MAX: usize = 4;
/// Growth of a read buffer that is full and receives a body. A larger step would hold memory that the body
/// may never fill, and a smaller one would cost more reads.
pub(crate) const BODY_BUFFER_STEP_BYTES: usize = 32 * 1024;
/// Age below which a body is never cut off for another one, in ms. The rate of a younger body says little.
pub(crate) const BODY_AGE_MS_MIN: u64 = 1000;
/// Size of a connection's read buffer. Nearly every head fits. A larger head moves to a pooled buffer.
pub const READ_BUFFER_BYTES: usize = 4 * 1024;
/// Lowest transfer rate of a request body, in bytes per second, over the time of `--timeout-body-ms`. A slower
/// client would occupy a buffer for nothing and gets 408.
pub(crate) const BODY_BYTES_PER_S_MIN: u64 = 1024;
/// Bytes of responses to pipelined requests that are sent together. At this size the worker sends before it
/// handles the next request, so that a client that pipelines without reading costs one such buffer and one
/// body.
pub(crate) const FLUSH_BYTES: usize = 256 * 1024;
/// Most bytes of output buffers that a worker keeps for its next responses: 32 of the largest, or many buffers of
/// the usual size for connections that are busy at the same time. Buffers beyond it are freed.
pub(crate) const OUTPUT_POOL_BYTES_MAX: usize = 32 * OUTPUT_BUFFER_BYTES_MAX;
/// Bytes of output buffers that a worker keeps although nobody used them for a second. So a burst of large
/// responses does not take memory for ever.
pub(crate) const OUTPUT_POOL_IDLE_BYTES_MAX: usize = 1024 * 1024;
/// Largest output of one send: the largest body, its head, and the pipelined responses before it. The largest
/// body is a page of routes, which ends after the route that exceeds its limit. A larger output buffer is
/// freed, not pooled.
pub(crate) const OUTPUT_BUFFER_BYTES_MAX: usize = FLUSH_BYTES
    + ROUTES_PAGE_BYTES_MAX
    + COMBINATIONS_LISTED_MAX * CANONICAL_BYTES_MAX
    + ROUTE_BYTES_MAX
    + HEAD_BYTES_MAX;
/// Age below which an unsent response is never cut off for another request, in ms. The rate of a younger one says little.
pub(crate) const UNSENT_AGE_MS_MIN: u64 = 1000;
/// Size of a response that may use all of the memory limit. A larger one leaves a quarter of it to the smaller ones: receipts, decisions,
/// and usual pages.
pub(crate) const SMALL_RESPONSE_BYTES_MAX: usize = 64 * 1024;
/// Smallest part of a response that is read from the snapshot while its client is slow. A smaller one is copied, which costs
/// less than to keep track of it.
pub(crate) const SHARED_PART_BYTES_MIN: usize = 16 * 1024;
/// Number of such parts of the responses that are sent together. A page has one for each of its zones, at most. Further ones
/// are copied.
pub(crate) const SHARED_PARTS_MAX: usize = 64;
/// Number of requests of one worker that wait for a publication (`wait` of `/v1/routes`). Each keeps a connection
/// for up to 30 s. The clients are a few servers of each site. Beyond it the response is sent at once.
pub const HELD_REQUESTS_MAX: usize = 256;
/// Part of them for one site, so that the servers of one site leave places for those of others.
pub const HELD_REQUESTS_OF_SITE_MAX: usize = 128;
/// Part of them for one client address. A machine that renders a website needs one.
pub const HELD_REQUESTS_OF_CLIENT_MAX: usize = 32;
/// Longest time that a request waits for a publication, in seconds. Common proxies give a response 60 s.
pub const WAIT_S_MAX: u64 = 30;
