// Messages above the queue: the last change, and why a key did nothing.

import { linkTo, parsed } from "./page.js";

const told = document.getElementById("told");
const not = document.getElementById("not-done");

// Replace the content of each element that the answer contains, such as the notice and the counts, by its id.
export function tell(html) {
  for (const fresh of parsed(html)) {
    const old = document.getElementById(fresh.id);
    if (!old) continue;
    if (fresh.hasAttribute("role")) old.setAttribute("role", fresh.getAttribute("role"));
    if (fresh.dataset.liveSeen) old.dataset.liveSeen = fresh.dataset.liveSeen;
    old.hidden = fresh.hidden;
    old.replaceChildren(...fresh.childNodes);
  }
}

export function complain(pk, what) {
  const link = linkTo(pk);
  const box = document.createElement("div");
  const line = document.createElement("p");
  box.className = "note note--error told";
  line.textContent = what;
  if (link) {
    const back = document.createElement("a");
    back.href = link.href;
    back.textContent = " Open it again";
    line.append(back);
  }
  box.append(line);
  told.setAttribute("role", "alert");
  told.replaceChildren(box);
}

// Show why a key did nothing, beside the notice about the last change, which can still be undone. The next key removes
// the message.
export function tellNot(why) {
  const box = document.createElement("p");
  box.className = "note told";
  box.textContent = why;
  not.replaceChildren(box);
}

export const tellNotYet = (key) => tellNot(`The next handoff was not shown yet, so ${key} did nothing. Press ${key} again.`);

export const takeBackNot = () => not.replaceChildren();

export const isTold = (html) => html.includes('id="told"');
export const placeOfTold = () => told.offsetTop;
