import schemathesis
from hypothesis import strategies as st

# A cursor is opaque, and the server rejects made-up cursors. Without a previous response only the empty one is known.
schemathesis.openapi.format("cursor", st.just(""))

# The rejections of valid data that the schemas do not describe: no site or two, an event without a visitor or a
# type, and placeholders.
NO_TYPE = "The event has no type;"
UNDESCRIBED = ("missing_site", "site_mismatch", "missing_visitor", "placeholder_id")

@schemathesis.check
def only_undescribed_faults_are_refused(ctx, response, case):
    meta = case.meta
    if response.status_code != 400 or meta is None or not meta.generation.mode.is_positive:
        return
    said = response.json()
    place = said.get("param") or said.get("pointer") or ""
    is_param_of_query = said["code"] == "invalid_param" and place.startswith(("params.", "/params/"))
    # A batch without a valid event has the faults of its events.
    faults = said.get("errors", [said])
    are_undescribed = all(fault["code"] in UNDESCRIBED or fault["detail"].startswith(NO_TYPE) for fault in faults)
    assert are_undescribed or case.path == "/v1/query" and is_param_of_query, said

# A portable pattern cannot express that a zone occurs at most once.
_name = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)
_pairs = st.lists(st.tuples(_name, _name), max_size=5, unique_by=lambda pair: pair[0])
schemathesis.openapi.format("variants", _pairs.map(lambda pairs: ",".join(":".join(pair) for pair in pairs)))
