// Opens the handoffs of a range of a chart. People drag over the bars, or press Shift and the arrow keys, and then
// Enter. Each bar links to the handoffs of its own part of the period, with `since` and `until`.
"use strict";

(() => {
  const LEAST = 6;
  let from = null;
  let wasDragged = false;
  let anchor = null;
  let reach = null;

  const columnsOf = (part) => [...part.closest("svg").querySelectorAll("a.column")];

  function chosenOf(svg) {
    return [...svg.querySelectorAll("a.is-brushed")];
  }

  function choose(columns, chosen) {
    for (const each of columns) each.classList.toggle("is-brushed", chosen.includes(each));
  }

  function addressOf(chosen) {
    const url = new URL(chosen[0].getAttribute("href"), location.href);
    const last = new URL(chosen.at(-1).getAttribute("href"), location.href);
    url.searchParams.set("until", last.searchParams.get("until"));
    return url.href;
  }

  function say(words) {
    const told = document.getElementById("live-told");
    if (told) told.textContent = words;
  }

  document.addEventListener("pointerdown", (event) => {
    const svg = event.target.closest("[data-brush] svg");
    wasDragged = false;
    if (!svg || event.button || event.pointerType === "touch" || event.target.closest(".chart-mark")) return;
    from = { svg, x: event.clientX };
  });

  document.addEventListener("pointermove", (event) => {
    if (!from || Math.abs(event.clientX - from.x) < LEAST) return;
    wasDragged = true;
    const [left, right] = [from.x, event.clientX].sort((a, b) => a - b);
    const columns = [...from.svg.querySelectorAll("a.column")];
    choose(
      columns,
      columns.filter((each) => {
        const box = each.getBoundingClientRect();
        return box.right > left && box.left < right;
      }),
    );
  });

  document.addEventListener("pointerup", () => {
    const chosen = from && wasDragged ? chosenOf(from.svg) : [];
    from = null;
    if (chosen.length) location.assign(addressOf(chosen));
  });

  document.addEventListener("pointercancel", () => {
    if (from) choose([...from.svg.querySelectorAll("a.column")], []);
    from = null;
  });

  // After a drag, the browser sends a click to the bar below the pointer, which must not open that bar.
  document.addEventListener(
    "click",
    (event) => {
      if (!wasDragged || !event.detail || !event.target.closest("[data-brush] svg")) return;
      wasDragged = false;
      event.preventDefault();
    },
    true,
  );

  document.addEventListener("dragstart", (event) => {
    if (event.target.closest?.("[data-brush] svg")) event.preventDefault();
  });

  document.addEventListener("keydown", (event) => {
    const column = event.target.closest?.("[data-brush] a.column");
    if (!column || event.ctrlKey || event.metaKey || event.altKey) return;
    const columns = columnsOf(column);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      event.preventDefault();
      const next = columns[columns.indexOf(column) + step];
      if (!next) return;
      if (event.shiftKey) {
        anchor ??= column;
        reach = next;
        const ends = [columns.indexOf(anchor), columns.indexOf(reach)].sort((a, b) => a - b);
        const chosen = columns.slice(ends[0], ends[1] + 1);
        choose(columns, chosen);
        say(`${chosen.length} bars chosen: Enter shows their handoffs.`);
      } else {
        anchor = reach = null;
        choose(columns, []);
      }
      next.focus();
    } else if (event.key === "Escape") {
      anchor = reach = null;
      choose(columns, []);
    } else if (event.key === "Enter" && chosenOf(column.closest("svg")).length > 1) {
      event.preventDefault();
      location.assign(addressOf(chosenOf(column.closest("svg"))));
    }
  });
})();
