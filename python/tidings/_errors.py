"""The exceptions: one base, and a class for each row of the one error table."""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple

__all__ = [
    "AheadError",
    "ClosedError",
    "ConfigError",
    "CongestedError",
    "CursorError",
    "EndedError",
    "Fault",
    "FencedError",
    "ForkedError",
    "InternalError",
    "InvalidArgument",
    "TidingsError",
    "TimedOutError",
    "TooLargeError",
    "UnavailableError",
    "UnsupportedStoreError",
    "WebhookError",
]


class TidingsError(Exception):
    """The base of every error of this library. Messages hold no payload, secret or address."""

    #: What went wrong, as a name that never changes; the same in every language.
    code: str = "internal"
    #: Whether the same call may succeed later.
    retryable: ClassVar[bool] = False


class InvalidArgument(TidingsError, ValueError):
    """An argument breaks a rule; the message names both."""

    code = "invalid_argument"


class Fault(NamedTuple):
    """One rule that a notificationConfig breaks."""

    path: str
    """JSON Pointer (RFC 6901) into the config."""
    rule: str
    """The rule's stable name."""
    message: str
    """What is wrong, for people."""


class ConfigError(TidingsError):
    """A notificationConfig breaks rules; nothing of it was accepted."""

    code = "invalid_config"

    def __init__(self, message: str, faults: list[Fault], total: int, data_json: str) -> None:
        super().__init__(message)
        #: The first broken rules, at most 20.
        self.faults = faults
        #: How many there are.
        self.total = total
        #: The `data` of the JSON-RPC error (-32602), as JSON text.
        self.data_json = data_json

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, list[Fault], int, str]]:
        return type(self), (str(self), self.faults, self.total, self.data_json)


class CursorError(TidingsError):
    """No such stream in this scope, or no cursor of ours. Malformed, unknown and foreign ones look the same."""

    code = "unknown_cursor"


class AheadError(CursorError):
    """`after` lies beyond the newest event."""

    code = "ahead"


class ClosedError(TidingsError):
    """The stream, tail, call or hub is closed."""

    code = "closed"


class FencedError(TidingsError):
    """Another writer has claimed the stream."""

    code = "fenced"


class EndedError(TidingsError):
    """The call has ended already."""

    code = "ended"


class CongestedError(TidingsError):
    """More is buffered than may be; `await writer.flush()` and try again."""

    code = "congested"
    retryable = True


class TooLargeError(TidingsError):
    """Something is larger than may be."""

    code = "too_large"


class UnavailableError(TidingsError):
    """The store cannot do its work now."""

    code = "unavailable"
    retryable = True


class UnsupportedStoreError(TidingsError):
    """The store can never do its work like this: damaged, too new, on a network file system, sealed with another key."""

    code = "unsupported"


class ForkedError(TidingsError):
    """The object belongs to the process that forked this one. A hub does not: it opens anew in the child."""

    code = "forked"


class TimedOutError(TidingsError, TimeoutError):
    """It did not end in time."""

    code = "timeout"
    retryable = True


class InternalError(TidingsError):
    """A defect of this library."""

    code = "internal"


class WebhookError(TidingsError):
    """A received webhook is not to be trusted: `code` says why, such as `mismatch` or `too_old`."""

    code = "webhook"

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[WebhookError], tuple[str, str]]:
        return type(self), (self.code, str(self))


BY_CODE: Final[dict[str, type[TidingsError]]] = {
    cls.code: cls
    for cls in (
        AheadError,
        ClosedError,
        CongestedError,
        CursorError,
        EndedError,
        FencedError,
        ForkedError,
        InternalError,
        InvalidArgument,
        TimedOutError,
        TooLargeError,
        UnavailableError,
        UnsupportedStoreError,
    )
}


def exception(code: str, message: str, faults: tuple[list[tuple[str, str, str]], int, str] | None) -> TidingsError:
    """The exception for an error of the extension module, which calls this."""
    if faults is not None:
        listed, total, data_json = faults
        return ConfigError(message, [Fault(*fault) for fault in listed], total, data_json)
    return BY_CODE.get(code, InternalError)(message)


def webhook_exception(code: str, message: str) -> WebhookError:
    """The exception for a webhook that is refused; the extension module calls this."""
    return WebhookError(code, message)
