"""What the families cost with the models of the catalogue: load, memory, speed, errors.

Run with ``python -m benchmarks.families``; the models are fetched into the store if need be. Speeds
are seconds of sound for a second of processor time, so that a busy machine disturbs them little;
first-audio latencies are seconds by the clock. Each family is measured in a process of its own.
"""

import multiprocessing
import re
import resource
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import jiwer
import numpy as np
import psutil
import trio

from paraudio.audio import decode, encode, resample
from paraudio.engines import Audio, Family, Job, Load, LoadedModel, Session, Stop, StreamingSession
from paraudio.engines.families.piper_tts import PiperTtsFamily
from paraudio.engines.families.pocketsphinx_asr import PocketsphinxAsrFamily
from paraudio.engines.families.silero_vad import SileroVadFamily
from paraudio.spec import Json, Task
from paraudio.store import Store, default_home

SENTENCES: Final = (
    "The sun is shining and the birds are singing.",
    "She opened the window and looked at the garden.",
    "We are going to the market to buy some bread.",
    "The train to the city leaves at seven in the morning.",
    "My brother works in a small office near the river.",
    "Please close the door when you leave the room.",
    "The children played in the park all afternoon.",
    "He wrote a long letter to his old friend.",
    "It was raining so we stayed at home and read books.",
    "The doctor told him to drink more water every day.",
)
PARAGRAPH: Final = " ".join(SENTENCES)


def resident() -> float:
    """Memory of this process, in MB."""
    return psutil.Process().memory_info().rss / 1e6


def peak() -> float:
    """The most memory that this process ever had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def report(name: str, **figures: float) -> None:
    """Print one line."""
    print(f"{name:<34}", "  ".join(f"{key} {value:.3g}" for key, value in figures.items()))


def opened(
    family: Family, path: str, task: Task, session_options: dict[str, Json] | None = None
) -> LoadedModel:
    """Load a model and report what that cost."""
    load = Load(
        path=path,
        task=task,
        mode="offline",
        config=None,
        weight=None,
        options={},
        session_options=session_options or {},
    )
    before, start = resident(), time.perf_counter()
    model = family.load(load, Stop())
    first_session(model).reset()
    report(
        f"{family.name}: load and first run",
        seconds=time.perf_counter() - start,
        megabytes=resident() - before,
        estimated=family.estimate(load) / 1e6,
    )
    return model


def first_session(model: LoadedModel) -> Session:
    """A session, which the families here always build."""
    session = model.session()
    assert session is not None
    return session


def said(session: Session, text: str, **options: Json) -> Audio:
    """Speak."""
    job = Job(task="tts", text=text, options=options, seed=1)
    audio = session.run(session.prepare(job), Stop()).audio
    assert audio is not None
    return audio


def piper(voice: str) -> None:
    """Speech: speed alone and together, first audio, memory."""
    model = opened(PiperTtsFamily(), voice, "tts")
    session = first_session(model)
    for text in ("Hello there.", PARAGRAPH):
        start = time.process_time()
        audio = said(session, text)
        report(
            f"piper_tts: {len(text)} characters",
            times=audio.seconds / (time.process_time() - start),
            seconds=audio.seconds,
        )
    for callers in (1, 2, 4):
        start = time.perf_counter()
        with ThreadPoolExecutor(callers) as pool:
            found = pool.map(said, [first_session(model) for _ in range(4)], [PARAGRAPH] * 4)
            seconds = sum(audio.seconds for audio in found)
        report(
            f"piper_tts: {callers} at once", times_by_clock=seconds / (time.perf_counter() - start)
        )
    assert isinstance(session, StreamingSession)
    for text in (SENTENCES[0], PARAGRAPH):
        start = time.perf_counter()
        stream = session.stream(session.prepare(Job(task="tts", text=text)), Stop())
        next(iter(stream))
        report(f"piper_tts: first audio of {len(text)}", seconds=time.perf_counter() - start)
    report("piper_tts: memory", resident=resident(), peak=peak())


def pocketsphinx(voice: str) -> None:
    """Transcription: word errors and speed of both searches."""
    speaker = first_session(opened(PiperTtsFamily(), voice, "tts"))
    sounds = [said(speaker, text, noise_scale=0, noise_w=0) for text in SENTENCES]
    seconds = sum(sound.seconds for sound in sounds)
    wanted = [re.sub(r"[^a-z' ]", "", text.lower()) for text in SENTENCES]
    for fast in (False, True):
        options: dict[str, Json] = {"fast": fast}
        session = first_session(opened(PocketsphinxAsrFamily(), "", "asr", options))
        start = time.process_time()
        heard = [
            session.run(session.prepare(Job(task="asr", audio=sound)), Stop()).text or ""
            for sound in sounds
        ]
        report(
            f"pocketsphinx_asr: {'fast' if fast else 'precise'}",
            times=seconds / (time.process_time() - start),
            word_error_rate=jiwer.wer(wanted, heard),
        )


def silero(folder: str) -> None:
    """Voice activity: speed of both forms of the model."""
    rng = np.random.default_rng(0)
    audio = Audio(rng.normal(0, 0.1, 16_000 * 60).astype(np.float32), 16_000)
    for name in ("silero_vad_16k_sequence.onnx", "silero_vad.onnx"):
        session = first_session(opened(SileroVadFamily(), str(Path(folder, name)), "vad"))
        prepared = session.prepare(Job(task="vad", audio=audio))
        start = time.process_time()
        session.run(prepared, Stop())
        report(f"silero_vad: {name}", times=60 / (time.process_time() - start))
    report("silero_vad: memory", resident=resident(), peak=peak())


def sound(_: str) -> None:
    """The audio room: decoding, resampling, encoding."""
    rng = np.random.default_rng(0)
    audio = Audio(rng.normal(0, 0.1, 44_100 * 60).astype(np.float32), 44_100)
    data = encode(audio, "wav")
    works: dict[str, Callable[[], object]] = {
        "decode wav to 16 kHz": lambda: decode(data, rate=16_000),
        "resample to 16 kHz": lambda: resample(audio, 16_000),
        "encode wav": lambda: encode(audio, "wav"),
    }
    for name, work in works.items():
        start = time.process_time()
        work()
        report(f"audio: {name}", times=60 / (time.process_time() - start))


async def fetch() -> dict[str, str]:
    """The paths of the models."""
    store = Store(default_home())
    return {name: str(await store.fetch(name)) for name in ("piper-joe", "silero-vad")}


def main() -> None:
    """Measure one family after the other."""
    paths = trio.run(fetch)
    context = multiprocessing.get_context("spawn")
    for work, path in (
        (sound, ""),
        (piper, paths["piper-joe"]),
        (pocketsphinx, paths["piper-joe"]),
        (silero, paths["silero-vad"]),
    ):
        process = context.Process(target=work, args=(path,))
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit(process.exitcode)


if __name__ == "__main__":
    main()
