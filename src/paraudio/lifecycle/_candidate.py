"""A spec that is to become a model: checked whole, privately, before anything changes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from paraudio.engines import Family, Load, check_options
from paraudio.engines.isolation import Inspection, Isolation
from paraudio.errors import InvalidRequestError, LoadError, ParaudioError
from paraudio.lifecycle._settings import RuntimeSettings
from paraudio.spec import MAX_SLOTS, IsolationName, ModelSpec, VoicePreset


@dataclass(frozen=True, slots=True)
class Candidate:
    """A spec that passed every check that needs no file, and how to load it.

    Attributes:
        spec: The complete metadata.
        family: Its family.
        isolation: What runs the family's code.
        load: What the family will be asked to load, with every option filled in.
        loads: How often it is loaded: once, or for each session in a process of its own.
    """

    spec: ModelSpec
    family: Family
    isolation: Isolation
    load: Load
    loads: int

    async def inspect(self) -> Inspection:
        """Let the family look at the files.

        Raises:
            InvalidRequestError: The path is no such model.
            LoadError: The family failed in another way, or what it says makes no sense.
        """
        try:
            said = await self.isolation.inspect(self.family, self.load)
            _check_said(said, self.family)
        except ParaudioError:
            raise
        except Exception as error:
            raise LoadError(f"model {self.spec.id!r} could not be inspected: {error}") from error
        return said

    def generation(self, number: int) -> Load:
        """The load of one generation."""
        return replace(self.load, generation=number)


class Checker:
    """The checks of a spec that need no file; plain and fast, for startup and registration.

    Args:
        settings: The policy of slots, the server's isolation and device.
        families: Every family by name.
        isolations: Every isolation by name.
    """

    def __init__(
        self,
        settings: RuntimeSettings,
        families: Mapping[str, Family],
        isolations: Mapping[IsolationName, Isolation],
    ) -> None:
        self._settings = settings
        self._families = families
        self._isolations = isolations

    def check(self, spec: ModelSpec) -> Candidate:
        """Check everything that can be checked without a file.

        Raises:
            InvalidRequestError: ``param`` names the field.
        """
        self._check_slots(spec.slots)
        family = self._family(spec)
        _check_use(spec, family)
        _check_presets(spec, family)
        check_options(
            spec.default_request_options, family.request_options, param="default_request_options"
        )
        load = Load(
            path=spec.path,
            task=spec.task,
            mode=spec.mode,
            config=spec.config,
            weight=spec.weight,
            options=check_options(spec.load_options, family.load_options, param="load_options"),
            session_options=check_options(
                spec.session_options, family.session_options, param="session_options"
            ),
            backend=self._settings.backend,
            device=self._settings.device,
            threads=self._settings.threads,
            model_id=spec.id,
        )
        isolation = self._isolation(spec, family)
        loads = spec.slots if isolation == "process" else 1
        return Candidate(spec, family, self._isolations[isolation], load, loads)

    def _check_slots(self, slots: object) -> None:
        if isinstance(slots, bool) or not isinstance(slots, int) or not 1 <= slots <= MAX_SLOTS:
            raise InvalidRequestError(
                f"slots must be a whole number from 1 to {MAX_SLOTS}, not {slots!r}", param="slots"
            )
        if slots > 1 and not self._settings.parallel_jobs:
            raise InvalidRequestError(
                f"slots must be 1, not {slots}: the server runs without --parallel-jobs",
                param="slots",
            )

    def _family(self, spec: ModelSpec) -> Family:
        family = self._families.get(spec.family)
        if family is None:
            known = ", ".join(sorted(self._families)) or "none"
            raise InvalidRequestError(
                f"family {spec.family!r} is not known; known families: {known}", param="family"
            )
        return family

    def _isolation(self, spec: ModelSpec, family: Family) -> IsolationName:
        if None not in (spec.isolation, family.isolation) and spec.isolation != family.isolation:
            raise InvalidRequestError(
                f"isolation must be {family.isolation!r} for family {family.name!r}, "
                f"not {spec.isolation!r}",
                param="isolation",
            )
        name = spec.isolation or family.isolation or self._settings.isolation
        if name not in self._isolations:
            known = ", ".join(sorted(self._isolations)) or "none"
            raise InvalidRequestError(
                f"isolation {name!r} is not available here; available: {known}", param="isolation"
            )
        return name


def _check_said(said: Inspection, family: Family) -> None:
    """What a family says of a model is shown with all others, and added up: it must make sense."""
    try:
        json.dumps(dict(said.facts), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise ValueError(f"the facts of family {family.name!r} are no JSON: {error}") from error
    memory: object = said.memory
    if not isinstance(memory, int) or memory < 0:
        raise ValueError(
            f"the estimate of family {family.name!r} must be a number of bytes, not {memory!r}"
        )


def _check_use(spec: ModelSpec, family: Family) -> None:
    """The family does this task in this mode."""
    modes = family.tasks.get(spec.task)
    if modes is None:
        known = ", ".join(sorted(family.tasks))
        raise InvalidRequestError(
            f"family {family.name!r} does not do task {spec.task!r}; it does: {known}",
            param="task",
        )
    if spec.mode not in modes:
        known = ", ".join(sorted(modes))
        raise InvalidRequestError(
            f"family {family.name!r} cannot do {spec.task!r} in mode {spec.mode!r}; "
            f"it can in: {known}",
            param="mode",
        )


def _check_presets(spec: ModelSpec, family: Family) -> None:
    """A default preset that is a name is the name of a preset; a recording can be imitated."""
    default = spec.default_voice_preset
    for name, preset in [*spec.voice_presets.items(), ("", default)]:
        if isinstance(preset, VoicePreset) and preset.voice_ref is not None and not family.imitates:
            param = f"voice_presets.{name}" if name else "default_voice_preset"
            raise InvalidRequestError(
                f"{param} has a voice_ref, and models of family {family.name!r} imitate no "
                "recording; name a voice_id instead",
                param=f"{param}.voice_ref",
            )
    if isinstance(default, str) and default not in spec.voice_presets:
        known = ", ".join(sorted(spec.voice_presets)) or "none"
        raise InvalidRequestError(
            f"default_voice_preset {default!r} is not in voice_presets; known presets: {known}",
            param="default_voice_preset",
        )
