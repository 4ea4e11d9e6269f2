// The panel beside a list. On a wide screen, a click on a row shows the page of its item in the panel. Space opens or
// closes the panel for the row with the focus, and Escape closes the panel. While the panel is open, it follows the row
// with the focus. `open` in the address of the list names the open item, so that a copied link shows the same item.
// Enter opens the page itself, as on a narrow screen.
//
// In a trace, the handoffs of a value are such rows, and their pages name the place of the value in the document.
"use strict";

(() => {
  const place = document.getElementById("panel");
  if (!place) return;
  // static/css/panel.css uses the same width.
  const wide = matchMedia("(min-width: 84rem)");
  const FIELDS = "input, select, textarea, [contenteditable]";
  const FOLLOWS_AFTER = 150;
  let wanted = "";
  let timer = 0;

  function linkOf(item) {
    return [...document.querySelectorAll("[data-row][data-item]")].find((link) => link.dataset.item === item);
  }

  function named() {
    return new URLSearchParams(location.search).get("open") ?? "";
  }

  function addressWith(item) {
    const url = new URL(location.href);
    if (item) url.searchParams.set("open", item);
    else url.searchParams.delete("open");
    return url.href;
  }

  function mark(item) {
    for (const link of document.querySelectorAll("[data-row][aria-current]")) link.removeAttribute("aria-current");
    linkOf(item)?.setAttribute("aria-current", "true");
  }

  function load(item, href) {
    clearTimeout(timer);
    wanted = item;
    mark(item);
    place.hidden = false;
    // With a fragment in the address, htmx would scroll the window.
    [place.dataset.href] = href.split("#");
    place.setAttribute("aria-busy", "true");
    htmx.ajax("GET", place.dataset.href, { target: place, swap: "innerHTML" });
  }

  function show(link) {
    const item = link.dataset.item;
    if (item === wanted) return;
    if (wanted) history.replaceState(history.state, "", addressWith(item));
    else {
      // When the person goes back to a history entry of htmx, htmx reloads the page, so the entry is replaced.
      history.replaceState({ list: true }, "", location.href);
      history.pushState({ panel: true }, "", addressWith(item));
    }
    load(item, link.href);
  }

  function hide() {
    clearTimeout(timer);
    const link = linkOf(wanted);
    wanted = "";
    mark("");
    place.hidden = true;
    place.replaceChildren();
    return link;
  }

  function close() {
    if (history.state?.panel) {
      history.back();
      return;
    }
    history.replaceState(history.state, "", addressWith(""));
    hide()?.focus();
  }

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-panel-close]")) return close();
    const link = event.target.closest("[data-row][data-item]");
    // A click by the Enter key has the detail 0, and opens the page.
    if (!link || !wide.matches || !event.detail || event.button) return;
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    link.focus({ preventScroll: true });
    show(link);
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.defaultPrevented) return;
    if (event.target.closest?.(FIELDS) || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape" && wanted && !event.target.closest("details.menu[open]")) {
      event.preventDefault();
      close();
    }
    if (event.key !== " " || !wide.matches || !event.target.matches?.("[data-row][data-item]")) return;
    event.preventDefault();
    if (event.target.dataset.item === wanted) close();
    else show(event.target);
  });

  // j, k and Tab move the focus. The panel follows when the focus stays on a row.
  document.addEventListener("focusin", (event) => {
    if (!wanted || !wide.matches || !event.target.matches("[data-row][data-item]")) return;
    clearTimeout(timer);
    timer = setTimeout(show, FOLLOWS_AFTER, event.target);
  });

  function isOpenPage(detail) {
    const asked = new URL(detail.pathInfo.requestPath, location.href).href;
    return asked === new URL(place.dataset.href, location.href).href;
  }

  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target, xhr } = event.detail;
    if (!place.contains(target)) return;
    if (target === place) {
      // The answer comes too late if another row has been opened, or the panel closed, since the request.
      if (!wanted || !isOpenPage(event.detail)) return void (event.detail.shouldSwap = false);
      if (xhr.status === 404) Object.assign(event.detail, { shouldSwap: true, isError: false });
    }
    // Relative addresses in the item's page are relative to that page, and not to the list.
    const { pathname } = new URL(place.dataset.href, location.href);
    const path = pathname.replaceAll("&", "&amp;").replaceAll('"', "%22");
    event.detail.serverResponse = event.detail.serverResponse
      .replace(/\s(href|hx-get|action)="\?/g, (_, name) => ` ${name}="${path}?`)
      .replace(/\shref="#at/g, () => ` href="${path}#at`)
      .replace(/\shx-push-url="true"/g, "");
  });

  // The address of the item may name a place in its document, to which the panel scrolls.
  function showPlace() {
    const wanted = place.querySelector(".entry--wanted");
    const from = wanted && wanted.getBoundingClientRect().top - place.getBoundingClientRect().top + place.scrollTop;
    place.scrollTop = wanted ? from - place.clientHeight / 3 : 0;
  }

  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target === place) {
      place.removeAttribute("aria-busy");
      showPlace();
      const title = place.querySelector(".panel-title")?.textContent.trim().replace(/\s+/g, " ");
      const told = document.getElementById("live-told");
      if (told && title) told.textContent = `Beside the list: ${title}`;
    } else if (event.detail.target.id === "results" && wanted) hide();
  });

  function fail(event) {
    if (event.detail.target !== place) return;
    place.removeAttribute("aria-busy");
    const link = Object.assign(document.createElement("a"), { href: place.dataset.href, textContent: "Open its page" });
    const words = Object.assign(document.createElement("p"), { className: "panel-link" });
    words.append("The item could not be loaded. ", link);
    place.replaceChildren(words);
  }

  document.addEventListener("htmx:sendError", fail);
  document.addEventListener("htmx:responseError", fail);

  function follow() {
    const item = named();
    const href = linkOf(item)?.href ?? (item && item === wanted ? place.dataset.href : "");
    if (!item) hide()?.focus();
    else if (item !== wanted && wide.matches && href) load(item, href);
  }

  addEventListener("popstate", follow);

  const { href } = place.dataset;
  if (named() && href && !wide.matches) location.replace(href);
  else if (named() && href) load(named(), href);
  else place.hidden = true;
})();
