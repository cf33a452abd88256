/* Keyboard, live progress, and scrolling to the failed step. Pages work without scripts too. */
"use strict";

(() => {
  const rows = () => [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent !== null);
  let chosen = -1;

  function choose(place) {
    const all = rows();
    if (all.length === 0) return;
    chosen = Math.max(0, Math.min(place, all.length - 1));
    all.forEach((row, index) => row.classList.toggle("chosen", index === chosen));
    all[chosen].scrollIntoView({ block: "nearest" });
  }

  function open() {
    const row = rows()[chosen];
    const link = row && row.querySelector("a[href]");
    if (link) link.click();
  }

  function typing(target) {
    return target.closest("input, textarea, select, [contenteditable]") !== null;
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && typing(event.target)) {
      event.target.blur();
      return;
    }
    if (typing(event.target)) return;
    const search = document.querySelector("input[type=search]");
    if (event.key === "/" && search) {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === "j") choose(chosen + 1);
    else if (event.key === "k") choose(chosen - 1);
    else if (event.key === "n") (document.querySelector("[data-next-failure]") ?? (document.querySelector("tr.bad td.why a") ?? document.querySelector("tr.bad a")))?.click();
    else if (event.key === "Enter" && chosen >= 0 && !event.target.closest("a, button, summary")) open();
  });

  /* Raw text and copying, in conversations. */
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-raw], button[data-copy]");
    const said = button?.closest(".said");
    if (!said) return;
    if (button.dataset.raw !== undefined) {
      button.setAttribute("aria-pressed", String(said.classList.toggle("shows-raw")));
    } else {
      const text = (said.querySelector(".raw") ?? said.querySelector(".text, .prose"))?.textContent ?? "";
      navigator.clipboard?.writeText(text).then(() => { button.textContent = "copied"; });
    }
  });

  const address = (row) => row?.querySelector("a[href]")?.getAttribute("href");
  let held = {};

  /* Keep the selected row and the focus when a list is refreshed. */
  document.addEventListener("htmx:beforeSwap", () => {
    held = { row: address(rows()[chosen]), link: document.activeElement?.closest("#listed a[href]")?.getAttribute("href") };
  });
  document.addEventListener("htmx:afterSwap", () => {
    const all = rows();
    chosen = held.row ? all.findIndex((row) => address(row) === held.row) : -1;
    all[chosen]?.classList.add("chosen");
    const links = held.link ? [...document.querySelectorAll("#listed a[href]")] : [];
    links.find((link) => link.getAttribute("href") === held.link)?.focus({ preventScroll: true });
  });

  /* After an error, show the error instead of old rows. */
  function clear(event, text) {
    const listed = document.querySelector("#listed");
    if (listed === null || event.detail.target !== listed) return;
    const said = document.createElement("p");
    said.className = "missed text";
    said.textContent = text;
    listed.replaceChildren(said);
  }

  document.addEventListener("htmx:responseError", (event) => {
    const answer = new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html");
    clear(event, answer.querySelector("main .text")?.textContent ?? `The server answered with ${event.detail.xhr.status}.`);
  });
  document.addEventListener("htmx:sendError", (event) => clear(event, "The server cannot be reached."));

  document.addEventListener("htmx:historyRestore", () => { chosen = -1; });

  function show(found) {
    const live = document.querySelector("[data-events]"); // look it up again: going back creates another element
    if (live === null) return;
    const whole = Math.max(found.planned, found.played, 1);
    const places = { good: found.passed, bad: found.failed, odd: found.errored };
    let left = 0;
    for (const [name, count] of Object.entries(places)) {
      const bar = live.querySelector(`rect.${name}`);
      if (!bar) continue;
      bar.setAttribute("x", `${left}%`);
      bar.setAttribute("width", `${(100 * count) / whole}%`);
      left += (100 * count) / whole;
    }
    const text = live.querySelector("[data-progress]");
    if (text) text.textContent = `${found.played} of ${found.planned} trials: ${found.passed} passed, ${found.failed} failed, ${found.errored} errored`;
  }

  function follow(live) {
    const source = new EventSource(live.dataset.events);
    let due = 0;
    let later = null;
    const refresh = () => {
      later = null;
      due = Date.now() + 2000;
      window.htmx.ajax("GET", window.location.href, { target: "#listed", select: "#listed", selectOOB: "#facts", swap: "outerHTML" });
    };
    const starting = live.dataset.starting !== undefined;
    source.addEventListener("progress", (event) => {
      const found = JSON.parse(event.data);
      if (starting && found.state !== "starting") {
        source.close();
        window.location.reload();
        return;
      }
      show(found);
      if (window.htmx && later === null && document.querySelector("#listed")) {
        later = window.setTimeout(refresh, Math.max(0, due - Date.now()));
      }
    });
    source.addEventListener("end", () => {
      source.close();
      window.location.reload();
    });
  }

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("[data-events]").forEach(follow);
    const step = document.querySelector("#failed-step");
    if (step && window.location.hash === "#failed-step") step.scrollIntoView({ block: "center" });
  });
})();
