"""What the runtime needs to know of the configuration."""

from dataclasses import dataclass

from paraudio.spec import IsolationName


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSettings:
    """The runtime's part of the configuration.

    Attributes:
        parallel_jobs: Whether models may have more than one slot.
        busy_timeout_ms: Ceiling of the admission wait in milliseconds; 0 is no bound.
        max_queued_requests: Bound of each model's queue; 0 is no bound.
        max_loaded_models: How many pools may exist at once; 0 is any number.
        idle_unload_ms: Retire a model that was not used for so long; 0 is never.
        min_free_memory_mb: Mebibytes that a load must leave free, of what `find_free_memory` tells;
            0 does not look.
        isolation: Where sessions run when neither model nor family says.
        hang_timeout_ms: How long a backend call may ignore its stop, in milliseconds.
        load_timeout_ms: How long weights and sessions may take to be built; 0 is no bound.
        backend: ``cpu`` or ``cuda``.
        device: Index of the device.
        threads: Threads that one run may use; 0 lets the family choose.
    """

    parallel_jobs: bool = False
    busy_timeout_ms: int = 300_000
    max_queued_requests: int = 0
    max_loaded_models: int = 0
    idle_unload_ms: int = 0
    min_free_memory_mb: int = 0
    isolation: IsolationName = "thread"
    hang_timeout_ms: int = 10_000
    load_timeout_ms: int = 600_000
    backend: str = "cpu"
    device: int = 0
    threads: int = 0
