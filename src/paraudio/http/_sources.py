"""Where the sound of a request comes from: its form, its JSON, or a file of the server."""

import base64
import binascii
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from paraudio.audio import decode, from_int16
from paraudio.engines import Audio
from paraudio.errors import InvalidRequestError
from paraudio.http._fields import Fields, refusal
from paraudio.http._multipart import Upload
from paraudio.http._paths import read_allowed

MAX_VOICE_BYTES: Final = 5 * 2**20
"""The largest recording of a voice that a request may carry, decoded, in bytes."""


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A file of the request's form."""

    upload: Upload
    param: str

    def decode(
        self,
        roots: Iterable[str],
        limit: int,
        check: Callable[[], None],
        most_rate: int | None = None,
    ) -> Audio:
        """The sound, at no more than ``most_rate``; blocking."""
        del roots, limit  # the body's own bound holds
        return decode(self.upload.view(), param=self.param, check=check, most_rate=most_rate)


@dataclass(frozen=True, slots=True)
class Encoded:
    """Bytes as base64 text, or as a data URI."""

    text: str
    param: str
    max_bytes: int = 0

    def decode(
        self,
        roots: Iterable[str],
        limit: int,
        check: Callable[[], None],
        most_rate: int | None = None,
    ) -> Audio:
        """The sound, at no more than ``most_rate``; blocking."""
        del roots, limit
        return decode(self.bytes(), param=self.param, check=check, most_rate=most_rate)

    def bytes(self) -> bytes:
        """The bytes.

        Raises:
            InvalidRequestError: The text is no base64, or holds too much.
        """
        text = self.text
        if text[:5].lower() == "data:":
            head, comma, text = text.partition(",")
            if not comma or not head.lower().endswith(";base64"):
                raise InvalidRequestError(
                    f"{self.param} must be a base64 data URI", param=self.param
                )
        packed = "".join(text.split())
        if self.max_bytes and len(packed) // 4 * 3 > self.max_bytes + 2:
            raise self._too_large()
        try:
            data = base64.b64decode(packed, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidRequestError(
                f"{self.param} is not valid base64", param=self.param
            ) from error
        if self.max_bytes and len(data) > self.max_bytes:
            raise self._too_large()
        return data

    def _too_large(self) -> InvalidRequestError:
        return InvalidRequestError(
            f"{self.param} holds more than {self.max_bytes} bytes", param=self.param
        )


@dataclass(frozen=True, slots=True)
class OnServer:
    """A file of the server, inside the allowed folders."""

    path: str
    param: str

    def decode(
        self,
        roots: Iterable[str],
        limit: int,
        check: Callable[[], None],
        most_rate: int | None = None,
    ) -> Audio:
        """The sound, at no more than ``most_rate``; blocking."""
        data = read_allowed(self.path, roots, limit=limit, param=self.param)
        return decode(data, param=self.param, check=check, most_rate=most_rate)


@dataclass(frozen=True, slots=True)
class Captured:
    """Sound that a client has sent as it was captured.

    Attributes:
        frames: Shape [frames], int16, mono.
        rate: Frames a second.
    """

    frames: NDArray[np.int16]
    rate: int
    param: str = "audio"

    def decode(
        self,
        roots: Iterable[str],
        limit: int,
        check: Callable[[], None],
        most_rate: int | None = None,
    ) -> Audio:
        """The sound; blocking."""
        del roots, limit, check, most_rate
        return Audio(from_int16(self.frames), self.rate)


Source: TypeAlias = Uploaded | Encoded | OnServer | Captured


def source_field(fields: Fields, name: str, *, max_bytes: int = 0) -> Source | None:
    """Read a field that holds a sound.

    It is a path or a data URI as a string, ``{type: "path", path}``, or
    ``{type: "base64", data}``.

    Args:
        fields: The request.
        name: The field.
        max_bytes: The most bytes that base64 may hold; 0 is no bound of its own.
    """
    value, param = fields.get(name), fields.param(name)
    if value is None:
        return None
    if isinstance(value, str):
        if value[:5].lower() == "data:":
            return Encoded(value, param, max_bytes)
        return OnServer(fields.filled(name), param)
    inner = fields.within(name, value)
    kind = inner.text("type")
    if kind == "path":
        return OnServer(inner.filled("path"), inner.param("path"))
    if kind == "base64":
        return Encoded(inner.filled("data"), inner.param("data"), max_bytes)
    raise refusal(inner.param("type"), "path or base64", kind)


def base64_field(fields: Fields, name: str) -> Source | None:
    """Read a field that holds a sound as base64 text or a data URI."""
    if fields.get(name) is None:
        return None
    return Encoded(fields.filled(name), fields.param(name))
