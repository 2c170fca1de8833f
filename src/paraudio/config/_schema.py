"""The settings of the server as one immutable value; every room reads its part of it."""

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SkipValidation

from paraudio.config._kinds import (
    Count,
    FilledText,
    Flag,
    Milliseconds,
    PositiveCount,
    Strict,
    whole,
)
from paraudio.config._problems import refuse, shown
from paraudio.spec import IsolationName, ModelSpec

_ORIGIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#\s]+\Z")


def _origins(value: object) -> object:
    wants = 'must be "", "*" or a list of origins such as "https://example.org"'
    if isinstance(value, str):
        if value not in {"", "*"}:
            raise refuse(f"{wants}, not {shown(value)}")
        return value
    if not isinstance(value, list | tuple):
        raise refuse(f"{wants}, not {shown(value)}")
    for index, origin in enumerate(value):
        if not isinstance(origin, str) or not (origin == "null" or _ORIGIN.match(origin)):
            raise refuse(
                'must be an origin such as "https://example.org", without a path or a closing '
                f"slash, not {shown(origin)}",
                index,
            )
    return tuple(value)


def _header_safe(value: str) -> str:
    if not value.isascii() or not value.isprintable() or " " in value:
        raise refuse("must be printable ASCII without spaces, as it travels in a header")
    return value


ApiKey = Annotated[FilledText, AfterValidator(_header_safe)]


class LiveIngest(Strict):
    """Bounds of a live upload; milliseconds and bytes, 0 is no bound where it is allowed."""

    idle_timeout_ms: Milliseconds = 30_000
    total_timeout_ms: Milliseconds = 600_000
    max_body_bytes: Count = 512 * 2**20
    max_chunk_bytes: PositiveCount = 8 * 2**20
    send_timeout_ms: Milliseconds = 30_000


class Tls(Strict):
    """Paths of a certificate chain and its key, PEM."""

    cert: FilledText = Field(description="the path of a certificate chain (PEM)")
    key: FilledText = Field(description="the path of the certificate's private key (PEM)")


class Settings(Strict):
    """The whole configuration, after file, environment and flags are merged.

    ``models`` are complete specs; parsing of a model object lives beside this module.
    """

    host: FilledText = "127.0.0.1"
    port: Annotated[int, whole(0, 65535)] = 8080
    backend: Literal["cpu", "cuda", "auto"] = "auto"
    device: Count = 0
    threads: Count = 0
    lazy_load: Flag = True
    log_request_body: Flag = False
    max_request_body_bytes: Count = 2 * 2**30
    cors_origins: Annotated[str | tuple[str, ...], BeforeValidator(_origins)] = ""
    ui_enabled: Flag = False
    ui_management: Flag = False
    busy_timeout_ms: Milliseconds = 300_000
    max_loaded_models: Count = 0
    idle_unload_ms: Milliseconds = 0
    min_free_memory_mb: Count = 0
    voice_dir: FilledText | None = None
    allowed_paths: tuple[FilledText, ...] = ()
    live_ingest: LiveIngest = LiveIngest()
    models: SkipValidation[tuple[ModelSpec, ...]] = ()
    parallel_jobs: Flag = False
    isolation: IsolationName = "thread"
    max_queued_requests: Count = 0
    drain_timeout_ms: Milliseconds = 10_000
    cancel_timeout_ms: Milliseconds = 5_000
    hang_timeout_ms: Milliseconds = 10_000
    slow_client_timeout_ms: Milliseconds = 20_000
    max_connections: PositiveCount = 10_000
    api_keys: tuple[ApiKey, ...] = ()
    tls: Tls | None = None
    journal: FilledText | None = None
    default_response_format: Literal["wav", "pcm", "json"] = "wav"
