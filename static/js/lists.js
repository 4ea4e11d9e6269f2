// Filters of lists: each filter is sent once. Keys: `/` goes to the search, `f` to the filters, `j` and `k` from row to
// row, and `x` selects the row.
"use strict";

(() => {
  const ROW = "tr, .group, .log-row";
  const FIELDS = "input:not([type=checkbox]), select, textarea, [contenteditable]";
  const sent = new WeakMap();

  // Enter in a changed field triggers a change and a submit right after each other, so the second request is stopped.
  document.addEventListener("htmx:confirm", (event) => {
    const form = event.detail.elt;
    if (!(form instanceof HTMLFormElement) || form.method !== "get") return;
    const query = new URLSearchParams(new FormData(form)).toString();
    const before = sent.get(form);
    const now = performance.now();
    if (before && before.query === query && now - before.at < 1000) event.preventDefault();
    else sent.set(form, { query, at: now });
  });

  // A period and a first day are alternatives: choosing one of them clears the other.
  document.addEventListener(
    "change",
    (event) => {
      const other = { since: "from", from: "since" }[event.target.name];
      const field = other && event.target.form?.elements[other];
      if (field && event.target.value) field.value = "";
    },
    { capture: true },
  );

  const boxes = () => [...document.querySelectorAll(".row-select")];

  // A live update may have changed the row. The form sends the version that the row showed when it was selected.
  function keepVersion(box) {
    const shown = box.closest(ROW)?.querySelector("[data-version]");
    if (box.checked && shown) box.value = `${box.value.split(":")[0]}:${shown.dataset.version}`;
  }

  function select(box, isSelected) {
    if (box.checked === isSelected) return;
    box.checked = isSelected;
    keepVersion(box);
  }

  // With Shift, a click changes all rows from the last clicked row to this row.
  let picked = null;
  document.addEventListener("click", (event) => {
    const box = event.target.closest(".row-select");
    if (!box) return;
    const all = boxes();
    const ends = [all.indexOf(picked?.isConnected ? picked : box), all.indexOf(box)].sort((a, b) => a - b);
    if (event.shiftKey) for (const each of all.slice(ends[0], ends[1] + 1)) select(each, box.checked);
    picked = box;
  });

  document.addEventListener("change", (event) => {
    const { target } = event;
    if (target.matches("[data-select-all]")) for (const box of boxes()) select(box, target.checked);
    if (target.matches(".row-select")) keepVersion(target);
    if (!target.matches(".row-select, [data-select-all]")) return;
    const number = boxes().filter((box) => box.checked).length;
    const told = document.getElementById("live-told");
    if (told) told.textContent = `${number} selected`;
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.defaultPrevented) return;
    if (event.target.closest?.(FIELDS) || document.querySelector("dialog[open]")) return;
    if (event.key === "j" || event.key === "k") {
      const rows = [...document.querySelectorAll("[data-row]")];
      const active = document.activeElement;
      const at = rows.indexOf(active.matches(".row-select") ? active.closest(ROW).querySelector("[data-row]") : active);
      const next = rows[event.key === "j" ? at + 1 : Math.max(at - 1, 0)];
      if (next) {
        event.preventDefault();
        next.focus();
      }
      return;
    }
    if (event.key === "x") {
      const box = event.target.closest?.(ROW)?.querySelector(".row-select");
      if (box) {
        event.preventDefault();
        box.click();
      }
      return;
    }
    const places = { "/": "[data-key='/']", f: "form.filters" };
    const place = places[event.key] && document.querySelector(places[event.key]);
    if (!place) return;
    event.preventDefault();
    const field = place.matches(FIELDS) ? place : place.querySelector("input:not([type=hidden]), select");
    let folded;
    while ((folded = field.closest("details:not([open])"))) folded.open = true;
    field.focus();
    field.select?.();
  });
})();
