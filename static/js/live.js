// Asks whether something on the page is out of date, and puts what is newer in its place, by its id: every 5 s while
// somebody is there, more and more slowly, down to once a minute, while nothing happens, and not at all in a tab that
// nobody looks at, without a network, or after signing out. A page with data-live-steady asks every 4 s as long as it is
// looked at: two people at the queue, or with the same handoff open, see what the other does within 5 s.
//
// data-live="address" is what is asked; a page without it asks data-live-menu, less often. What the page has already goes
// along: each data-live-seen="name=value", and each data-live-row in `rows`, at most a hundred. 204: nothing is newer.
// What hears `live:changed` finds in its `detail` the rows that were asked about.
"use strict";

(() => {
  const SHORTEST = 5000;
  const STEADY = 4000;
  const SHORTEST_OF_MENU = 20000;
  const LONGEST = 60000;
  const LONGEST_WITHOUT_ANSWER = 120000;
  const BETWEEN_WORDS = 60000;
  const MOST_ROWS = 100;

  let wait = shortest();
  let timer = 0;
  let asked = performance.now();
  let spoke = -BETWEEN_WORDS;
  let asking = false;
  let over = false;

  function watched() {
    return document.querySelector("[data-live]");
  }

  function isSteady() {
    return document.querySelector("[data-live-steady]") !== null;
  }

  function shortest() {
    if (isSteady()) return STEADY;
    return watched() ? SHORTEST : SHORTEST_OF_MENU;
  }

  // From the open one on, for what comes next is opened next; those known to be gone last.
  function rows() {
    const all = [...document.querySelectorAll("[data-live-row]")];
    const at = Math.max(0, all.findIndex((row) => row.querySelector('[aria-current="true"]')));
    const isGone = (row) => "liveGone" in row.dataset;
    return [...all.slice(at), ...all.slice(0, at)].sort((a, b) => isGone(a) - isGone(b)).slice(0, MOST_ROWS);
  }

  function address(about) {
    const base = watched()?.dataset.live ?? document.querySelector("[data-live-menu]")?.dataset.liveMenu;
    if (!base) return "";
    const url = new URL(base, location.href);
    for (const element of document.querySelectorAll("[data-live-seen]")) {
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
    const base = watched()?.dataset.live;
    const about = rows();
    const asks = address(about);
    if (asking || over || document.hidden || !asks) return;
    asking = true;
    asked = performance.now();
    try {
      const answer = await fetch(asks, { headers: { "HX-Request": "true", "X-Live": "1" }, redirect: "manual" });
      if (answer.headers.has("HX-Refresh") || answer.type === "opaqueredirect") return stop("You were signed out. Reload to go on.");
      if (answer.status >= 400 && answer.status < 500) return stop("");
      if (!answer.ok) throw new Error(`answered ${answer.status}`);
      const text = answer.status === 204 ? "" : await answer.text();
      // Another filter may have been set meanwhile: then this is about rows that are not there any more.
      const changed = text && watched()?.dataset.live === base ? put(text, about) : 0;
      wait = changed || isSteady() ? shortest() : Math.min(wait * 1.5, LONGEST);
    } catch {
      wait = Math.min(wait * 2, LONGEST_WITHOUT_ANSWER);
    } finally {
      asking = false;
    }
    plan();
  }

  function put(text, about) {
    const holder = document.createElement("template");
    holder.innerHTML = text;
    const parts = [...holder.content.children].map((fresh) => [document.getElementById(fresh.id), fresh]);
    // What somebody has in hand stays, with all of its row: it is asked for again the next time.
    const inHand = new Set(parts.filter(([old]) => old && isInHand(old)).map(([, fresh]) => fresh.dataset.liveOf ?? fresh.id));
    let changed = 0;
    for (const [old, fresh] of parts) {
      if (!old || inHand.has(fresh.dataset.liveOf ?? fresh.id)) continue;
      old.replaceWith(fresh);
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
      element.querySelector("details[open], dialog[open]") !== null ||
      (!selection.isCollapsed && selection.containsNode(element, true))
    );
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
    if (over || document.hidden) return;
    const rested = performance.now() - asked;
    if (wait === shortest() && timer) return;
    wait = shortest();
    if (rested >= wait) ask();
    else plan();
  }

  for (const name of ["pointermove", "pointerdown", "keydown", "wheel", "focusin", "htmx:afterSwap"]) {
    document.addEventListener(name, wake, { passive: true });
  }
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return clearTimeout(timer);
    wait = shortest();
    ask();
  });
  window.addEventListener("online", () => {
    wait = shortest();
    ask();
  });
  window.addEventListener("offline", () => clearTimeout(timer));

  plan();
})();
