// The start of the Review page: its initial state, and the clicks on the queue.

import "./keys.js";
import "./changes.js";
import { fetchAhead, open } from "./item.js";
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

// Links in a new tab, and on screens that show only the queue or one handoff, work as ordinary links.
document.addEventListener("click", (event) => {
  takeNote(event.target.closest("[data-take]"));
  const link = event.target.closest(".queue-link");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  if (!matchMedia("(min-width: 44rem)").matches) return;
  event.preventDefault();
  // A link that was pressed with a key moves the focus into the handoff, so that the person need not tab through the
  // rows below.
  open(link, { goesIn: !event.detail });
});

// A link within the handoff also moves the focus to its target, so that screen readers read the target.
pane.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  const place = link && document.getElementById(link.hash.slice(1));
  if (!place) return;
  setTimeout(() => {
    if (place.tabIndex < 0) place.tabIndex = -1;
    place.focus({ preventScroll: true });
  });
});

// `toggle` does not bubble, so the listener captures the event.
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
