"""The keywords of a client's methods, once for all of them, and how `inspect` shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypedDict, TypeVar

if TYPE_CHECKING:
    from inspect import Signature

    from trilane.client._flow.cookies import CookiesGiven
    from trilane.client._flow.forms import Files, Form, Params
    from trilane.client._flow.preparing import OnInformational
    from trilane.client._flow.repeating import Retries
    from trilane.client._flow.request import Fields
    from trilane.client._flow.timeouts import TimeoutGiven
    from trilane.client.auth import AuthGiven

ContentGiven = TypeVar("ContentGiven")
Function = TypeVar("Function", bound=Callable[..., Any])
Progress: TypeAlias = Callable[[int, int | None], object]
"""Called with the bytes of content that were sent, and how many there are where that is known."""


class BareOptions(TypedDict, total=False):
    """Keywords of a request without content. What is left out is as the client has it."""

    headers: Fields | None
    params: Params | None
    auth: AuthGiven
    cookies: CookiesGiven
    follow_redirects: bool
    retries: Retries | int | None
    timeout: TimeoutGiven
    on_informational: OnInformational | None
    decode: bool


class FormOptions(BareOptions, total=False):
    """Keywords of a request with content, but for `content` itself."""

    data: Form | None
    files: Files | None
    json: Any
    trailers: Sequence[tuple[str, str]]
    expect_continue: bool
    progress: Progress | None


class RequestOptions(FormOptions, Generic[ContentGiven], total=False):
    """Keywords of any request."""

    content: ContentGiven | None


BARE: Final = BareOptions.__optional_keys__
FORM: Final = FormOptions.__optional_keys__
ANY: Final = RequestOptions.__optional_keys__
_KINDS: Final[Mapping[str, type]] = {
    "BareOptions": BareOptions,
    "FormOptions": FormOptions,
    "RequestOptions[ContentGiven]": RequestOptions,
}


class _Shown:
    """What stands for a function where `inspect.signature` follows `__wrapped__` to it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._function(*arguments, **options)

    @property
    def __signature__(self) -> Signature:
        """The function's own, with each of its options by name."""
        import inspect  # noqa: PLC0415 - a program that sends requests does not ask

        own = inspect.signature(self._function, follow_wrapped=False)
        # What takes more by position only says that there is none.
        several = inspect.Parameter.VAR_POSITIONAL
        parameters = [each for each in own.parameters.values() if each.kind is not several]
        kind = parameters.pop().annotation.removeprefix("Unpack[").removesuffix("]")
        options = _KINDS[kind]
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters += [
            inspect.Parameter(name, keyword, default=_default(name), annotation=_said(name))
            for name in sorted(options.__optional_keys__)  # type: ignore[attr-defined]
        ]
        return own.replace(parameters=parameters)


def shown(function: Function) -> Function:
    """Let `inspect.signature` and `help` show the options of a method one by one.

    Editors read them from its annotation by themselves.
    """
    function.__wrapped__ = _Shown(function)  # type: ignore[attr-defined]
    return function


class _AsTheClient:
    """What is left out is as the client has it."""

    def __repr__(self) -> str:
        return "<as the client has it>"


_AS_THE_CLIENT: Final = _AsTheClient()


def _default(name: str) -> object:
    """What an option is where it is left out."""
    own: dict[str, object] = {"decode": True, "expect_continue": False, "trailers": ()}
    if name in {"auth", "follow_redirects", "retries", "timeout"}:
        return _AS_THE_CLIENT
    return own.get(name)


def _said(name: str) -> str:
    for kind in (BareOptions, FormOptions, RequestOptions):
        if name in kind.__annotations__:
            said = kind.__annotations__[name]
            return str(getattr(said, "__forward_arg__", said))
    raise KeyError(name)
