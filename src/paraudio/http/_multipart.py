"""Forms with files: a parser that is fed in pieces and keeps what is large out of memory.

Everything here is plain blocking code. Small bodies are parsed where they are read; large ones in
worker threads, a piece at a time (`paraudio.http._body`).
"""

import mmap
import re
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import IO, Final, Self, cast
from urllib.parse import unquote

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from paraudio.errors import InvalidRequestError, PayloadTooLargeError, UnsupportedMediaTypeError
from paraudio.http._spooled import spooled

MEMORY_BYTES: Final = 32 * 2**20
"""What the files of one form may hold in memory together; the rest goes to files on disk."""

FILE_BUFFER_BYTES: Final = 2**20
"""The buffer of a file on disk; the usual 8 KB cost ten times as much."""

MAX_FIELD_BYTES: Final = 16 * 2**20
"""What the text fields of one form may hold together; they are kept in memory."""

MAX_PARTS: Final = 1000
"""The most parts of one form."""

_FILE_FIELDS: Final = frozenset({"file", "file[]", "audio"})
_new_file: Final = cast(
    "Callable[[], IO[bytes]]", partial(tempfile.TemporaryFile, buffering=FILE_BUFFER_BYTES)
)
_EXTENDED: Final = re.compile(
    r";\s*filename\*\s*=\s*\"?([\w.-]*)'[\w-]*'([^\s;\"]*)", re.IGNORECASE
)
_PLAIN_ENCODINGS: Final = frozenset({"", "binary", "8bit", "7bit"})


class Upload:
    """The bytes of one file of a form: in memory while they fit, then in a file without a name.

    What the disk refuses is a `paraudio.errors.StorageError`.
    """

    def __init__(self, field: str, filename: str, *, named: bool = True) -> None:
        """Begin it.

        Args:
            field: The name of its part.
            filename: The name of the file; empty where there is none.
            named: Whether the part said that it is a file.
        """
        self.field = field
        self.filename = filename
        self.named = named
        self.size = 0
        self._memory = bytearray()
        self._file: IO[bytes] | None = None
        self._map: mmap.mmap | None = None
        self._open = ExitStack()

    @property
    def in_memory(self) -> int:
        """How many bytes it holds in memory."""
        return len(self._memory)

    def write(self, data: bytes) -> None:
        """Append bytes; touches the disk once the upload has been moved there."""
        self.size += len(data)
        if self._file is None:
            self._memory += data
        else:
            with spooled():
                self._file.write(data)

    def to_disk(self) -> None:
        """Move what there is into a file on disk, and write there from now on."""
        if self._file is None:
            with spooled():
                self._file = self._open.enter_context(_new_file())
                self._file.write(self._memory)
            self._memory = bytearray()

    def view(self) -> memoryview:
        """All bytes, without a copy; the caller drops the view before `close`."""
        if self._file is None:
            return memoryview(self._memory)
        if self._map is None:
            with spooled():
                self._file.flush()
                self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return memoryview(self._map)

    def close(self) -> None:
        """Free the bytes; may be called again."""
        if self._map is not None:
            # The traceback of a failed decoding still refers to a view; then the map goes with it.
            with suppress(BufferError):
                self._map.close()
        # A full disk refuses the rest of the buffer once more; the file is closed all the same.
        with suppress(OSError):
            self._open.close()
        self._map = self._file = None
        self._memory = bytearray()


class Form:
    """The fields and files of a form; leaving it frees the files."""

    def __init__(self) -> None:
        self.fields: dict[str, list[str]] = {}
        self.files: list[Upload] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the files."""
        for upload in self.files:
            upload.close()

    def values(self) -> dict[str, object]:
        """The fields by name; a field that came several times gives its last value."""
        return {name: values[-1] for name, values in self.fields.items()}


def boundary_of(content_type: str) -> bytes:
    """The boundary that a content type names, quoted or not.

    Raises:
        UnsupportedMediaTypeError: It is no ``multipart/form-data``.
        InvalidRequestError: It names no boundary.
    """
    kind, parameters = parse_options_header(content_type)
    if kind != b"multipart/form-data":
        raise UnsupportedMediaTypeError(
            f"this route takes multipart/form-data, not {kind.decode('latin-1')!r}"
        )
    boundary = parameters.get(b"boundary", b"")
    if not boundary:
        raise InvalidRequestError("the multipart content type names no boundary")
    return boundary


class FormParser:
    """Takes the body of a form in pieces, and gives the form."""

    def __init__(self, boundary: bytes) -> None:
        """Start a form.

        Raises:
            InvalidRequestError: The boundary is longer than RFC 2046 allows.
        """
        self.form = Form()
        self._ended = False
        self._parts = 0
        self._held = 0
        self._upload: Upload | None = None
        self._text = bytearray()
        self._text_bytes = 0
        self._name = ""
        self._headers: dict[str, bytes] = {}
        self._header = bytearray()
        self._value = bytearray()
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin_part,
                    "on_part_data": self._part_data,
                    "on_part_end": self._end_part,
                    "on_header_field": self._header_field,
                    "on_header_value": self._header_value,
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._end_headers,
                    "on_end": self._end,
                },
            )
        except FormParserError as error:
            raise InvalidRequestError("the multipart boundary is too long") from error

    def feed(self, data: bytes) -> None:
        """Take the next piece of the body.

        Raises:
            InvalidRequestError: It is no multipart body, or a field of it is wrong.
            PayloadTooLargeError: A text field or the number of parts is over its bound.
            StorageError: A file could not be kept on disk.
        """
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise InvalidRequestError(
                f"the body is not valid multipart/form-data ({error})"
            ) from error

    def finish(self) -> Form:
        """Give the form, once the whole body was fed.

        Raises:
            InvalidRequestError: The body ended before its closing boundary.
        """
        if not self._ended:
            raise InvalidRequestError("the multipart body ends before its closing boundary")
        return self.form

    def _begin_part(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise PayloadTooLargeError(f"a form may have up to {MAX_PARTS} parts")
        self._headers = {}
        self._upload = None
        self._text = bytearray()

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        self._headers[self._header.decode("latin-1").lower()] = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _end_headers(self) -> None:
        disposition = self._headers.get("content-disposition", b"").decode("latin-1")
        kind, parameters = parse_options_header(disposition)
        name = _words(parameters.get(b"name", b""))
        if kind != b"form-data" or not name:
            raise InvalidRequestError("a part of the form has no name")
        encoding = self._headers.get("content-transfer-encoding", b"").decode("latin-1").lower()
        if encoding.strip() not in _PLAIN_ENCODINGS:
            raise InvalidRequestError(f"the part {name!r} is encoded; send it as it is", param=name)
        self._name = name
        raw = parameters.get(b"filename")
        filename = _extended_name(disposition) if raw is None else _words(raw)
        if filename is not None or name in _FILE_FIELDS:
            self._upload = Upload(name, filename or "", named=filename is not None)
            self.form.files.append(self._upload)

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        piece = data[start:end]
        upload = self._upload
        if upload is not None:
            self._held -= upload.in_memory
            upload.write(piece)
            if self._held + upload.in_memory > MEMORY_BYTES:
                upload.to_disk()
            self._held += upload.in_memory
            return
        self._text += piece
        self._text_bytes += len(piece)
        if self._text_bytes > MAX_FIELD_BYTES:
            raise PayloadTooLargeError(
                f"the text fields hold more than {MAX_FIELD_BYTES} bytes with {self._name!r}",
                param=self._name,
            )

    def _end_part(self) -> None:
        if self._upload is not None:
            return
        try:
            text = self._text.decode()
        except UnicodeDecodeError as error:
            raise InvalidRequestError(
                f"the field {self._name!r} is not UTF-8", param=self._name
            ) from error
        self.form.fields.setdefault(self._name, []).append(text)

    def _end(self) -> None:
        self._ended = True


def _extended_name(disposition: str) -> str | None:
    """The file name in RFC 2231's coding, as some libraries send one that is not ASCII."""
    found = _EXTENDED.search(disposition)
    if found is None:
        return None
    charset = found[1].lower()
    return unquote(found[2], charset if charset == "iso-8859-1" else "utf-8", "replace")


def _words(raw: bytes) -> str:
    """A name of a part: UTF-8 as every client sends it, else latin-1."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
