// Keeps pages up to date, and handles keys. The links and forms of the console also work without this script.
"use strict";

const live = document.getElementById("live");
let paused = false;
let goesTo = false; // the key before was g

const main = () => document.getElementById("main");
const seconds = () => Number(main().dataset.live || 0);

function isBusy() {
  const focused = document.activeElement;
  const typing = focused && main().contains(focused) && focused.matches("input, select, textarea");
  return paused || document.hidden || typing || String(getSelection()) !== "";
}

// Takes over what changed in the page: the same address, asked again.
async function refresh() {
  if (isBusy()) return;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("main");
    live.classList.toggle("lost", !answer.ok);
    if (!fresh || isBusy()) return;
    const open = [...main().querySelectorAll("details")].map((one) => one.open);
    if (fresh.innerHTML !== main().dataset.last) {
      const last = fresh.innerHTML;
      const focused = document.activeElement && document.activeElement.getAttribute("href");
      main().replaceWith(fresh);
      fresh.dataset.last = last;
      fresh.querySelectorAll("details").forEach((one, index) => { one.open = open[index] || false; });
      if (focused) fresh.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    }
  } catch {
    live.classList.add("lost");
  }
}

async function stayFresh() {
  for (;;) {
    await new Promise((wake) => setTimeout(wake, Math.max(1, seconds() || 5) * 1000));
    if (seconds() > 0) await refresh();
  }
}

function pause() {
  paused = !paused;
  live.setAttribute("aria-pressed", String(paused));
  live.textContent = paused ? "Paused" : "Live";
}

// / finds, p pauses, g and a letter goes to a page, ← and → turn the pages of a table.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const went = goesTo && document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
  goesTo = event.key === "g";
  if (went) went.click();
  else if (event.key === "/") {
    const box = document.querySelector("input[type=search]");
    if (box) { event.preventDefault(); box.focus(); box.select(); }
  } else if (event.key === "p") pause();
  else if (event.key === "ArrowLeft") document.querySelector("a[rel=prev]")?.click();
  else if (event.key === "ArrowRight") document.querySelector("a[rel=next]")?.click();
});

// The filter of a table: rows follow what is typed, and the address, too. Only the newest answer counts.
let typing = 0;
document.addEventListener("input", (event) => {
  const box = event.target;
  if (!box.matches("form[role=search] input[name=filter]")) return;
  clearTimeout(typing);
  typing = setTimeout(() => filterTable(box.form), 150);
});

async function filterTable(form) {
  const words = new URLSearchParams(new FormData(form));
  if (!words.get("filter")) words.delete("filter");
  const address = `${location.pathname}?${words}`;
  const asked = typing;
  const answer = await fetch(address, { headers: { Accept: "text/html" } });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById("main");
  if (asked !== typing || !fresh || !answer.ok) return;
  const box = form.elements.filter;
  const [value, start, end] = [box.value, box.selectionStart, box.selectionEnd];
  const open = [...main().querySelectorAll("details")].map((one) => one.open);
  main().replaceWith(fresh);
  fresh.querySelectorAll("details").forEach((one, index) => { one.open = open[index] || false; });
  const next = fresh.querySelector("form[role=search] input[name=filter]");
  next.value = value;
  next.focus({ preventScroll: true });
  next.setSelectionRange(start, end);
  history.replaceState(null, "", address);
}

// The slider of the metadata log: the state below follows it while it moves.
let sliding = 0;
document.addEventListener("input", (event) => {
  const number = event.target.dataset.for && document.getElementById(event.target.dataset.for);
  if (!number) return;
  number.value = event.target.value;
  clearTimeout(sliding);
  sliding = setTimeout(() => slide(number.form), 120);
});

async function slide(form) {
  const address = `${location.pathname}?${new URLSearchParams(new FormData(form))}`;
  const answer = await fetch(address, { headers: { Accept: "text/html" } });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const slid = page.getElementById("slid");
  if (!slid) return;
  document.getElementById("slid").replaceWith(slid);
  history.replaceState(null, "", address);
  main().dataset.live = "0";
  live.hidden = true;
}

// A search goes on by itself, step by step, until it is over or stopped: rows are added, the progress is replaced.
let searching = false;

async function searchOn() {
  const stop = document.getElementById("stop");
  if (!stop) return;
  searching = true;
  stop.hidden = false;
  stop.addEventListener("click", () => { searching = false; stop.hidden = true; });
  const rows = document.querySelector("#records tbody");
  const sums = document.querySelector("#progress [data-scanned]");
  const total = { scanned: Number(sums.dataset.scanned), bytes: Number(sums.dataset.bytes) };
  while (searching && rows.rows.length < 200) {
    const on = document.getElementById("on");
    if (!on) break;
    const answer = await fetch(on.href, { headers: { Accept: "text/html" }, cache: "no-store" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const step = page.querySelector("#progress [data-scanned]");
    if (!step) { location.assign(on.href); return; }
    total.scanned += Number(step.dataset.scanned);
    total.bytes += Number(step.dataset.bytes);
    rows.append(...page.querySelectorAll("#records tbody tr"));
    document.getElementById("records").hidden = rows.rows.length === 0;
    const none = document.getElementById("none");
    if (none) none.hidden = rows.rows.length > 0;
    document.querySelector("#progress progress").value = page.querySelector("#progress progress").value;
    sums.textContent = `searched ${total.scanned.toLocaleString("en")} records, ${(total.bytes / 1048576).toFixed(1)} MiB`;
    sums.nextSibling.textContent = `${step.nextSibling.textContent.trimEnd()} `;
    document.querySelector(".pager").replaceWith(page.querySelector(".pager"));
  }
  searching = false;
  stop.hidden = true;
}

searchOn();

if (seconds() > 0) {
  live.hidden = false;
  live.addEventListener("click", pause);
  // If the metadata log can be read, a change is reported at once.
  if (document.querySelector("body[data-stream]")) {
    new EventSource("/stream").addEventListener("changed", refresh);
  }
}
stayFresh();
