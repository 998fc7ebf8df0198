"""The nine tools of the official MCP memory server, under its names and with its answers, over a graph in the store."""

from typing import Annotated

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json, to_jsonable_python

from octavo.mcp import CALLER
from octavo.mcp.answers import result
from octavo.mcp.graph import Entity, Graph, KnowledgeGraph, Relation
from octavo.mcp.server import ADDS, DESTROYS, READS, tool


class _GraphPart(BaseModel):
    """As the official server's schemas are: other fields are let pass, and not kept."""

    model_config = ConfigDict(populate_by_name=True, strict=True)


class Addition(_GraphPart):
    """What was observed of an entity."""

    entityName: str = Field(description="The name of the entity")  # noqa: N815
    contents: list[str] = Field(description="The observations to add")


class Deletion(_GraphPart):
    """What is no longer observed of an entity."""

    entityName: str = Field(description="The name of the entity")  # noqa: N815
    observations: list[str] = Field(description="The observations to delete")


class Added(_GraphPart):
    """Which observations were new."""

    entityName: str  # noqa: N815
    addedObservations: list[str]  # noqa: N815


class Entities(BaseModel):
    """Those that were made."""

    entities: list[Entity]


class Relations(BaseModel):
    """Those that were made."""

    relations: list[Relation]


class Results(BaseModel):
    """What was added to each entity."""

    results: list[Added]


class Done(BaseModel):
    """That it was done."""

    success: bool
    message: str


def graph_tools() -> list[Tool]:
    """The tools, in the order of the official server."""

    async def create_entities(entities: list[Entity]) -> Annotated[CallToolResult, Entities]:
        """Create multiple new entities in the knowledge graph; a name that is there already is left as it is."""
        made = await _graph().create_entities(entities)
        return _answer({"entities": made}, made)

    async def create_relations(relations: list[Relation]) -> Annotated[CallToolResult, Relations]:
        """Create multiple new relations between entities in the knowledge graph. Relations should be in active voice."""
        made = await _graph().create_relations(relations)
        return _answer({"relations": made}, made)

    async def add_observations(observations: list[Addition]) -> Annotated[CallToolResult, Results]:
        """Add new observations to existing entities in the knowledge graph."""
        added = await _graph().add_observations([(each.entityName, each.contents) for each in observations])
        told = [
            {"entityName": each.entityName, "addedObservations": new}
            for each, new in zip(observations, added, strict=True)
        ]
        return _answer({"results": told}, told)

    async def delete_entities(
        entityNames: Annotated[list[str], Field(description="The names of the entities to delete")],  # noqa: N803
    ) -> Annotated[CallToolResult, Done]:
        """Delete multiple entities and their associated relations from the knowledge graph."""
        await _graph().delete_entities(entityNames)
        return _confirm("Entities")

    async def delete_observations(deletions: list[Deletion]) -> Annotated[CallToolResult, Done]:
        """Delete specific observations from entities in the knowledge graph."""
        await _graph().delete_observations([(each.entityName, each.observations) for each in deletions])
        return _confirm("Observations")

    async def delete_relations(relations: list[Relation]) -> Annotated[CallToolResult, Done]:
        """Delete multiple relations from the knowledge graph."""
        await _graph().delete_relations(relations)
        return _confirm("Relations")

    async def read_graph() -> Annotated[CallToolResult, KnowledgeGraph]:
        """Read the entire knowledge graph."""
        return _answer(found := await _graph().read(), found)

    async def search_nodes(
        query: Annotated[
            str, Field(description="What to look for in names, types and observations of entities")
        ],
    ) -> Annotated[CallToolResult, KnowledgeGraph]:
        """Search for nodes in the knowledge graph; their relations come with them."""
        return _answer(found := await _graph().search(query), found)

    async def open_nodes(
        names: Annotated[list[str], Field(description="The names of the entities to read")],
    ) -> Annotated[CallToolResult, KnowledgeGraph]:
        """Open specific nodes in the knowledge graph by their names; their relations come with them."""
        return _answer(found := await _graph().open(names), found)

    return [
        tool(create_entities, "Create Entities", ADDS),
        tool(create_relations, "Create Relations", ADDS),
        tool(add_observations, "Add Observations", ADDS),
        tool(delete_entities, "Delete Entities", DESTROYS),
        tool(delete_observations, "Delete Observations", DESTROYS),
        tool(delete_relations, "Delete Relations", DESTROYS),
        tool(read_graph, "Read Graph", READS),
        tool(search_nodes, "Search Nodes", READS),
        tool(open_nodes, "Open Nodes", READS),
    ]


def _graph() -> Graph:
    caller = CALLER.get()
    return Graph(caller.memory.store, caller.scope)


def _answer(structured: object, shown: object) -> CallToolResult:
    """The official server's answer: the value, and its JSON as text."""
    text = to_json(shown, by_alias=True, indent=2).decode()
    made = result(Done(success=True, message=""), text)
    return made.model_copy(update={"structured_content": to_jsonable_python(structured, by_alias=True)})


def _confirm(what: str) -> CallToolResult:
    message = f"{what} deleted successfully"
    return result(Done(success=True, message=message), message)
