"""Sound out: whole files."""

from contextlib import closing

from paraudio.audio._formats import CODECS, content_type
from paraudio.audio._growing import Check, GrowingCompressed
from paraudio.audio._wav import pcm, wav_header
from paraudio.engines import Audio


def encode(
    audio: Audio,
    container: str,
    /,
    *,
    param: str = "response_format",
    check: Check | None = None,
) -> bytes:
    """Encode a whole sound. Equal sounds give equal bytes.

    Args:
        audio: Mono sound.
        container: ``wav`` (16 bit, with a header), ``pcm`` (bare little-endian 16 bit), ``mp3``,
            ``flac`` (16 bit), ``opus`` (in ogg) or ``aac`` (ADTS). mp3, opus and aac know few
            sample rates; a sound of another one is resampled to the next higher that they know, or
            to their highest.
        param: The field that holds the format, for the error.
        check: Called between blocks of what is compressed; what it raises ends the encoding.

    Raises:
        InvalidRequestError: The format is none of ``FORMATS``.
    """
    content_type(container, param=param)
    if container in CODECS:
        with closing(GrowingCompressed(CODECS[container], audio.rate, whole=True)) as file:
            file.push(audio, check=check)
            return file.end()
    data = pcm(audio)
    return wav_header(audio.rate, len(data)) + data if container == "wav" else data
