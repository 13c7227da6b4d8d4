"""Generates clients from the OpenAPI document of a running server, and runs a program with each.

Each program resolves, decides, queries and tracks, and fails if a response is not as expected. The TypeScript programs are compiled
in strict mode, so that the generated types are checked too.
"""

import shutil
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = ("openapi-fetch.ts", "hey-api.ts", "tsconfig.json")
# The visitors of the programs. Each tracks one event.
VISITORS = ("openapi-fetch", "hey-api", "openapi-python")


def check(host, node, venv, run):
    """Generates, compiles and runs all clients. `run` runs a command and fails if the command fails."""
    began = time.monotonic()
    document = node / "openapi.json"
    urllib.request.urlretrieve(f"{host}/v1/openapi.json", document)
    python = generate(document, node, venv, run)
    run([node / "node_modules/.bin/tsc", "-p", node])
    run(["node", node / "openapi-fetch.js", host])
    run(["node", node / "hey-api.js", host])
    run([venv / "bin/python", HERE / "openapi_python.py", host], env={"PYTHONPATH": str(python)})
    print(f"{', '.join(VISITORS)}: resolved, decided, queried and tracked, {time.monotonic() - began:.1f} s")


def generate(document, node, venv, run):
    """Generates the clients. Returns the directory of the Python package."""
    for name in PROGRAMS:
        shutil.copy(HERE / name, node / name)
    tools, quiet = node / "node_modules/.bin", {"capture_output": True}
    run([tools / "openapi-typescript", document, "-o", node / "schema.d.ts"], **quiet)
    plugins = ["@hey-api/client-fetch", "@hey-api/typescript", "@hey-api/sdk"]
    run([tools / "openapi-ts", "-i", document, "-o", node / "hey-api-client", "--no-log-file", "-p", *plugins], **quiet)
    python = node.parent / "python"
    python.mkdir(exist_ok=True)
    options = ["--output-path", python / "parallax_client", "--overwrite", "--meta", "none"]
    generated = run([venv / "bin/openapi-python-client", "generate", "--path", document, *options], **quiet)
    # The generator omits operations that it does not understand, and exits with 0.
    if "WARNING parsing" in generated.stdout + generated.stderr:
        raise SystemExit(generated.stdout + generated.stderr)
    return python
