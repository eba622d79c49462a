"""`/openapi.json`: valid by somebody else's validator, and what it documents is what is served."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import jsonschema
import openapi_spec_validator
import pytest

from peers import embedded
from peers.grpc_described import Described, echoing
from peers.peer import Peer
from repository import ROOT, native

from .conftest import Start
from .web import Answer, Web

Own = Callable[[Callable[[Path], Peer]], Peer]
Json = Any
SHAPES = ROOT / "crates/transcode/tests"
# Messages in messages are not made beyond this.
DEEPEST = 3
# A text; as a part of a name, that of nothing there is.
PLAIN = "7777"
OK, BAD_REQUEST = 200, 400
# Refusals that say that the document is wrong.
NO_PATH = "no rule of a service has the path"
WRONG = (405, 406, 415, 426, 501)


def resolved(schema: Json, document: Json) -> Json:
    while "$ref" in schema:
        found = document
        for key in schema["$ref"].removeprefix("#/").split("/"):
            found = found[key]
        schema = found
    return schema


def string(schema: Json) -> str:
    if "enum" in schema:
        return str(schema["enum"][-1])
    if schema.get("contentEncoding") == "base64":
        return "aGk="
    by_format = {"date-time": "2026-01-02T03:04:05Z", "int64": "-12", "uint64": "12"}
    if schema.get("format") in by_format:
        return by_format[schema["format"]]
    if "pattern" in schema:
        return "1.5s" if schema["pattern"].endswith("s$") else "text"
    return PLAIN


def example(schema: Json, document: Json, depth: int = 0) -> Json:
    """A value that conforms to a schema: with all fields that may stand beside one another."""
    schema = resolved(schema, document)
    if "anyOf" in schema:
        return example(schema["anyOf"][0], document, depth)
    kind = schema.get("type")
    simple: Mapping[str | None, Json] = {
        "integer": 3, "number": 1.5, "boolean": True, "null": None, None: {"any": [1, "x", None]}
    }  # fmt: skip
    if kind in simple:
        return simple[kind]
    if kind == "string":
        return string(schema)
    if kind == "array":
        return [example(schema["items"], document, depth + 1)] if "items" in schema else []
    return fields(schema, document, depth)


def fields(schema: Json, document: Json, depth: int) -> Json:
    more = schema.get("additionalProperties")
    if more is True or depth > DEEPEST:
        return {}
    if more is not None:
        return {"key": example(more, document, depth + 1)}
    # Of each oneof its first field.
    choices = [choice["required"][0] for rule in schema.get("allOf", [])
               for choice in rule["oneOf"][1:] if "required" in choice]  # fmt: skip
    properties = schema.get("properties", {})
    return {
        name: example(of, document, depth + 1)
        for name, of in properties.items()
        if name not in choices
    }


def conforms(value: Json, schema: Json, document: Json) -> None:
    whole = {"components": document["components"], **schema}
    jsonschema.Draft202012Validator(whole).validate(value)


def in_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value)


class Operation:
    """One operation of a document."""

    def __init__(self, document: Json, path: str, method: str) -> None:
        self.document = document
        self.path = path
        self.method = method
        self.told = document["paths"][path][method]
        self.name = f"{method} {path}"

    def parameters(self, place: str) -> Iterator[tuple[str, list[str]]]:
        """Names of parameters, and the texts of an example."""
        for parameter in self.told["parameters"]:
            if parameter["in"] == place:
                value = example(parameter["schema"], self.document)
                many = value if isinstance(value, list) else [value]
                yield parameter["name"], [in_text(each) for each in many]

    def target(self, plain: str = PLAIN) -> str:
        path = self.path
        for name, (text,) in self.parameters("path"):
            value = plain if text == PLAIN else text
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        assert "{" not in path, "each parameter of the path is documented"
        return path

    def content(self) -> tuple[bytes, dict[str, str]]:
        body = self.told.get("requestBody")
        if body is None:
            return b"", {}
        if "*/*" in body["content"]:
            return b"\x00\xff", {"content_type": "image/png"}
        media_type = next(iter(body["content"]))
        schema = body["content"]["application/json"]["schema"]
        value = example(schema, self.document)
        conforms(value, schema, self.document)
        assert media_type in ("application/json", "application/x-ndjson")
        return json.dumps(value).encode(), {"content_type": "application/json"}

    def check(self, answer: Answer) -> None:
        """The response is one of those that are documented."""
        case = f"{self.name}: {answer.status} {answer.content[:300]!r}"
        assert answer.status not in WRONG, case
        responses = self.told["responses"]
        told = responses["200"] if answer.status == OK else responses["default"]
        content = resolved(told, self.document)["content"]
        if "*/*" in content or self.method == "head":
            return
        assert answer.media_type in content, case
        schema = content[answer.media_type].get("schema", {})
        values = [json.loads(line) for line in answer.content.splitlines() if line]
        for value in values:
            conforms(value, schema, self.document)
            assert NO_PATH not in str(value), case


def operations(document: Json) -> list[Operation]:
    return [
        Operation(document, path, method)
        for path, item in document["paths"].items()
        for method in item
    ]


def document_of(web: Web) -> Json:
    answer = web.ask("GET", "/openapi.json")
    assert (answer.status, answer.media_type) == (200, "application/json")
    document = json.loads(answer.content)
    assert document["openapi"].startswith("3.1.")
    return document


@pytest.mark.parametrize("listener", ["h1", "h2c", "h2", "h3"])
def test_it_is_served_over_every_version(ours: Peer, listener: str) -> None:
    with Web.open(ours, listener) as web:
        document = document_of(web)
        assert "/v1/shelves/{name-1}/books/{name-2}" in document["paths"]
        assert "/trilane.library.v1.Library/GetBook" in document["paths"]
        head = web.ask("HEAD", "/openapi.json")
        assert (head.status, head.content) == (200, b"")


def test_comments_of_the_library_are_descriptions(library_server: Start) -> None:
    with Web.open(library_server("embedded"), "h1") as web:
        document = document_of(web)
        operation = document["paths"]["/v1/shelves/{name-1}/books/{name-2}"]["get"]
        assert operation["description"] == "One book; NOT_FOUND where there is none."


def test_what_is_documented_is_served(ours: Peer) -> None:
    with Web.open(ours, "h2c") as web:
        document = document_of(web)
        openapi_spec_validator.validate(document)
        found = operations(document)
        # Eight methods, one of which has a WebSocket alone; seven without a rule, and titles; two
        # that change nothing are called by their query, too. The health is left out.
        assert len(found) == 17, [operation.name for operation in found]
        for operation in found:
            content, sent = operation.content()
            method = operation.method.upper()
            # A stream may follow for ever.
            answer = web.ask(method, operation.target(), content, grpc_timeout="2S", **sent)
            operation.check(answer)
            # Without a rule, the name is in the query.
            if method == "GET" and "{" in operation.path:
                answer = web.ask(method, operation.target("1"))
                assert answer.status == OK, answer
                operation.check(answer)


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Described:
    folder = tmp_path_factory.mktemp("shapes")
    return Described(folder, SHAPES / "bindings.proto")


def test_every_shape_of_a_rule_is_documented_as_it_is_served(own: Own, shapes: Described) -> None:
    flags = ("--descriptor-set", str(shapes.set))
    with echoing() as url:
        peer = own(lambda folder: embedded.start(native(), folder, gateway_to=[url], flags=flags))
        with Web.open(peer, "h2c") as web:
            document = document_of(web)
            openapi_spec_validator.validate(document)
            found = operations(document)
            assert len(found) > 60
            queries = 0
            for operation in found:
                content, sent = operation.content()
                method, target = operation.method.upper(), operation.target()
                answer = web.ask(method, target, content, **sent)
                # The service gives back what it gets, so that nothing documented may be refused.
                assert answer.status == OK, (operation.name, answer.content)
                operation.check(answer)
                for name, texts in operation.parameters("query"):
                    query = urlencode([(name, text) for text in texts])
                    answer = web.ask(method, f"{target}?{query}", content, **sent)
                    assert answer.status == OK, (operation.name, query, answer.content)
                    operation.check(answer)
                    queries += 1
            assert queries > 100


def test_an_example_of_a_wrong_type_is_refused_by_both(own: Own, shapes: Described) -> None:
    """Both the schema and the server refuse what does not conform: the schemas say something."""
    flags = ("--descriptor-set", str(shapes.set))
    wrong: dict[str, Json] = {
        "text": 5, "int32": 2**31, "int64": "x", "uint32": -1, "double": "x", "bool": "true",
        "kind": "OVAL", "inner": [], "texts": "a", "labels": {"a": 1}, "duration": "1m",
        "left": 5, "structure": [], "wrappedInt32": "x",
    }  # fmt: skip
    with echoing() as url:
        peer = own(lambda folder: embedded.start(native(), folder, gateway_to=[url], flags=flags))
        with Web.open(peer, "h1") as web:
            document = document_of(web)
            schema = {"$ref": "#/components/schemas/trilane.bindings.v1.Shape"}
            for name, value in wrong.items():
                with pytest.raises(jsonschema.ValidationError):
                    conforms({name: value}, schema, document)
                content = json.dumps({name: value}).encode()
                answer = web.ask("POST", "/v1/whole", content, content_type="application/json")
                assert answer.status == BAD_REQUEST, (name, value, answer)
            both = {"left": "a", "right": 1}
            with pytest.raises(jsonschema.ValidationError):
                conforms(both, schema, document)
