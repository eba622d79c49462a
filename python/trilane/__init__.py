"""Trilane: the same request over HTTP/1.1, HTTP/2 and HTTP/3, on one engine."""

# As `typing` has it, whose import takes longer than all else that is imported here.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from trilane._core import build_profile, revision
    from trilane._core import version as __version__

__all__ = ["__version__", "build_profile", "revision"]


if not TYPE_CHECKING:  # For checkers there is no other name.

    def __getattr__(name: str) -> str:
        """What the native module says of itself: one is needed only where it is asked."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from trilane import _core  # noqa: PLC0415 - what does without it starts before it is built

        value: str = getattr(_core, name.strip("_"))
        return value
