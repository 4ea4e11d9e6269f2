// The action of each key. The list of keys on the page defines the keys (`data-action`, `data-keys`).

import { act, undo } from "./decisions.js";
import { isLoading, more, open, whenShown } from "./item.js";
import { takeBackNot, tellNotYet } from "./messages.js";
import {
  arm,
  askForNote,
  current,
  form,
  isGone,
  links,
  note,
  pane,
  review,
  rowOf,
  several,
  shown,
  takeNote,
} from "./page.js";
import { pick, pickAll, pickRange, selected } from "./selection.js";

const TOGETHER = 1500;
// While the next handoff loads, these actions would apply to the previous handoff.
const ABOUT_ITEM = new Set(["approve", "decline", "resend", "handled", "pass", "reopen", "note", "similar1", "similar2", "similar3"]);
// Nobody may decide a handoff that is not shown yet. Such a key is dropped with a message, and not kept until the
// handoff is shown.
const DECIDING = new Set(["approve", "decline", "resend", "handled"]);
// If rows are selected, these actions apply to all selected rows.
const SEVERAL = new Set(["approve", "decline"]);

const dialog = document.getElementById("keys");
let prefix = "";
let prefixAt = -TOGETHER;

function move(step) {
  const all = links();
  const at = all.indexOf(current());
  const ways = at < 0 ? all : step > 0 ? all.slice(at + 1) : all.slice(0, at).reverse();
  // Crossed-out rows were decided by somebody else. The keys skip them; a click still opens them.
  const next = ways.find((link) => !isGone(rowOf(link)));
  if (next) open(next);
  else if (step > 0) more().then((isMore) => isMore && move(step));
}

function decide(name) {
  if (selected().length) several.querySelector(`[data-several="${name}"]`).focus();
  else act(name);
}

function pass() {
  const details = document.getElementById("pass");
  if (!details) return act("pass");
  details.open = true;
  if (!note().value.trim()) return askForNote("pass");
  arm("pass");
  document.getElementById("pass-to").focus();
}

function leave() {
  if (selected().length) pickAll(false);
  else if (shown()) location.assign(document.querySelector(".back a")?.href ?? review.dataset.queue);
}

const similar = (number) => takeNote(pane.querySelectorAll("[data-take]")[number - 1]);

const ACTIONS = {
  next: () => move(1),
  previous: () => move(-1),
  approve: () => decide("approve"),
  decline: () => decide("decline"),
  resend: () => act("resend"),
  handled: () => act("handled"),
  pass,
  undo,
  reopen: () => act("reopen"),
  note: () => note()?.focus(),
  similar1: () => similar(1),
  similar2: () => similar(2),
  similar3: () => similar(3),
  select: pick,
  range: pickRange,
  all: () => pickAll(true),
  search: () => document.getElementById("q").select(),
  help: () => dialog.showModal(),
  leave,
};

// A viewer's list has fewer keys, and keys outside of the list do nothing.
const bound = new Map();
for (const line of dialog.querySelectorAll("[data-action]")) {
  for (const key of line.dataset.keys.split("|")) {
    const name = line.dataset.action === "similar" ? `similar${key}` : line.dataset.action;
    if (Object.hasOwn(ACTIONS, name)) bound.set(key, name);
  }
}
const prefixes = new Set([...bound.keys()].filter((key) => key.includes(" ")).map((key) => key.split(" ")[0]));

function typing(element) {
  return element.isContentEditable || element.matches?.('textarea, select, input:not([type="checkbox"], [type="radio"])');
}

function inField(event) {
  if (event.key === "Escape") event.target.blur();
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !event.target.closest("#decide")) return;
  event.preventDefault();
  if (!event.repeat) act(form().dataset.armed);
}

function press(name, key) {
  const isDeciding = DECIDING.has(name);
  const isAboutItem = ABOUT_ITEM.has(name) && !(SEVERAL.has(name) && selected().length);
  if (!isLoading() || !isAboutItem) return ACTIONS[name]();
  whenShown(isDeciding ? null : ACTIONS[name]);
  if (isDeciding) tellNotYet(key);
}

document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]") || event.isComposing) return;
  if (typing(event.target)) return inField(event);
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.key === "Shift") return;
  const key = event.timeStamp - prefixAt < TOGETHER ? `${prefix} ${event.key}` : event.key;
  prefixAt = -TOGETHER;
  if (prefixes.has(event.key)) {
    prefix = event.key;
    prefixAt = event.timeStamp;
    event.preventDefault();
    return;
  }
  const name = bound.get(key);
  // Outside of the queue, the arrow keys scroll.
  if (!name || (event.key.startsWith("Arrow") && !event.target.closest(".queue"))) return;
  event.preventDefault();
  takeBackNot();
  press(name, event.key);
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-open]")) dialog.showModal();
});
