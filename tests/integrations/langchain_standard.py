"""LangChain's own tests for retrievers and tools, run by its pytest in the frameworks' environment."""

import pytest
from langchain_tests.integration_tests import RetrieversIntegrationTests, ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from octavo import Memory
from octavo.integrations.langchain import OctavoRetriever, memory_tools

MEMORY = Memory("memory://")
for number in range(5):
    MEMORY.add(f"My tea number {number} is green.", user_id="lin")


@pytest.fixture(scope="session", autouse=True)
def closed():
    yield
    MEMORY.close()


class TestRetriever(RetrieversIntegrationTests):
    retriever_constructor = OctavoRetriever
    retriever_constructor_params = {"memory": MEMORY, "user_id": "lin"}  # noqa: RUF012
    retriever_query_example = "green tea"


class TestSearch(ToolsUnitTests):
    tool_constructor = memory_tools(MEMORY, user_id="lin")[0]
    tool_invoke_params_example = {"query": "green tea"}  # noqa: RUF012


class TestSearchCalled(ToolsIntegrationTests):
    tool_constructor = memory_tools(MEMORY, user_id="lin")[0]
    tool_invoke_params_example = {"query": "green tea"}  # noqa: RUF012


class TestRemember(ToolsUnitTests):
    tool_constructor = memory_tools(MEMORY, user_id="ann")[1]
    tool_invoke_params_example = {"text": "Ann likes tea."}  # noqa: RUF012


class TestRememberCalled(ToolsIntegrationTests):
    tool_constructor = memory_tools(MEMORY, user_id="ann")[1]
    tool_invoke_params_example = {"text": "Ann likes tea."}  # noqa: RUF012
