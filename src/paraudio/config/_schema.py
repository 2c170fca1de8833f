"""The settings of the server as one immutable value; every room reads its part of it."""

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SkipValidation

from paraudio.config._address import checked_place, checked_places
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
Place = Annotated[FilledText, AfterValidator(checked_place)]


class LiveIngest(Strict):
    """Bounds of a live upload; milliseconds and bytes, 0 is no bound where it is allowed."""

    idle_timeout_ms: Milliseconds = Field(
        default=30_000, description="longest pause between two pieces"
    )
    total_timeout_ms: Milliseconds = Field(default=600_000, description="longest upload")
    max_body_bytes: Count = Field(default=512 * 2**20, description="most bytes of an upload")
    max_chunk_bytes: PositiveCount = Field(default=8 * 2**20, description="most bytes of one piece")
    send_timeout_ms: Milliseconds = Field(
        default=30_000, description="longest wait for a slow reader"
    )


class Tls(Strict):
    """Paths of a certificate chain and its key, PEM."""

    cert: FilledText = Field(description="certificate chain (PEM)")
    key: FilledText = Field(description="private key of the certificate (PEM)")


class Settings(Strict):
    """The whole configuration, after file, environment and flags are merged.

    ``models`` are complete specs; parsing of a model object lives beside this module. In times,
    sizes and counts, 0 means "no bound" unless the description says otherwise.
    """

    host: FilledText = Field(default="127.0.0.1", description="address to listen on")
    port: Annotated[int, whole(0, 65535)] = Field(
        default=8080, description="port to listen on; 0 takes a free one"
    )
    bind: Annotated[tuple[Place, ...], AfterValidator(checked_places)] = Field(
        default=(),
        description="place to listen on instead of host and port: HOST:PORT, unix:PATH (an "
        "absolute path), or inherited (the sockets that a service manager passed)",
    )
    backend: Literal["cpu", "cuda", "auto"] = Field(
        default="auto", description="where models run: cpu, cuda, or auto (cuda where it works)"
    )
    device: Count = Field(default=0, description="index of the device, for cuda")
    threads: Count = Field(
        default=0, description="threads that one run may use; 0 lets each family choose"
    )
    lazy_load: Flag = Field(
        default=True, description="load models at their first request, not at startup"
    )
    log_request_body: Flag = Field(
        default=False, description="write the bodies of requests to the log"
    )
    max_request_body_bytes: Count = Field(default=2 * 2**30, description="most bytes of a request")
    cors_origins: Annotated[str | tuple[str, ...], BeforeValidator(_origins)] = Field(
        default="", description='origins that browsers may call from: "", "*" or a list'
    )
    ui_enabled: Flag = Field(default=False, description="serve the web page")
    ui_management: Flag = Field(default=False, description="let clients register and unload models")
    busy_timeout_ms: Milliseconds = Field(
        default=300_000, description="longest wait for a slot, unless the model says otherwise"
    )
    max_loaded_models: Count = Field(default=0, description="most models in memory at once")
    idle_unload_ms: Milliseconds = Field(
        default=0, description="unload a model after this time without a request; 0 never does"
    )
    min_free_memory_mb: Count = Field(
        default=0,
        description="memory that a load must leave free, of the host's and of a container's",
    )
    voice_dir: FilledText | None = Field(
        default=None, description="folder of reference voices: NAME.wav and prompt_text"
    )
    allowed_paths: tuple[FilledText, ...] = Field(
        default=(), description="folder that requests may read files from"
    )
    live_ingest: LiveIngest = Field(default=LiveIngest(), description="bounds of live uploads")
    realtime_idle_timeout_ms: Milliseconds = Field(
        default=3_600_000, description="longest time that a realtime session may send nothing"
    )
    realtime_session_max_ms: Milliseconds = Field(default=0, description="longest realtime session")
    models: SkipValidation[tuple[ModelSpec, ...]] = Field(
        default=(), description="the models to offer"
    )
    parallel_jobs: Flag = Field(
        default=False, description="parallel policy: models may have more than one slot"
    )
    isolation: IsolationName = Field(
        default="thread", description="where sessions run: thread, or process (can be killed)"
    )
    max_queued_requests: Count = Field(default=0, description="longest queue of a model")
    drain_timeout_ms: Milliseconds = Field(
        default=10_000, description="time that running work gets to finish at shutdown"
    )
    cancel_timeout_ms: Milliseconds = Field(
        default=5_000, description="time that cancelled work then gets to stop"
    )
    hang_timeout_ms: Milliseconds = Field(
        default=10_000, description="after this, a backend that ignores its cancellation is stuck"
    )
    load_timeout_ms: Milliseconds = Field(
        default=600_000,
        description="longest time to build a model, after its files were fetched, unless the "
        "model says otherwise",
    )
    slow_client_timeout_ms: Milliseconds = Field(
        default=20_000,
        description="longest wait for a client that does not go on with its TLS handshake, with "
        "sending its request or with reading its answer",
    )
    half_close_grace_ms: Milliseconds = Field(
        default=0,
        description="time that a client which has closed its sending side still gets for its "
        "answer; with 0 it counts as gone",
    )
    sse_heartbeat_ms: Milliseconds = Field(
        default=15_000,
        description="after this time without an event, a comment keeps a stream of events open; "
        "0 sends none",
    )
    max_connections: PositiveCount = Field(default=10_000, description="most connections at once")
    api_keys: tuple[ApiKey, ...] = Field(default=(), description="key that requests must bear")
    tls: Tls | None = Field(default=None, description="serve HTTPS")
    journal: FilledText | None = Field(
        default=None,
        description="file that every transition is written to (JSON lines), for one server only; "
        "a journal that it holds is kept as FILE.1, older ones up to FILE.9",
    )
    default_response_format: Literal["wav", "mp3", "flac", "opus", "aac", "pcm", "json"] = Field(
        default="wav",
        description="speech format where a request names none: wav, mp3, flac, opus, aac, pcm or "
        "json",
    )
