import schemathesis
from hypothesis import strategies as st

# A cursor is opaque, and the server rejects made-up cursors. Without a previous response only the empty one is known.
schemathesis.openapi.format("cursor", st.just(""))

@schemathesis.check
def only_undeclared_parameters_are_refused(ctx, response, case):
    meta = case.meta
    if case.path != "/v1/query" or response.status_code != 400 or meta is None or not meta.generation.mode.is_positive:
        return
    if case.method == "HEAD":
        return
    said = response.json()
    place = said.get("param") or said.get("pointer") or ""
    assert said["code"] == "invalid_param" and place.startswith(("params.", "/params/")), said

# A portable pattern cannot express that a zone occurs at most once.
_name = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)
_pairs = st.lists(st.tuples(_name, _name), max_size=5, unique_by=lambda pair: pair[0])
schemathesis.openapi.format("variants", _pairs.map(lambda pairs: ",".join(":".join(pair) for pair in pairs)))
