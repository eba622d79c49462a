"""Ask the server once, and print the tokens as they come.

python ask.py http://127.0.0.1:8000
"""

import sys

from trilane.client import Client, StreamRefused, Timeouts

QUESTION = {
    "model": "local",
    "stream": True,
    "messages": [{"role": "user", "content": "Which version of HTTP is this?"}],
}


def main(server: str) -> None:
    """Stream one answer to the terminal."""
    # `read` is how long the stream may be silent, not how long the whole answer may take.
    with Client(base_url=server, timeout=Timeouts(connect=5, read=30)) as client:
        try:
            with client.events("/v1/chat/completions", method="POST", json=QUESTION) as events:
                for event in events:
                    if event.data == "[DONE]":
                        break
                    delta = event.json()["choices"][0]["delta"]
                    print(delta.get("content", ""), end="", flush=True)
        except StreamRefused as refused:
            sys.exit(f"the server answered {refused.error_code}: {refused.content!r}")
    print()


if __name__ == "__main__":
    main(sys.argv[1])
