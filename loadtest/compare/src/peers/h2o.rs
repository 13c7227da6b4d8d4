//! h2o, which sends the page from a file that it keeps open.

use loadtest::process::Server;
use loadtest::servers::{arguments, version};
use rustix::process::geteuid;

use super::{
    CONNECTIONS, HeaderFields, PeerContext, PeerError, ReferenceResponses, free_address,
    start_with_same_length, wait_until_listening,
};

const NAME: &str = "h2o";
const INSTALL: &str = "apt-get install h2o";

pub fn start(context: &PeerContext, reference: ReferenceResponses<'_>) -> Result<Server, PeerError> {
    let program = context.find(NAME, INSTALL)?;
    let version = version(&program, &["-v"]);
    let body = context.launch.write(NAME, "h2o-body.json", reference.first_response().body())?;
    let kind = reference.content_type();
    start_with_same_length(reference, |fields| {
        let address = free_address()?;
        let text = configuration(address.port(), &body.display().to_string(), kind, fields);
        let file = context.launch.write(NAME, "h2o.conf", text)?;
        let mut arguments = arguments(&["--mode", "worker", "--conf"]);
        arguments.push(file.into());
        let mut process = context.launch.start(NAME, &program, &arguments)?;
        wait_until_listening(&mut process, address)?;
        Ok(Server { name: NAME, version: version.clone(), address, processes: vec![process] })
    })
}

/// Returns a configuration with one thread, no log (the default) and a long idle timeout.
fn configuration(port: u16, body: &str, kind: &str, fields: &HeaderFields) -> String {
    let fields: String =
        fields.iter().map(|(name, value)| format!("        header.add: \"{name}: {value}\"\n")).collect();
    // Otherwise h2o changes to a user who may not read the page.
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
