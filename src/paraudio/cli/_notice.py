"""What a server says when it starts: the policy, who advertises more than one slot, and the URL."""

import logging
import shlex

from paraudio import __version__
from paraudio.config import UNIX_PREFIX, Loaded, Settings

log = logging.getLogger("paraudio")


def log_notice(loaded: Loaded) -> None:
    """Log the policy, what each family offers beyond one slot, and what is odd.

    The families say themselves how their claim was validated; the line is the same under both
    policies, so that a reader of the serial one learns what the flag would allow.
    """
    from paraudio.engines.catalog import families  # noqa: PLC0415 - only serving needs them

    settings = loaded.settings
    log.info("paraudio %s, backend %s, %s", __version__, settings.backend, _policy(settings))
    log.info("slots that the families advertise on the CPU, and how that was validated:")
    for name, family in families().items():
        log.info("  %s: %s", name, family.advertises)
    for warning in loaded.warnings:
        log.warning("%s", warning)
    log.info("models: %s", ", ".join(_models(settings)) or "none")


def log_ready(url: str, settings: Settings) -> None:
    """Log where the server is, and for a newcomer one line to try."""
    log.info("listening on %s (stop with Ctrl-C)", url)
    speaker = next((spec.id for spec in settings.models if spec.task == "tts"), None)
    if speaker is not None and not settings.api_keys:
        body = f'{{"model":"{speaker}","input":"Hello!"}}'
        if url.startswith(UNIX_PREFIX):
            path = url.removeprefix(UNIX_PREFIX)
            scheme = "http" if settings.tls is None else "https"
            url = f"--unix-socket {shlex.quote(path)} {scheme}://localhost"
        log.info("try: curl %s/v1/audio/speech -d '%s' -o hello.wav", url, body)


def _policy(settings: Settings) -> str:
    if settings.parallel_jobs:
        return "parallel policy: a model has as many slots as its configuration says, up to 16"
    return "serial policy: one slot a model; --parallel-jobs allows more"


def _models(settings: Settings) -> list[str]:
    return [
        f"{spec.id} ({spec.task}" + (f", {spec.slots} slots)" if spec.slots > 1 else ")")
        for spec in settings.models
    ]
