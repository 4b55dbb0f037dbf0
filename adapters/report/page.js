"use strict";
// The table of events: filtered, in pages, and with payloads put in only when they are opened.
const PAGE = 100;

function element(tag, text, name) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  return made;
}

function cell(label, text, name) {
  const made = element("td", text, name);
  made.dataset.label = label;
  return made;
}

function opened(event) {
  const box = element("div", undefined, "opened");
  if (event.error) box.append(element("p", event.error, "error"));
  const list = element("dl");
  const told = event.hash ? [...event.details, ["hash", event.hash]] : event.details;
  for (const [name, value] of told) {
    const pair = element("div");
    pair.append(element("dt", name), element("dd", value));
    list.append(pair);
  }
  box.append(list);
  for (const payload of event.payloads) {
    const size = `${payload.size.toLocaleString("en")} bytes, sha256 ${payload.digest}`;
    const note = payload.note ? `${payload.note}; ` : "";
    const head = element("p", undefined, "payload");
    head.append(element("b", payload.name), ` ${note}${size}`);
    box.append(head);
    if (payload.text) {
      const text = element("pre", payload.text);
      text.tabIndex = 0; // it may scroll, and then must by keyboard
      text.setAttribute("aria-label", payload.name);
      box.append(text);
    }
  }
  return box;
}

const named = (topic) => topic.replace(/^run\./, "").replace(/[._]/g, " ");

let ids = 0;

function rows(event) {
  const row = element("tr");
  if (event.error) row.className = "unreadable";
  const button = element("button", named(event.topic));
  button.type = "button";
  button.setAttribute("aria-expanded", "false");
  const where = cell("Event", undefined, "event");
  where.append(button);
  row.append(
    cell("Version", event.v, "number"),
    cell("Time", event.t.slice(0, 23).replace("T", " "), "time"),
    where,
    cell("Token", event.token, "number token"),
    cell("By", event.by, "id"),
    cell("What it says", event.what, "what"),
  );
  const more = element("tr", undefined, "more");
  more.hidden = true;
  more.id = `more-${++ids}`;
  button.setAttribute("aria-controls", more.id);
  button.addEventListener("click", () => {
    if (!more.firstChild) {
      const wide = element("td");
      wide.colSpan = 6;
      wide.append(opened(event));
      more.append(wide);
    }
    more.hidden = !more.hidden;
    button.setAttribute("aria-expanded", String(!more.hidden));
  });
  return [row, more];
}

function start(section) {
  const events = JSON.parse(section.querySelector("script").textContent);
  const find = (selector) => section.querySelector(selector);
  const [search, select, found] = [find("input"), find("select"), find(".found")];
  const [table, pages] = [find("table"), find(".pages")];
  const [before, after] = [find(".before"), find(".after")];
  const texts = events.map((event) =>
    [event.v, event.topic, named(event.topic), event.by, event.token && `token ${event.token}`, event.what, event.error ?? ""].join(" ").toLowerCase(),
  );
  const counts = new Map();
  for (const { topic } of events) counts.set(topic, (counts.get(topic) ?? 0) + 1);
  select.append(new Option("every event", ""));
  for (const [topic, count] of counts) {
    select.append(new Option(`${named(topic)} (${count.toLocaleString("en")})`, topic));
  }
  let shown = events;
  let page = 0;

  function draw() {
    const last = Math.max(Math.ceil(shown.length / PAGE) - 1, 0);
    page = Math.min(Math.max(page, 0), last);
    const part = shown.slice(page * PAGE, (page + 1) * PAGE);
    table.tBodies[0].replaceChildren(...part.flatMap(rows));
    const all = events.length.toLocaleString("en");
    const some = shown.length.toLocaleString("en");
    found.textContent = shown.length === events.length ? `${all} events` : `${some} of ${all} events`;
    pages.hidden = last === 0;
    before.disabled = page === 0;
    after.disabled = page === last;
    pages.querySelector("span").textContent = `page ${page + 1} of ${last + 1}`;
  }

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = events.filter(
      (event, i) =>
        (!select.value || event.topic === select.value) && words.every((w) => texts[i].includes(w)),
    );
    page = 0;
    draw();
  }

  search.addEventListener("input", filter);
  select.addEventListener("change", filter);
  before.addEventListener("click", () => { page -= 1; draw(); });
  after.addEventListener("click", () => { page += 1; draw(); });
  for (const part of section.querySelectorAll("[hidden]")) part.hidden = false;
  draw();
}

for (const section of document.querySelectorAll("section.events")) start(section);
