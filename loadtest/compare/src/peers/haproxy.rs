//! haproxy, which responds from its own memory, without a file or a backend server.

use loadtest::process::Server;
use loadtest::servers::{arguments, version};

use super::{
    CONNECTIONS, HeaderFields, PeerContext, PeerError, ReferenceResponses, free_address,
    start_with_same_length, wait_until_listening,
};

const NAME: &str = "haproxy";
const INSTALL: &str = "apt-get install haproxy";
/// Buffer size. The whole response must fit, with space for header changes.
const BUFFER_BYTES: usize = 64 * 1024;

pub fn start(context: &PeerContext, reference: ReferenceResponses<'_>) -> Result<Server, PeerError> {
    let program = context.find(NAME, INSTALL)?;
    let version = version(&program, &["-v"]);
    let body = context.launch.write(NAME, "haproxy-body", reference.first_response().body())?;
    let kind = reference.content_type();
    start_with_same_length(reference, |fields| {
        let address = free_address()?;
        let text = configuration(&address.to_string(), &body.display().to_string(), kind, fields);
        let file = context.launch.write(NAME, "haproxy.conf", text)?;
        let mut arguments = arguments(&["-db", "-f"]);
        arguments.push(file.into());
        let mut process = context.launch.start(NAME, &program, &arguments)?;
        wait_until_listening(&mut process, address)?;
        Ok(Server { name: NAME, version: version.clone(), address, processes: vec![process] })
    })
}

/// Returns a configuration with one thread and no log.
fn configuration(address: &str, body: &str, kind: &str, fields: &HeaderFields) -> String {
    let fields: String =
        fields.iter().map(|(name, value)| format!(" hdr {name} \"{}\"", value.replace('%', "%%"))).collect();
    format!(
        "global\n\
         \x20 nbthread 1\n\
         \x20 maxconn {CONNECTIONS}\n\
         \x20 tune.bufsize {BUFFER_BYTES}\n\
         defaults\n\
         \x20 mode http\n\
         \x20 timeout client 1h\n\
         \x20 timeout http-keep-alive 1h\n\
         frontend page\n\
         \x20 bind {address}\n\
         \x20 http-request return status 200 content-type \"{kind}\" file {body}{fields}\n"
    )
}
