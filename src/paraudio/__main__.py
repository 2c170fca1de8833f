"""``python -m paraudio`` is ``paraudio``."""

from paraudio.cli import main

main()
