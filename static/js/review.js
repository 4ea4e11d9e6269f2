// The queue by keyboard. Which keys there are stands in the list of keys on the page (`data-action`, `data-keys`).
//
// A decision is sent while the next one is shown already; what is refused comes back with its note. The item after the
// one that is open is fetched ahead, so that it shows at once. Notes are kept for each item until they are sent.
"use strict";

(() => {
  const review = document.getElementById("review");
  if (!review) return;

  const FRESH = 60000;
  const TOGETHER = 1500;
  const FEW_ROWS = 10;
  const FORGOTTEN = 500;

  const dialog = document.getElementById("keys");
  const pane = document.getElementById("item");
  const rowsList = document.getElementById("queue-rows");
  const several = document.getElementById("several");
  const notYet = document.getElementById("not-yet");
  const ahead = new Map();
  const removed = [];
  const actions = {};

  let loading = false;
  let opened = 0;
  let waiting = "";
  let prefix = "";
  let prefixAt = -TOGETHER;
  let lastPicked = null;
  let sending = Promise.resolve();
  let gettingMore = false;

  document.documentElement.classList.add("has-keys");

  // The rows.

  const links = () => [...review.querySelectorAll(".queue-link")];
  const current = () => review.querySelector('.queue-link[aria-current="true"]');
  const rowOf = (link) => link?.closest(".queue-row");
  const row = (pk) => document.querySelector(`.queue-row[data-row="${CSS.escape(pk)}"]`);
  const selected = () => [...review.querySelectorAll(".queue-select:checked")];
  const shown = () => pane.querySelector("[data-item]")?.dataset.item ?? "";
  const form = () => document.getElementById("decide");
  const note = () => document.getElementById("decide-note");

  function isFree(link) {
    return !rowOf(link).matches(".queue-row--gone, [data-own]") && !rowOf(link).querySelector("[data-held]");
  }

  // The next one that waits for this person and that nobody else has open: further down, else from the top.
  function following(link) {
    const all = links();
    const at = all.indexOf(link);
    return [...all.slice(at + 1), ...all.slice(0, Math.max(at, 0))].find(isFree);
  }

  function mark(link) {
    current()?.removeAttribute("aria-current");
    link?.setAttribute("aria-current", "true");
    link?.scrollIntoView({ block: "nearest" });
  }

  // Notes.

  const draftOf = (pk) => `note ${review.dataset.tenant} ${pk}`;

  function keepNote() {
    if (!note() || !shown()) return;
    if (note().value) sessionStorage.setItem(draftOf(shown()), note().value);
    else sessionStorage.removeItem(draftOf(shown()));
  }

  function restoreNote() {
    if (note() && !note().value) note().value = sessionStorage.getItem(draftOf(shown())) ?? "";
  }

  // Opening one.

  async function fetched(link, isAhead) {
    const address = new URL(link.href, location.href);
    if (isAhead) address.searchParams.set("ahead", "1");
    const answer = await fetch(address, { headers: { "HX-Request": "true", "HX-Target": "item" } });
    if (answer.headers.has("HX-Refresh")) location.reload();
    if (!answer.ok) throw new Error(`answered ${answer.status}`);
    return answer.text();
  }

  function fetchAhead(link) {
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

  async function open(link, { afresh = false } = {}) {
    keepNote();
    notYet.replaceChildren();
    mark(link);
    // The button that was pressed goes away with what it was about.
    (link.offsetParent ? link : pane).focus({ preventScroll: true });
    const pk = rowOf(link).dataset.row;
    const kept = afresh ? null : taken(pk);
    const mine = ++opened;
    loading = true;
    waiting = "";
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
    refresh(link);
    history.replaceState(null, "", link.href);
    if (kept) hold(link);
    const next = following(link);
    if (next) fetchAhead(next);
    more();
    const key = waiting;
    waiting = "";
    if (key) actions[key]();
  }

  // What is decided of several is decided at the version that was seen.
  function refresh(link) {
    const version = pane.querySelector("[data-version]")?.dataset.version;
    const box = rowOf(link).querySelector(".queue-select");
    if (box && version) box.value = `${shown()}:${version}`;
  }

  function put(html) {
    pane.innerHTML = html;
    pane.removeAttribute("aria-busy");
    review.classList.add("review--open");
    htmx.process(pane);
    restoreNote();
    arm(form()?.dataset.armed);
    reveal(pane);
    // The next one from its beginning, below what was done with the last one.
    scrollTo(0, Math.min(scrollY, document.getElementById("told").offsetTop));
  }

  // What does nothing without this script is not there without it.
  function reveal(part) {
    for (const button of part.querySelectorAll("[data-copy], [data-dialog], .with-script")) button.hidden = false;
  }

  // One that was fetched ahead is opened only now: others see it, and it may have changed.
  async function hold(link) {
    if (!form()?.querySelector('[data-act="decline"]')) return;
    const version = pane.querySelector("[data-version]")?.dataset.version;
    const pk = shown();
    const answer = await post(`${new URL(link.href).pathname}hold/`, { version }, "decide-held").catch(() => null);
    if (!answer || pk !== shown()) return;
    if (answer.status === 409) open(link, { afresh: true });
    else if (answer.status === 200) document.getElementById("decide-held")?.replaceChildren(...parsed(answer.text));
  }

  async function more() {
    const button = rowsList?.querySelector(".queue-more");
    if (!button || gettingMore || links().length - links().indexOf(current()) > FEW_ROWS) return;
    gettingMore = true;
    try {
      const answer = await fetch(button.querySelector("a").href, { headers: { "HX-Request": "true", "HX-Target": "more" } });
      if (answer.ok) button.replaceWith(...parsed(await answer.text()).filter(isNewRow));
    } finally {
      gettingMore = false;
    }
  }

  const isNewRow = (element) => !element.dataset?.row || !row(element.dataset.row);

  // Sending.

  function parsed(html) {
    const holder = document.createElement("template");
    holder.innerHTML = html;
    return [...holder.content.children];
  }

  const token = () => document.querySelector("[name=csrfmiddlewaretoken]").value;

  async function post(address, values, target) {
    const body = values instanceof FormData ? values : new URLSearchParams(values);
    const headers = { "HX-Request": "true", "HX-Target": target, "X-CSRFToken": token() };
    const answer = await fetch(address, { method: "POST", body, headers, keepalive: true });
    if (answer.headers.has("HX-Refresh")) location.reload();
    return { status: answer.status, text: await answer.text() };
  }

  // What was done, or why not, and the figures: each in place of the element with its id.
  function tell(html) {
    for (const fresh of parsed(html)) {
      const old = document.getElementById(fresh.id);
      if (!old) continue;
      if (fresh.hasAttribute("role")) old.setAttribute("role", fresh.getAttribute("role"));
      old.replaceChildren(...fresh.childNodes);
    }
  }

  function complain(pk, what) {
    const link = row(pk)?.querySelector(".queue-link");
    const told = document.getElementById("told");
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

  // Beside what was done last, which can still be undone. It goes when the next one is opened.
  function tellNotYet(key) {
    const box = document.createElement("p");
    box.className = "note told";
    box.textContent = `Not shown yet: nothing was decided. Press ${key} again.`;
    notYet.replaceChildren(box);
  }

  // One after the other, so that undoing meets what was done.
  function send(pk, address, values) {
    const sent = sending.then(() => post(address, values, "told"));
    sending = sent.then(
      (answer) => {
        if (answer.status < 500 && answer.text.includes('id="told"')) tell(answer.text);
        else complain(pk, `The server answered ${answer.status}. Whether it was decided shows when you open it.`);
        if (answer.status >= 400) bringBack(pk);
        else sessionStorage.removeItem(draftOf(pk));
        return answer.status < 400;
      },
      () => {
        complain(pk, "The connection broke off. Whether it was decided shows when you open it.");
        bringBack(pk);
        return false;
      },
    );
    return sending;
  }

  function take(pk, written) {
    const element = row(pk);
    if (!element) return;
    removed.push({ pk, element, before: element.nextElementSibling, written });
    if (removed.length > FORGOTTEN) removed.shift();
    element.querySelector(".queue-link").removeAttribute("aria-current");
    element.remove();
  }

  function bringBack(pk) {
    const at = removed.findIndex((each) => each.pk === pk);
    if (at < 0) return null;
    const [{ element, before, written }] = removed.splice(at, 1);
    if (written) sessionStorage.setItem(draftOf(pk), written);
    if (before?.isConnected) before.before(element);
    else rowsList.prepend(element);
    ahead.delete(pk);
    return element.querySelector(".queue-link");
  }

  // Decides what is open, and shows the next one without waiting for the answer.
  function act(name) {
    const button = form()?.querySelector(`[data-act="${name}"]`);
    if (!button) return;
    if (!form().checkValidity()) return form().reportValidity();
    if (form().dataset.noteFor.split(" ").includes(name) && !note().value.trim()) return askForNote(name);
    const pk = shown();
    const link = row(pk)?.querySelector(".queue-link");
    const values = new FormData(form());
    if (button.name) values.append(button.name, button.value);
    const address = button.hasAttribute("formaction") ? button.formAction : form().action;
    keepNote();
    const stays = name === "reopen" || name === "take_back" || !link;
    if (stays) {
      send(pk, address, values).then(() => again(pk));
      return;
    }
    const next = following(link);
    take(pk, note().value);
    const sent = send(pk, address, values);
    if (next) open(next);
    else sent.then((done) => done && goOn(pk));
  }

  // None of those on the page is left.
  function goOn(pk) {
    const address = new URL(review.dataset.next, location.href);
    address.searchParams.set("done", pk);
    location.assign(address);
  }

  // The same one anew, once what was sent is answered.
  function again(pk) {
    const link = row(pk)?.querySelector(".queue-link");
    if (link) open(link, { afresh: true });
    else location.reload();
  }

  const SENDS = { approve: "approves it", decline: "declines it", pass: "passes it on", reopen: "reopens it" };
  const ASKS = {
    approve: "Approving what was rejected needs a note.",
    pass: "Passing it on needs a note: what the next person has to know.",
    reopen: "Reopening it needs a note.",
  };

  function arm(name) {
    const told = document.getElementById("decide-armed");
    if (!told || !name) return;
    form().dataset.armed = name;
    told.textContent = `Ctrl Enter ${SENDS[name]}.`;
  }

  function askForNote(name) {
    arm(name);
    document.getElementById("decide-armed").textContent = `${ASKS[name]} Ctrl Enter ${SENDS[name]}.`;
    note().focus();
  }

  // Undoing.

  function undo() {
    const button = document.querySelector("[data-undo]");
    if (button) button.requestSubmit();
    // The answer that brings the button is still under way.
    else sending.then(() => document.querySelector("[data-undo]")?.requestSubmit());
  }

  document.addEventListener("submit", async (event) => {
    const sent = event.target;
    if (sent.matches("[data-undo]")) {
      event.preventDefault();
      const pk = sent.dataset.undo;
      const values = new FormData(sent);
      sent.querySelector("button").disabled = true;
      if (!(await send(pk, sent.action, values))) return;
      const link = bringBack(pk);
      if (link) open(link, { afresh: true });
      else location.assign(document.querySelector(`.told[data-about="${CSS.escape(pk)}"] a`).href);
    } else if (sent.id === "decide") {
      event.preventDefault();
      act(event.submitter?.dataset.act ?? sent.dataset.armed);
    }
  });

  // Selecting.

  function pick(box, isPicked) {
    if (!box) return;
    box.checked = isPicked;
    lastPicked = box;
    count();
  }

  function range() {
    const boxes = [...review.querySelectorAll(".queue-select")];
    const here = rowOf(current())?.querySelector(".queue-select");
    const ends = [boxes.indexOf(lastPicked?.isConnected ? lastPicked : here), boxes.indexOf(here)].sort((a, b) => a - b);
    if (ends[0] < 0) return;
    for (const box of boxes.slice(ends[0], ends[1] + 1)) box.checked = true;
    lastPicked = here;
    count();
  }

  function count() {
    const number = selected().length;
    const told = several?.querySelector("[data-number]");
    if (told) told.textContent = number ? `${number} selected` : "";
  }

  review.addEventListener("change", (event) => {
    if (event.target.matches(".queue-select")) {
      lastPicked = event.target;
      count();
    }
  });

  review.addEventListener("click", (event) => {
    const box = event.target.closest(".queue-select");
    if (box && event.shiftKey && lastPicked?.isConnected) {
      const boxes = [...review.querySelectorAll(".queue-select")];
      const ends = [boxes.indexOf(lastPicked), boxes.indexOf(box)].sort((a, b) => a - b);
      for (const each of boxes.slice(ends[0], ends[1] + 1)) each.checked = box.checked;
    }
  });

  // What each key does.

  function move(step) {
    const all = links();
    const at = all.indexOf(current());
    const next = at < 0 ? all[0] : all[at + step];
    if (next) open(next);
    else if (step > 0) more();
  }

  function decide(name) {
    if (selected().length) several.querySelector(`[data-several="${name}"]`).focus();
    else act(name);
  }

  function leave() {
    if (selected().length) {
      for (const box of selected()) box.checked = false;
      count();
    } else if (shown()) {
      location.assign(document.querySelector(".back a")?.href ?? review.dataset.queue);
    }
  }

  function takeNote(number) {
    const button = pane.querySelectorAll("[data-take]")[number - 1];
    if (!button || !note()) return;
    note().value = button.dataset.take;
    keepNote();
    note().focus();
  }

  Object.assign(actions, {
    next: () => move(1),
    previous: () => move(-1),
    approve: () => decide("approve"),
    decline: () => decide("decline"),
    pass: () => {
      const details = document.getElementById("pass");
      if (!details) return;
      details.open = true;
      if (note().value.trim()) {
        arm("pass");
        document.getElementById("pass-to").focus();
      } else {
        askForNote("pass");
      }
    },
    undo,
    reopen: () => act("reopen"),
    note: () => note()?.focus(),
    similar1: () => takeNote(1),
    similar2: () => takeNote(2),
    similar3: () => takeNote(3),
    select: () => {
      const box = rowOf(current())?.querySelector(".queue-select");
      pick(box, !box?.checked);
    },
    range,
    all: () => {
      for (const box of review.querySelectorAll(".queue-select")) box.checked = true;
      count();
    },
    search: () => document.getElementById("q").select(),
    help: () => dialog.showModal(),
    leave,
  });

  // The keys of a viewer's page are fewer: what is not in the list does nothing.
  const bound = new Map();
  for (const line of dialog.querySelectorAll("[data-action]")) {
    for (const key of line.dataset.keys.split("|")) {
      const name = line.dataset.action === "similar" ? `similar${key}` : line.dataset.action;
      if (Object.hasOwn(actions, name)) bound.set(key, name);
    }
  }
  const prefixes = new Set([...bound.keys()].filter((key) => key.includes(" ")).map((key) => key.split(" ")[0]));
  // They would hit the item that is just going away.
  const ABOUT_ITEM = new Set(["approve", "decline", "pass", "reopen", "note", "similar1", "similar2", "similar3"]);
  // Nobody decides what is not shown yet: such a key is not kept for when it is, and that is said.
  const DECIDING = new Set(["approve", "decline"]);

  function typing(element) {
    return element.isContentEditable || element.matches?.('textarea, select, input:not([type="checkbox"], [type="radio"])');
  }

  function inField(event) {
    if (event.key === "Escape") event.target.blur();
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !event.target.closest("#decide")) return;
    event.preventDefault();
    if (!event.repeat) act(form().dataset.armed);
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
    // Elsewhere the arrows scroll.
    if (!name || (event.key.startsWith("Arrow") && !event.target.closest(".queue"))) return;
    event.preventDefault();
    const isDeciding = DECIDING.has(name);
    if (!loading || !ABOUT_ITEM.has(name) || (isDeciding && selected().length)) return actions[name]();
    waiting = isDeciding ? "" : name;
    if (isDeciding) tellNotYet(event.key);
  });

  // In a new tab, or on a screen that shows one at a time, the link is a link.
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-open]")) dialog.showModal();
    const take = event.target.closest("[data-take]");
    if (take && note()) {
      note().value = take.dataset.take;
      keepNote();
      note().focus();
    }
    const link = event.target.closest(".queue-link");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    if (!matchMedia("(min-width: 44rem)").matches) return;
    event.preventDefault();
    open(link);
  });

  document.addEventListener("toggle", (event) => event.target.id === "pass" && arm(event.target.open ? "pass" : form().querySelector("[data-act]")?.dataset.act), true);
  pane.addEventListener("input", keepNote);
  addEventListener("pagehide", keepNote);

  // Others at work: what they decided goes grey, what came is offered and moves nothing.
  document.addEventListener("live:changed", () => {
    const now = document.getElementById("queue-now");
    if (!now?.dataset.rows) return;
    const there = new Map(now.dataset.rows.trim().split(" ").map((each) => each.split(":")));
    const shownRows = [...review.querySelectorAll(".queue-row")];
    if (now.dataset.last) {
      for (const each of shownRows) each.classList.toggle("queue-row--gone", !there.has(each.dataset.row));
    }
    const known = new Set([...shownRows.map((each) => each.dataset.row), ...removed.map((each) => each.pk)]);
    const fresh = [...there.keys()].filter((pk) => pk && !known.has(pk)).length;
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
})();
