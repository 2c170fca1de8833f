"""The field cases: what was seen to go wrong with servers of this kind, and what is right.

A test of a case has its number in its name (``test_c01_…``).
"""

from collections.abc import Mapping
from typing import Final

CASES: Final[Mapping[int, str]] = {
    1: "a stream of events that its client closes midway ends, frees its slot, and no one notices",
    2: "a client that hangs up before anything is written is noticed, and its run cancelled",
    3: "of three clients in a queue the second hangs up, and only the second disappears",
    4: "no word of an abandoned stream is in the answer of the next request on its slot",
    5: "with room for one model, a request to a second one waits until the first has run",
    6: "a request in the moment of an idle retirement wins, or loads the model again",
    7: "sixteen requests at once sound like the same sixteen one after the other",
    8: "silence is an empty text, never the one before; no sound at all is a 400",
    9: "the openai package gets every format, both granularities and the stream, with one end",
    10: "streamed wav has one header with no sizes, no gaps, and plays while it grows",
    11: "a load that fails under a streamed request is a plain 500 before any header",
    12: "a text without speech or a voice that is none is a 400 that names the field, or is spoken",
    13: "uploads are decoded by their content, however the form around them is written",
    14: "what is no recording is a 400 within a second",
    15: "no language is automatic, a region is taken, an unknown one is named in a 400",
    16: "a seed is exact up to 2^64-1, as a number and as a string, or a 400",
    17: "a shutdown keeps its bound whatever the clients do",
    18: "health is answered at once while a model loads and four requests run",
    19: "a long text is spoken to its end, or a 400 says the limit",
    20: "no path leads out of the allowed folders, and no message tells of one",
    21: "each format is what it says, and a speed is honoured or refused",
    22: "two registrations of one ID make one entry; one during a bulk unload has its turn",
}
