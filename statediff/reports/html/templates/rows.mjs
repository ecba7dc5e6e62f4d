/* Sorting and choosing the rows of a table. The choice is in the address, after `#?`, so that a link
   leads to what one sees. Without it every row is there. */
const tools = document.getElementById("tools");
const filter = document.getElementById("filter");
for (const table of document.querySelectorAll("table[data-rows]")) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  const names = heads.map((head) => head.textContent.trim());
  const keys = names.map((name) => name.toLowerCase());
  const textAt = (row, at) => row.cells[at].dataset.key ?? row.cells[at].textContent.trim();
  const chosen = new Map();
  const selects = new Map();
  let sorted = "";

  const value = (row, at) => {
    const cell = row.cells[at];
    if (!("value" in cell.dataset)) return cell.textContent.trim();
    return cell.dataset.value === "" ? null : Number(cell.dataset.value);
  };
  const compare = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number") return a - b;
    return a.localeCompare(b, "en", { numeric: true });
  };
  const show = () => {
    const at = keys.indexOf(sorted.replace(/^-/, ""));
    const down = sorted.startsWith("-");
    const order = [...rows];
    if (at >= 0) {
      const found = new Map(rows.map((row) => [row, value(row, at)]));
      order.sort((a, b) => {
        const [x, y] = [found.get(a), found.get(b)];
        // What is not known is last, whichever way round.
        return x === null || y === null || !down ? compare(x, y) : compare(y, x);
      });
    }
    body.append(...order);
    heads.forEach((head, i) => {
      if (i === at) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    for (const row of rows) {
      const fits = [...chosen].every(([i, wanted]) => !wanted || textAt(row, i) === wanted);
      if (fits) delete row.dataset.out;
      else row.dataset.out = "";
    }
    filter?.dispatchEvent(new Event("input"));
  };
  const keep = () => {
    const state = new URLSearchParams();
    for (const [i, wanted] of chosen) if (wanted) state.set(keys[i], wanted);
    if (sorted) state.set("sort", sorted);
    if (filter?.value) state.set("q", filter.value);
    const text = state.toString();
    history.replaceState(null, "", text ? `#?${text}` : "#");
  };
  const restore = () => {
    if (location.hash && !location.hash.startsWith("#?")) return;
    const state = new URLSearchParams(location.hash.slice(2));
    for (const [i, select] of selects) {
      const wanted = state.get(keys[i]) ?? "";
      const known = [...select.options].some((option) => option.value === wanted);
      select.value = known ? wanted : "";
      chosen.set(i, select.value);
    }
    sorted = state.get("sort") ?? "";
    if (filter) filter.value = state.get("q") ?? "";
    show();
  };

  heads.forEach((head, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = names[at];
    button.addEventListener("click", () => {
      sorted = sorted === keys[at] ? `-${keys[at]}` : keys[at];
      show();
      keep();
    });
    head.replaceChildren(button);
    if (!("choose" in head.dataset) || !tools) return;
    const options = [...new Set(rows.map((row) => textAt(row, at)))].sort(compare);
    if (options.length < 2) return;
    const select = document.createElement("select");
    select.setAttribute("aria-label", names[at]);
    select.append(new Option(`${names[at]}: all`, ""), ...options.map((each) => new Option(each, each)));
    select.addEventListener("change", () => {
      chosen.set(at, select.value);
      show();
      keep();
    });
    selects.set(at, select);
    tools.insertBefore(select, document.getElementById("found"));
  });
  filter?.addEventListener("input", (event) => { if (event.isTrusted) keep(); });
  addEventListener("hashchange", restore);
  restore();
}
