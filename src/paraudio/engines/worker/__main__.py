"""``python -m paraudio.engines.worker CONTROL TETHER MODEL``: started by the process isolation."""

import sys

from paraudio.engines.worker._serve import serve

serve(int(sys.argv[1]), int(sys.argv[2]))
