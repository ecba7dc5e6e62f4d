"use strict";
/* Keys only: every one of them stands for a link, a control or a heading that can be reached without. */
(() => {
  const clauses = [...document.querySelectorAll(".clause > summary, .ask")];
  const go = (step) => {
    if (!clauses.length) return;
    const at = clauses.indexOf(document.activeElement);
    const next = clauses[at < 0 ? (step > 0 ? 0 : clauses.length - 1) : (at + step + clauses.length) % clauses.length];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  const form = document.getElementById("sign");
  const show = (element) => {
    for (let part = element?.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    element?.scrollIntoView({ block: "nearest" });
    element?.focus();
  };
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter" && form?.contains(event.target)) {
      event.preventDefault();
      form.requestSubmit();
      return;
    }
    const field = event.target.closest?.("textarea, select, input:not([type=radio]):not([type=checkbox])");
    if (event.key === "Escape" && field) field.blur();
    if (field || event.ctrlKey || event.metaKey || event.altKey) return;
    const control = [...document.querySelectorAll("[data-key]")].find((each) => each.dataset.key === event.key);
    if (control) {
      event.preventDefault();
      if (control instanceof HTMLInputElement) {
        if (control.disabled) return;
        show(control);
        control.checked = true;
      } else control.click();
    } else if (event.key === "n") go(1);
    else if (event.key === "p") go(-1);
    else if (event.key === "l") show(form?.querySelector("input:not([disabled])"));
    else if (event.key === "/") { event.preventDefault(); show(document.getElementById("q")); }
    else if (event.key === "?") { const keys = document.querySelector(".keys"); if (keys) { keys.open = !keys.open; keys.scrollIntoView({ block: "nearest" }); } }
  });
})();
