"""The settings of a client that can be read and changed after it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from trilane.client._flow.preparing import DEFAULTS
from trilane.client._flow.request import pairs, with_defaults
from trilane.client.fields import MutableHeaders

if TYPE_CHECKING:
    from trilane.client._flow.cookies import Cookies, CookiesGiven
    from trilane.client._flow.forms import Params
    from trilane.client._flow.preparing import Settings
    from trilane.client._flow.repeating import Retries
    from trilane.client._flow.request import Fields
    from trilane.client._flow.session import Session
    from trilane.client.auth import Auth, AuthGiven

Value = TypeVar("Value")
Given = TypeVar("Given")


class _Setting(Generic[Value, Given]):
    """A setting that the client's session has by the same name."""

    def __init__(self, name: str, meaning: str) -> None:
        self._name = name
        self.__doc__ = meaning

    @overload
    def __get__(self, client: None, kind: type) -> _Setting[Value, Given]: ...
    @overload
    def __get__(self, client: Settable, kind: type) -> Value: ...
    def __get__(self, client: Settable | None, kind: type) -> Any:
        """The session's."""
        return self if client is None else getattr(client._session, self._name)  # noqa: SLF001

    def __set__(self, client: Settable, value: Given) -> None:
        """Change the session's."""
        setattr(client._session, self._name, value)  # noqa: SLF001


class Settable:
    """What can be changed while a client is in use; requests that have begun are not changed."""

    _session: Session
    _settings: Settings

    auth: _Setting[Auth | None, AuthGiven] = _Setting("auth", "Authentication of each request.")
    base_url: _Setting[str, str] = _Setting("base_url", "What stands before a URL without a host.")
    cookies: _Setting[Cookies, CookiesGiven] = _Setting(
        "cookies", "The cookies: a mapping, whose `jar` is a `http.cookiejar.CookieJar`."
    )
    follow_redirects: _Setting[bool, bool] = _Setting(
        "follow_redirects", "Whether redirects are followed."
    )
    max_redirects: _Setting[int, int] = _Setting("max_redirects", "How many, for one call.")
    params: _Setting[Params | None, Params | None] = _Setting(
        "params", "Added to the query of each URL."
    )
    retries: _Setting[Retries, Retries | int | None] = _Setting("retries", "What is sent again.")

    @property
    def headers(self) -> MutableHeaders:
        """The fields that are sent with each request; to change them changes the next requests."""
        settings = self._settings

        def changed() -> None:
            settings.fields = fields.pairs

        fields = MutableHeaders(settings.fields, changed)
        return fields

    @headers.setter
    def headers(self, given: Fields) -> None:
        self._settings.fields = with_defaults(DEFAULTS, pairs(given))
