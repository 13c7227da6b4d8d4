"""Calls a server with the client of openapi-python-client: `openapi_python.py URL`. Fails if a response is not as expected."""

import sys

from parallax_client import Client
from parallax_client.api.content import query, query_by_body
from parallax_client.api.events import track
from parallax_client.api.pages import resolve, variants
from parallax_client.models import (
    Answer,
    Code,
    DecisionAlone,
    Layout,
    Problem,
    QueryRequest,
    QueryRequestParams,
    Receipt,
    TrackEvent,
    TrackEventProperties,
)


def main(url):
    client = Client(base_url=url)
    visitor = {"tracking_id": "track_demo", "route": "/", "anon_id": "openapi-python"}

    resolved = resolve.sync(client=client, **visitor)
    assert isinstance(resolved, Layout), resolved
    assert resolved.layout.zones.additional_properties

    decided = variants.sync(client=client, **visitor)
    assert isinstance(decided, DecisionAlone), decided
    assert decided.selected == resolved.selected

    listed = query.sync(client=client, tracking_id="track_demo", query="products", limit=2)
    assert isinstance(listed, Answer) and len(listed.items) == 2, listed
    params = QueryRequestParams.from_dict({"section": "workshop"})
    request = QueryRequest(tracking_id="track_demo", query="latest-articles", params=params)
    queried = query_by_body.sync(client=client, body=request)
    assert isinstance(queried, Answer), queried
    assert all(item.fields["section"] == "workshop" for item in queried.items)

    event = TrackEvent(
        tracking_id="track_demo",
        anon_id="openapi-python",
        message_id="openapi-python",
        event="Seen",
        properties=TrackEventProperties.from_dict({"n": 1}),
    )
    tracked = track.sync(client=client, body=event)
    assert isinstance(tracked, Receipt) and tracked.accepted == 1, tracked

    missing = resolve.sync(client=client, **{**visitor, "route": "/nothing/here"})
    assert isinstance(missing, Problem) and missing.code == Code.ROUTE_NOT_FOUND, missing


main(sys.argv[1])
