"""What a live session is fed, checked: sound where sound is heard, text where text is spoken."""

from paraudio.engines._values import Audio, Piece
from paraudio.errors import InvalidRequestError


def sound_piece(piece: Piece, rate: int | None) -> Audio:
    """The piece as sound.

    Args:
        piece: What was fed.
        rate: The rate of the pieces before it, or None for the first.

    Raises:
        InvalidRequestError: It is text, or sound at another rate than before.
    """
    if not isinstance(piece, Audio):
        raise InvalidRequestError("this model listens: it is fed sound, not text", param="audio")
    if rate is not None and piece.rate != rate:
        raise InvalidRequestError(
            f"all pieces of one sound have one rate; after {rate} came {piece.rate}",
            param="sample_rate",
        )
    return piece


def text_piece(piece: Piece) -> str:
    """The piece as text.

    Raises:
        InvalidRequestError: It is sound.
    """
    if not isinstance(piece, str):
        raise InvalidRequestError("this model speaks: it is fed text, not sound", param="input")
    return piece
