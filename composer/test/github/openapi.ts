// The description of GitHub's API, for the requests and answers of the tests.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Ajv, type ValidateFunction } from 'ajv';

type Schema = Record<string, any>;

const { paths, components }: Schema = JSON.parse(
  readFileSync(createRequire(import.meta.url).resolve('@octokit/openapi/generated/api.github.com.json'), 'utf8'),
);
const REPOSITORY = '/repos/{owner}/{repo}';
const USED = [
  '',
  '/branches/{branch}',
  '/git/ref/{ref}',
  '/git/refs',
  '/git/refs/{ref}',
  '/git/trees',
  '/git/trees/{tree_sha}',
  '/git/blobs/{file_sha}',
  '/git/commits',
  '/git/commits/{commit_sha}',
  '/commits',
  '/pulls',
];

/** The operations that the composer may use. A name with slashes is one parameter in paths of references. */
const operations = USED.flatMap((path) => {
  const pattern = new RegExp(`^${`${REPOSITORY}${path}`.replace('{ref}', '.+').replace(/\{\w+\}/g, '[^/]+')}$`);
  return Object.entries<Schema>(paths[REPOSITORY + path]).map(([method, operation]) => ({ method: method.toUpperCase(), pattern, operation }));
});
const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true });
const compiled = new Map<Schema, ValidateFunction>();

/** Returns the faults of a value. The components that the schema needs are in one schema with it. */
function faultsOf(schema: Schema, value: unknown): string[] {
  const validate =
    compiled.get(schema) ?? ajv.compile({ ...(withNull(schema) as Schema), components: { schemas: withNull(reachable(schema)) } });
  compiled.set(schema, validate);
  return validate(value) ? [] : validate.errors!.map(({ instancePath, message }) => `${instancePath} ${message}`);
}

/** Writes `nullable` beside no `type`, which OpenAPI 3.0 allows, as JSON Schema has it. */
function withNull(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withNull);
  if (typeof value !== 'object' || value === null) return value;
  const { nullable, ...rest } = Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withNull(member)])) as Schema;
  if (nullable !== true) return nullable === undefined || nullable === false ? rest : { ...rest, nullable };
  return 'type' in rest ? { ...rest, nullable } : { anyOf: [{ type: 'null' }, rest] };
}

function reachable(schema: Schema, found: Record<string, Schema> = {}): Record<string, Schema> {
  for (const [, name] of JSON.stringify(schema).matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
    if (!found[name!]) reachable((found[name!] = components.schemas[name!]), found);
  }
  return found;
}

const resolved = (value: Schema): Schema =>
  value?.$ref
    ? value.$ref
        .split('/')
        .slice(1)
        .reduce((at: Schema, name: string) => at[name], { components })
    : value;
const jsonSchema = (place: Schema | undefined): Schema | undefined => place && resolved(place).content?.['application/json']?.schema;
/** Any operation may answer with these, which the description lists for some of them only. */
const COMMON = [301, 307, 401, 403, 404, 429, 451, 500, 502, 503];

/** Returns what the description says against a request and its answer. */
export function faultsOfExchange(method: string, url: URL, body: unknown, status: number, answer: unknown): string[] {
  const used = operations.find((one) => one.method === method && one.pattern.test(decodeURI(url.pathname)));
  if (!used) return [`${method} ${url.pathname} is no operation`];
  const { parameters = [], requestBody, responses } = used.operation;
  const known: Schema[] = parameters.map(resolved);
  const faults: string[] = [];
  for (const [name, text] of url.searchParams) {
    const schema = known.find((parameter) => parameter.in === 'query' && parameter.name === name)?.schema;
    if (!schema) faults.push(`unknown query ${name}`);
    else faults.push(...faultsOf(schema, schema.type === 'integer' ? Number(text) : text));
  }
  const bodySchema = jsonSchema(requestBody);
  if (bodySchema) faults.push(...faultsOf(bodySchema, body), ...unknownMembers(bodySchema, body as Schema));
  else if (body !== undefined) faults.push('a body that the operation does not have');
  const response = responses[status];
  if (!response && !COMMON.includes(status)) faults.push(`status ${status} is not one of the operation`);
  const schema = response ? jsonSchema(response) : components.schemas['basic-error'];
  if (schema) faults.push(...faultsOf(schema, answer));
  return faults.map((fault) => `${method} ${url.pathname} ${status}: ${fault}`);
}

function unknownMembers({ properties, items }: Schema, value: Schema): string[] {
  if (Array.isArray(value)) return value.flatMap((one) => (items ? unknownMembers(items, one) : []));
  if (!properties || typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) =>
    properties[name] ? unknownMembers(properties[name], member) : [`unknown member ${name}`],
  );
}

/** Returns a copy of an example of the description. */
export function example(name: string): any {
  return structuredClone(components.examples[name].value);
}
