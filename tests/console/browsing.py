"""A browser without a browser, and a text that no page may let through as anything but text."""

import re

import httpx

#: What no page may let through as anything but text.
HOSTILE = "<script>alert(1)</script> \u200b\ufeff\u202egnp.exe \x1b[31mred\x1b[0m <b onmouseover=x>"
TOKEN = re.compile(r'name="token" value="([0-9a-f]{32})"')


class Browser(httpx.Client):
    """A client that keeps cookies and sends forms as a browser does, with the token of the page before."""

    def page(self, path, status=200, **more):
        """The text of a page."""
        told = self.get(f"/console{path}", **more)
        assert told.status_code == status, (path, told.status_code, told.text[:2000])
        return told.text

    def submit(self, page, path, status=303, **form):
        """Send a form that stands on a page."""
        token = TOKEN.search(self.page(page))[1]
        return self.send_form(path, status, token=token, **form)

    def send_form(self, path, status=303, **form):
        told = self.post(f"/console{path}", data=form)
        assert told.status_code == status, (path, told.status_code, told.text[:2000])
        return told

    def sign_in(self, key, status=303):
        """Sign in with an API key."""
        return self.submit("/sign-in", "/sign-in", status, key=key)
