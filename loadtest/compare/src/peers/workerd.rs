//! workerd, the runtime of a widely used edge platform. A script selects one of a few prepared pages for each
//! visitor.

use loadtest::process::Server;
use loadtest::servers::version;

use super::{
    HeaderFields, PeerContext, PeerError, ReferenceResponses, free_address, start_with_same_length,
    wait_until_listening,
};

const NAME: &str = "workerd";
const INSTALL: &str = "npm install --global workerd";

pub fn start(context: &PeerContext, reference: ReferenceResponses<'_>) -> Result<Server, PeerError> {
    let program = context.find(NAME, INSTALL)?;
    let version = version(&program, &["--version"]);
    for (number, response) in reference.responses.iter().enumerate() {
        context.launch.write(NAME, &body_name(number), response.body())?;
    }
    start_with_same_length(reference, |fields| {
        let address = free_address()?;
        context.launch.write(NAME, "worker.js", script(reference.responses.len(), fields))?;
        let file = context.launch.write(
            NAME,
            "workerd.capnp",
            configuration(&address.to_string(), reference.responses.len()),
        )?;
        let mut process = context.launch.start(NAME, &program, &["serve".into(), file.into()])?;
        wait_until_listening(&mut process, address)?;
        Ok(Server { name: NAME, version: version.clone(), address, processes: vec![process] })
    })
}

fn body_name(number: usize) -> String {
    format!("workerd-body-{number}")
}

/// Returns the script. A German-reading visitor in a nordic country gets one of the pages, by a hash of the
/// visitor's ID. Everything else is prepared before the first request.
fn script(bodies: usize, fields: &HeaderFields) -> String {
    let names = (0..bodies).map(|number| format!("import body{number} from \"{}\";\n", body_name(number)));
    let list = (0..bodies).map(|number| format!("body{number}")).collect::<Vec<_>>().join(", ");
    let mut headers = serde_json::Map::new();
    headers.insert("Content-Type".to_owned(), "application/json".into());
    headers.extend(fields.iter().map(|(name, value)| (name.clone(), value.as_str().into())));
    let imports: String = names.collect();
    let headers = serde_json::Value::Object(headers);
    format!(
        r#"{imports}const pages = [{list}];
const init = {{ headers: new Headers({headers}) }};
const nordic = new Set(["NO", "SE", "DK", "FI", "IS"]);

function arm(id) {{
  let hash = 0x811c9dc5;
  for (let at = 0; at < id.length; at++) hash = Math.imul(hash ^ id.charCodeAt(at), 0x01000193);
  return (hash >>> 8) % pages.length;
}}

// A tenth cheaper than URLSearchParams. Nothing here is escaped.
function param(url, name) {{
  const from = url.indexOf(name) + name.length;
  const end = url.indexOf("&", from);
  return end < 0 ? url.slice(from) : url.slice(from, end);
}}

export default {{
  fetch(request) {{
    const url = request.url;
    const locale = request.headers.get("Accept-Language") ?? "";
    if (!locale.startsWith("de") || !nordic.has(param(url, "&country="))) return new Response("", {{ status: 404 }});
    return new Response(pages[arm(param(url, "&anonId="))], init);
  }},
}};
"#
    )
}

fn configuration(address: &str, bodies: usize) -> String {
    let bodies: String = (0..bodies)
        .map(body_name)
        .map(|name| format!("      (name = \"{name}\", data = embed \"{name}\"),\n"))
        .collect();
    format!(
        "using Workerd = import \"/workerd/workerd.capnp\";\n\
         const config :Workerd.Config = (\n\
         \x20 services = [ (name = \"main\", worker = (\n\
         \x20   modules = [\n\
         \x20     (name = \"worker.js\", esModule = embed \"worker.js\"),\n\
         {bodies}\
         \x20   ],\n\
         \x20   compatibilityDate = \"2026-01-01\",\n\
         \x20 )) ],\n\
         \x20 sockets = [ (name = \"http\", address = \"{address}\", http = (), service = \"main\") ],\n\
         );\n"
    )
}
