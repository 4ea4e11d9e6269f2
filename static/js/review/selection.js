// Selects rows, to decide several handoffs at once.

import { current, isGone, review, rowOf, several } from "./page.js";

let lastPicked = null;

const boxes = () => [...review.querySelectorAll(".queue-select")];
const boxOfCurrent = () => rowOf(current())?.querySelector(".queue-select");

export const selected = () => boxes().filter((box) => box.checked);

function count() {
  const number = selected().length;
  const told = several?.querySelector("[data-number]");
  if (told) told.textContent = number ? `${number} selected` : "";
}

// Select or clear all rows from the last picked row to this row.
function reach(box, isPicked) {
  const all = boxes();
  const ends = [all.indexOf(lastPicked?.isConnected ? lastPicked : box), all.indexOf(box)].sort((a, b) => a - b);
  for (const each of all.slice(ends[0], ends[1] + 1)) each.checked = isPicked;
}

export function pick() {
  const box = boxOfCurrent();
  if (!box) return;
  box.checked = !box.checked;
  lastPicked = box;
  count();
}

export function pickRange() {
  const box = boxOfCurrent();
  if (!box) return;
  reach(box, true);
  lastPicked = box;
  count();
}

export function pickAll(isPicked) {
  for (const box of boxes()) box.checked = isPicked && !isGone(rowOf(box));
  count();
}

review.addEventListener("change", (event) => {
  if (!event.target.matches(".queue-select")) return;
  lastPicked = event.target;
  count();
});

review.addEventListener("click", (event) => {
  const box = event.target.closest(".queue-select");
  if (box && event.shiftKey) reach(box, box.checked);
});
