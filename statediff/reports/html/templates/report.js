"use strict";
/* Convenience only: without it every part of the page can still be opened and read. */
(() => {
  const show = () => {
    if (location.hash.startsWith("#?")) return;
    const at = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!at) return;
    for (let part = at.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    at.scrollIntoView();
  };
  addEventListener("hashchange", show);
  if (location.hash) show();
  const said = document.createElement("span");
  said.className = "skip";
  said.setAttribute("role", "status");
  document.body.append(said);
  document.addEventListener("click", async (event) => {
    const link = event.target.closest?.("a.anchor");
    if (!link || !navigator.clipboard) return;
    try {
      await navigator.clipboard.writeText(link.href);
      said.textContent = "Link copied";
      link.classList.add("copied");
    } catch { /* the address bar has it */ }
  });
  for (const command of document.querySelectorAll("pre.command")) {
    if (!navigator.clipboard) break;
    const copy = document.createElement("button");
    copy.type = "button";
    copy.textContent = "Copy";
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(command.textContent.trim());
      copy.textContent = "Copied";
    });
    command.after(copy);
  }
})();
(() => {
  const tools = document.getElementById("tools");
  const filter = document.getElementById("filter");
  const found = document.getElementById("found");
  if (!tools || !filter || !found) return;
  tools.hidden = false;
  let rows = null;
  let opened = [];
  let waiting = 0;

  const all = (open) => {
    for (const part of document.querySelectorAll("details")) part.open = open;
  };
  /* Where a page has one table of all rows, only these are counted. */
  const main = document.querySelector("[data-rows]");
  const counts = (row) => !main || main.contains(row);
  const apply = () => {
    const wanted = filter.value.trim().toLowerCase();
    rows ??= [...document.querySelectorAll("[data-row]")].map((row) => [row, row.textContent.toLowerCase()]);
    for (const part of opened) part.open = false;
    opened = [];
    let shown = 0;
    for (const [row, text] of rows) {
      const fits = text.includes(wanted) && !("out" in row.dataset);
      row.hidden = !fits;
      if (!fits) continue;
      shown += Number(counts(row));
      if (!wanted || shown > 500) continue;
      for (let part = row.closest("details"); part; part = part.parentElement.closest("details")) {
        if (!part.open) { part.open = true; opened.push(part); }
      }
    }
    const every = rows.filter(([row]) => counts(row)).length;
    found.textContent = shown < every ? `${shown} of ${every} shown` : "";
  };

  filter.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(apply, 120); });
  document.getElementById("expand")?.addEventListener("click", () => all(true));
  document.getElementById("collapse")?.addEventListener("click", () => all(false));
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== filter && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      filter.focus();
    } else if (event.key === "Escape" && document.activeElement === filter) {
      filter.value = "";
      apply();
      filter.blur();
    }
  });
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details.clause")) part.open = true;
  });
})();
