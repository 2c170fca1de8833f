"""paraudio: a local server for audio models that gets cancellation and shutdown right."""

__version__ = "0.1.0"
