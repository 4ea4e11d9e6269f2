// Opens a handoff of the queue. The handoff after the open one is prefetched, so that it is shown immediately.

import { placeOfTold, takeBackNot } from "./messages.js";
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
import { isTaken, post } from "./requests.js";

const FRESH = 60000;
const FEW_ROWS = 10;

const ahead = new Map();
let opened = 0;
let loading = false;
let waiting = null;
let gettingMore = false;

export const isLoading = () => loading;

// Set the action that runs when the next handoff is shown, in place of an earlier action; null runs none.
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
  // The pressed button is removed with the previous handoff, so the focus moves first.
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

// A decision on several handoffs sends the versions that the person saw.
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
  // Show the new handoff from its beginning, below the notice about the previous handoff.
  scrollTo(0, Math.min(scrollY, placeOfTold()));
}

// A prefetched handoff is reserved only now, and it may have changed since it was fetched.
async function hold(link) {
  if (!form()?.querySelector('[data-act="decline"]')) return;
  const pk = shown();
  const address = `${new URL(link.href).pathname}hold/`;
  const answer = await post(address, { version: version() }, "decide-held").catch(() => null);
  // The server refuses to reserve a handoff that was decided meanwhile; the next handoff is shown anyway.
  if (!answer || pk !== shown() || isTaken(pk)) return;
  if (answer.status === 409) open(link, { afresh: true });
  else if (answer.status === 200) document.getElementById("decide-held")?.replaceChildren(...parsed(answer.text));
}

// Load further rows if few are left below. Return whether any row was added.
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
