"""A run's results for programs: as JSON, and as JUnit's XML, which build servers read."""

from xml.etree import ElementTree as ET

from paraudio.conformance._verdicts import Report, Verdict
from paraudio.spec import Json


def to_json(report: Report) -> Json:
    """A run as one JSON object."""
    return {
        "ok": report.good,
        "url": report.url,
        "policy": report.policy,
        "gone": report.gone or None,
        "seconds": round(report.seconds, 3),
        "counts": {str(verdict): report.count(verdict) for verdict in Verdict},
        "cells": [
            {
                "cell": result.cell,
                "verdict": str(result.verdict),
                "reason": result.reason or None,
                "scenarios": list(result.scenarios),
                "seconds": round(result.seconds, 3),
            }
            for result in report.results
        ],
    }


def to_junit(report: Report) -> str:
    """A run as a test suite: a cell is a test case, one that does not apply is skipped."""
    suite = ET.Element(
        "testsuite",
        name="paraudio conformance",
        tests=str(len(report.results)),
        failures=str(report.count(Verdict.FAIL)),
        errors="0",
        skipped=str(report.count(Verdict.NOT_APPLICABLE)),
        time=f"{report.seconds:.3f}",
    )
    for result in report.results:
        group, _, name = result.cell.rpartition("/")
        case = ET.SubElement(
            suite,
            "testcase",
            classname=f"contract.{group.replace('/', '.')}",
            name=name,
            time=f"{result.seconds:.3f}",
        )
        reason = _printable(result.reason)
        if result.verdict is Verdict.FAIL:
            ET.SubElement(case, "failure", message=reason).text = reason
        elif result.verdict is Verdict.NOT_APPLICABLE:
            ET.SubElement(case, "skipped", message=reason)
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _printable(text: str) -> str:
    """Text without the characters that XML cannot hold, whatever the server said."""
    return "".join(
        each if each in "\t\n" or each.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for each in text
    )
