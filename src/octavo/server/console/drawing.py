"""What pages draw: changes word by word, terms that were found, Markdown, and charts, all of it as escaped text."""

import difflib
import re
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

_WORDS = re.compile(r"[A-Za-z0-9_']+|\s+|.", re.DOTALL)
_MOST_WORDS = 600  # of each text that are compared: the time grows with their square
_LINK = re.compile(r"\[([^\]\n]{1,200})\]\((https?://[^\s)&]{1,500}|#[\w-]{1,100})\)")
_INLINE = (
    (re.compile(r"`([^`\n]+)`"), "code"),
    (re.compile(r"\*\*([^*\n]+)\*\*"), "strong"),
    (re.compile(r"(?<![*\w])\*([^*\s][^*\n]*)\*"), "em"),
)


def word_diff(before: str, after: str) -> list[tuple[str, str]]:
    """How one text became the other: pieces that stayed (""), went ("del") or came ("ins"), in order."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if max(len(old), len(new)) > _MOST_WORDS:
        return [("del", before), ("ins", after)]
    pieces: list[tuple[str, str]] = []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            pieces.append(("", "".join(old[i:j])))
            continue
        pieces += [("del", "".join(old[i:j]))] if j > i else []
        pieces += [("ins", "".join(new[k:m]))] if m > k else []
    return pieces


def mark_terms(text: str, terms: Sequence[str]) -> Markup:
    """The text with the terms in it marked, a word as a whole when it begins with one."""
    known = sorted({term for term in terms if term}, key=len, reverse=True)
    if not known:
        return escape(text)
    found = re.compile("|".join(_spelling(term) for term in known), re.IGNORECASE)
    made, last = [], 0
    for match in found.finditer(text):
        made += [escape(text[last : match.start()]), Markup("<mark>{}</mark>").format(match[0])]
        last = match.end()
    return Markup("").join([*made, escape(text[last:])])


def _spelling(term: str) -> str:
    return rf"\b{re.escape(term)}[a-z]*" if term.isascii() and term.isalnum() else re.escape(term)


def render_markdown(text: str) -> Markup:
    """Headings, lists, quotes, code and emphasis of a document; anything else in it is text, and no link runs anything."""
    made: list[str] = []
    open_list = fenced = False
    paragraph: list[str] = []

    def flush() -> None:
        if paragraph:
            made.append(f"<p>{_render_inline(' '.join(paragraph))}</p>")
            paragraph.clear()

    for line in text.split("\n"):
        if line.startswith("```"):
            flush()
            made.append("</code></pre>" if fenced else "<pre><code>")
            fenced = not fenced
            continue
        if fenced:
            made.append(f"{escape(line)}\n")
            continue
        item = re.match(r"\s*(?:[-*+]|\d+\.)\s+(.*)", line)
        if open_list and not item:
            made.append("</ul>")
            open_list = False
        if heading := re.match(r"(#{1,4})\s+(.*)", line):
            flush()
            level = len(heading[1]) + 2  # the page's own come first
            made.append(f"<h{level}>{_render_inline(heading[2])}</h{level}>")
        elif item:
            flush()
            made += [] if open_list else ["<ul>"]
            open_list = True
            made.append(f"<li>{_render_inline(item[1])}</li>")
        elif line.startswith(">"):
            flush()
            made.append(f"<blockquote>{_render_inline(line[1:].strip())}</blockquote>")
        elif line.strip():
            paragraph.append(line.strip())
        else:
            flush()
    flush()
    made += ["</ul>"] if open_list else []
    made += ["</code></pre>"] if fenced else []
    return Markup("".join(made))  # noqa: S704 - every piece was escaped by itself


def _render_inline(text: str) -> str:
    said = str(escape(text))
    for pattern, tag in _INLINE:
        said = pattern.sub(rf"<{tag}>\1</{tag}>", said)
    return _LINK.sub(r'<a href="\2" rel="noreferrer noopener">\1</a>', said)


def shares(parts: Iterable[tuple[str, float]], width: float = 100.0) -> list[tuple[str, float, float, float]]:
    """Parts of a whole side by side: name, amount, where each begins and how wide it is."""
    listed = list(parts)
    total = sum(amount for _, amount in listed) or 1.0
    drawn, start = [], 0.0
    for name, amount in listed:
        wide = amount / total * width
        drawn.append((name, amount, round(start, 2), round(wide, 2)))
        start += wide
    return drawn
