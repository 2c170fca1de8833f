"""Between float32 in [-1, 1] and 16 bit integers, without a wrap at full scale."""

import numpy as np
from numpy.typing import NDArray

from paraudio.engines import Samples

_SCALE = 32768.0


def to_int16(samples: Samples) -> NDArray[np.int16]:
    """Round float32 samples to 16 bit; what lies outside [-1, 1] is clipped, NaN becomes silence.

    The scale is 32768, as in libsndfile, so that ``to_int16(from_int16(x))`` is ``x``.

    Args:
        samples: Shape [frames], float32.

    Returns:
        Shape [frames], int16.
    """
    scaled = np.rint(tame(samples) * np.float32(_SCALE))
    ints: NDArray[np.int16] = np.minimum(scaled, np.float32(_SCALE - 1)).astype(np.int16)
    return ints


def from_int16(samples: NDArray[np.int16]) -> Samples:
    """Turn 16 bit samples into float32 in [-1, 1).

    Args:
        samples: Shape [frames], int16.

    Returns:
        Shape [frames], float32.
    """
    return samples.astype(np.float32) / np.float32(_SCALE)


def tame(samples: Samples) -> Samples:
    """Clip to [-1, 1] and turn NaN into silence: float files may hold anything.

    Args:
        samples: Shape [frames], float32.

    Returns:
        The same array where nothing is to be done, which is nearly always; or a new one.
    """
    if not len(samples) or (samples.min() >= -1 and samples.max() <= 1):  # neither holds of NaN
        return samples
    tamed: Samples = np.nan_to_num(samples, nan=0.0, posinf=1.0, neginf=-1.0)
    return np.clip(tamed, -1.0, 1.0, out=tamed)
