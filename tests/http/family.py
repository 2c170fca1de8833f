"""Families whose results a test writes; they run in threads, and batch nothing."""

from collections.abc import Callable, Mapping, Sequence

from paraudio.engines import Job, Load, Option, Piece, Result, Stop, StreamEvent
from paraudio.errors import InvalidRequestError
from paraudio.spec import IsolationName, Json, Task

Make = Callable[[Job], Result]
_TASKS: tuple[Task, ...] = ("tts", "asr", "vad", "diar", "align", "midi")


class ScriptedSession:
    """Gives what the test's function makes of a job."""

    def __init__(self, make: Make) -> None:
        self._make = make

    def prepare(self, job: Job) -> object:
        return self._make(job)

    def run(self, prepared: object, stop: Stop) -> Result:
        del stop
        assert isinstance(prepared, Result)
        return prepared

    def reset(self) -> None:
        pass

    def close(self) -> None:
        pass


class ScriptedFamily:
    """Its facts, its voices, its results and its weights are the test's."""

    name: str = "scripted"
    tasks: Mapping[Task, frozenset[str]] = dict.fromkeys(_TASKS, frozenset({"offline"}))
    load_options: tuple[Option, ...] = ()
    session_options: tuple[Option, ...] = ()
    request_options: tuple[Option, ...] = (
        Option(name="temperature", kind=float, default=0.0, doc="How freely it guesses."),
    )
    isolation: IsolationName | None = None
    imitates: bool = True
    advertises: str = "four, by the test"

    def __init__(
        self,
        make: Make,
        *,
        facts: Mapping[str, Json] | None = None,
        voices: tuple[str, ...] = (),
    ) -> None:
        self.make = make
        self.facts = facts or {}
        self.voice_names = voices
        self.jobs: list[Job] = []
        """Every job that reached a session."""

    def inspect(self, load: Load) -> Mapping[str, Json]:
        del load
        return self.facts

    def estimate(self, load: Load) -> int:
        del load
        return 0

    def load(self, load: Load, stop: Stop) -> "ScriptedFamily":
        del load, stop
        return self

    def capacity(self) -> int:
        return 4

    def voices(self) -> tuple[str, ...]:
        return self.voice_names

    def session(self) -> ScriptedSession:
        def note(job: Job) -> Result:
            self.jobs.append(job)
            return self.make(job)

        return ScriptedSession(note)

    def close(self) -> None:
        pass


class Mute(ScriptedSession):
    """Takes whatever comes, and ends as the test says."""

    ends: tuple[StreamEvent, ...] = ()

    def begin(self, job: Job, stop: Stop) -> None:
        del stop
        if job.voice.name == "hoarse":
            raise InvalidRequestError("name must be a voice that can speak", param="name")

    def feed(self, piece: Piece, stop: Stop) -> Sequence[StreamEvent]:
        del piece, stop
        return ()

    def finish(self, stop: Stop) -> Sequence[StreamEvent]:
        del stop
        return self.ends


class MuteFamily(ScriptedFamily):
    """Its sessions are mute."""

    def session(self) -> ScriptedSession:
        return Mute(self.make)
