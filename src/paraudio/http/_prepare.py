"""From what a request asks to a job for the model that its lease is bound to."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import trio

from paraudio.engines import Audio, Job, Voice, check_options
from paraudio.errors import InvalidRequestError
from paraudio.http._ask import Ask
from paraudio.http._core import Core
from paraudio.http._fields import refusal
from paraudio.http._voices import VoiceAsk, confirm, no_imitation, resolve
from paraudio.http._workers import check_cancelled
from paraudio.lifecycle import Use
from paraudio.spec import Json, ModelSpec

MOST_RATE: Final = 48_000
"""The highest rate at which a model is taken to hear anything: a small file can hold a large one.
"""


async def prepare(core: Core, use: Use, ask: Ask) -> Job:
    """Check a request against the model under its lease, and load the model if it is not loaded.

    What the request itself got wrong is refused before anything is loaded. Only what the loaded
    model knows, its voices and languages, is looked at afterwards.

    Args:
        core: What every request shares.
        use: The lease, with the configuration that is bound to it.
        ask: The request.

    Returns:
        A job for ``use.run`` or ``use.stream``.

    Raises:
        InvalidRequestError: A field is wrong for this model.
        LoadError: The model could not be loaded.
    """
    return (await prepare_all(core, use, [ask]))[0]


async def prepare_live(core: Core, use: Use, ask: Ask) -> Job:
    """Do as `prepare` does for a job whose text or sound is still to come."""
    draft = await _draft(core, use.spec, ask, live=True)
    await use.ready()
    return _confirmed(core, use, draft, ask)


async def prepare_all(core: Core, use: Use, asks: Sequence[Ask]) -> list[Job]:
    """Do as `prepare` does for the jobs of one batch."""
    drafts: list[tuple[Job, Ask]] = []
    for ask in asks:
        if drafts:
            await trio.lowlevel.checkpoint()  # many small jobs are a while of work
        drafts.append((await _draft(core, use.spec, ask), ask))
    await use.ready()
    return [_confirmed(core, use, job, ask) for job, ask in drafts]


def _confirmed(core: Core, use: Use, job: Job, ask: Ask) -> Job:
    if ask.language is not None:
        check_language(ask.language, languages_of(core, use.spec.id), ask.called("language"))
    return replace(job, voice=confirm(job.voice, use.voices, ask.voice, use.spec))


async def _draft(core: Core, spec: ModelSpec, ask: Ask, *, live: bool = False) -> Job:
    _check_task(spec, ask)
    if not live:
        _check_inputs(spec, ask)
    options = _options(core, spec, ask)
    voice, sound = await _sounds(core, spec, ask)
    return Job(
        task=spec.task,
        text=ask.text,
        audio=sound,
        language=ask.language,
        voice=voice,
        speed=ask.speed,
        prompt=ask.prompt,
        seed=ask.seed,
        options=options,
    )


def _check_task(spec: ModelSpec, ask: Ask) -> None:
    if ask.tasks and spec.task not in ask.tasks:
        wanted = " or ".join(ask.tasks)
        raise InvalidRequestError(
            f"model must be one for {wanted} on this route; {spec.id!r} is one for {spec.task}",
            param="model",
        )


def _check_inputs(spec: ModelSpec, ask: Ask) -> None:
    """Refuse a job without what its task works on."""
    if spec.task in {"tts", "align"} and not (ask.text or "").strip():
        _missing(ask, "text", "a text")
    if spec.task != "tts" and ask.sound is None:
        _missing(ask, "audio", "a recording")


def _missing(ask: Ask, name: str, wants: str) -> None:
    param = ask.called(name)
    raise InvalidRequestError(f"{param} is missing: this model needs {wants}", param=param)


def languages_of(core: Core, model: str) -> list[str]:
    """The languages that a model's family says it has; empty where it has not said.

    Raises:
        ModelNotFoundError: No model is registered under that ID.
    """
    known = core.runtime.model(model).facts.get("languages")
    return sorted(str(tag) for tag in known) if isinstance(known, list) else []


def check_language(language: str, known: Sequence[str], param: str) -> None:
    """Refuse a language that the model's own list does not have; a region makes no difference.

    Args:
        language: A tag.
        known: What `languages_of` gives; empty takes any.
        param: The field that holds it.

    Raises:
        InvalidRequestError: It names the field and the languages that are known.
    """
    if known and _primary(language) not in map(_primary, known):
        raise refusal(param, f"one of {', '.join(known)}", language)


def _primary(tag: str) -> str:
    return tag.replace("_", "-").partition("-")[0].lower()


def _options(core: Core, spec: ModelSpec, ask: Ask) -> dict[str, Json]:
    """The model's defaults, under the hints that its family knows, under the request's own."""
    schema = core.families[spec.family].request_options
    known = {option.name for option in schema}
    hints = {name: value for name, value in ask.hints.items() if name in known}
    given = {**spec.default_request_options, **hints, **ask.options}
    param = ask.called("options")
    try:
        return check_options(given, schema, param=param)
    except InvalidRequestError as error:
        name = (error.param or "").removeprefix(f"{param}.")
        if name in hints and name not in ask.options:
            # It did not come as an option, but in a field of its own.
            raise error.call_it(ask.called(name)) from None
        raise


async def _sounds(core: Core, spec: ModelSpec, ask: Ask) -> tuple[Voice, Audio | None]:
    """Read and decode what the request refers to, in a worker thread if there is anything."""
    imitates = spec.task == "tts" and core.families[spec.family].imitates
    if ask.voice.reference is not None and not imitates:
        raise no_imitation(spec, ask.voice.reference_param)
    if _is_plain(ask.voice, spec, core):
        voice = Voice(ask.voice.name)
    else:
        voice = await core.workers.run(
            resolve,
            ask.voice,
            spec,
            core.settings,
            imitates=imitates,
            roots=allowed_roots(core, spec),
            check=check_cancelled,
        )
    if ask.sound is None:
        return voice, None
    limit = core.settings.max_request_body_bytes
    roots = allowed_roots(core, spec)
    decode = partial(ask.sound.decode, most_rate=_most_rate(core, spec))
    return voice, await core.workers.run(decode, roots, limit, check_cancelled)


def _most_rate(core: Core, spec: ModelSpec) -> int:
    """The rate at which the model hears, once it has said so."""
    rate = core.runtime.model(spec.id).facts.get("sample_rate")
    return rate if isinstance(rate, int) else MOST_RATE


def _is_plain(voice: VoiceAsk, spec: ModelSpec, core: Core) -> bool:
    """Whether a voice is a name of the family at most, so that no file has to be looked at."""
    if voice.reference is not None:
        return False
    if voice.name is None:
        return spec.default_voice_preset is None
    return voice.name not in spec.voice_presets and core.settings.voice_dir is None


def allowed_roots(core: Core, spec: ModelSpec) -> list[str]:
    """The folders whose files a request to this model may name."""
    settings = core.settings
    roots = [*settings.allowed_paths]
    if settings.voice_dir is not None:
        roots.append(settings.voice_dir)
    if spec.path:
        roots.append(spec.path)
    return roots
