"""What a real browser makes of the console: run in an environment with Playwright, it prints what it saw as JSON.

Usage: browser_run.py CHROMIUM OPEN_URL KEYED_URL KEY MEMORY_ID FOLDER SHARE

Of the pages it checks one in SHARE for barriers; with more than 1, forms are not sent without programs too.
"""

import json
import sys
from pathlib import Path
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

CHROMIUM, OPEN, KEYED, KEY, MEMORY, FOLDER, SHARE = sys.argv[1:]
HOSTILE = "%3Cscript%3E"
PAGES = {
    "overview": "",
    "people": "/people",
    "person": "/people/lin",
    "agents": "/agents",
    "agent": "/agents/%3Cb%3Ecook",
    "memory": f"/memories/{MEMORY}",
    "search": "/search?q=where+does+she+live%3F&user=lin",
    "context": "/context?q=what+should+I+cook+for+her%3F&user=lin&session=monday&tokens=300",
    "log": "/log",
    "sessions": "/sessions",
    "session": "/sessions/kitchen",
    "reliability": "/reliability",
    "vault": "/vault",
    "document": "/vault/users%2Flin",
    "access": "/access",
    "forget": "/people/lin/forget",
    "hostile person": f"/people/{HOSTILE}",
    "hostile session": f"/sessions/{HOSTILE}",
    "hostile search": f"/search?q=alert&user={HOSTILE}",
    "hostile context": f"/context?q=alert&user={HOSTILE}",
}
SHOTS = ("overview", "person", "memory", "search", "context", "session")
WATCH = "window.refused = []; addEventListener('securitypolicyviolation', e => refused.push(e.violatedDirective));"
seen = {"hosts": set(), "wrong": [], "axe": {}, "bytes": {}, "refused": []}


def watched(browser, **more):
    """A browser of its own, of which every request and everything that went wrong is noted."""
    context = browser.new_context(viewport={"width": 1100, "height": 760}, **more)
    context.add_init_script(WATCH)
    page = context.new_page()
    page.on("request", lambda request: seen["hosts"].add(urlsplit(request.url).hostname))
    page.on("pageerror", lambda error: seen["wrong"].append(str(error)))
    page.on("dialog", lambda dialog: (seen["wrong"].append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on(
        "console", lambda said: said.type == "error" and seen["wrong"].append(f"{said.text} at {page.url}")
    )
    return page


def look(page, where, name, *, checked):
    """A page in light and in dark, what a checker of accessibility has to say about it, and a picture of it."""
    page.goto(f"{OPEN}/console{where}")
    for scheme in ("light", "dark") if checked else ("light",):
        page.emulate_media(color_scheme=scheme)
        if checked:
            # The scheme changes colours alone: for the second one, only they are looked at.
            rules = None if scheme == "light" else {"runOnly": ["color-contrast"]}
            found = Axe().run(page, options=rules).response["violations"]
            seen["axe"][f"{name} {scheme}"] = [
                f"{each['id']}: {each['nodes'][0]['html'][:160]}"
                for each in found
                if each["impact"] in ("serious", "critical")
            ]
        seen[f"background {scheme}"] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        if name in SHOTS and scheme == "light":
            page.set_viewport_size({"width": 1100, "height": 820 if name == "memory" else 740})
            page.screenshot(path=str(Path(FOLDER) / f"console-{name}.png"))
    seen["refused"] += page.evaluate("window.refused")


def pages(browser):
    page = watched(browser, locale="en-GB")
    for number, (name, where) in enumerate(PAGES.items()):
        look(page, where, name, checked=number % int(SHARE) == 0)
    page.context.close()
    page = watched(browser, locale="zh-CN")
    page.goto(f"{OPEN}/console/people")
    seen["chinese"] = [page.locator("html").get_attribute("lang"), page.locator("h1").inner_text()]
    page.get_by_role("link", name="English").click()
    seen["switched"] = [page.locator("html").get_attribute("lang"), page.locator("h1").inner_text()]
    page.goto(f"{OPEN}/console/search")
    tops = "[...document.querySelectorAll('form.line label:not(.check)')].map(e => e.getBoundingClientRect().top)"
    seen["lines of labels"] = len(set(page.evaluate(tops)))
    page.context.close()


def forms(page):
    """Every form, sent as a person would."""
    told = []
    page.goto(f"{OPEN}/console/people")
    page.locator("form[method=post] input[name=name]").fill("bo")
    page.get_by_role("button", name="Open").click()
    page.locator("textarea[name=content]").fill("Bo plays the cello")
    page.get_by_role("button", name="Add", exact=True).click()
    told.append(page.get_by_role("status").inner_text())
    page.get_by_role("link", name="Bo plays the cello").first.click()
    page.locator("textarea[name=content]").fill("Bo plays the violin")
    page.locator("form input[name=reason]").first.fill("she said so")
    page.get_by_role("button", name="Save").click()
    told.append(page.get_by_role("status").inner_text())
    told.append([page.locator("del").first.inner_text(), page.locator("ins").first.inner_text()])
    page.get_by_role("button", name="Undo").click()
    told.append(page.get_by_role("status").inner_text())
    page.get_by_role("button", name="Reject").click()
    told.append(page.get_by_role("status").inner_text())
    page.goto(f"{OPEN}/console/people/bo/forget")
    page.locator("input[name=name]").fill("bo")
    page.get_by_role("button", name="Erase for good").click()
    told.append("Certificate" in page.locator("main").inner_text())
    page.goto(f"{OPEN}/console/access")
    page.locator("form input[name=name]").fill("laptop")
    page.get_by_role("button", name="Make a key").click()
    told.append(page.locator("#made").inner_text()[:4])
    page.get_by_role("button", name="Revoke").first.click()
    told.append(page.get_by_role("status").inner_text())
    page.goto(f"{OPEN}/console/reliability")
    page.get_by_role("button", name="Retry").first.click()
    told.append(page.get_by_role("status").inner_text())
    page.get_by_role("button", name="Discard").first.click()
    told.append(page.get_by_role("status").inner_text())
    page.get_by_role("button", name="Try now").click()
    told.append(page.get_by_role("status").inner_text())
    return told


def keyboard(browser):
    """Sign in, find somebody and sign out with the keyboard alone."""
    page = watched(browser, locale="en-GB")
    page.goto(f"{KEYED}/console/people")
    told = [urlsplit(page.url).path]
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "key":
            break
    page.keyboard.type(KEY)
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/people")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # to the content
    told.append(page.evaluate("document.activeElement.id"))
    page.goto(f"{KEYED}/console/search")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.innerText") == "Sign out":
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/sign-in")
    page.goto(f"{KEYED}/console/people")
    told.append(urlsplit(page.url).path)
    told.append(page.context.cookies()[0]["httpOnly"])
    page.context.close()
    return told


def live(browser):
    """A session's page shows what comes while it is open; the block of a context can be copied."""
    page = watched(browser, locale="en-GB", permissions=["clipboard-read", "clipboard-write"])
    page.goto(f"{OPEN}/console/sessions/live")
    before = page.locator(".timeline > li").count()
    event = {"session_key": "live", "payload": {"text": "<b>the door opened</b>"}}
    page.request.post(f"{OPEN}/events", data=event)
    page.get_by_text("the door opened").wait_for(timeout=15_000)
    page.goto(f"{OPEN}/console{PAGES['context']}")
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    page.context.close()
    return [before, copied.startswith("```memory")]


def main():
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        pages(browser)
        page = watched(browser, locale="en-GB")
        seen["forms"] = forms(page)
        page.context.close()
        if SHARE == "1":
            page = watched(browser, locale="en-GB", java_script_enabled=False)
            seen["forms without programs"] = forms(page)
            page.context.close()
        seen["keyboard"] = keyboard(browser)
        seen["live"] = live(browser)
        browser.close()
    print(json.dumps({**seen, "hosts": sorted(seen["hosts"])}))


main()
