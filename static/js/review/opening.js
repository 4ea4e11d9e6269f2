// Opening one. The item after the one that is open is fetched ahead, so that it shows at once.

import {
  arm,
  current,
  following,
  form,
  isGone,
  keepNote,
  links,
  mark,
  pane,
  parsed,
  restoreNote,
  review,
  row,
  rowOf,
  rowsList,
  shown,
  version,
} from "./page.js";
import { isTaken, post } from "./sending.js";
import { placeOfTold, takeBackNot } from "./telling.js";

const FRESH = 60000;
const FEW_ROWS = 10;

const ahead = new Map();
let opened = 0;
let loading = false;
let waiting = null;
let gettingMore = false;

export const isLoading = () => loading;

// In place of what waited before; without an action nothing waits.
export function whenShown(action) {
  waiting = action;
}

async function fetched(link, isAhead) {
  const address = new URL(link.href, location.href);
  if (isAhead) address.searchParams.set("ahead", "1");
  const answer = await fetch(address, { headers: { "HX-Request": "true", "HX-Target": "item" } });
  if (answer.headers.has("HX-Refresh")) location.reload();
  if (!answer.ok) throw new Error(`answered ${answer.status}`);
  return answer.text();
}

export function fetchAhead(link) {
  const pk = rowOf(link)?.dataset.row;
  if (!pk || ahead.has(pk)) return;
  const html = fetched(link, true);
  ahead.set(pk, { html, at: performance.now() });
  html.catch(() => ahead.delete(pk));
}

function taken(pk) {
  const kept = ahead.get(pk);
  ahead.delete(pk);
  return kept && performance.now() - kept.at < FRESH ? kept.html : null;
}

export async function open(link, { afresh = false, goesIn = false } = {}) {
  keepNote();
  takeBackNot();
  mark(link);
  // The button that was pressed goes away with what it was about.
  (link.offsetParent ? link : pane).focus({ preventScroll: true });
  const before = taken(rowOf(link).dataset.row);
  const kept = afresh ? null : before;
  const mine = ++opened;
  loading = true;
  waiting = null;
  pane.setAttribute("aria-busy", "true");
  let html;
  try {
    html = await (kept ?? fetched(link, false));
  } catch {
    location.assign(link.href);
    return;
  }
  if (mine !== opened) return;
  loading = false;
  put(html);
  if (goesIn) document.getElementById("item-title")?.focus({ preventScroll: true });
  refresh(link);
  history.replaceState(null, "", link.href);
  if (kept) hold(link);
  const next = following(link);
  if (next) fetchAhead(next);
  more();
  const action = waiting;
  waiting = null;
  action?.();
}

// What is decided of several is decided at the version that was seen.
function refresh(link) {
  const box = rowOf(link).querySelector(".queue-select");
  if (box && version()) box.value = `${shown()}:${version()}`;
}

function put(html) {
  pane.innerHTML = html;
  document.title = pane.querySelector("[data-title]")?.dataset.title ?? document.title;
  pane.removeAttribute("aria-busy");
  review.closest("main").classList.add("main--open");
  htmx.process(pane);
  restoreNote();
  arm(form()?.dataset.armed);
  // The next one from its beginning, below what was done with the last one.
  scrollTo(0, Math.min(scrollY, placeOfTold()));
}

// One that was fetched ahead is opened only now: others see it, and it may have changed.
async function hold(link) {
  if (!form()?.querySelector('[data-act="decline"]')) return;
  const pk = shown();
  const address = `${new URL(link.href).pathname}hold/`;
  const answer = await post(address, { version: version() }, "decide-held").catch(() => null);
  // What was decided meanwhile is refused for that: the next one comes anyway.
  if (!answer || pk !== shown() || isTaken(pk)) return;
  if (answer.status === 409) open(link, { afresh: true });
  else if (answer.status === 200) document.getElementById("decide-held")?.replaceChildren(...parsed(answer.text));
}

// Whether it added any.
export async function more() {
  const button = rowsList?.querySelector(".queue-more");
  const below = links().slice(links().indexOf(current()) + 1);
  if (!button || gettingMore || below.filter((link) => !isGone(rowOf(link))).length >= FEW_ROWS) return false;
  gettingMore = true;
  try {
    const answer = await fetch(button.querySelector("a").href, { headers: { "HX-Request": "true", "HX-Target": "more" } });
    if (!answer.ok) return false;
    const fresh = parsed(await answer.text()).filter(isNewRow);
    button.replaceWith(...fresh);
    return fresh.some((element) => element.dataset.row);
  } finally {
    gettingMore = false;
  }
}

const isNewRow = (element) => !element.dataset?.row || !row(element.dataset.row);
