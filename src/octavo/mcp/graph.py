"""A knowledge graph, and the nine tools of the official MCP memory server over it, under their names and with their answers.

Each entity and each relation is a record. A change names what it expects to find and is tried again when somebody else was
quicker, so that two processes lose nothing of each other's.
"""

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Annotated, TypeVar

import msgspec
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult
from pydantic import BaseModel, ConfigDict, Field
from pydantic.dataclasses import dataclass
from pydantic_core import to_json, to_jsonable_python

from octavo.errors import Conflict, NotFound, StoreUnavailable
from octavo.kernel.codec import is_name
from octavo.kernel.model import Add, Change, Op, Query, Record, Remove, Scope, exact_scope
from octavo.kernel.pages import walk
from octavo.kernel.ports import Store, write_ops
from octavo.mcp import CALLER
from octavo.mcp.answers import result
from octavo.mcp.server import ADDS, DESTROYS, READS, tool

NODES, EDGES = "graph_nodes", "graph_edges"
_TRIES = 200
_PAUSE_SECONDS = 0.02
T = TypeVar("T")


@dataclass(config=ConfigDict(populate_by_name=True))
class Entity:
    """Somebody or something."""

    name: Annotated[str, Field(description="The name of the entity")]
    entityType: Annotated[str, Field(description="The type of the entity")]  # noqa: N815 - their spelling
    observations: Annotated[list[str], Field(description="What was observed of it")]


@dataclass(config=ConfigDict(populate_by_name=True))
class Relation:
    """How one entity stands to another; neither need be known."""

    from_: Annotated[str, Field(alias="from", description="The name of the entity where the relation starts")]
    to: Annotated[str, Field(description="The name of the entity where the relation ends")]
    relationType: Annotated[str, Field(description="The type of the relation, in active voice")]  # noqa: N815


@dataclass
class KnowledgeGraph:
    """Entities and relations, each in the order in which they were made."""

    entities: list[Entity]
    relations: list[Relation]


class Graph:
    """The graph of one scope in a store, which stays open."""

    def __init__(self, store: Store, scope: Scope) -> None:
        self._store = store
        self._scope = exact_scope(scope)

    # --- reading

    async def read(self) -> KnowledgeGraph:
        """All of it."""
        nodes, edges = await asyncio.gather(self._all(NODES), self._all(EDGES))
        return KnowledgeGraph([*map(_entity, nodes)], [*map(_relation, edges)])

    async def search(self, query: str) -> KnowledgeGraph:
        """The entities whose name, type or observations hold these characters, whatever their case, and their relations."""
        needle = query.lower()

        def holds(entity: Entity) -> bool:
            texts = (entity.name, entity.entityType, *entity.observations)
            return any(needle in text.lower() for text in texts)

        graph = await self.read()
        return _neighbourhood(graph.relations, [entity for entity in graph.entities if holds(entity)])

    async def open(self, names: Sequence[str]) -> KnowledgeGraph:
        """The entities of these names, and their relations."""
        found = await self._nodes(names)
        entities = [_entity(record) for record in found.values()]
        edges = await self._all(EDGES) if entities else []
        return _neighbourhood([*map(_relation, edges)], entities)

    # --- writing

    async def create_entities(self, entities: Sequence[Entity]) -> list[Entity]:
        """Keep those whose names are new; answer which those were."""
        return await self._add(NODES, [(_key(each.name), each) for each in entities], _node)

    async def create_relations(self, relations: Sequence[Relation]) -> list[Relation]:
        """Keep those that are new; answer which those were."""
        return await self._add(EDGES, [(_edge_key(each), each) for each in relations], _edge)

    async def add_observations(self, additions: Sequence[tuple[str, Sequence[str]]]) -> list[list[str]]:
        """Add what was not observed yet to each of these entities; answer what that was. NotFound if one is not there."""

        async def attempt() -> tuple[list[Op], list[list[str]]]:
            found = await self._nodes([name for name, _ in additions])
            known = {name: _entity(record).observations[:] for name, record in found.items()}
            added: list[list[str]] = []
            for name, contents in additions:
                if name not in known:
                    raise NotFound(f"Entity with name {name} not found")
                new = [text for text in contents if text not in known[name]]
                known[name] += new
                added.append(new)
            return self._changes(found, known), added

        return await self._try(attempt)

    async def delete_observations(self, deletions: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Take these observations from these entities; what is not there is left alone."""

        async def attempt() -> tuple[list[Op], None]:
            found = await self._nodes([name for name, _ in deletions])
            known = {name: _entity(record).observations for name, record in found.items()}
            for name, gone in deletions:
                if name in known:
                    known[name] = [text for text in known[name] if text not in gone]
            return self._changes(found, known), None

        await self._try(attempt)

    async def delete_entities(self, names: Sequence[str]) -> None:
        """Remove these entities with all their relations."""
        keys = tuple(dict.fromkeys(map(_key, names)))
        if not keys:
            return
        gone = set(names)
        edges = [
            record.id
            for record in await self._all(EDGES)
            if record.data["from"] in gone or record.data["to"] in gone
        ]
        more = [Remove(self._query(EDGES, edges))] if edges else []
        await self._write([Remove(self._query(NODES, keys)), *more])

    async def delete_relations(self, relations: Sequence[Relation]) -> None:
        """Remove these relations."""
        if relations:
            await self._write([Remove(self._query(EDGES, map(_edge_key, relations)))])

    # --- how it is kept

    def _query(self, collection: str, ids: Iterable[str] | None = None) -> Query:
        named = None if ids is None else tuple(dict.fromkeys(ids))
        return Query(collection=collection, ids=named, scope=self._scope)

    async def _all(self, collection: str) -> list[Record]:
        return [record async for page in walk(self._store, self._query(collection)) for record in page]

    async def _nodes(self, names: Sequence[str]) -> dict[str, Record]:
        """The records of the entities that are there, by name, in the order in which they were made."""
        found = await self._store.find(self._query(NODES, map(_key, names))) if names else []
        return {_entity(record).name: record for record in found}

    async def _add(
        self, collection: str, keyed: Sequence[tuple[str, T]], record_of: Callable[[str, T, Scope], Record]
    ) -> list[T]:
        wanted: dict[str, T] = {}
        for key, each in keyed:  # the first of several with one name, as if they had come one by one
            wanted.setdefault(key, each)

        async def attempt() -> tuple[list[Op], list[T]]:
            found = await self._store.find(self._query(collection, wanted)) if wanted else []
            known = {record.id for record in found}
            new = {key: each for key, each in wanted.items() if key not in known}
            records = [record_of(key, each, self._scope) for key, each in new.items()]
            return [Add(records, expect=len(records))] if records else [], list(new.values())

        return await self._try(attempt)

    def _changes(self, found: dict[str, Record], known: dict[str, list[str]]) -> list[Op]:
        """What makes the entities have these observations, if nobody has changed them since they were read."""
        changes: list[Op] = []
        for name, record in found.items():
            if known[name] != record.data["observations"]:
                version = record.metadata["version"]
                query = msgspec.structs.replace(self._query(NODES, [record.id]), where={"version": version})
                merge = {"observations": known[name]}
                changes.append(Change(query=query, merge=merge, metadata={"version": version + 1}, expect=1))
        return changes

    async def _try(self, attempt: Callable[[], Awaitable[tuple[list[Op], T]]]) -> T:
        """Apply what `attempt` makes of what is there now, as often as others come before it."""
        for tried in range(_TRIES):
            ops, answer = await attempt()
            try:
                await self._write(ops)
            except Conflict:
                await asyncio.sleep(random.random() * _PAUSE_SECONDS * (tried > 0))  # noqa: S311 - to be out of step
            else:
                return answer
        raise Conflict(f"others changed the graph {_TRIES} times while this change was tried; try again")

    async def _write(self, ops: list[Op]) -> None:
        # What would wait on disk could meet another graph than the one it was made for.
        if ops and not (await write_ops(self._store, ops, queue=False)).stored:
            raise StoreUnavailable("the store is down, and the graph is as it was; try again later")


def _neighbourhood(relations: list[Relation], entities: list[Entity]) -> KnowledgeGraph:
    """These entities, and the relations that begin or end at one of them."""
    names = {entity.name for entity in entities}
    return KnowledgeGraph(entities, [each for each in relations if each.from_ in names or each.to in names])


def _key(*parts: str) -> str:
    """A name of any length as an id."""
    spelled = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.blake2b(spelled.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _edge_key(edge: Relation) -> str:
    return _key(edge.from_, edge.to, edge.relationType)


def _kind(word: str) -> str:
    """What records are counted by, where that can be a kind."""
    return word if is_name(word) else ""


def _node(key: str, entity: Entity, scope: Scope) -> Record:
    return Record(
        collection=NODES,
        id=key,
        kind=_kind(entity.entityType),
        scope=scope,
        text=entity.name,
        data={"entity_type": entity.entityType, "observations": entity.observations},
        metadata={"version": 1},
    )


def _entity(record: Record) -> Entity:
    return Entity(record.text, record.data["entity_type"], list(record.data["observations"]))


def _edge(key: str, edge: Relation, scope: Scope) -> Record:
    data = {"from": edge.from_, "to": edge.to, "relation_type": edge.relationType}
    return Record(collection=EDGES, id=key, kind=_kind(edge.relationType), scope=scope, data=data)


def _relation(record: Record) -> Relation:
    return Relation(record.data["from"], record.data["to"], record.data["relation_type"])


# --- the tools


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
