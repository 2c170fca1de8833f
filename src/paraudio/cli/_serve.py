"""``paraudio serve``: the configuration from all its sources, the startup notice, the server."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from paraudio.cli._early import EarlyEnd
from paraudio.cli._help import EXIT_CODES, GroupedCommand, GroupedOption
from paraudio.cli._logging import LEVELS, set_up
from paraudio.config import SettingInfo, flag_name, settings_info

GROUPS: Final = {
    "Network": ("host", "port", "bind", "api_keys", "tls.cert", "tls.key", "cors_origins"),
    "Scheduling": (
        "parallel_jobs",
        "busy_timeout_ms",
        "max_queued_requests",
        "lazy_load",
        "max_loaded_models",
        "min_free_memory_mb",
        "idle_unload_ms",
    ),
    "Backend": ("backend", "device", "threads", "isolation", "hang_timeout_ms", "load_timeout_ms"),
    "Shutdown": ("drain_timeout_ms", "cancel_timeout_ms"),
    "Requests": (
        "ui_enabled",
        "ui_management",
        "voice_dir",
        "allowed_paths",
        "default_response_format",
        "max_request_body_bytes",
        "max_connections",
        "slow_client_timeout_ms",
        "half_close_grace_ms",
        "sse_heartbeat_ms",
    ),
    "Live input": (
        "live_ingest.idle_timeout_ms",
        "live_ingest.total_timeout_ms",
        "live_ingest.max_body_bytes",
        "live_ingest.max_chunk_bytes",
        "live_ingest.send_timeout_ms",
        "realtime_idle_timeout_ms",
        "realtime_session_max_ms",
    ),
    "Records": ("journal", "log_request_body"),
}
"""The settings that have flags, under the headings of the help."""

_EPILOG = f"""\b
Each setting can also be given in the configuration file and by a variable:
  port     PARAUDIO_PORT=8080
  api_keys PARAUDIO_API_KEYS=one,two
  live_ingest.max_body_bytes PARAUDIO_LIVE_INGEST__MAX_BODY_BYTES=1000000
Flags win over variables, variables over the file. Where a time, a size or a count is 0, it
bounds nothing, unless its line says otherwise.

\b
Examples:
  paraudio serve
  paraudio serve --port 9000 --api-key secret
  paraudio serve --config server.json --parallel-jobs --journal run.jsonl

{EXIT_CODES}"""


def _option(name: str, group: str, info: SettingInfo) -> Callable[[Any], Any]:
    """The option of one setting; its value stays text, so that one checker words all refusals."""
    flag, text = flag_name(info.place), info.description[0].upper() + info.description[1:]
    if info.is_flag:
        flag = f"{flag}/--no-{flag.removeprefix('--')}"
    elif info.default not in {None, "", ()}:
        text += f" [default: {info.default}]"
    elif info.is_list:
        text += "; may be given again"
    return click.option(
        flag,
        name.replace(".", "__"),
        cls=GroupedOption,
        group=group,
        default=None,
        metavar=None if info.is_flag else info.metavar,
        multiple=info.is_list and not info.is_flag,
        help=text + ("; on unless switched off." if info.default is True else "."),
    )


def _with_settings(function: Callable[..., int]) -> Callable[..., int]:
    infos = settings_info()
    pairs = [(name, group) for group, names in GROUPS.items() for name in names]
    for name, group in reversed(pairs):
        function = _option(name, group, infos[name])(function)
    return function


@click.command(cls=GroupedCommand, epilog=_EPILOG)
@click.option(
    "-c",
    "--config",
    "config",
    cls=GroupedOption,
    group="Configuration",
    type=click.Path(path_type=Path),
    envvar="PARAUDIO_CONFIG",
    help="Configuration file, JSON or TOML (or PARAUDIO_CONFIG); without one, three small models.",
)
@_with_settings
@click.option(
    "--log-level",
    cls=GroupedOption,
    group="Records",
    type=click.Choice(LEVELS),
    default="info",
    help="Least level that is logged to stderr [default: info].",
)
@click.option(
    "--log-format",
    cls=GroupedOption,
    group="Records",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Lines for people or for machines [default: text].",
)
@click.pass_obj
def command(
    early: EarlyEnd | None,
    /,
    config: Path | None,
    *,
    log_level: str,
    log_format: str,
    **flags: object,
) -> int:
    """Serve models over HTTP until a signal ends it.

    Without a configuration file it offers speech (piper-joe), transcription (pocketsphinx-en) and
    voice activity (silero-vad), each fetched at its first request.

    SIGTERM or Ctrl-C lets running work finish (--drain-timeout-ms), then cancels what is left
    (--cancel-timeout-ms), then leaves. A second signal skips the first wait, a third the second.
    """
    from paraudio.cli._checked import load_checked  # noqa: PLC0415 - help must stay fast
    from paraudio.cli._notice import log_notice, log_ready  # noqa: PLC0415

    named = {name.replace("__", "."): value for name, value in flags.items()}
    loaded = load_checked(config=config, environ=os.environ, flags=named)
    set_up(log_level, log_format)
    log_notice(loaded)

    from paraudio.server import run  # noqa: PLC0415 - the whole server, once all is right

    def ready(url: str) -> None:
        if early is not None:
            early.over = True
        log_ready(url, loaded.settings)

    return run(loaded.settings, ready=ready)
