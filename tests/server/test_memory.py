import subprocess
import sys


def test_what_is_there_before_the_first_connection_is_not_collected_again() -> None:
    script = (
        "import gc\n"
        "from paraudio.server._memory import settle_memory\n"
        "settle_memory()\n"
        "print(gc.get_freeze_count() > 10_000, gc.isenabled())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["True", "True"]
