// Says when it is time to ask for the number of new rows: every 5 s, slower and slower while nobody looks or nothing answers.
"use strict";

const SHORTEST = 5000;
const LONGEST = 120000;

let wait = SHORTEST;
let timer = 0;

function plan(milliseconds) {
  clearTimeout(timer);
  timer = setTimeout(ask, milliseconds);
}

function ask() {
  const element = document.querySelector("[data-live]");
  if (document.hidden) wait = Math.min(wait * 2, LONGEST);
  if (element) htmx.trigger(element, "live");
  plan(wait);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  wait = SHORTEST;
  ask();
});

document.addEventListener("htmx:afterRequest", (event) => {
  if (!event.target.matches("[data-live]") || document.hidden) return;
  const next = event.detail.successful ? SHORTEST : Math.min(wait * 2, LONGEST);
  if (next !== wait) plan(next);
  wait = next;
});

plan(wait);
