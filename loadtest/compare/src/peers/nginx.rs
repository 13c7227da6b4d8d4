//! nginx, which sends the page from a file that it keeps open.

use std::path::Path;

use loadtest::process::Server;
use loadtest::servers::{arguments, version};
use rustix::process::geteuid;

use super::{
    CONNECTIONS, HeaderFields, PeerContext, PeerError, ReferenceResponses, free_address,
    start_with_same_length, wait_until_listening,
};

const NAME: &str = "nginx";
const INSTALL: &str = "apt-get install nginx-light";

pub fn start(context: &PeerContext, reference: ReferenceResponses<'_>) -> Result<Server, PeerError> {
    let program = context.find(NAME, INSTALL)?;
    let version = version(&program, &["-v"]);
    let body = context.launch.write(NAME, "nginx-body", reference.first_response().body())?;
    start_with_same_length(reference, |fields| {
        let address = free_address()?;
        let text = configuration(&address.to_string(), &reference, &body, fields);
        let file = context.launch.write(NAME, "nginx.conf", text)?;
        let mut arguments = arguments(&["-p"]);
        arguments.extend([context.launch.config_dir.clone().into(), "-c".into(), file.into()]);
        arguments.extend(["-e".into(), "stderr".into()]);
        let mut process = context.launch.start(NAME, &program, &arguments)?;
        wait_until_listening(&mut process, address)?;
        Ok(Server { name: NAME, version: version.clone(), address, processes: vec![process] })
    })
}

/// Returns a configuration with one worker, no log, a cache of the open file and its metadata, and
/// practically no limit on requests per connection.
fn configuration(
    address: &str,
    reference: &ReferenceResponses<'_>,
    body: &Path,
    fields: &HeaderFields,
) -> String {
    let (path, kind, body) = (reference.path(), reference.content_type(), body.display());
    let fields: String =
        fields.iter().map(|(name, value)| format!("      add_header {name} \"{value}\";\n")).collect();
    // The worker must run as a user who may read the page: the one who runs this program.
    let user = if geteuid().is_root() { "user root;\n" } else { "" };
    format!(
        "{user}daemon off;\n\
         worker_processes 1;\n\
         pid nginx.pid;\n\
         events {{\n  worker_connections {CONNECTIONS};\n}}\n\
         http {{\n\
         \x20 access_log off;\n\
         \x20 server_tokens off;\n\
         \x20 sendfile on;\n\
         \x20 tcp_nopush on;\n\
         \x20 tcp_nodelay on;\n\
         \x20 open_file_cache max=100 inactive=1h;\n\
         \x20 open_file_cache_valid 1h;\n\
         \x20 keepalive_requests 1000000000;\n\
         \x20 keepalive_timeout 1h;\n\
         \x20 server {{\n\
         \x20   listen {address} reuseport;\n\
         \x20   location = {path} {{\n\
         \x20     default_type {kind};\n\
         \x20     types {{ }}\n\
         {fields}\
         \x20     alias {body};\n\
         \x20   }}\n\
         \x20 }}\n\
         }}\n"
    )
}
