// Asks whether something on the page is out of date, and puts what is newer in its place, by its id: every 4 s while
// somebody is there, so that two people see within 5 s what the other does; 5 minutes after the last sign of a person
// more and more slowly, down to once a minute, while nothing happens; and not at all in a tab that nobody looks at,
// without a network, or after signing out. A page with data-live-steady asks every 4 s as long as it is looked at.
//
// data-live="address" is what is asked: the page about itself, and the item in the panel beside a list about itself. A page
// without it asks data-live-menu. What is there already goes along: each data-live-seen="name=value", and each
// data-live-row in `rows`, at most a hundred. 204: nothing is newer. What is newer keeps the height of what it replaces, if
// it has data-live-still.
// What hears `live:changed` finds in its `detail` the rows that were asked about.
"use strict";

(() => {
  const SHORTEST = 4000;
  const LONGEST = 60000;
  const LONGEST_WITHOUT_ANSWER = 120000;
  const PRESENT = 300000;
  const BETWEEN_WORDS = 60000;
  const MOST_ROWS = 100;

  let wait = SHORTEST;
  let timer = 0;
  let asked = performance.now();
  let present = performance.now();
  let spoke = -BETWEEN_WORDS;
  let asking = false;
  let over = false;

  const panelOf = (element) => element.closest("#panel");
  const baseOf = (place) => place.dataset.live ?? place.dataset.liveMenu;

  function places() {
    const found = [...document.querySelectorAll("[data-live]")];
    const menu = found.every(panelOf) ? document.querySelector("[data-live-menu]") : null;
    return menu ? [menu, ...found] : found;
  }

  // What the page shows, or the panel.
  function shownBy(place, selector) {
    return [...document.querySelectorAll(selector)].filter((each) => panelOf(each) === panelOf(place));
  }

  function isPresent() {
    return performance.now() - present < PRESENT || document.querySelector("[data-live-steady]") !== null;
  }

  // From the open one on, for what comes next is opened next; those known to be gone last.
  function rowsOf(place) {
    const all = shownBy(place, "[data-live-row]");
    const at = Math.max(0, all.findIndex((row) => row.querySelector('[aria-current="true"]')));
    const isGone = (row) => "liveGone" in row.dataset;
    return [...all.slice(at), ...all.slice(0, at)].sort((a, b) => isGone(a) - isGone(b)).slice(0, MOST_ROWS);
  }

  function address(place, about) {
    const url = new URL(baseOf(place), location.href);
    for (const element of shownBy(place, "[data-live-seen]")) {
      for (const [name, value] of new URLSearchParams(element.dataset.liveSeen)) url.searchParams.set(name, value);
    }
    if (about.length) url.searchParams.set("rows", about.map((row) => row.dataset.liveRow).join("~"));
    return url.href;
  }

  function plan() {
    clearTimeout(timer);
    if (!over && !document.hidden && navigator.onLine) timer = setTimeout(ask, wait);
  }

  async function ask() {
    const asks = places();
    if (asking || over || document.hidden || !asks.length) return;
    asking = true;
    asked = performance.now();
    try {
      let changed = 0;
      for (const place of asks) changed += await askOf(place);
      wait = changed || isPresent() ? SHORTEST : Math.min(wait * 1.5, LONGEST);
    } catch {
      wait = Math.min(wait * 2, LONGEST_WITHOUT_ANSWER);
    } finally {
      asking = false;
    }
    plan();
  }

  // Returns how many elements were replaced.
  async function askOf(place) {
    if (over || !place.isConnected) return 0;
    const base = baseOf(place);
    const about = rowsOf(place);
    const answer = await fetch(address(place, about), { headers: { "HX-Request": "true", "X-Live": "1" }, redirect: "manual" });
    if (answer.headers.has("HX-Refresh") || answer.type === "opaqueredirect") {
      stop("You were signed out. Reload to go on.");
      return 0;
    }
    if (answer.status >= 400 && answer.status < 500) {
      if (!panelOf(place)) stop("");
      return 0;
    }
    if (!answer.ok) throw new Error(`answered ${answer.status}`);
    const text = answer.status === 204 ? "" : await answer.text();
    // Another filter may have been set meanwhile: then this is about rows that are not there any more.
    return text && place.isConnected && baseOf(place) === base ? put(text, about, panelOf(place) ?? document) : 0;
  }

  function put(text, about, scope) {
    const holder = document.createElement("template");
    holder.innerHTML = text;
    const parts = [...holder.content.children].map((fresh) => [scope.querySelector(`#${CSS.escape(fresh.id)}`), fresh]);
    // What somebody has in hand stays, with all of its row: it is asked for again the next time.
    const inHand = new Set(parts.filter(([old]) => old && isInHand(old)).map(([, fresh]) => fresh.dataset.liveOf ?? fresh.id));
    let changed = 0;
    for (const [old, fresh] of parts) {
      if (!old || inHand.has(fresh.dataset.liveOf ?? fresh.id)) continue;
      const room = "liveStill" in fresh.dataset ? old.getBoundingClientRect().height : 0;
      old.replaceWith(fresh);
      if (room) fresh.style.minHeight = `${room}px`;
      if (window.htmx) htmx.process(fresh);
      changed += 1;
      if (fresh.dataset.liveSay) sayOf(fresh);
    }
    if (changed) {
      document.dispatchEvent(new CustomEvent("live:changed", { detail: about }));
      showFirst();
    }
    return changed;
  }

  // Nothing moves in a list that is empty, so its first rows need no click.
  function showFirst() {
    const isIdle = document.activeElement === document.body;
    if (isIdle && document.querySelector("main .empty") && !document.querySelector("main tbody tr")) {
      document.querySelector("#live-number a")?.click();
    }
  }

  function isInHand(element) {
    const selection = getSelection();
    return (
      element.contains(document.activeElement) ||
      element.querySelector("details[open], dialog[open], .is-brushed") !== null ||
      (!selection.isCollapsed && selection.containsNode(element, true))
    );
  }

  // Show the new entries on a click. An entry that somebody has in hand, such as an open form, stays.
  function show(button) {
    const holder = button.parentElement;
    const fresh = holder.querySelector("template").content.firstElementChild;
    const inPlace = (root, id) => root.querySelector(`#${CSS.escape(id)}`);
    const old = inPlace(panelOf(holder) ?? document, fresh.id);
    if (!old) return;
    for (const entry of old.querySelectorAll("li[id]")) {
      const same = inPlace(fresh, entry.id);
      if (!isInHand(entry)) continue;
      if (same) same.replaceWith(entry);
      else fresh.querySelector("ol").append(entry);
    }
    old.replaceWith(fresh);
    holder.replaceChildren();
    if (window.htmx) htmx.process(fresh);
    fresh.focus({ preventScroll: true });
  }

  function say(words) {
    const place = document.getElementById("live-told");
    if (place) place.textContent = words;
  }

  // What comes too soon after other words takes them away, and is said later if it is still so then.
  function sayOf(element) {
    if (over || !element.isConnected) return;
    const rest = spoke + BETWEEN_WORDS - performance.now();
    if (rest > 0) {
      say("");
      setTimeout(sayOf, rest, element);
      return;
    }
    spoke = performance.now();
    say(element.dataset.liveSay);
  }

  function stop(words) {
    over = true;
    clearTimeout(timer);
    if (words) say(words);
  }

  // Somebody is there again: what was put off is asked for now.
  function wake() {
    present = performance.now();
    if (over || document.hidden) return;
    const rested = present - asked;
    if (wait === SHORTEST && timer) return;
    wait = SHORTEST;
    if (rested >= wait) ask();
    else plan();
  }

  for (const name of ["pointermove", "pointerdown", "keydown", "wheel", "focusin", "htmx:afterSwap"]) {
    document.addEventListener(name, wake, { passive: true });
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-live-show]");
    if (button) show(button);
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return clearTimeout(timer);
    wait = SHORTEST;
    ask();
  });
  window.addEventListener("online", () => {
    wait = SHORTEST;
    ask();
  });
  window.addEventListener("offline", () => clearTimeout(timer));

  plan();
})();
