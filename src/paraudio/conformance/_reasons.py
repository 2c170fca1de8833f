"""Why some cells cannot be judged from outside: one table of all that no scenario judges."""

from collections.abc import Mapping
from typing import Final

_SHUTDOWN: Final = "ends the server, and its exit is not seen through its interface"
_EVICTION: Final = "needs max_loaded_models, and a server that nobody else uses"
_EVICTABLE: Final = ("unloaded", "loading", "ready", "reconfiguring", "unloading")
_OPERATIONS: Final = ("inference", "register", "unload", "bulk_unload", "evict", "status")

REASONS: Final[Mapping[str, str]] = {
    **{f"ops/{state}/evict": _EVICTION for state in _EVICTABLE},
    **{f"ops/{state}/shutdown": _SHUTDOWN for state in (*_EVICTABLE, "shutting_down")},
    **{f"ops/shutting_down/{operation}": _SHUTDOWN for operation in _OPERATIONS},
    "state/shutting_down": _SHUTDOWN,
    "startup/notice_printed": "is printed by the server's process, not sent to a client",
    "fail/residency_refusal": _EVICTION,
    "fail/memory_refusal": "needs min_free_memory_mb; without it the memory would be taken",
    "fail/models_root_replacement": "would replace the server's own model store",
    **{
        f"time/shutdown_{what}": _SHUTDOWN
        for what in (
            "stalled_header",
            "stalled_live_body",
            "non_reading_response",
            "active_finite_handler",
            "active_deferred_callback",
            "queued_request",
            "cold_load",
            "manager",
            "hung_backend",
            "custom_listener",
        )
    },
    "beyond/g04_hung_backend_contained": "would leave a slot stuck until its backend returns",
    "beyond/g05_bounded_shutdown": _SHUTDOWN,
    "beyond/g08_backend_crash_isolated": "needs a process of the server's to be killed",
    "beyond/g09_journal_verifiable": "the journal is a file of the server's: paraudio verify FILE",
    "beyond/g11_memory_released_after_unload": "the server's memory is not seen from outside",
}
"""By cell. A cell is here or has a scenario, never both; a test sees to that."""
