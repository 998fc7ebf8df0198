"""Nothing in the documentation is left out: every page with code on it is run by a test, every link leads somewhere."""

import re

import pytest
from pages import ROOT, blocks, targets

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *(ROOT / "examples").glob("*.md"), *(ROOT / "docs").rglob("*.md"))
)
#: Which tests run the blocks of a page. A page with code and without a line here fails below.
RUN_BY = {
    "README.md": "docs/test_readme.py",
    "README.zh-CN.md": "docs/test_readme.py",
    "docs/adk.md": "integrations/test_adk.py",
    "docs/agent-framework.md": "integrations/test_agent_framework.py",
    "docs/agent.md": "agent/test_agent_page.py",
    "docs/agentscope.md": "integrations/test_agentscope.py",
    "docs/anthropic.md": "integrations/test_anthropic.py",
    "docs/architecture.md": "docs/test_architecture_page.py",
    "docs/backup-and-restore.md": "docs/test_howto_pages.py",
    "docs/behind-a-proxy.md": "server/test_server_page.py docs/test_proxy_page.py clusters/test_servers_behind_haproxy.py",
    "docs/chat-compression.md": "chat/test_compress_page.py",
    "docs/chat.md": "chat/test_chat_page.py",
    "docs/client.md": "docs/test_client_page.py",
    "docs/clusters.md": "docs/test_clusters_page.py",
    "docs/commands.md": "cli/test_commands_page.py",
    "docs/configuration.md": "config/test_configuration_page.py",
    "docs/console.md": "console/test_console_page.py",
    "docs/conversation-memories.md": "conversation/test_entities_page.py",
    "docs/conversation.md": "conversation/test_conversation_page.py",
    "docs/custom-store.md": "docs/test_custom_store_page.py",
    "docs/embedders.md": "models/test_embedders_page.py",
    "docs/extraction.md": "layers/rules/test_extraction_page.py layers/asking/test_model_extraction.py",
    "docs/event-stores/file.md": "docs/test_event_pages.py",
    "docs/event-stores/memory.md": "docs/test_event_pages.py",
    "docs/event-stores/mysql.md": "docs/test_event_pages.py",
    "docs/event-stores/postgresql.md": "docs/test_event_pages.py",
    "docs/event-stores/redis.md": "docs/test_event_pages.py",
    "docs/event-stores/sqlite.md": "docs/test_event_pages.py",
    "docs/events.md": "docs/test_event_pages.py",
    "docs/erasing.md": "docs/test_erasing_page.py",
    "docs/zh/erasing.md": "docs/test_erasing_page.py",
    "docs/front-door.md": "docs/test_front_door_page.py",
    "docs/import.md": "importers/test_import_page.py",
    "docs/keys.md": "docs/test_keys_page.py",
    "docs/langchain.md": "integrations/test_langchain.py",
    "docs/langgraph.md": "integrations/test_langgraph.py",
    "docs/layers.md": "layers/test_layers_page.py",
    "docs/llama-index.md": "integrations/test_llama_index.py",
    "docs/mcp.md": "docs/test_mcp_page.py",
    "docs/measuring-recall.md": "cli/test_bench_recall.py",
    "docs/mem0.md": "mem0/test_mem0_page.py",
    "docs/moving-data.md": "cli/test_moving_data_page.py",
    "docs/openai-agents.md": "integrations/test_openai_agents.py",
    "docs/operating.md": "deploy/test_operating_page.py",
    "docs/pydantic-ai.md": "integrations/test_pydantic_ai.py",
    "docs/queue.md": "cli/test_queue_page.py",
    "docs/quickstart.md": "docs/test_quickstart_page.py",
    "docs/reindex.md": "cli/test_reindex.py",
    "docs/search.md": "search/test_search_page.py",
    "docs/server.md": "server/test_server_page.py",
    "docs/service.md": "service/test_service_page.py",
    "docs/sqlite-to-postgresql.md": "docs/test_howto_pages.py",
    "docs/upgrading.md": "docs/test_howto_pages.py",
    "docs/vault.md": "vault/test_vault_page.py",
    "docs/vectors.md": "vectors/test_vectors_page.py",
    "docs/watching.md": "docs/test_watching_page.py",
    "docs/when-the-database-is-down.md": "docs/test_howto_pages.py",
    "docs/with-memory.md": "docs/test_with_memory_page.py",
    "docs/zh/chat.md": "chat/test_chat_page.py",
    "docs/zh/front-door.md": "docs/test_front_door_page.py",
    "docs/zh/layers.md": "layers/test_layers_page.py",
    "docs/zh/quickstart.md": "docs/test_quickstart_page.py",
    "docs/zh/server.md": "server/test_server_page.py",
    "docs/zh/service.md": "service/test_service_page.py",
}
#: A picture, or what a program says when it goes wrong: nothing to run.
PICTURES = {"text", "mermaid"}
CODE = {
    "python",
    "output",
    "console",
    "bash",
    "sh",
    "json",
    "yaml",
    "toml",
    "sql",
    "ini",
    "nginx",
    "caddyfile",
    "haproxy",
}
#: A picture of a folder, from before pictures had a name.
UNNAMED = {"docs/vault.md": 1}


def test_there_are_pages():
    assert len(PAGES) > 45


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run(page):
    """A page with code is in the table; a block is code or a picture, and says which."""
    kinds = [block.kind for block in blocks(ROOT / page)]
    assert set(kinds) <= PICTURES | CODE | ({""} if page in UNNAMED else set())
    assert kinds.count("") == UNNAMED.get(page, 0)
    if set(kinds) & CODE:
        assert page in RUN_BY, f"no test runs {page}: write one, and name it in RUN_BY"
    else:
        assert page not in RUN_BY, f"{page} has nothing to run"


@pytest.mark.parametrize("page", PAGES)
def test_no_merge_is_unfinished(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert not re.search(r"^(<<<<<<<|>>>>>>>) ", text, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_output_stands_under_what_prints_it(page):
    before = ""
    for block in blocks(ROOT / page):
        assert block.kind != "output" or before == "python", f"{page}, line {block.line}"
        before = block.kind


@pytest.mark.parametrize(
    ("page", "test"), [(page, test) for page, tests in RUN_BY.items() for test in tests.split()]
)
def test_the_test_is_about_the_page(page, test):
    """It exists, and names the page, or its folder."""
    told = (ROOT / "tests" / test).read_text(encoding="utf-8")
    name = page.rpartition("/")[2]
    assert name in told or f'"{page.split("/")[-2]}"' in told


@pytest.mark.parametrize("page", PAGES)
def test_every_link(page):
    """Each file linked to is there, and each heading of it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    folder = (ROOT / page).parent
    assert [target for target in targets(ROOT / page) if not (folder / target).exists()] == []
    for target, heading in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", text):
        if "://" not in target:
            assert heading in headings(folder / target if target else ROOT / page), f"{target}#{heading}"


def test_every_page_is_on_the_map():
    """docs/README.md leads to every page, itself, single decisions and single modules apart."""
    known = {(ROOT / "docs" / target).resolve() for target in targets(ROOT / "docs" / "README.md")}
    away = [
        page
        for page in PAGES
        if page.startswith("docs/")
        and (ROOT / page).resolve() not in known
        and not page.startswith("docs/decisions/")
        and not page.startswith("docs/reference/python/octavo")  # its README is made with them
        and page != "docs/README.md"
    ]
    assert away == []


def headings(page):
    """The anchors GitHub makes of a page's headings."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_every_decision_is_listed():
    folder = ROOT / "docs" / "decisions"
    listed = targets(folder / "README.md")
    assert listed == sorted(path.name for path in folder.glob("0*.md"))
