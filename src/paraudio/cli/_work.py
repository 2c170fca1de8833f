"""One piece of work by one model: a runtime that lives as long as the command."""

import os
import sys
import time
from functools import partial
from typing import Final

import trio

from paraudio.audio import decode
from paraudio.cli._ask import Ask
from paraudio.cli._output import exit_code, meant, say_error, show_progress
from paraudio.cli._results import Done, deliver
from paraudio.cli._signals import Interrupted, until_signal
from paraudio.config import Settings
from paraudio.engines import Audio, Family, Job, Result, Voice, check_options
from paraudio.engines.catalog import families
from paraudio.engines.isolation import Isolation
from paraudio.errors import InvalidRequestError, ParaudioError
from paraudio.lifecycle import Runtime, Use
from paraudio.server import open_isolations, resolved, runtime_settings
from paraudio.spec import ModelSpec, VoicePreset

REQUEST = "command-line"
"""The request's ID: there is one."""

_FLAGS: Final = {
    **{name: f"--{name}" for name in ("text", "audio", "language", "speed", "voice", "seed")},
    "input": "--text",  # as families that speak call it, after OpenAI's interface
}
"""The flags of what a family may refuse, by its word for that."""


def work(ask: Ask, spec: ModelSpec, settings: Settings, *, as_json: bool) -> int:
    """Do it and deliver the result.

    Returns:
        The exit code 0; everything else is an exception.

    Does not return when a thread is still inside a backend that ignored its stop: leaving the
    interpreter would abort there, so the process ends at once.

    Raises:
        ParaudioError: It failed, or something is wrong with what was asked.
        Interrupted: A signal ended it.
    """
    chosen = resolved(settings)
    isolations: list[Isolation] = []
    code = 0
    try:
        done = trio.run(until_signal, partial(_with_runtime, ask, spec, chosen, isolations))
        deliver(done, spec, output=ask.output, as_json=as_json)
    except Interrupted as error:
        if not _abandoned(isolations):
            raise
        say_error("interrupted; a call that ignores its stop was abandoned")
        code = error.code
    except ParaudioError as error:
        if not _abandoned(isolations):
            raise
        say_error(error.message)
        code = exit_code(error)
    if _abandoned(isolations):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _abandoned(isolations: list[Isolation]) -> bool:
    return any(isolation.abandoned() for isolation in isolations)


async def _with_runtime(
    ask: Ask,
    spec: ModelSpec,
    settings: Settings,
    isolations: list[Isolation],
    scope: trio.CancelScope,
) -> Done | None:
    """Open a runtime with the one model, use it, and let it free everything on every way out."""
    done: Done | None = None
    failures: list[Exception] = []
    known = families()
    async with (
        open_isolations(settings, show_progress) as opened,
        trio.open_nursery() as nursery,
    ):
        isolations.extend(opened.values())
        runtime = Runtime(runtime_settings(settings), families=known, isolations=opened)
        try:
            runtime.add(spec)
            await nursery.start(runtime.run)
            with scope:
                done = await _use(ask, spec, runtime, known[spec.family])
        except Exception as error:
            failures.append(error)  # raised below, outside of the nursery's group
        runtime.stop()
    if failures:
        raise failures[0]
    return done


async def _use(ask: Ask, spec: ModelSpec, runtime: Runtime, family: Family) -> Done:
    own = {**spec.default_request_options, **ask.options}
    options = check_options(own, family.request_options, param="option")
    audio = None if ask.audio is None else await _decoded(ask.audio, "--audio")
    voice = await _voice(ask.voice, spec)
    begun = time.monotonic()
    async with runtime.use(spec.id, request=REQUEST) as use:
        await use.ready()
        _check_voice(ask.voice, voice, use)
        loaded = time.monotonic()
        job = Job(
            task=spec.task,
            text=ask.text,
            audio=audio,
            language=ask.language,
            voice=voice,
            speed=ask.speed,
            prompt=ask.prompt,
            seed=ask.seed,
            options=options,
        )
        result = await _run(use, job)
        ended = time.monotonic()
    sound = result.audio or audio
    return Done(result, loaded - begun, ended - loaded, 0.0 if sound is None else sound.seconds)


async def _run(use: Use, job: Job) -> Result:
    """Run a job; what is wrong with it is said of the flag that it came by."""
    try:
        return await use.run(job)
    except InvalidRequestError as error:
        if error.param in _FLAGS:
            error.call_it(_FLAGS[error.param])
        raise


async def _decoded(data: bytes, flag: str) -> Audio:
    return await trio.to_thread.run_sync(
        partial(decode, data, param=flag, check=trio.from_thread.check_cancelled)
    )


async def _voice(name: str | None, spec: ModelSpec) -> Voice:
    """The preset of that name, or the model's default one, or a name for the family."""
    preset: str | VoicePreset | None = name
    if name is None:
        preset = spec.default_voice_preset
    if isinstance(preset, str):
        preset = spec.voice_presets.get(preset)
    if preset is None:
        return Voice(name)
    if preset.voice_ref is None:
        return Voice(preset.voice_id, reference_text=preset.reference_text)
    try:
        data = await trio.Path(preset.voice_ref).read_bytes()
    except OSError as error:
        message = f"voice_ref {preset.voice_ref} cannot be read: {error.strerror}"
        raise InvalidRequestError(message, param="voice") from None
    return Voice(None, await _decoded(data, "voice_ref"), preset.reference_text)


def _check_voice(asked: str | None, voice: Voice, use: Use) -> None:
    """Refuse a voice that a model with a list of voices does not have."""
    if voice.name is not None and use.voices and voice.name not in use.voices:
        hint = meant(voice.name, [*use.spec.voice_presets, *use.voices])
        raise InvalidRequestError(
            f"there is no voice {asked or voice.name!r}; {hint}", param="voice"
        )
