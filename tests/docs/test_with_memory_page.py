"""docs/with-memory.md: its programs run as they are printed, against a server on loopback."""

from pages import ROOT, reader

from openai_endpoint import openai_endpoint


def test_the_page(tmp_path):
    with openai_endpoint() as server, reader(tmp_path) as somebody:
        somebody.env |= {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}
        server.script += ["Noted.", "A Thai curry with rice. I leave the peanuts out."]
        somebody.read(ROOT / "docs" / "with-memory.md")
        assert somebody.ran.count("python") == 3
        told = server.requests[1]["instructions"]
        assert "Berlin" in told
        assert "peanuts" in told
