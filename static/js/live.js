// Asks the server whether something on the page is out of date, and replaces each changed element by its id.
//
// The script asks every 4 s while a person is active, so that two people see each other's changes within 5 s. 5 minutes
// after the last action of the person, it asks more and more rarely, down to once a minute, until something changes. It
// does not ask in a hidden tab, without a network, or after the person was signed out. A page with data-live-steady
// asks every 4 s as long as the tab is visible.
//
// data-live="address" is the address to ask. The page and the item in the panel beside a list each ask their own
// address. A page without data-live asks data-live-menu. A request says what the page shows: each
// data-live-seen="name=value", and each data-live-row in `rows`, at most a hundred. The status 204 means that nothing
// has changed. An element with data-live-still keeps the height of the element that it replaces.
//
// The event `live:changed` has the rows of the request in its `detail`.
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

  // Return the matching elements of the panel if `place` is in the panel, and otherwise those outside of the panel.
  function shownBy(place, selector) {
    return [...document.querySelectorAll(selector)].filter((each) => panelOf(each) === panelOf(place));
  }

  function isPresent() {
    return performance.now() - present < PRESENT || document.querySelector("[data-live-steady]") !== null;
  }

  // The open row and the rows below it come first, because they are opened next. Rows that are known to be gone come
  // last.
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

  // Return the number of replaced elements.
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
    // If another filter was set meanwhile, the answer is about rows that the page no longer shows.
    return text && place.isConnected && baseOf(place) === base ? put(text, about, panelOf(place) ?? document) : 0;
  }

  function put(text, about, scope) {
    const holder = document.createElement("template");
    holder.innerHTML = text;
    const parts = [...holder.content.children].map((fresh) => [scope.querySelector(`#${CSS.escape(fresh.id)}`), fresh]);
    // An element that the person is using is not replaced, nor is the rest of its row. The next request asks about it
    // again.
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

  // An empty list has no rows that could move, so the first new rows are shown without a click.
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

  // Show the new entries after a click. An entry that the person is using, such as an open form, stays.
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

  // A message soon after another one would interrupt it. The message is said later, if it still holds then.
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

  // The person is active again, so a request that is overdue is sent now.
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
