//! nginx, which sends the page from a file that it keeps open.

use std::path::Path;

use rustix::process::geteuid;

use super::{
    Asked, CONNECTIONS, Fields, Place, START_MAX, StartError, arguments, free_address, of_same_length,
    version,
};
use crate::process::Server;

const NAME: &str = "nginx";
const INSTALL: &str = "apt-get install nginx-light";

pub fn start(place: &Place, asked: Asked<'_>) -> Result<Server, StartError> {
    let program = place.find(NAME, INSTALL)?;
    let version = version(&program, &["-v"]);
    let body = place.write(NAME, "nginx-body", asked.wanted().body())?;
    of_same_length(asked, |fields| {
        let address = free_address()?;
        let text = configuration(&address.to_string(), &asked, &body, fields);
        let file = place.write(NAME, "nginx.conf", text)?;
        let mut arguments = arguments(&["-p"]);
        arguments.extend([place.folder.clone().into(), "-c".into(), file.into()]);
        arguments.extend(["-e".into(), "stderr".into()]);
        let mut process = place.start(NAME, &program, &arguments)?;
        process.listens(address, START_MAX)?;
        Ok(Server { name: NAME, version: version.clone(), address, processes: vec![process] })
    })
}

/// One worker, nothing logged, the file and what is known of it kept open; one connection for as many requests as one likes.
fn configuration(address: &str, asked: &Asked<'_>, body: &Path, fields: &Fields) -> String {
    let (path, kind, body) = (asked.path(), asked.content_type(), body.display());
    let fields: String =
        fields.iter().map(|(name, value)| format!("      add_header {name} \"{value}\";\n")).collect();
    // Its worker becomes who may read the page: who runs this.
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
