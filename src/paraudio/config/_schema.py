"""The settings of the server as one immutable value; every room reads its part of it."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SkipValidation

from paraudio.spec import IsolationName, ModelSpec

Milliseconds = Annotated[int, Field(ge=0, strict=True)]
Count = Annotated[int, Field(ge=0, strict=True)]


class Strict(BaseModel):
    """Frozen, and deaf to nothing: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class LiveIngest(Strict):
    """Bounds of a live upload; milliseconds and bytes, 0 is no bound where it is allowed."""

    idle_timeout_ms: Milliseconds = 30_000
    total_timeout_ms: Milliseconds = 600_000
    max_body_bytes: Count = 512 * 2**20
    max_chunk_bytes: Annotated[int, Field(ge=1, strict=True)] = 8 * 2**20
    send_timeout_ms: Milliseconds = 30_000


class Tls(Strict):
    """Paths of a certificate chain and its key, PEM."""

    cert: str
    key: str


class Settings(Strict):
    """The whole configuration, after file, environment and flags are merged.

    ``models`` are complete specs; parsing of a model object lives beside this module.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, strict=True)] = 8080
    backend: Literal["cpu", "cuda", "auto"] = "auto"
    device: Count = 0
    threads: Count = 0
    lazy_load: bool = True
    log_request_body: bool = False
    max_request_body_bytes: Count = 2 * 2**30
    cors_origins: str | tuple[str, ...] = ""
    ui_enabled: bool = False
    ui_management: bool = False
    busy_timeout_ms: Milliseconds = 300_000
    max_loaded_models: Count = 0
    idle_unload_ms: Milliseconds = 0
    min_free_memory_mb: Count = 0
    voice_dir: str | None = None
    allowed_paths: tuple[str, ...] = ()
    live_ingest: LiveIngest = LiveIngest()
    models: SkipValidation[tuple[ModelSpec, ...]] = ()
    parallel_jobs: bool = False
    isolation: IsolationName = "thread"
    max_queued_requests: Count = 0
    drain_timeout_ms: Milliseconds = 10_000
    cancel_timeout_ms: Milliseconds = 5_000
    hang_timeout_ms: Milliseconds = 10_000
    slow_client_timeout_ms: Milliseconds = 20_000
    max_connections: Annotated[int, Field(ge=1, strict=True)] = 10_000
    api_keys: tuple[str, ...] = ()
    tls: Tls | None = None
    journal: str | None = None
    default_response_format: Literal["wav", "pcm", "json"] = "wav"
