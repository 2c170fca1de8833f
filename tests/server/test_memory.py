"""Memory: what the collector leaves alone, and what goes back to the system after an unload."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.server.harness import serving

from paraudio.store import Store


def said_by(script: str) -> list[str]:
    """The words that a program of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.split()


def test_what_is_there_before_the_first_connection_is_not_collected_again() -> None:
    script = (
        "import gc\n"
        "from paraudio.server._memory import settle_memory\n"
        "settle_memory()\n"
        "print(gc.get_freeze_count() > 10_000, gc.isenabled())\n"
    )
    assert said_by(script) == ["True", "True"]


BLOCKS = """
import ctypes, sys, threading
from paraudio.server._memory import return_memory
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
def resident_mb():
    text = open("/proc/self/status").read()
    return int(text.partition("RssAnon:")[2].split()[0]) / 1024
def use(size=8 * 2**20):
    block = libc.malloc(size)
    ctypes.memset(block, 1, size)
    libc.free(block)
def in_a_thread():
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
if sys.argv[1:] == ["set"]:
    return_memory()
in_a_thread()
before = resident_mb()
for _ in range(4):
    in_a_thread()
print(resident_mb() - before > 4)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="is about glibc")
@pytest.mark.parametrize("is_set", [False, True])
def test_large_blocks_of_threads_go_back_to_the_system(tmp_path: Path, is_set: bool) -> None:
    script = tmp_path / "blocks.py"
    script.write_text(BLOCKS)
    done = subprocess.run(
        [sys.executable, script, *(["set"] if is_set else [])],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    # Without it the C library keeps such a block; if that changes, there is nothing left to set.
    assert done.stdout.split() == [str(not is_set)]


@pytest.mark.models
@pytest.mark.process
@pytest.mark.contract("beyond/g11_memory_released_after_unload")
async def test_the_memory_of_a_real_voice_comes_back(tmp_path: Path, model_store: Store) -> None:
    voice = {"id": "voice", "family": "piper_tts", "path": "store:piper-joe", "task": "tts"}
    body = {"model": "voice", "input": "The weather is nice and the birds are singing."}
    environ = {"PARAUDIO_HOME": str(model_store.home)}
    levels = []
    async with serving(tmp_path, [voice], environ=environ) as served:
        for _ in range(10):
            assert (await served.post("/v1/audio/speech", body)).status == 200
            assert (await served.post("/v1/models/unload", {"id": "voice"})).status == 200
            levels.append(resident_mb(served.pid))
        assert (await served.stopped()).code == 0
    assert min(levels[-2:]) < max(levels[2:5]) * 1.05, levels


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20
