"""Sends events with segment-analytics-python: `send.py HOST < asked.ndjson > bodies.ndjson`.

Input: one event per line, with JSON member names. Output: the body of each request. Fails if an event was not delivered.
"""

import json
import logging
import re
import sys
from datetime import datetime

from segment.analytics.client import Client

PREFIX = "making request: "


class Bodies(logging.Handler):
    """Prints the request bodies. The library shows them only in its debug log."""

    def emit(self, record):
        text = record.getMessage()
        if text.startswith(PREFIX):
            print(text.removeprefix(PREFIX))


def call(client, asked):
    kind = asked.pop("type")
    if "timestamp" in asked:
        asked["timestamp"] = datetime.fromisoformat(asked["timestamp"])
    snake = {re.sub("[A-Z]", lambda c: "_" + c[0].lower(), name): value for name, value in asked.items()}
    getattr(client, kind)(**snake)


def main(host):
    logger = logging.getLogger("segment")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(Bodies())
    failures = []
    settings = {"host": host, "max_retries": 0, "on_error": lambda error, batch: failures.append(error)}
    clients = [Client("track_demo", gzip=gzip, **settings) for gzip in (False, True)]
    for i, line in enumerate(sys.stdin):
        call(clients[i % 2], json.loads(line))
    for client in clients:
        client.shutdown()
    sys.exit(f"not delivered: {failures[0]}" if failures else 0)


main(sys.argv[1])
