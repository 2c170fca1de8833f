"""Many events are encoded in one call: each line is what it would be alone, whatever is in it."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paraudio.journal import Event, Kind
from paraudio.journal import _format as format_module
from paraudio.journal._format import encode_events
from paraudio.spec import Json

TEXTS = st.text() | st.sampled_from(["}\n{", "}\0{", '"}\n{"', "\n", "\0", "\ud800", '\\"', "}{"])
ATOMS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
VALUES: st.SearchStrategy[Json] = st.recursive(
    ATOMS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=6
)
EVENTS = st.builds(
    Event,
    st.integers(min_value=1),
    st.floats(min_value=0, max_value=1e9),
    st.sampled_from(Kind),
    st.none() | TEXTS,
    st.dictionaries(TEXTS, VALUES, max_size=4),
)


def alone(event: Event) -> str:
    """The line of one event, as JSON's own encoder has it."""
    parts = {
        "seq": json.dumps(event.seq),
        "at": f"{event.at:.6f}",
        "kind": json.dumps(event.kind.value),
        "model": json.dumps(event.model),
        "facts": json.dumps(event.facts, separators=(",", ":")),
    }
    return "{" + ",".join(f'"{name}":{text}' for name, text in parts.items()) + "}\n"


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(EVENTS, max_size=8))
def test_events_that_are_encoded_together_are_what_they_are_alone(events: list[Event]) -> None:
    assert encode_events(events) == "".join(map(alone, events))


def test_a_list_of_objects_is_not_taken_for_several_facts() -> None:
    facts: dict[str, Json] = {"a": [{"b": 1}, {}, {"c": [[], [{}, {}]]}], "d": {}}
    events = [Event(number, 0.5, Kind.CUT, None, facts) for number in range(1, 4)]
    assert encode_events(events) == "".join(map(alone, events))


def test_more_events_than_go_at_once_are_all_there_in_their_order() -> None:
    count = 2 * format_module._AT_ONCE + 1
    events = [Event(seq, 0.5, Kind.CUT, None, {"what": "x"}) for seq in range(1, count + 1)]
    assert encode_events(events).splitlines() == [alone(event)[:-1] for event in events]


def test_nothing_becomes_nothing() -> None:
    assert encode_events([]) == ""
