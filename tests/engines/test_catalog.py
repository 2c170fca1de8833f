"""The catalogue makes every family, and imports none of their libraries to do so."""

import subprocess
import sys

from paraudio.engines import Family
from paraudio.engines.catalog import families


def test_every_family_is_made_under_its_own_name() -> None:
    made = families()
    assert set(made) == {"piper_tts", "pocketsphinx_asr", "silero_vad", "simulated"}
    assert {name: family.name for name, family in made.items()} == {name: name for name in made}


def test_a_family_says_all_that_the_server_asks() -> None:
    for family in families().values():
        typed: Family = family
        assert typed.tasks
        assert typed.advertises
        assert typed.isolation in {None, "thread", "process"}
        for schema in (typed.load_options, typed.session_options, typed.request_options):
            names = [option.name for option in schema]
            assert len(names) == len(set(names))
            assert all(option.doc.endswith(".") for option in schema)


def test_each_call_makes_families_of_its_own() -> None:
    assert families()["simulated"] is not families()["simulated"]


def test_making_families_loads_no_engine_library() -> None:
    program = (
        "import sys\n"
        "from paraudio.engines.catalog import families\n"
        "families()\n"
        "unwanted = {'onnxruntime', 'pocketsphinx', 'espeakng_loader', 'trio'}\n"
        "sys.exit(', '.join(sorted(unwanted & set(sys.modules))) or None)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
