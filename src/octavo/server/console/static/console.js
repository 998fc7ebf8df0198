// The pages work without this: it copies a block, and keeps a session's timeline up to date.
"use strict";

for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.querySelector(button.dataset.copy).textContent);
    button.textContent = button.dataset.done;
  });
}

const timeline = document.querySelector("[data-tail]");
if (timeline) {
  const source = new EventSource(timeline.dataset.tail);
  source.addEventListener("new", async () => {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.querySelector("[data-tail]");
    if (fresh) timeline.replaceChildren(...fresh.childNodes);
  });
}
