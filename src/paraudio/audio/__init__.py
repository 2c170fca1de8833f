"""Sound in and out: decode by content, mix, resample, encode.

Everything here is plain blocking code for worker threads: nothing touches the event loop. The
libraries behind it (libsndfile through soundfile, soxr) stay behind this small interface.
"""

from paraudio.audio._decode import MAX_SAMPLES, MAX_SECONDS, decode
from paraudio.audio._encode import FORMATS, WavStream, content_type, encode
from paraudio.audio._pcm import from_int16, to_int16
from paraudio.audio._resample import MAX_RATE, MIN_RATE, Resampler, resample

__all__ = [
    "FORMATS",
    "MAX_RATE",
    "MAX_SAMPLES",
    "MAX_SECONDS",
    "MIN_RATE",
    "Resampler",
    "WavStream",
    "content_type",
    "decode",
    "encode",
    "from_int16",
    "resample",
    "to_int16",
]
