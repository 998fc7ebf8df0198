"""Every page and every form of the console, on SQLite and PostgreSQL."""

import csv
import io
import json
import re
import time
from datetime import timedelta
from html import unescape
from urllib.parse import quote

import msgspec
import pytest

from octavo.assemble import assemble
from octavo.config import Vault as VaultSettings
from octavo.config import Vector as VectorSettings
from octavo.events import AgentEvent
from octavo.events.records import to_record
from octavo.kernel.ids import now
from octavo.kernel.model import Add, Query, Record, Scope
from octavo.memory import Memory
from octavo.server.console import memories
from octavo.service.vault import Vault
from octavo.stores import open_store
from octavo.testing.embedding import HashEmbedder
from octavo.wraps.journal import Spool, Waiting
from serving import bring_same_id

KINDS = ("sqlite", "postgres")


@pytest.fixture(params=KINDS)
def url(request, store_url):
    return store_url(request.param)


@pytest.fixture
def browser(url, settings_of, serving, browse):
    return browse(serving(settings_of(url, stop_seconds=1)))


def remembered(browser, text="likes green tea", user="lin", **more):
    """A memory that was made over HTTP; its id."""
    body = {"content": text, "memory_layer": "profile", **more}
    return browser.post(f"/memory/user/{quote(user, safe='')}", json=body).json()["id"]


def test_a_new_memory_is_shown_how_to_begin(browser):
    assert browser.get("/").headers["location"] == "/console"
    assert browser.get("/console/").headers["location"] == "/console"
    assert browser.get("/console/people/").headers["location"] == "/console/people"
    assert browser.get("/console/a b/").headers["location"] == "/console/a%20b"
    first = unescape(browser.page(""))
    assert "Nothing is remembered yet" in first
    assert "from octavo import Memory" in first
    assert '{"mcpServers"' in first


def test_the_overview_counts_and_shows_what_changed(browser):
    remembered(browser, category="preference", reason="she said so")
    remembered(browser, "met Bo", "bo", memory_layer="event", category="meeting")
    while "Users</a>" not in (shown := browser.page("")):  # they are counted behind the page's back
        time.sleep(0.1)
    numbers = dict(re.findall(r"<dt>(?:<a[^>]*>)?([^<]+)(?:</a>)?</dt><dd>([^<]+)</dd>", shown))
    assert (numbers["Users"], numbers["Profile memories"], numbers["Event memories"]) == ("2", "1", "1")
    assert "she said so" in shown
    assert "preference" in shown
    chart = browser.get("/console/activity.svg")
    assert chart.headers["content-type"] == "image/svg+xml"
    assert chart.text.count("<rect") == 30
    while "…" in (chart := browser.get("/console/activity.svg")).text:  # and so are days
        time.sleep(0.1)
    assert len(re.findall(r"<title>\d{4}-\d\d-\d\d: \d+</title>", chart.text)) == 30


def test_people_are_listed_found_and_paged(browser):
    for number in range(53):
        remembered(browser, user=f"user{number:02}")
    remembered(browser, user="mei/1")
    first = browser.page("/people")
    assert first.count('href="/console/people/') == 50
    following = re.search(r'rel="next" href="([^"]+)"', first)[1]
    second = browser.get(unescape(following)).text
    assert "user52" in second
    assert 'rel="next"' not in second
    found = browser.page("/people?name=mei")
    assert re.findall(r'href="/console/people/([^"]+)"', found) == ["mei%2F1"]
    assert "likes green tea" in browser.page("/people/mei%2F1")
    assert "Nobody." in browser.page("/people?name=zzz")


async def test_agents_have_pages_of_their_own(url, browser):
    """What an agent keeps about itself, beside what it did; it is no user, and no user is one."""
    remembered(browser)
    browser.post("/memory/agent/cook%2F1", json={"content": "answers in verse", "memory_layer": "profile"})
    browser.submit(
        "/agents/cook%2F1", "/agents/cook%2F1/memories", content="burnt a cake", memory_layer="event"
    )
    await stored(url, [AgentEvent(agent_name="waiter", session_id="s1", data={"text": "hello"})])
    listed = browser.page("/agents")
    assert re.findall(r'href="/console/agents/([^"]+)"', listed) == ["cook%2F1", "waiter"]
    assert re.findall(r'href="/console/agents/([^"]+)"', browser.page("/agents?name=wa")) == ["waiter"]
    assert "cook" not in browser.page("/people")
    shown = browser.page("/agents/cook%2F1")
    assert "answers in verse" in shown
    assert "burnt a cake" in shown
    assert "likes green tea" not in shown
    assert "/forget" not in shown
    assert "answers in verse" not in browser.page("/people/cook%2F1")
    assert 'href="/console/sessions/s1"' in browser.page("/agents/waiter")
    one = re.search(r'href="/console(/memories/[^"]+)"', shown)[1]
    assert 'href="/console/agents/cook%2F1"' in browser.page(one)
    for page in ("/search?q=verse&agent=cook%2F1", "/context?q=verse&agent=cook%2F1", "/log?agent=cook%2F1"):
        assert "verse" in re.sub(r"<form.*?</form>|<mark>|</mark>", "", browser.page(page), flags=re.DOTALL)
    assert "green tea" not in browser.page("/log?agent=cook%2F1")
    browser.page("/log?agent=cook%2F1&user=lin", 422)


def test_a_memory_is_added_edited_undone_and_rejected(browser):
    """With the forms alone; each change has its reason and is shown word by word."""
    assert browser.submit("/people", "/people", name="lin").headers["location"] == "/console/people/lin"
    added = {
        "content": "likes green tea",
        "memory_layer": "profile",
        "category": "preference",
        "reason": "told",
    }
    browser.submit("/people/lin", "/people/lin/memories", **added)
    person = browser.page("/people/lin")
    one = unescape(re.search(r'href="/console/memories/([^"?]+)', person)[1])
    page = f"/memories/{one}"
    browser.submit(
        page, page, content="likes black tea", category="preference", reason="she changed her mind"
    )
    changed = browser.page(page)
    assert "<del>green</del><ins>black</ins>" in changed
    assert "she changed her mind" in changed
    row = re.search(r'action="/console(/undo/[^"]+)"', changed)[1]
    assert browser.submit(page, row).headers["location"] == f"/console{page}?done=undone"
    assert "likes green tea" in browser.page("/people/lin")
    browser.submit(page, f"{page}/reject", how="reject", reason="wrong")
    gone = browser.page(page)
    assert "It is gone" in gone
    assert "likes green tea" not in browser.page("/people/lin").split("Recent changes")[0]
    browser.post("/memory/user/lin", json={"content": "She likes green tea.", "auto_extract": True})
    assert browser.get("/memory/user/lin/profile").json()["count"] == 0
    row = re.search(r'action="/console(/undo/[^"]+)"', gone)[1]
    browser.submit(page, row)
    assert "It is gone" not in browser.page(page)


async def test_what_several_users_have_under_one_id_is_acted_on_as_theirs(url, browser, tmp_path):
    await bring_same_id(url, tmp_path)
    assert "belongs to user &#39;m0&#39; and user &#39;m1&#39;" in browser.page("/memories/1", 422)
    for user in ("m0", "m1"):
        page = re.search(r'href="/console(/memories/1[^"]+)"', browser.page(f"/people/{user}"))[1]
        shown = browser.page(page)
        assert f"{user} sews" in shown
        reject = re.search(r'action="/console(/memories/1/reject[^"]+)"', shown)[1]
        browser.submit(page, reject, how="remove")
        assert "It is gone" in browser.page(page)
    row = re.search(r'action="/console(/undo/[^"]+)"', browser.page("/memories/1?user=m0"))[1]
    browser.submit("/memories/1?user=m0", row)
    assert browser.get("/memory/user/m0/profile").json()["count"] == 1
    assert browser.get("/memory/user/m1/profile").json()["count"] == 0


def test_what_does_not_fit_is_said_as_a_page(browser):
    remembered(browser)
    token = re.search(r'name="token" value="([^"]+)"', browser.page("/people/lin"))[1]
    told = browser.send_form("/people/lin/memories", 422, token=token, content=" ", memory_layer="profile")
    assert "must say something" in told.text
    told = browser.send_form("/people/lin/memories", 422, token=token, content="x", memory_layer="nothing")
    assert told.headers["content-type"].startswith("text/html")
    assert "page" in browser.page("/nothing", 404)
    assert "memory" in browser.page("/memories/nothing", 404)
    browser.page("/log?after=nothing", 422)
    other = browser.post("/console/log", data={"token": token})
    assert (other.status_code, other.headers["allow"]) == (405, "GET, HEAD")
    assert other.headers["content-type"].startswith("text/html")
    browser.page("/search?q=x&user=lin&as_of=never", 422)


@pytest.mark.parametrize(
    ("form", "page"),
    [
        ("/people/a%2Fb%20计/memories", "/people/a%2Fb%20%E8%AE%A1"),
        ("/memories/x/reject", "/memories/x"),
        ("/access/keys/x/revoke", "/access"),
        ("/undo/x", ""),
    ],
)
def test_the_address_of_a_form_leads_to_the_nearest_page(browser, form, page):
    """It stays in the browser's line after an error, and the link to the other language leads to it."""
    told = browser.get(f"/console{form}")
    assert (told.status_code, told.headers["location"]) == (303, f"/console{page}")


def test_a_memory_shows_the_message_it_was_made_from(url, browser):
    with Memory(url) as memory:
        made = memory.add("I live in Berlin.", user_id="lin", session_id="monday")
    page = browser.page(f"/memories/{made.memories[0].id}")
    assert "I live in Berlin." in page
    assert 'href="/console/sessions/monday"' in page
    place = unescape(re.search(r'href="(/console/sessions/monday\?after=[^"]+)"', page)[1])
    assert "I live in Berlin." in browser.get(place).text
    assert "I live in Berlin." in browser.page("/sessions/monday")
    assert "monday" in browser.page("/people/lin")
    assert "monday" in browser.page("/sessions")
    assert "monday" in browser.page("/sessions?name=mon")
    assert "monday" not in browser.page("/sessions?name=tue")


def test_a_memory_tells_of_its_indexes(url, settings_of, serving, browse):
    """Whether it waits for the index of words, and whether it has a vector, and of which model."""
    plain = browse(serving(settings_of(url)))
    one = remembered(plain, "Her flat is in Berlin")
    assert "It waits to be indexed" in plain.page(f"/memories/{one}")
    assert "There is no model" in plain.page(f"/memories/{one}")
    plain.page("/search?q=flat&user=lin")
    ends = time.monotonic() + 20
    while "It is indexed." not in plain.page(f"/memories/{one}"):
        assert time.monotonic() < ends
        time.sleep(0.1)
    settings = msgspec.structs.replace(
        settings_of(url), vector=VectorSettings(enabled=True, embedder="openai:x", url="memory://")
    )
    browser = browse(serving(settings, assembled=assemble(settings, HashEmbedder())))
    for name in (one, remembered(browser, "Plays the cello")):
        while "It has a vector of <code>hash" not in (shown := browser.page(f"/memories/{name}")):
            assert "It waits for a vector of <code>hash" in shown
            assert time.monotonic() < ends
            time.sleep(0.1)


async def test_what_is_not_indexed_is_told(url, browser, monkeypatch):
    """Right after much was loaded a page does not wait for the index: it says what waits, and shows what is there."""
    remembered(browser, "Her flat is in Berlin")
    monkeypatch.setattr(memories, "_MOST_LATE", 300)
    events = [AgentEvent(session_id="s", user_id="lin", data={"text": f"a flat {n}"}) for n in range(5000)]
    async with open_store(url) as store:
        await store.apply([Add([to_record(event) for event in events])])
    shown = browser.page("/search?q=flat&user=lin")
    assert re.search(r"left out until they are indexed[^<]* events [\d,]{3,}", shown)
    assert "Her <mark>flat</mark> is" in shown
    assert "ask again in a while" in browser.page("/context?q=flat&user=lin")
    ends = time.monotonic() + 120
    while "left out until" in (shown := browser.page("/search?q=flat&user=lin")):
        assert time.monotonic() < ends
        time.sleep(0.2)
    assert "a <mark>flat</mark>" in shown
    assert "Her flat is in Berlin" in browser.page("/context?q=flat&user=lin")


def test_search_says_why(browser):
    one = remembered(browser, "Her flat is in Berlin", category="preference")
    other = remembered(browser, "Plays the cello", category="ability")
    found = browser.page("/search", params={"q": "which flat is hers?", "user": "lin", "why": other})
    assert "<mark>flat</mark>" in found
    assert one in found
    assert "Why not this one?" in found
    assert re.search(r'<rect class="words" width="100.0"', found)
    assert "gather" in found
    absent = browser.page("/search?q=quantum+chromodynamics&user=lin")
    assert "Memory probably holds no answer" in absent
    nobody = browser.page("/search?q=which+flat&user=nobody")
    assert "Memory probably holds no answer." in nobody
    assert "least bad" not in nobody
    past = browser.page("/search?q=flat&user=lin&as_of=2020-01-01")
    assert "Her flat" not in past
    assert "Her <mark>flat</mark>" in browser.page("/search?q=flat&everyone=on")
    assert "Whose memory?" in browser.page("/search?q=flat")
    assert "no record" in browser.page("/search?q=flat&user=lin&why=nothing")


def test_context_shows_what_an_agent_would_get(browser):
    remembered(browser, "Her flat is in Berlin")
    made = browser.page("/context?q=where+is+the+flat&user=lin&tokens=200")
    assert "Her flat is in Berlin" in made
    assert "/ 200 tokens" in made
    assert 'class="profile"' in made


def test_the_log_is_filtered_paged_and_exported(browser):
    one = remembered(browser, "=1+1", reason="a formula")
    remembered(browser, "met Bo", "bo", memory_layer="event")
    browser.delete(f"/memory/user/lin/profile/{one}")
    assert browser.page("/log").count("<tr>") == 4
    assert browser.page("/log?user=lin").count("<tr>") == 3
    assert browser.page("/log?user=lin&action=delete").count("<tr>") == 2
    assert browser.page("/log?layer=event").count("<tr>") == 2
    table = list(csv.DictReader(io.StringIO(browser.page("/log/export?form=csv&user=lin"))))
    assert [row["action"] for row in table] == ["delete", "insert"]
    assert table[1]["after"] == "'=1+1"  # no program for tables takes it for a formula
    lines = [json.loads(line) for line in browser.page("/log/export?form=jsonl").splitlines()]
    assert len(lines) == 3
    for number in range(60):
        remembered(browser, f"fact {number}", "mei")
    first = browser.page("/log?user=mei")
    assert first.count("<tr>") == 51
    assert browser.get(unescape(re.search(r'rel="next" href="([^"]+)"', first)[1])).text.count("<tr>") == 11
    assert len(browser.page("/log/export?form=jsonl&user=mei").splitlines()) == 60


async def test_the_log_of_a_rare_layer_says_that_there_is_more_before(browser, url):
    rare = remembered(browser, user="lin")
    remembered(browser, "met Bo", "lin", memory_layer="event")
    async with open_store(url) as store:
        [row] = await store.find(Query(collection="log", newest_first=True, limit=1))
        later = [row.created_at + timedelta(microseconds=n + 1) for n in range(1100)]
        copies = [
            msgspec.structs.replace(row, id=f"copy_{n}", created_at=at, seq=0) for n, at in enumerate(later)
        ]
        await store.apply([Add(copies)])
    shown = browser.page("/log?layer=profile")
    assert "Nothing here; there is more before." in shown
    assert rare in browser.get(unescape(re.search(r'rel="next" href="([^"]+)"', shown)[1])).text
    assert len(browser.page("/log/export?form=jsonl&layer=profile").splitlines()) == 1


def test_the_log_of_some_days(browser):
    """A day that is named is meant whole; what is exported has the same filter."""
    remembered(browser)
    today = now().date()
    before, after = today - timedelta(days=1), today + timedelta(days=1)
    for found, asked in (
        (1, f"since={today}&until={after}"),  # after midnight, if it comes between
        (1, f"since={before}"),
        (0, f"since={after + timedelta(days=1)}"),
        (0, f"until={before}"),
        (0, "since=9999-12-30&until=9999-12-31"),
        (1, "until=9999-12-31"),
    ):
        shown = browser.page(f"/log?{asked}")
        assert shown.count('class="tag insert"') == found, asked
        assert unescape(re.search(r'href="([^"]+)">CSV', shown)[1]).endswith(asked)
        assert len(browser.page(f"/log/export?form=jsonl&{asked}").splitlines()) == found
    assert "since" in browser.page("/log?since=yesterday", 422)


async def stored(url, events):
    async with open_store(url) as store:
        await store.apply([Add([to_record(event) for event in events])])


async def test_a_session_is_one_timeline(url, browser):
    """Messages and agent events together, newest first; a tool's call and its end are one step."""
    named = {"agent_name": "cook", "session_id": "s1", "user_id": "lin"}
    call = {"metadata": {"tool_call_id": "call_1"}}
    events = [
        AgentEvent(event_type="user_message", data={"text": "hello"}, **named),
        AgentEvent(
            event_type="tool_call_start", data={"tool_name": "oven", "arguments": {"t": 180}}, **named, **call
        ),
        AgentEvent(
            event_type="tool_call_success", data={"tool_name": "oven", "result": "warm"}, **named, **call
        ),
        AgentEvent(event_type="model_response", data={"text": "done"}, **named),
    ]
    await stored(url, events)
    browser.post(
        "/events", json={"session_key": "s1", "payload": {"text": "the door opened"}, "user_id": "lin"}
    )
    shown = browser.page("/sessions/s1")
    assert shown.count("<li id=") == 4
    assert shown.index("the door opened") < shown.index("done") < shown.index("oven(") < shown.index("hello")
    assert re.search(r"oven\(.*?tool_call_success.*?\d\.\d{3} s.*?warm", shown, re.DOTALL)
    assert browser.page("/sessions/s1?show=observations").count("<li id=") == 1
    assert browser.page("/sessions/s1?kind=model_response").count("<li id=") == 1


async def test_a_long_session_is_paged_without_losing_or_repeating(url, browser):
    """Also where many events are of one moment."""
    at = AgentEvent().timestamp
    events = [
        AgentEvent(event_id=f"e{n:03}", session_id="s", timestamp=at, data={"n": n}) for n in range(150)
    ]
    await stored(url, events)
    for number in range(30):
        browser.post("/events", json={"session_key": "s", "payload": {"text": f"o{number}"}})
    seen, path = [], "/console/sessions/s"
    while path:
        shown = browser.get(path).text
        seen += re.findall(r'<li id="([^"]+)"', shown)
        following = re.search(r'rel="next" href="([^"]+)"', shown)
        path = unescape(following[1]) if following else None
    assert len(seen) == len(set(seen)) == 180


async def test_steps_of_one_kind_are_found_a_page_at_a_time(url, browser):
    """However far apart they are: a page looks through some, and the next one goes on there."""
    at = AgentEvent().timestamp
    events = [
        AgentEvent(
            event_id=f"e{n:04}",
            session_id="s",
            event_type="agent_error" if n % 600 == 0 or n < 70 else "custom",
            timestamp=at + timedelta(seconds=n),
            data={"n": n},
        )
        for n in range(2500)
    ]
    await stored(url, events)
    seen, path = [], "/console/sessions/s?kind=agent_error"
    while path:
        shown = browser.get(path).text
        seen += re.findall(r'<li id="events-e(\d+)"', shown)
        following = re.search(r'rel="next" href="([^"]+)"', shown)
        path = unescape(following[1]) if following else None
    assert seen == [f"{n:04}" for n in (2400, 1800, 1200, 600, *reversed(range(70)))]
    empty = browser.page("/sessions/s?kind=agent_init")
    assert "there is more before" in empty


async def test_a_session_can_be_followed(url, browser):
    await stored(url, [AgentEvent(session_id="s", data={"text": "one"})])
    tail = unescape(re.search(r'data-tail="([^"]+)"', browser.page("/sessions/s"))[1])
    assert "event: new" not in browser.get(tail).text  # it is known
    await stored(url, [AgentEvent(session_id="s", data={"text": "two"})])
    told = browser.get(tail)
    assert told.headers["content-type"].startswith("text/event-stream")
    assert "event: new" in told.text


def test_somebody_is_exported_and_forgotten(browser):
    remembered(browser)
    lines = [json.loads(line) for line in browser.page("/people/lin/export").splitlines()]
    assert any(line.get("text") == "likes green tea" for line in lines)
    assert "likes green tea" in browser.page("/people/lin/export?as=page")
    asked = browser.page("/people/lin/forget")
    assert "would be erased" in asked
    assert "profile" in asked
    assert "profile" in browser.page("/people/lin/forget?exact=on")
    browser.submit("/people/lin/forget", "/people/lin/forget", 422, name="bo")
    assert "likes green tea" in browser.page("/people/lin")
    told = browser.submit("/people/lin/forget", "/people/lin/forget", 200, name="lin").text
    name = re.search(r"ers_[0-9a-f]+", told)[0]
    assert "likes green tea" not in browser.page("/people/lin")
    assert name in browser.page("/reliability")


async def test_documents_are_read(url, settings_of, serving, browse, tmp_path):
    """As they read, and with what they said before; a script in one is text."""
    settings = msgspec.structs.replace(
        settings_of(url), vault=VaultSettings(root_path=str(tmp_path / "vault"))
    )
    assert "no vault" in browse(serving(settings)).page("/vault")
    async with open_store(url) as store:
        vault = Vault(tmp_path / "vault", store)
        await vault.put("users/lin", "# Lin\n\nLikes **green** tea.", {"mood": "good"})
        await vault.put("users/lin", "# Lin\n\nLikes **black** tea.\n\n<script>x</script> [a](javascript:x)")
        await vault.close()
    browser = browse(serving(settings))
    assert 'href="/console/vault/users%2Flin"' in browser.page("/vault")
    shown = browser.page("/vault/users%2Flin")
    assert "<h3>Lin</h3>" in shown
    assert "<strong>black</strong>" in shown
    assert "<del>green</del><ins>black</ins>" in shown
    assert "&lt;script&gt;" in shown
    assert 'href="javascript' not in shown
    browser.page("/vault/users%2Fnobody", 404)


async def test_dead_letters_are_retried_or_discarded(url, settings_of, serving, browse, tmp_path):
    """Those of this tenant; those of others are as if there were none."""
    made = [
        Record(collection="messages", id=f"m{n}", text="hello", scope=Scope(tenant=t))
        for n, t in enumerate(["", "", "x"])
    ]
    entries = [Waiting(id=f"q_{n}", ops=[Add([record])]) for n, record in enumerate(made)]
    with Spool(tmp_path / "queue") as spool:
        spool.put(entries)
        spool.head(len(entries))
        spool.bury([each.id for each in entries], "it did not fit")
    browser = browse(serving(settings_of(url)))
    shown = browser.page("/reliability")
    assert "it did not fit" in shown
    assert "q_1" in shown
    assert "q_2" not in shown
    browser.submit("/reliability", "/reliability/letters/q_0", how="retry")
    browser.submit("/reliability", "/reliability/letters/q_1", how="discard")
    browser.submit("/reliability", "/reliability/letters/q_2", 404, how="discard")
    browser.submit("/reliability", "/reliability/replay")
    left = browser.page("/reliability")
    assert "q_0" not in left
    assert "q_1" not in left
    async with open_store(url) as store:
        assert [each.id for each in await store.find(Query(collection="messages"))] == ["m0"]


def test_keys_are_made_shown_once_and_revoked(url, browser):
    made = browser.submit("/access", "/access/keys", 200, name="laptop", access="write", days="30").text
    key = re.search(r"oct_[0-9a-f]{16}_[0-9a-f]{64}", made)[0]
    shown = browser.page("/access")
    assert "laptop" in shown
    assert key not in shown
    name = key.split("_")[1]
    browser.submit("/access", f"/access/keys/{name}/revoke")
    assert "revoked" in browser.page("/access")
    told = browser.submit("/access", "/access/keys", 422, name="x", access="admin", user="lin")
    assert "admin access" in told.text
    if "@" in url:  # the address of a server has a password in it
        assert url.split("//")[1].split("@")[0] not in shown
