// The queue: what is clicked, what others do meanwhile, and the state that the page begins in.

import "./keys.js";
import { fetchAhead, open } from "./opening.js";
import {
  arm,
  current,
  following,
  form,
  isFree,
  keepNote,
  links,
  pane,
  restoreNote,
  reveal,
  review,
  rowsList,
  takeNote,
} from "./page.js";
import { isTaken } from "./sending.js";

// In a new tab, or on a screen that shows one at a time, the link is a link.
document.addEventListener("click", (event) => {
  takeNote(event.target.closest("[data-take]"));
  const link = event.target.closest(".queue-link");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  if (!matchMedia("(min-width: 44rem)").matches) return;
  event.preventDefault();
  open(link);
});

// It does not bubble.
document.addEventListener(
  "toggle",
  (event) => {
    if (event.target.id === "pass") arm(event.target.open ? "pass" : form().querySelector("[data-act]")?.dataset.act);
  },
  true,
);
pane.addEventListener("input", keepNote);
addEventListener("pagehide", keepNote);

// Others at work: what they decided goes grey, what came is offered and moves nothing.
document.addEventListener("live:changed", () => {
  const now = document.getElementById("queue-now");
  if (!now?.dataset.rows) return;
  const there = new Map(now.dataset.rows.trim().split(" ").map((each) => each.split(":")));
  const rows = [...review.querySelectorAll(".queue-row")];
  if (now.dataset.last) {
    for (const each of rows) each.classList.toggle("queue-row--gone", !there.has(each.dataset.row));
  }
  const known = new Set(rows.map((each) => each.dataset.row));
  const fresh = [...there.keys()].filter((pk) => pk && !known.has(pk) && !isTaken(pk)).length;
  const news = document.getElementById("queue-news");
  if (!news || !rowsList) return;
  news.hidden = !fresh || Boolean(rowsList.querySelector(".queue-more"));
  news.querySelector("span").textContent = `${fresh} more wait${fresh === 1 ? "s" : ""}.`;
});

reveal(document);
restoreNote();
arm(form()?.dataset.armed);
current()?.scrollIntoView({ block: "nearest" });
const first = current() ? following(current()) : links().find(isFree);
if (first) fetchAhead(first);
