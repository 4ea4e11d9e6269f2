// The queue: what is clicked, and the state that the page begins in.

import "./keys.js";
import "./watching.js";
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
  takeNote,
} from "./page.js";

// In a new tab, or on a screen that shows one at a time, the link is a link.
document.addEventListener("click", (event) => {
  takeNote(event.target.closest("[data-take]"));
  const link = event.target.closest(".queue-link");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  if (!matchMedia("(min-width: 44rem)").matches) return;
  event.preventDefault();
  // Pressed with a key: whoever opens one so goes on in it, and not through all the rows below.
  open(link, { goesIn: !event.detail });
});

// Where a link leads within what is open, there the focus is, too, so that the place is spoken.
pane.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  const place = link && document.getElementById(link.hash.slice(1));
  if (!place) return;
  setTimeout(() => {
    if (place.tabIndex < 0) place.tabIndex = -1;
    place.focus({ preventScroll: true });
  });
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

restoreNote();
arm(form()?.dataset.armed);
current()?.scrollIntoView({ block: "nearest" });
const first = current() ? following(current()) : links().find(isFree);
if (first) fetchAhead(first);
