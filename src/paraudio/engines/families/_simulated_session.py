"""A session of the simulated family."""

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from paraudio.engines._options import check_options, flag_option, whole_option
from paraudio.engines._steps import ItemSteps, Steps, drive, drive_items
from paraudio.engines._stop import Stop
from paraudio.engines._values import Audio, Job, Load, Result, Segment, StreamEvent
from paraudio.engines.families._simulated_ledger import Ledger
from paraudio.engines.families._simulated_options import REQUEST_OPTIONS
from paraudio.engines.families._simulated_sound import tone
from paraudio.errors import InvalidRequestError
from paraudio.spec import Json


@dataclass(frozen=True, slots=True)
class _Plan:
    """A prepared job: what it will give, how long that takes, and whether it fails."""

    result: Result
    run_s: float
    chunk_s: float
    chunks: int
    fail: bool


class SimulatedSession:
    """Waits as long as it is told to, then gives a result that names its maker."""

    def __init__(
        self, load: Load, options: Mapping[str, Json], ledger: Ledger, number: int
    ) -> None:
        self.ignores_stop: bool = flag_option(options, "ignore_cancel")
        self._load = load
        self._options = options
        self._ledger = ledger
        self._number = number

    def prepare(self, job: Job) -> object:
        """Check a job and work its result out; the time is spent in ``run``."""
        number = self._ledger.next("prepares", self._load)
        if number <= whole_option(self._options, "fail_prepares"):
            raise RuntimeError(f"simulated failure of preparation {number}")
        asked = self._asked(job)
        run_s = whole_option(asked, "run_ms") / 1000
        chunks = whole_option(asked, "chunks")
        chunk_ms = self._options["chunk_ms"]
        chunk_s = (
            run_s / chunks if chunk_ms is None else whole_option(self._options, "chunk_ms") / 1000
        )
        return _Plan(self._result(job), run_s, chunk_s, chunks, flag_option(asked, "fail"))

    def run_steps(self, prepared: object) -> Steps[Result]:
        """The steps of ``run``."""
        plan = _plan(prepared)
        yield plan.run_s
        self._may_fail(plan)
        return plan.result

    def stream_steps(self, prepared: object) -> ItemSteps[StreamEvent]:
        """The steps of ``stream``; a failure comes after the last piece."""
        plan = _plan(prepared)
        for index in range(plan.chunks):
            yield plan.chunk_s
            if (piece := _piece(plan, index)) is not None:
                yield piece
        self._may_fail(plan)
        yield StreamEvent(result=plan.result)

    def batch_steps(self, prepared: Sequence[object]) -> ItemSteps[tuple[int, Result]]:
        """The steps of ``run_batch``: all jobs begin together, so the shortest ends first."""
        plans = sorted(enumerate(map(_plan, prepared)), key=lambda item: item[1].run_s)
        now = 0.0
        for index, plan in plans:
            yield plan.run_s - now
            now = plan.run_s
            self._may_fail(plan)
            yield index, plan.result

    def run(self, prepared: object, stop: Stop) -> Result:
        """Let ``run_ms`` pass, then give the result."""
        return drive(self.run_steps(prepared), self._heeded(stop))

    def stream(self, prepared: object, stop: Stop) -> Iterator[StreamEvent]:
        """Give the result in ``chunks`` pieces, with ``chunk_ms`` before each."""
        return drive_items(self.stream_steps(prepared), self._heeded(stop))

    def run_batch(self, prepared: Sequence[object], stop: Stop) -> Iterator[tuple[int, Result]]:
        """Run all jobs at once; each ends after its own ``run_ms``."""
        return drive_items(self.batch_steps(prepared), self._heeded(stop))

    def reset(self) -> None:
        """There is nothing to forget."""

    def close(self) -> None:
        """There is nothing to free."""

    def _heeded(self, stop: Stop) -> Stop | None:
        return None if self.ignores_stop else stop

    def _may_fail(self, plan: _Plan) -> None:
        number = self._ledger.next("runs", self._load)
        if plan.fail or number <= whole_option(self._options, "fail_runs"):
            raise RuntimeError(f"simulated failure of run {number}")

    def _asked(self, job: Job) -> dict[str, Json]:
        own = check_options(job.options, REQUEST_OPTIONS, param="options")
        return {
            name: self._options[name] if value is None else value for name, value in own.items()
        }

    def _result(self, job: Job) -> Result:
        if job.task != self._load.task:
            raise InvalidRequestError(
                f"this model does {self._load.task}, not {job.task}", param="task"
            )
        maker: dict[str, Json] = {
            "model": self._load.model_id,
            "path": self._load.path,
            "generation": self._load.generation,
            "session": self._number,
            "pid": os.getpid(),
        }
        if job.task == "tts":
            return self._speech(job, maker)
        if job.audio is None:
            raise InvalidRequestError(f"{job.task} needs sound to work on", param="audio")
        return self._hearing(job, job.audio, maker)

    def _speech(self, job: Job, maker: dict[str, Json]) -> Result:
        if not job.text:
            raise InvalidRequestError("there is no text to speak", param="text")
        return Result(text=job.text, audio=tone(job), artifacts={**maker, "text": job.text})

    def _hearing(self, job: Job, audio: Audio, maker: dict[str, Json]) -> Result:
        frames = len(audio.samples)
        asked = job.text or job.prompt or ""
        text = (
            f"path {self._load.path} generation {self._load.generation} session {self._number} "
            f"heard {frames} samples, asked {asked!r}"
        )
        is_asr = job.task == "asr"
        return Result(
            text=text if is_asr else None,
            language=(job.language or "en") if is_asr else None,
            sample_rate=audio.rate,
            segments=(Segment(0, frames, text if is_asr else ""),) if frames else (),
            artifacts={
                **maker,
                "text": asked,
                "frames": frames,
                "checksum": zlib.crc32(np.ascontiguousarray(audio.samples).tobytes()),
            },
        )


def _plan(prepared: object) -> _Plan:
    if not isinstance(prepared, _Plan):
        raise TypeError(f"not a prepared job: {prepared!r}")
    return prepared


def _piece(plan: _Plan, index: int) -> StreamEvent | None:
    """One of the equal pieces of a result's sound, else of its text; None where it is empty."""
    audio, text = plan.result.audio, plan.result.text
    if audio is not None:
        samples = audio.samples[_part(len(audio.samples), index, plan.chunks)]
        return StreamEvent(audio=Audio(samples, audio.rate)) if len(samples) else None
    piece = text[_part(len(text), index, plan.chunks)] if text else ""
    return StreamEvent(text=piece) if piece else None


def _part(length: int, index: int, count: int) -> slice:
    return slice(length * index // count, length * (index + 1) // count)
