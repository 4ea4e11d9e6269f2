// What others do meanwhile: what they decided is crossed out, what came is offered and moves nothing. And time goes on.

import { isGone, links, review, rowOf, rowsList } from "./page.js";
import { isTaken } from "./sending.js";

const GONE = "queue-row--gone";
const EACH_MINUTE = 60000;
const UNITS = [
  ["d", 86400],
  ["h", 3600],
  ["min", 60],
];

const rows = () => links().map(rowOf);

// What is listed anew begins where this page does and is in the same order: above the last row of it that is here,
// whatever it does not have waits no more. Of what stands below, nothing is known, unless that was the last.
function crossOut(there, isLast) {
  const all = rows();
  const lastKnown = [...there.keys()].findLast((pk) => all.some((each) => each.dataset.row === pk));
  const last = isLast ? all.length - 1 : all.findIndex((each) => each.dataset.row === lastKnown);
  all.forEach((each, at) => {
    if (at > last || isGone(each) === !there.has(each.dataset.row)) return;
    each.classList.toggle(GONE);
    const sign = each.querySelector(".queue-hold");
    if (sign && isGone(each)) sign.innerHTML = '<span class="tag tag--quiet">waits no more</span>';
    else if (!sign?.hasAttribute("data-held")) sign?.replaceChildren();
  });
}

document.addEventListener("live:changed", () => {
  const now = document.getElementById("queue-now");
  if (!now || !("rows" in now.dataset)) return;
  const there = new Map(now.dataset.rows.trim().split(" ").map((each) => each.split(":")));
  crossOut(there, Boolean(now.dataset.last));
  const known = new Set(rows().map((each) => each.dataset.row));
  const fresh = [...there.keys()].filter((pk) => pk && !known.has(pk) && !isTaken(pk)).length;
  const news = document.getElementById("queue-news");
  if (!news || !rowsList) return;
  news.hidden = !fresh || Boolean(rowsList.querySelector(".queue-more"));
  news.querySelector("span").textContent = `${fresh} more wait${fresh === 1 ? "s" : ""}.`;
});

// By the server's clock: the reader's may be wrong.
const ahead = Date.now() - Number(review.dataset.now) * 1000;

function waited(seconds) {
  const [unit, length] = UNITS.find(([, each]) => seconds >= each) ?? ["s", 1];
  return `${Math.max(0, Math.floor(seconds / length))} ${unit}`;
}

setInterval(() => {
  if (document.hidden) return;
  for (const age of review.querySelectorAll(".queue-age")) {
    age.textContent = waited((Date.now() - ahead - Date.parse(age.dateTime)) / 1000);
  }
}, EACH_MINUTE);
