"""The OpenAPI document and the server agree: generated requests, right and wrong ones, each answer as documented.

Three hundred of them, and more than 5,000 with `make torture`; wrong ones for every second operation, and there for all.
"""

import asyncio
import re

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    negative_data_rejection,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from octavo.config import Settings
from octavo.server import create_app
from sampled import FULL, sampled

#: Not positive_data_acceptance: that no text holds a NUL, for one, cannot be said of free JSON in a schema.
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
# Requests to each operation that fit its schema, and that do not. Bodies and mistakes take longest to make up.
RIGHT, RIGHT_BODY, WRONG = (346, 200, 40) if FULL else (10, 30, 8)
DOCUMENT = create_app(Settings()).openapi()
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS = [
    pytest.param(path, verb, id=f"{verb.upper()} {path}")
    for path, verbs in DOCUMENT["paths"].items()
    for verb in verbs
]

pytestmark = [pytest.mark.torture] if FULL else []


def right(path, verb):
    """How many requests that fit are worth while: what takes nothing can be asked in one way only."""
    told = DOCUMENT["paths"][path][verb]
    if "requestBody" in told:
        return RIGHT_BODY
    return RIGHT if told.get("parameters") else 1


def can_be_wrong(path, verb):
    """A path that is any text has no wrong spelling; one with another word for `user` or `agent` is another path."""
    told = DOCUMENT["paths"][path][verb]
    free = all(
        parameter["in"] == "path"
        and ("enum" not in parameter["schema"] or parameter["name"] == "memory_type")
        for parameter in told.get("parameters", ())
    )
    return "requestBody" in told or not free


def test_there_are_enough_cases():
    sizes = [right(*operation.values) for operation in OPERATIONS]
    wrong = sum(can_be_wrong(*operation.values) for operation in OPERATIONS)
    assert sum(sizes) + WRONG * (wrong if FULL else wrong // 2) >= (5000 if FULL else 300)


class Asked:
    """The application in this thread, with some memories in it."""

    def __init__(self, settings):
        self.app = create_app(settings)
        self.loop = asyncio.new_event_loop()
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://127.0.0.1")
        self.count = 0
        self.statuses = set()

    def close(self):
        self.loop.run_until_complete(self.client.aclose())
        self.loop.run_until_complete(self.app.state.memories.close())
        self.loop.close()

    def request(self, *args, **more):
        return self.loop.run_until_complete(self.client.request(*args, **more))

    def real(self, names):
        """The names of a path for something that there is."""
        body = {"content": "用户喜欢喝绿茶", "memory_layer": "profile", "category": "preference"}
        made = self.request("POST", "/memory/user/user123", json=body).json()["id"]
        real = {"memory_type": "user", "entity_id": "user123", "layer": "profile", "memory_id": made}
        if "log_id" in names:
            real["log_id"] = self.request("GET", f"/memory/{made}/logs").json()["logs"][0]["id"]
        return {name: real[name] for name in names}

    def check(self, case):
        self.count += 1
        given = case.as_transport_kwargs(base_url="http://127.0.0.1")
        given.pop("cookies", None)
        if isinstance(given.get("data"), bytes):
            given["content"] = given.pop("data")
        response = self.request(**given)
        self.statuses.add(response.status_code)
        case.validate_response(response, checks=CHECKS)


@pytest.fixture
def asked(settings_of):
    asked = Asked(settings_of("memory://"))
    yield asked
    asked.close()


def run(asked, path, verb, mode, count):
    # What names a memory is asked twice: about nothing, as it was made up, and about one that there is.
    twice = mode is GenerationMode.POSITIVE and bool({"{memory_id}", "{log_id}"} & {*path.split("/")})

    @hypothesis_settings(
        max_examples=count // 2 if twice else count,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(case=SCHEMA[path][verb].as_strategy(generation_mode=mode))
    def every(case):
        asked.check(case)
        if twice:
            case.path_parameters = asked.real(case.path_parameters)
            if "/allow/" in path:
                memory = f"/memory/user/user123/profile/{case.path_parameters['memory_id']}"
                asked.request("DELETE", memory, params={"forever": True})
            asked.check(case)

    every()
    assert asked.count >= count


@pytest.mark.parametrize(("path", "verb"), OPERATIONS)
def test_requests_that_fit(asked, path, verb):
    run(asked, path, verb, GenerationMode.POSITIVE, right(path, verb))
    assert 200 in asked.statuses


@sampled(("path", "verb"), [each for each in OPERATIONS if can_be_wrong(*each.values)], share=2)
def test_requests_that_do_not_fit(asked, path, verb):
    run(asked, path, verb, GenerationMode.NEGATIVE, WRONG)
    assert 422 in asked.statuses


def test_the_document_is_for_people():
    names = [told["operationId"] for verbs in DOCUMENT["paths"].values() for told in verbs.values()]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in names)
    for verbs in DOCUMENT["paths"].values():
        for told in verbs.values():
            assert told["summary"]
            assert told["description"]
            assert next(iter(told["responses"]["200"]["content"].values()))["schema"]
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert not name.startswith("Body_")
        if name in ("NewMemory", "Revision", "Question", "NewEvent", "Undoing"):
            assert schema["examples"]
            assert schema["additionalProperties"] is False
