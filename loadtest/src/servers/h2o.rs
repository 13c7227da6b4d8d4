//! h2o, which sends the page from a file that it keeps open.

use rustix::process::geteuid;

use super::{
    Asked, CONNECTIONS, Fields, Place, START_MAX, StartError, arguments, free_address, of_same_length,
    version,
};
use crate::process::Server;

const NAME: &str = "h2o";
const INSTALL: &str = "apt-get install h2o";

pub fn start(place: &Place, asked: Asked<'_>) -> Result<Server, StartError> {
    let program = place.find(NAME, INSTALL)?;
    let version = version(&program, &["-v"]);
    let body = place.write(NAME, "h2o-body.json", asked.wanted().body())?;
    let kind = asked.content_type();
    of_same_length(asked, |fields| {
        let address = free_address()?;
        let text = configuration(address.port(), &body.display().to_string(), kind, fields);
        let file = place.write(NAME, "h2o.conf", text)?;
        let mut arguments = arguments(&["--mode", "worker", "--conf"]);
        arguments.push(file.into());
        let mut process = place.start(NAME, &program, &arguments)?;
        process.listens(address, START_MAX)?;
        Ok(Server { name: NAME, version: version.clone(), address, processes: vec![process] })
    })
}

/// One thread, nothing logged (as long as nobody asks for it), connections that are not closed for being idle.
fn configuration(port: u16, body: &str, kind: &str, fields: &Fields) -> String {
    let fields: String =
        fields.iter().map(|(name, value)| format!("        header.add: \"{name}: {value}\"\n")).collect();
    // Else it becomes somebody who may not read the page.
    let user = if geteuid().is_root() { "user: root\n" } else { "" };
    format!(
        "{user}num-threads: 1\n\
         num-name-resolution-threads: 1\n\
         max-connections: {CONNECTIONS}\n\
         http1-request-timeout: 3600\n\
         listen:\n\
         \x20 host: 127.0.0.1\n\
         \x20 port: {port}\n\
         hosts:\n\
         \x20 default:\n\
         \x20   paths:\n\
         \x20     /:\n\
         {fields}\
         \x20       file.send-compressed: OFF\n\
         \x20       file.mime.settypes:\n\
         \x20         \"{kind}\": [ \".json\" ]\n\
         \x20       file.file: {body}\n"
    )
}
