//! haproxy, which answers from its own memory, without a file or a server behind it.

use super::{
    Asked, CONNECTIONS, Fields, Place, START_MAX, StartError, arguments, free_address, of_same_length,
    version,
};
use crate::process::Server;

const NAME: &str = "haproxy";
const INSTALL: &str = "apt-get install haproxy";
/// An answer of its own must fit into a buffer, with room to change it.
const BUFFER_BYTES: usize = 64 * 1024;

pub fn start(place: &Place, asked: Asked<'_>) -> Result<Server, StartError> {
    let program = place.find(NAME, INSTALL)?;
    let version = version(&program, &["-v"]);
    let body = place.write(NAME, "haproxy-body", asked.wanted().body())?;
    let kind = asked.content_type();
    of_same_length(asked, |fields| {
        let address = free_address()?;
        let text = configuration(&address.to_string(), &body.display().to_string(), kind, fields);
        let file = place.write(NAME, "haproxy.conf", text)?;
        let mut arguments = arguments(&["-db", "-f"]);
        arguments.push(file.into());
        let mut process = place.start(NAME, &program, &arguments)?;
        process.listens(address, START_MAX)?;
        Ok(Server { name: NAME, version: version.clone(), address, processes: vec![process] })
    })
}

/// One thread, nothing logged.
fn configuration(address: &str, body: &str, kind: &str, fields: &Fields) -> String {
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
