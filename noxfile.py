"""Everything that is checked here, under one command: `nox`, which is also all that CI runs.

The sessions run in the environment that nox itself was started in, which
`uv run --group dev nox` makes complete: one environment, one copy of the large packages, and
nothing to install between sessions.
"""

from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "tests", "contract", "docs"]
nox.options.error_on_missing_interpreters = True

ROOT = Path(__file__).parent
BUILD = ROOT / "build"
COVERAGE = BUILD / "coverage.json"
SHUTDOWN = BUILD / "shutdown.json"
"""How long the servers of the tests took to end; ``tools/shutdown.py`` prints it."""
RESULTS = (BUILD / "contract-core.json", BUILD / "contract-rest.json")
FUZZERS = ("fuzz", "forms", "sockets", "wire")
"""What is attacked: the document's promises, forms, websockets, and the bytes of requests."""
CORE = ("tests/admission", "tests/journal", "tests/lifecycle")
"""The tests of the rooms whose coverage has a floor: each must reach it by its own tests."""


@nox.session
def lint(session: nox.Session) -> None:
    """Format and lint; `nox -s lint -- --fix` mends what can be mended."""
    fix = "--fix" in session.posargs
    session.run("ruff", "format", *([] if fix else ["--check"]), ".")
    session.run("ruff", "check", *(["--fix"] if fix else []), ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of everything, strictly."""
    session.run("mypy", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run every test but those of the documents; arguments go to pytest and leave coverage out."""
    if session.posargs:
        session.run("pytest", *session.posargs)
        return
    BUILD.mkdir(exist_ok=True)
    core, rest = (f"--contract-results={file}" for file in RESULTS)
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", core, *CORE)
    session.run("coverage", "combine", "--quiet")
    session.run("coverage", "json", "--quiet", "-o", str(COVERAGE))
    session.run("python", "tools/coverage_floor.py", str(COVERAGE))
    # Tracing every line would double the time of the rest, and prove nothing more.
    elsewhere = (f"--ignore={folder}" for folder in ("tests/docs", *CORE))
    session.run("pytest", rest, f"--shutdown-results={SHUTDOWN}", *elsewhere)


@nox.session
def contract(session: nox.Session) -> None:
    """Check that the contract's pages say what the tests proved; `-- write` makes them anew."""
    if not all(file.exists() for file in RESULTS):
        session.error("run the tests first: they say which cells they drove (nox -s tests)")
    check = [] if "write" in session.posargs else ["--check"]
    session.run("python", "docs/contract/generate.py", *check, *map(str, RESULTS))


@nox.session
def docs(session: nox.Session) -> None:
    """Run the examples of the README and check the documents against the code."""
    session.run("pytest", "tests/docs", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Print what things cost; `-- NAME` runs one benchmark."""
    for script in sorted((ROOT / "benchmarks").glob("[!_]*.py")):
        if not session.posargs or script.stem in session.posargs:
            session.run("python", "-m", f"benchmarks.{script.stem}")


@nox.session
def serve(session: nox.Session) -> None:
    """Run the server from this tree, with the given arguments."""
    session.run("paraudio", "serve", *session.posargs)


@nox.session
def soak(session: nox.Session) -> None:
    """Put a real server under mixed load for a while; `-- --minutes 30` for longer."""
    session.run("python", "-m", "tools.soak", *session.posargs)


@nox.session
def attack(session: nox.Session) -> None:
    """Attack a real server over raw sockets; `-- --minutes 60` for an hour, `--tls`, `--real`."""
    session.run("python", "-m", "tools.attack", *session.posargs)


@nox.session
def histories(session: nox.Session) -> None:
    """Let Hypothesis write histories for as long as told; `-- 3600` for an hour."""
    seconds = (session.posargs or ["600"])[0]
    session.run("pytest", "tests/contract/test_histories.py", env={"PARAUDIO_SOAK_S": seconds})


@nox.session
def fuzz(session: nox.Session) -> None:
    """Attack what the OpenAPI document promises for as long as told; `-- 3600` for an hour."""
    seconds = (session.posargs or ["300"])[0]
    tests = [f"tests/http/test_openapi_{name}.py" for name in FUZZERS]
    session.run("pytest", *tests, env={"PARAUDIO_FUZZ_S": seconds})


@nox.session
def orders(session: nox.Session) -> None:
    """Play every order of arrivals against the reference; `-- --length 4` for all of them."""
    session.run("python", "-m", "tools.orders", *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """Break admission and lifecycle in small ways, and see whether the tests notice."""
    session.run("python", "-m", "tools.mutate", *session.posargs)
