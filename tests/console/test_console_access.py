"""Who sees what of the console: signing in, tokens of forms, keys of one user, tenants; and that text stays text."""

import asyncio
import re

import pytest
from browsing import HOSTILE, TOKEN, Browser

from octavo.keys import Keys
from octavo.stores import open_store
from running_server import octavo_serves

PAGES = (
    "",
    "/people",
    "/agents",
    "/search",
    "/context",
    "/sessions",
    "/log",
    "/reliability",
    "/vault",
    "/access",
)


@pytest.fixture
def keyed(store_url, settings_of, serving):
    """A server that needs keys, and where its store is."""
    url = store_url("sqlite")
    return url, serving(settings_of(url, auth="on"))


def test_signing_in_and_out(keyed, browse, new_key):
    url, server = keyed
    key = new_key(url, "admin").key
    browser = browse(server)
    told = browser.get("/console/log?action=insert")
    assert told.status_code == 303
    assert told.headers["location"] == "/console/sign-in?next=%2Fconsole%2Flog%3Faction%3Dinsert"
    assert "unknown, expired or revoked" in browser.sign_in("oct_wrong", 403).text
    form = {"key": key, "next": "/console/log?action=insert"}
    signed = browser.submit("/sign-in", "/sign-in", **form)
    assert signed.headers["location"] == "/console/log?action=insert"
    cookie = signed.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/console" in cookie
    assert key not in cookie
    assert key.split("_")[2] not in cookie
    for page in PAGES:
        browser.page(page)
    assert browser.get("/stats").status_code == 401  # it opens pages, and nothing else
    browser.submit("/log", "/sign-out")
    browser.page("/log", 303)


@pytest.mark.parametrize(
    "elsewhere",
    ["https://evil.example/", "//evil.example", "/console\\evil", "/stats", "/consoles", "console"],
)
def test_after_signing_in_nobody_is_sent_elsewhere(keyed, browse, new_key, elsewhere):
    url, server = keyed
    key = new_key(url, "admin").key
    told = browse(server).submit("/sign-in", "/sign-in", key=key, next=elsewhere)
    assert told.headers["location"] == "/console"
    assert (
        browse(server).get("/console/language", params={"to": "zh", "next": elsewhere}).headers["location"]
        == "/console"
    )


def test_a_revoked_key_is_out_at_once(keyed, browse, new_key):
    """Also when another process has revoked it: the store is asked for each page."""
    url, server = keyed
    made = new_key(url, "read")
    browser = browse(server)
    browser.sign_in(made.key)
    browser.page("/search")

    async def revoke():
        async with open_store(url) as store:
            await Keys(store).revoke(made.info.id)

    asyncio.run(revoke())
    browser.page("/search", 303)


def test_a_cookie_cannot_be_made_or_changed(keyed, browse, new_key):
    url, server = keyed
    reader, admin = new_key(url, "read"), new_key(url, "admin")
    browser = browse(server)
    browser.sign_in(reader.key)
    good = browser.cookies["octavo_console"]
    name, until, signature = good.split(".")
    for bad in (
        f"{admin.info.id}.{until}.{signature}",
        f"{name}.{int(until) + 1}.{signature}",
        f"{name}.{until}.",
        f"{name}..{signature}",
        "..",
        "",
        good[:-1] + ("0" if good[-1] != "0" else "1"),
    ):
        told = browser.get("/console/search", headers={"cookie": f"octavo_console={bad}"})
        assert told.status_code == 303, bad


def test_a_form_without_its_token_is_refused(keyed, browse, new_key):
    """One of another browser is as good as none, and so is one of another key."""
    url, server = keyed
    one, other = browse(server), browse(server)
    one.sign_in(new_key(url, "admin").key)
    other.sign_in(new_key(url, "admin").key)
    theirs = TOKEN.search(other.page("/people"))[1]
    form = {"content": "likes tea", "memory_layer": "profile"}
    for token in ({}, {"token": ""}, {"token": theirs}, {"token": "0" * 32}):
        told = one.send_form("/people/lin/memories", 403, **form, **token)
        assert "not sent from a page of this console" in told.text
    assert "likes tea" not in one.page("/people/lin")
    told = one.post("/console/people/lin/memories", json=form)
    assert told.status_code == 415


def test_a_reader_is_offered_no_form_and_can_send_none(keyed, browse, new_key):
    url, server = keyed
    admin, reader = browse(server), browse(server)
    admin.sign_in(new_key(url, "admin").key)
    admin.submit("/people/lin", "/people/lin/memories", content="likes tea", memory_layer="profile")
    reader.sign_in(new_key(url, "read").key)
    person = reader.page("/people/lin")
    assert "likes tea" in person
    assert re.findall(r'<form[^>]*method="post" action="([^"]+)"', person) == ["/console/sign-out"]
    assert "/console/access" not in person
    token = TOKEN.search(person)[1]
    told = reader.send_form("/people/lin/memories", 403, token=token, content="x", memory_layer="profile")
    assert "needs a key with write access" in told.text


def test_the_key_of_a_user_opens_that_user_alone(keyed, browse, new_key):
    url, server = keyed
    admin, own = browse(server), browse(server)
    admin.sign_in(new_key(url, "admin").key)
    for name in ("lin", "bo"):
        admin.submit(
            f"/people/{name}", f"/people/{name}/memories", content=f"{name} likes tea", memory_layer="profile"
        )
    theirs = re.search(r'href="/console(/memories/[^"?]+)', admin.page("/people/bo"))[1]
    assert own.sign_in(new_key(url, "write", user="lin").key).headers["location"] == "/console/people/lin"
    assert "lin likes tea" in own.page("/people/lin")
    assert own.get("/console/people").headers["location"] == "/console/people/lin"
    for page in (
        "",
        "/reliability",
        "/vault",
        "/access",
        "/people/bo",
        "/people/lin/forget",
        "/agents",
        "/agents/cook",
        "/log?agent=cook",
        "/activity.svg",
    ):
        assert "bo likes" not in own.page(page, 403)
    own.page(theirs, 404)
    for page in (
        "/log",
        "/search?q=tea",
        "/search?q=tea&user=lin",
        "/context?q=tea",
        "/sessions",
        "/log/export",
    ):
        assert "bo likes" not in own.page(page)
    for page in ("/log?user=bo", "/search?q=tea&user=bo", "/search?q=tea&everyone=on"):
        own.page(page, 403)
    row = re.search(r'action="/console(/undo/[^"]+)"', admin.page(theirs))[1]
    own.submit("/people/lin", row, 404)
    own.submit("/people/lin", theirs, 404, content="x", reason="y")
    own.submit("/people/lin", "/people/bo/memories", 403, content="x", memory_layer="profile")
    own.submit("/people/lin", "/people/lin/memories", content="plays go", memory_layer="profile")


def test_tenants_never_mix(keyed, browse, new_key):
    url, server = keyed
    ours, theirs = browse(server), browse(server)
    ours.sign_in(new_key(url, "admin", "ours").key)
    spare = new_key(url, "read", "ours").info.id
    ours.submit("/people/lin", "/people/lin/memories", content="likes tea", memory_layer="profile")
    one = re.search(r'href="/console(/memories/[^"?]+)', ours.page("/people/lin"))[1]
    ours.submit("/people/bo/forget", "/people/bo/forget", 200, name="bo")
    theirs.sign_in(new_key(url, "admin", "theirs").key)
    for page in (
        *PAGES,
        "/people/lin",
        "/search?q=tea&everyone=on",
        "/context?q=tea&user=lin",
        "/log/export",
    ):
        shown = theirs.page(page)
        assert "likes tea" not in shown
        assert not re.search("ers_[0-9a-f]{8}", shown)
        assert spare not in shown
    theirs.page(one, 404)
    theirs.submit("/access", f"/access/keys/{spare}/revoke", 404)
    assert spare in ours.page("/access")


def test_headers_allow_nothing_from_elsewhere(store_url, settings_of, serving, browse):
    browser = browse(serving(settings_of(store_url("sqlite"))))
    for page in (*PAGES, "/nothing", "/people/lin"):
        told = browser.get(f"/console{page}")
        policy = told.headers["content-security-policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy
        assert told.headers["x-frame-options"] == "DENY"
        assert told.headers["cache-control"] == "no-store"
        assert not re.search(r'(src|href|action)="(?!/console)', told.text.replace('href="#main"', "")), page


@pytest.mark.parametrize(
    ("asked", "title"),
    [
        ("zh-CN,zh;q=0.9,en;q=0.5", "用户"),
        ("en-GB", "People"),
        ("fr, zh;q=0.2, en;q=0.1", "用户"),
        ("", "People"),
    ],
)
def test_the_language_is_the_browsers(store_url, settings_of, serving, browse, asked, title):
    browser = browse(serving(settings_of(store_url("sqlite"))), asked)
    assert f"<h1>{title}</h1>" in browser.page("/people")
    other = {"用户": "en", "People": "zh"}[title]
    told = browser.get("/console/language", params={"to": other, "next": "/console/people?name=x"})
    assert told.headers["location"] == "/console/people?name=x"
    assert f"<h1>{title}</h1>" not in browser.page("/people")


def test_what_goes_wrong_is_said_in_chinese_too(keyed, browse, new_key):
    url, server = keyed
    browser, reader, own = (browse(server, "zh") for _ in range(3))
    browser.sign_in(new_key(url, "admin").key)
    reader.sign_in(new_key(url, "read").key)
    own.sign_in(new_key(url, "write", user="lin").key)
    told = [
        browser.page("/memories/nothing", 404),
        browser.page("/nothing", 404),
        browser.page("/log?since=yesterday", 422),
        browser.page("/log?user=a&agent=b", 422),
        browser.send_form("/people/lin/memories", 403, content="x").text,
        browser.submit("/people/lin/forget", "/people/lin/forget", 422, name="bo").text,
        browser.submit("/people/lin", "/people/lin/memories", 422, content=" ", memory_layer="profile").text,
        reader.page("/access", 403),
        own.page("/people/bo", 403),
        own.page("/agents", 403),
        browser.post("/console/people/lin/memories", json={}).text,
        browser.put("/console/people/lin/memories").text,
    ]
    for shown in told:
        title, detail = re.search(r"<h1>(.*?)</h1>\s*<p>(.*?)</p>", shown, re.DOTALL).groups()
        assert re.fullmatch(r"[\u4e00-\u9fff]+", title)
        assert re.search(r"[\u4e00-\u9fff]{2}", detail), detail
        assert not re.search(r"\b(the|this|there|must|with|not)\b", detail), detail


def test_text_is_shown_as_text(store_url, settings_of, serving, browse):
    """Whatever it holds: marks of HTML, what turns a line around or steers a terminal, and a line of a megabyte."""
    browser = browse(serving(settings_of(store_url("sqlite"))))
    hostile = {
        "content": HOSTILE,
        "memory_layer": "profile",
        "reason": HOSTILE,
        "metadata": {"<script>": HOSTILE},
    }
    one = browser.post("/memory/user/%3Cscript%3E", json=hostile).json()["id"]
    browser.post("/memory/agent/%3Cscript%3E", json=hostile)
    long = {"content": "x" * 1_000_000, "memory_layer": "event", "category": "other"}
    other = browser.post("/memory/user/%3Cscript%3E", json=long).json()["id"]
    browser.post(
        "/events", json={"session_key": HOSTILE, "payload": {"text": HOSTILE}, "obs_type": "<script>"}
    )
    session = "%3Cscript%3Ealert(1)%3C%2Fscript%3E%20%E2%80%AEgnp.exe%20%1B%5B31mred%1B%5B0m%20%3Cb%20onmouseover%3Dx%3E"
    user = "%3Cscript%3E"
    paths = [
        *PAGES, f"/people/{user}", f"/agents/{user}", f"/memories/{one}", f"/memories/{other}", f"/sessions/{session}", "/log",
        f"/search?q={user}+x&user={user}", f"/context?q=%3Cscript%3E&user={user}", f"/people/{user}/forget", f"/{user}", f"/people?name={user}", f"/agents?name={user}", f"/log?user={user}",
    ]  # fmt: skip
    for page in paths:
        told = browser.get(f"/console{page}")
        assert told.status_code in (200, 404)
        assert "<script>" not in told.text, page
        assert "<b on" not in told.text, page
        shown = re.sub(
            r"<textarea.*?</textarea>", "", told.text, flags=re.DOTALL
        )  # which is to be sent back as it is
        assert not {"\u202e", "\u200b", "\ufeff"} & set(shown), page
        assert "\x1b" not in shown, page
        assert len(told.content) < 200_000, page
    assert "&lt;script&gt;alert(1)" in browser.page(f"/memories/{one}")
    assert "\\u202e" in browser.page(f"/memories/{one}")
    assert "(+980,000)" in browser.page(f"/memories/{other}")


def test_any_worker_answers(store_url, tmp_path, new_key):
    """A sign-in and a form are good with each of them."""
    url = store_url("sqlite")
    key = new_key(url, "admin").key
    with (
        octavo_serves(url, tmp_path, "--workers", "2", env={"OCTAVO__SERVER__AUTH": "on"}) as served,
        Browser(base_url=served, timeout=30, trust_env=False, headers={"connection": "close"}) as browser,
    ):
        browser.sign_in(key)
        for number in range(10):
            form = {"content": f"fact {number}", "memory_layer": "profile"}
            browser.submit("/people/lin", "/people/lin/memories", **form)
        assert all(f"fact {number}" in browser.page("/people/lin") for number in range(10))


def test_it_can_be_left_out(store_url, settings_of, serving):
    with serving(settings_of(store_url("sqlite"), console=False)).client() as client:
        for path in ("/", "/console", "/console/people", "/console/static/console.css"):
            assert client.get(path).status_code == 404
        assert client.get("/stats").status_code == 200
