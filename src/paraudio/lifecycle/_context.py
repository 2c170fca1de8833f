"""What every part of one runtime shares."""

from dataclasses import dataclass, field

from paraudio.lifecycle._candidate import Checker
from paraudio.lifecycle._changes import Changes
from paraudio.lifecycle._phases import Phases
from paraudio.lifecycle._settings import RuntimeSettings


@dataclass(frozen=True, slots=True)
class Context:
    """What every part of one runtime shares.

    Attributes:
        settings: The configuration.
        changes: Where transitions go.
        phases: How far shutdown has gone.
        checker: Makes candidates of specs.
        cuts: One line for each thing that shutdown did not wait for.
    """

    settings: RuntimeSettings
    changes: Changes
    phases: Phases
    checker: Checker
    cuts: list[str] = field(default_factory=list)

    @property
    def hang_s(self) -> float:
        """How long a backend call may ignore its stop, in seconds."""
        return self.settings.hang_timeout_ms / 1000

    def cut(self, what: str) -> None:
        """Note one thing that shutdown did not wait for; whoever reports it also records it."""
        self.cuts.append(what)
