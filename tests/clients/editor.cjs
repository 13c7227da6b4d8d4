// VS Code's JSON language service on a site of `parallax init`, without an editor.
//
// `node editor.cjs SITE_DIR`: completes paths and operators of conditions by the schemas that the files name, and checks that the
// service marks unknown ones and nothing in the files as written. Prints each fault. The exit code is 1 if there is one.

const fs = require("node:fs");
const path = require("node:path");
const { fileURLToPath, pathToFileURL } = require("node:url");
const { getLanguageService, TextDocument } = require("vscode-json-languageservice");

const site = path.resolve(process.argv[2]);
const service = getLanguageService({
  schemaRequestService: (uri) => fs.promises.readFile(fileURLToPath(uri), "utf8"),
  workspaceContext: { resolveRelativePath: (relative, base) => new URL(relative, base).href },
});
service.configure({ validate: true });

function open(file, text) {
  const document = TextDocument.create(pathToFileURL(path.join(site, file)).href, "json", 1, text);
  return [document, service.parseJSONDocument(document)];
}

async function marks(file, text) {
  const found = await service.doValidation(...open(file, text), { schemaValidation: "error" });
  return found.map((mark) => mark.message);
}

/** Returns the completions at the `|` in the text. */
async function completions(file, text) {
  const [document, json] = open(file, text.replace("|", ""));
  const list = await service.doComplete(document, document.positionAt(text.indexOf("|")), json);
  return list.items.map((item) => item.label);
}

const audience = (when) => `{"$schema":"./.schema/audiences.json","a":{"when":${when}}}`;
const query = (where) => `{"$schema":"./.schema/queries.json","q":{"collection":"posts","where":${where}}}`;

async function main() {
  const faults = [];
  const check = (holds, fault) => holds || faults.push(fault);
  for (const file of ["site.json", "audiences.json", "queries.json", "routes/index.json", "routes/post.json"]) {
    const found = await marks(file, fs.readFileSync(path.join(site, file), "utf8"));
    check(found.length === 0, `${file}: ${found}`);
  }
  for (const [text, wanted] of [
    [audience('{"|"}'), ["visitor.isReturning", "device.type", "country", "$and", "$audience"]],
    [audience('{"visitor.visits":{"|"}}'), ["$gte", "$in", "$exists", "$not"]],
    [audience('{"visitor.firstSeen":{"|"}}'), ["$within", "$lt"]],
    [audience('{"events.Post Read":{"|"}}'), ["$count"]],
    [query('{"price":{"|"}}'), ["$lte", "$param"]],
  ]) {
    const offered = await completions(text.includes("queries") ? "queries.json" : "audiences.json", text);
    check(wanted.every((name) => offered.includes(name)), `${text}: completes ${offered}`);
  }
  for (const [file, text, name] of [
    ["audiences.json", audience('{"visitor.visits":{"$least":3}}'), "$least"],
    ["audiences.json", audience('{"visitor.visit":3}'), "visitor.visit"],
    ["audiences.json", audience('{"$or":[{"country":{"$not":{"$is":"DE"}}}]}'), "$is"],
    ["queries.json", query('{"price":{"$less":3}}'), "$less"],
  ]) {
    const found = await marks(file, text);
    check(found.some((message) => message.includes(name)), `${text}: marks ${found}`);
  }
  faults.forEach((fault) => console.log(fault));
  console.log(`editor: ${faults.length} faults`);
  process.exit(faults.length === 0 ? 0 : 1);
}

main();
