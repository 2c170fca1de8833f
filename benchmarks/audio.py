"""What reading and making sound files costs, beside the libraries called directly and ffmpeg.

Run with ``python -m benchmarks.audio``, or with lengths in seconds behind it. Every figure is time
of a processor, the best of some rounds in which the ways take turns, so that a busy machine
disturbs little. Trust the ratios: above 1 ours is slower. The command line of ffmpeg, where it is
installed, is measured with its start. Then come files that are read at once, by time of the clock:
turns that cost nothing give as many times the time of one file, and processors that share the work
less. The last table says how much work stands between the first sentence of a stream and its first
bytes.
"""

import io
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any, Final

import av
import numpy as np
import soundfile

from paraudio.audio import FORMATS, decode, encode, open_growing
from paraudio.engines import Audio, Samples

RATE: Final = 24_000
LENGTHS: Final = (10, 600)
ROUNDS: Final = 7
BESIDE_S: Final = 60
AT_ONCE: Final = (1, 2, 8)
SENTENCE_S: Final = 2.0

# The container and the codec of each format, in the words of ffmpeg's libraries.
MADE: Final = {
    "wav": ("wav", "pcm_s16le"),
    "mp3": ("mp3", "libmp3lame"),
    "flac": ("flac", "flac"),
    "ogg opus": ("ogg", "libopus"),
    "ogg vorbis": ("ogg", "vorbis"),
    "webm": ("webm", "libopus"),
    "m4a": ("ipod", "aac"),
    "mp4 alac": ("ipod", "alac"),
    "aac": ("adts", "aac"),
}
OUT: Final = {"wav": "wav", "mp3": "mp3", "flac": "flac", "opus": "ogg opus", "aac": "aac"}

Ways = dict[str, Callable[[], object]]


def speech_like(seconds: float) -> Samples:
    """A sound with the loudness of speech and something in every band, shape [frames]."""
    at = np.arange(round(seconds * RATE)) / RATE
    voice = sum(np.sin(2 * np.pi * 140 * k * at) / k for k in range(1, 20))
    noise = np.random.default_rng(1).standard_normal(len(at))
    return np.asarray(0.08 * np.sin(2 * np.pi * 1.5 * at) ** 2 * (voice + noise), np.float32)


def plain_encode(samples: Samples, name: str) -> bytes:
    """What a page of PyAV's documentation would do."""
    kind, codec = MADE[name]
    sink = io.BytesIO()
    layout = "stereo" if codec == "vorbis" else "mono"
    with av.open(sink, "w", format=kind) as file:
        options = {"strict": "-2"} if codec == "vorbis" else {}
        stream: Any = file.add_stream(codec, rate=RATE, layout=layout, options=options)
        ints = (samples * 32767).astype(np.int16)
        shaped = np.repeat(ints, 2 if layout == "stereo" else 1)[np.newaxis]
        frame = av.AudioFrame.from_ndarray(shaped, format="s16", layout=layout)
        frame.sample_rate = RATE
        file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return sink.getvalue()


def plain_decode(data: bytes) -> int:
    """The same, for reading."""
    with av.open(io.BytesIO(data), "r") as file:
        return sum(len(frame.to_ndarray().mean(axis=0)) for frame in file.decode(audio=0))


def sndfile_decode(data: bytes) -> int:
    """The one line of soundfile."""
    return len(soundfile.read(io.BytesIO(data), dtype="float32")[0])


def command(data: bytes, *words: str) -> None:
    """The command line of ffmpeg, over pipes and without a file."""
    line = [shutil.which("ffmpeg") or "", "-v", "error", "-i", "-", *words, "-"]
    subprocess.run(line, input=data, check=True, stdout=subprocess.DEVNULL)


def processor_s() -> float:
    """Time of all processors that this program and its ended children have used, in seconds."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def best(ways: Ways, rounds: int) -> dict[str, float]:
    """The best time of each way, in seconds."""
    times = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, call in ways.items():
            start = processor_s()
            call()
            times[name] = min(times[name], processor_s() - start)
    return times


def line(title: str, seconds: int, times: dict[str, float]) -> None:
    """One row: ours in milliseconds and times real time, and the ratio to each other way."""
    ours = times.pop("ours")
    ratios = "  ".join(f"{name} {ours / took:5.2f}" for name, took in times.items())
    print(f"{title:18} {seconds:4} s {ours * 1e3:9.1f} ms {seconds / ours:7.0f}x   {ratios}")


def measure_decode(seconds: int) -> None:
    """Read each format."""
    sound = speech_like(seconds)
    for name in MADE:
        data = plain_encode(sound, name)
        ways: Ways = {"ours": partial(decode, data), "PyAV": partial(plain_decode, data)}
        if name in {"wav", "mp3", "flac", "ogg opus"}:
            ways["soundfile"] = partial(sndfile_decode, data)
        if shutil.which("ffmpeg") and MADE[name][0] != "ipod":
            ways["ffmpeg"] = partial(command, data, "-f", "f32le")
        line(f"read {name}", seconds, best(ways, max(1, ROUNDS - seconds // 100)))


def at_once(data: bytes, count: int) -> float:
    """Read a file so many times at once; the seconds until the last is read."""
    threads = [threading.Thread(target=decode, args=(data,)) for _ in range(count)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


def measure_beside(seconds: int) -> None:
    """Read files of each format beside each other."""
    sound = speech_like(seconds)
    for name in MADE:
        data = plain_encode(sound, name)
        times = {count: min(at_once(data, count) for _ in range(3)) for count in AT_ONCE}
        ratios = "  ".join(f"{count} at once {times[count] / times[1]:5.2f}" for count in AT_ONCE)
        print(f"read {name:13} {seconds:4} s {times[1] * 1e3:9.1f} ms   {ratios}")


def measure_encode(seconds: int) -> None:
    """Make each format."""
    sound = Audio(speech_like(seconds), RATE)
    wav = encode(sound, "wav")
    for name, made in OUT.items():
        ways: Ways = {
            "ours": partial(encode, sound, name),
            "PyAV": partial(plain_encode, sound.samples, made),
        }
        if shutil.which("ffmpeg"):
            kind, codec = MADE[made]
            ways["ffmpeg"] = partial(command, wav, "-c:a", codec, "-f", kind)
        line(f"make {name}", seconds, best(ways, max(1, ROUNDS - seconds // 100)))


def first_bytes(name: str, sentence: Audio) -> None:
    """Begin a file and give it the first sentence."""
    with closing(open_growing(name, sentence.rate)) as file:
        assert file.push(sentence)


def measure_first() -> None:
    """How long the first sentence of a stream is kept by its format."""
    sentence = Audio(speech_like(SENTENCE_S), RATE)
    ways: Ways = {name: partial(first_bytes, name, sentence) for name in FORMATS}
    times = best(ways, 20)
    for name, took in times.items():
        later = (took - times["pcm"]) * 1e3
        print(
            f"first {SENTENCE_S:.0f} s as {name:5} {took * 1e3:8.2f} ms, {later:8.2f} ms after pcm"
        )


def main() -> None:
    """Print the tables."""
    lengths = [int(word) for word in sys.argv[1:]] or list(LENGTHS)
    for seconds in lengths:
        measure_decode(seconds)
        measure_encode(seconds)
    measure_beside(BESIDE_S)
    measure_first()


if __name__ == "__main__":
    main()
