"""Sound in and out: decode by content, mix, resample, encode.

Everything here is plain blocking code for worker threads: nothing touches the event loop. The
libraries behind it (libsndfile through soundfile, ffmpeg's through PyAV, soxr) stay behind this
small interface.
"""

from paraudio.audio._decode import MAX_SAMPLES, MAX_SECONDS, decode
from paraudio.audio._encode import encode
from paraudio.audio._formats import FORMATS, content_type
from paraudio.audio._growing import Growing, open_growing
from paraudio.audio._pcm import from_int16, to_int16
from paraudio.audio._raw import RAW_FORMATS, from_raw
from paraudio.audio._resample import MAX_RATE, MIN_RATE, Resampler, resample

__all__ = [
    "FORMATS",
    "MAX_RATE",
    "MAX_SAMPLES",
    "MAX_SECONDS",
    "MIN_RATE",
    "RAW_FORMATS",
    "Growing",
    "Resampler",
    "content_type",
    "decode",
    "encode",
    "from_int16",
    "from_raw",
    "open_growing",
    "resample",
    "to_int16",
]
