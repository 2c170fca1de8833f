"""Judges a running server, ours or another, by the behaviour contract: from outside, over HTTP.

Needs ``httpx``, which the ``conformance`` extra brings.
"""

from paraudio.conformance._cells import Cell, Part, cells, parts
from paraudio.conformance._report import to_json, to_junit
from paraudio.conformance._runner import conform
from paraudio.conformance._verdicts import NoServerError, Report, Result, Verdict

__all__ = [
    "Cell",
    "NoServerError",
    "Part",
    "Report",
    "Result",
    "Verdict",
    "cells",
    "conform",
    "parts",
    "to_json",
    "to_junit",
]
