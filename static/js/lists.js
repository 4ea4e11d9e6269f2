// Filters of lists: sent once, by keys too. `/` goes to the search, `f` to the filters, `j` and `k` from row to row.
"use strict";

(() => {
  const FIELDS = "input, select, textarea, [contenteditable]";
  const sent = new WeakMap();

  // Enter in a field that was changed is a change and a submit, one right after the other: the same filters, sent once.
  document.addEventListener("htmx:confirm", (event) => {
    const form = event.detail.elt;
    if (!(form instanceof HTMLFormElement) || form.method !== "get") return;
    const query = new URLSearchParams(new FormData(form)).toString();
    const before = sent.get(form);
    const now = performance.now();
    if (before && before.query === query && now - before.at < 1000) event.preventDefault();
    else sent.set(form, { query, at: now });
  });

  // A period and a first day say the same thing: the one chosen last counts.
  document.addEventListener(
    "change",
    (event) => {
      const other = { since: "from", from: "since" }[event.target.name];
      const field = other && event.target.form?.elements[other];
      if (field && event.target.value) field.value = "";
    },
    { capture: true },
  );

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.defaultPrevented) return;
    if (event.target.closest?.(FIELDS) || document.querySelector("dialog[open]")) return;
    if (event.key === "j" || event.key === "k") {
      const rows = [...document.querySelectorAll("[data-row]")];
      const at = rows.indexOf(document.activeElement);
      const next = rows[event.key === "j" ? at + 1 : Math.max(at - 1, 0)];
      if (next) {
        event.preventDefault();
        next.focus();
      }
      return;
    }
    const places = { "/": "[data-key='/']", f: "form.filters, form.trace-filters" };
    const place = places[event.key] && document.querySelector(places[event.key]);
    if (!place) return;
    event.preventDefault();
    const folded = place.closest("details:not([open])");
    if (folded) folded.open = true;
    const field = place.matches(FIELDS) ? place : place.querySelector("input:not([type=hidden]), select");
    field.focus();
    field.select?.();
  });
})();
