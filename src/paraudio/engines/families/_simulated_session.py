"""A session of the simulated family."""

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from paraudio.engines._options import check_options, flag_option, whole_option
from paraudio.engines._steps import ItemSteps, Steps, drive, drive_items
from paraudio.engines._stop import Stop
from paraudio.engines._values import Audio, Job, Load, Piece, Result, Segment, StreamEvent
from paraudio.engines.families._simulated_ledger import Ledger
from paraudio.engines.families._simulated_live import Listener, listener
from paraudio.engines.families._simulated_options import REQUEST_OPTIONS
from paraudio.engines.families._simulated_sound import no_text, tone, turns_between
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


@dataclass(frozen=True, slots=True)
class _Live:
    """A live job: who does it, how long each piece takes, and whether it fails at its end."""

    listener: Listener
    run_s: float
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
        self._live: _Live | None = None

    def prepare(self, job: Job) -> object:
        """Check a job and work its result out; the time is spent in ``run``."""
        self._may_fail_to_prepare()
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
        self._may_fail(fail=plan.fail)
        return plan.result

    def stream_steps(self, prepared: object) -> ItemSteps[StreamEvent]:
        """The steps of ``stream``; a failure comes after the last piece."""
        plan = _plan(prepared)
        for index in range(plan.chunks):
            yield plan.chunk_s
            if (piece := _piece(plan, index)) is not None:
                yield piece
        self._may_fail(fail=plan.fail)
        yield StreamEvent(result=plan.result)

    def batch_steps(self, prepared: Sequence[object]) -> ItemSteps[tuple[int, Result]]:
        """The steps of ``run_batch``: all jobs begin together, so the shortest ends first."""
        plans = sorted(enumerate(map(_plan, prepared)), key=lambda item: item[1].run_s)
        now = 0.0
        for index, plan in plans:
            yield plan.run_s - now
            now = plan.run_s
            self._may_fail(fail=plan.fail)
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

    def begin(self, job: Job, stop: Stop) -> None:  # noqa: ARG002 - takes no time
        """Check a live job; each of its pieces, and its end, will take ``run_ms``."""
        self._may_fail_to_prepare()
        asked = self._asked(job)
        self._check_task(job)
        run_s = whole_option(asked, "run_ms") / 1000
        self._live = _Live(listener(job, self._maker()), run_s, flag_option(asked, "fail"))

    def feed_steps(self, piece: Piece) -> Steps[Sequence[StreamEvent]]:
        """The steps of ``feed``."""
        live = self._begun()
        yield live.run_s
        return live.listener.take(piece)

    def finish_steps(self) -> Steps[Sequence[StreamEvent]]:
        """The steps of ``finish``."""
        live = self._begun()
        yield live.run_s
        self._may_fail(fail=live.fail)
        return live.listener.end()

    def feed(self, piece: Piece, stop: Stop) -> Sequence[StreamEvent]:
        """Let ``run_ms`` pass, then say what the piece told."""
        return drive(self.feed_steps(piece), self._heeded(stop))

    def finish(self, stop: Stop) -> Sequence[StreamEvent]:
        """Let ``run_ms`` pass, then give what is left and the result."""
        return drive(self.finish_steps(), self._heeded(stop))

    def reset(self) -> None:
        """Forget a live job."""
        self._live = None

    def close(self) -> None:
        """Forget a live job; there is nothing else to free."""
        self._live = None

    def _heeded(self, stop: Stop) -> Stop | None:
        return None if self.ignores_stop else stop

    def _begun(self) -> _Live:
        if self._live is None:
            raise RuntimeError("no live job has begun")
        return self._live

    def _may_fail_to_prepare(self) -> None:
        number = self._ledger.next("prepares", self._load)
        if number <= whole_option(self._options, "fail_prepares"):
            raise RuntimeError(f"simulated failure of preparation {number}")

    def _may_fail(self, *, fail: bool) -> None:
        number = self._ledger.next("runs", self._load)
        if fail or number <= whole_option(self._options, "fail_runs"):
            raise RuntimeError(f"simulated failure of run {number}")

    def _asked(self, job: Job) -> dict[str, Json]:
        own = check_options(job.options, REQUEST_OPTIONS, param="options")
        return {
            name: self._options[name] if value is None else value for name, value in own.items()
        }

    def _check_task(self, job: Job) -> None:
        if job.task != self._load.task:
            raise InvalidRequestError(
                f"this model does {self._load.task}, not {job.task}", param="task"
            )

    def _maker(self) -> dict[str, Json]:
        return {
            "model": self._load.model_id,
            "path": self._load.path,
            "generation": self._load.generation,
            "session": self._number,
            "pid": os.getpid(),
        }

    def _result(self, job: Job) -> Result:
        self._check_task(job)
        if job.task == "tts":
            return self._speech(job, self._maker())
        if job.audio is None:
            raise InvalidRequestError(f"{job.task} needs sound to work on", param="audio")
        return self._hearing(job, job.audio, self._maker())

    def _speech(self, job: Job, maker: dict[str, Json]) -> Result:
        if not job.text:
            raise no_text()
        return Result(text=job.text, audio=tone(job), artifacts={**maker, "text": job.text})

    def _hearing(self, job: Job, audio: Audio, maker: dict[str, Json]) -> Result:
        frames = len(audio.samples)
        asked = job.text or job.prompt or ""
        text = (
            f"path {self._load.path} generation {self._load.generation} session {self._number} "
            f"heard {frames} samples, asked {asked!r}"
        )
        is_asr, is_diar = job.task == "asr", job.task == "diar"
        return Result(
            text=text if is_asr else None,
            language=(job.language or "en") if is_asr else None,
            sample_rate=audio.rate,
            segments=(Segment(0, frames, text if is_asr else ""),)
            if frames and not is_diar
            else (),
            speaker_turns=turns_between(0, frames, audio.rate) if is_diar else (),
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
    """One of the equal pieces of a result's sound, turns or text; None where it is empty."""
    audio, text, turns = plan.result.audio, plan.result.text, plan.result.speaker_turns
    if audio is not None:
        samples = audio.samples[_part(len(audio.samples), index, plan.chunks)]
        return StreamEvent(audio=Audio(samples, audio.rate)) if len(samples) else None
    if turns:
        part = turns[_part(len(turns), index, plan.chunks)]
        return StreamEvent(turns=part) if part else None
    piece = text[_part(len(text), index, plan.chunks)] if text else ""
    return StreamEvent(text=piece) if piece else None


def _part(length: int, index: int, count: int) -> slice:
    return slice(length * index // count, length * (index + 1) // count)
