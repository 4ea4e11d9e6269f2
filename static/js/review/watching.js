// What others do meanwhile: what they decided is crossed out, what came is offered and moves nothing. And time goes on.

import { isGone, links, review, rowOf, rowsList } from "./page.js";
import { isTaken } from "./sending.js";

const EACH_MINUTE = 60000;
const UNITS = [
  ["d", 86400],
  ["h", 3600],
  ["min", 60],
];

const rows = () => links().map(rowOf);

let heard = null;

const ids = (text) => new Set(text.split(" ").filter(Boolean));

// The others stay as they are: of them nothing was heard.
function crossOut(gone, known) {
  for (const each of known) {
    if (isGone(each) === gone.has(each.dataset.row)) continue;
    each.toggleAttribute("data-live-gone");
    const sign = each.querySelector(".queue-hold");
    if (isGone(each)) {
      sign.removeAttribute("data-held");
      sign.innerHTML = '<span class="tag tag--quiet">waits no more</span>';
    } else if (!sign.hasAttribute("data-held")) sign.replaceChildren();
  }
}

document.addEventListener("live:changed", ({ detail: asked }) => {
  const now = document.getElementById("queue-now");
  if (!now || !("rows" in now.dataset)) return;
  const listed = ids(now.dataset.rows);
  // It may be that only the menu changed: then this is what an earlier answer said, of other rows.
  if (now !== heard) {
    crossOut(
      ids(now.dataset.gone),
      rows().filter((each) => asked.includes(each) || listed.has(each.dataset.row)),
    );
  }
  heard = now;
  const known = new Set(rows().map((each) => each.dataset.row));
  const fresh = [...listed].filter((pk) => !known.has(pk) && !isTaken(pk)).length;
  const news = document.getElementById("queue-news");
  if (!news || !rowsList) return;
  // Where more are listed further down, those come into view anyway, as long as one above them waits.
  news.hidden = !fresh || (rowsList.querySelector(".queue-more") && !rows().every(isGone));
  const isExact = "last" in now.dataset;
  news.querySelector("span").textContent = `${fresh}${isExact ? "" : "+"} more wait${isExact && fresh === 1 ? "s" : ""}.`;
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
