"use strict";
// The list of calls: only the rows in view exist, so that 100,000 of them scroll smoothly.
(() => {
  const at = (id) => document.getElementById(id);
  const data = JSON.parse(at("calls-data").textContent);
  const view = at("calls-view");
  const sheet = at("calls-sheet");
  const text = at("calls-text");
  const state = at("calls-state");
  const count = at("calls-count");
  const fold = at("calls-fold");
  const height = 48;
  const cause = data.states.indexOf("cause");
  const folded = new Set();
  let shown = [];
  let chosen = -1;

  const make = (tag, content = "", name = "") => {
    const found = document.createElement(tag);
    found.textContent = content;
    found.className = name;
    return found;
  };

  // Calls in order, with a heading wherever another of raw's modules begins, one for each step down the tree.
  const outline = () => {
    const items = [];
    let open = [];
    data.rows.forEach((row, index) => {
      // What only base does stands where raw is at that moment.
      const path = !row[2].length ? open.map(({ name }) => name) : data.texts[row[2][2]] ? data.texts[row[2][2]].split(".") : [];
      let same = 0;
      while (same < path.length && same < open.length && open[same].name === path[same]) same += 1;
      open = open.slice(0, same);
      for (let depth = same; depth < path.length; depth += 1) {
        const heading = { name: path[depth], path: path.slice(0, depth + 1).join("."), depth, calls: 0, bad: 0, id: items.length };
        open.push(heading);
        items.push(heading);
      }
      open.forEach((heading) => {
        heading.calls += 1;
        heading.bad += row[0] === cause ? 1 : 0;
      });
      items.push({ row, index, depth: path.length });
    });
    // A heading for one call, or for all that the next one is for, tells nothing.
    return items.filter((item, i) => item.row || (item.calls > 1 && !(items[i + 1].name && items[i + 1].calls === item.calls)));
  };
  const items = outline();

  const cell = (row, side) => {
    const box = make("div");
    if (row.length) {
      const [id, api, owner, place] = row;
      const name = make("b", data.texts[api]);
      const where = make("small", [data.texts[owner], data.texts[place]].filter(Boolean).join("  "));
      box.title = `${side} call ${id}: ${name.textContent}\n${where.textContent}`;
      box.append(name, where);
    }
    return box;
  };

  const lineOf = (item) => {
    if (item.row) {
      const [kind, base, raw] = item.row;
      const line = make("div", "", `call ${data.states[kind]}${item.index === chosen ? " chosen" : ""}`);
      line.append(make("span", data.labels[kind]), cell(base, "base"), cell(raw, "raw"));
      return line;
    }
    const line = make("div", "", `call module${item.bad ? " cause" : ""}`);
    const closed = folded.has(item.id);
    const button = make("button", `${closed ? "\u25b8" : "\u25be"} ${item.path}`);
    button.type = "button";
    button.style.marginLeft = `${item.depth}em`;
    button.setAttribute("aria-expanded", String(!closed));
    button.addEventListener("click", () => {
      if (!folded.delete(item.id)) folded.add(item.id);
      list();
    });
    line.append(button, make("small", `${item.calls} call${item.calls === 1 ? "" : "s"}${item.bad ? `, ${item.bad} to blame` : ""}`));
    return line;
  };

  const draw = () => {
    const first = Math.max(0, Math.floor(view.scrollTop / height) - 10);
    const last = Math.min(shown.length, first + Math.ceil(view.clientHeight / height) + 20);
    sheet.style.height = `${shown.length * height}px`;
    sheet.replaceChildren(...shown.slice(first, last).map((item, i) => {
      const line = lineOf(item);
      line.setAttribute("role", "row");
      line.style.top = `${(first + i) * height}px`;
      return line;
    }));
  };

  // What is to be seen now: hits of the filters without headings, or the outline without what is folded.
  const list = () => {
    const wanted = text.value.toLowerCase();
    if (wanted || state.value) {
      const hit = data.texts.map((t) => t.toLowerCase().includes(wanted));
      const found = ([, ...sides]) => !wanted || sides.some((s) => s.slice(1).some((t) => hit[t]));
      shown = items.filter(({ row }) => row && (!state.value || data.states[row[0]] === state.value) && found(row));
    } else {
      let below = Infinity;
      shown = items.filter((item) => {
        if (item.depth > below) return false;
        below = !item.row && folded.has(item.id) ? item.depth : Infinity;
        return true;
      });
    }
    const calls = shown.reduce((n, item) => n + (item.row ? 1 : 0), 0);
    count.textContent = `${calls.toLocaleString("en")} of ${data.rows.length.toLocaleString("en")}`;
    fold.textContent = folded.size ? "unfold all modules" : "fold all modules";
    draw();
  };

  const filter = () => {
    view.scrollTop = 0;
    list();
  };

  const foldAll = () => {
    if (folded.size) folded.clear();
    else items.forEach((item) => !item.row && folded.add(item.id));
    filter();
  };

  const show = (index) => {
    if (index < 0) return;
    text.value = state.value = "";
    folded.clear();
    chosen = index;
    list();
    const place = shown.findIndex((item) => item.row && item.index === index);
    view.scrollTop = Math.max(0, place * height - view.clientHeight / 2);
    draw();
    view.scrollIntoView({ block: "center" });
    view.focus({ preventScroll: true });
  };
  const showCall = (id) => show(data.rows.findIndex(([, , raw]) => raw[0] === id));
  const nextCause = () => {
    const causes = data.rows.flatMap(([kind], i) => (kind === cause ? [i] : []));
    show(causes.find((i) => i > chosen) ?? causes[0] ?? -1);
  };

  // The error along the run.
  const plot = () => {
    const box = at("calls-plot");
    if (!data.errors.length) return;
    box.hidden = false;
    const svg = box.querySelector("svg");
    const sizes = data.errors.flatMap(([, ...found]) => found).filter((e) => e > 0).map(Math.log10);
    const low = Math.floor(Math.min(...sizes));
    const high = Math.max(Math.ceil(Math.max(...sizes)), low + 1);
    const x = (index) => (1000 * index) / Math.max(data.rows.length - 1, 1);
    const y = (error) => error === 0 ? 158 : 155 - (150 * (Math.log10(error) - low)) / (high - low);
    ["observed", "forced"].forEach((name, series) => {
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      const points = data.errors.filter((e) => e[series + 1] !== null);
      path.setAttribute("d", points.map((e, i) => `${i ? "L" : "M"}${x(e[0]).toFixed(1)} ${y(e[series + 1]).toFixed(1)}`).join(""));
      path.setAttribute("class", name);
      svg.append(path);
    });
    at("calls-scale").textContent = `1e${low} to 1e${high}`;
    svg.addEventListener("click", (event) => {
      const frame = svg.getBoundingClientRect();
      const index = Math.round(((event.clientX - frame.left) / frame.width) * (data.rows.length - 1));
      show(Math.min(Math.max(index, 0), data.rows.length - 1));
    });
  };

  const cards = [...document.querySelectorAll("article")];
  const card = (step) => {
    const passed = cards.filter((c) => c.getBoundingClientRect().top < 1).length;
    const next = cards[Math.min(Math.max(step > 0 ? passed : passed - 2, 0), cards.length - 1)];
    if (next) next.scrollIntoView();
  };
  const keys = { j: () => card(1), k: () => card(-1), c: nextCause, f: foldAll, "/": () => text.focus() };
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "Escape" && typing) view.focus();
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  document.querySelectorAll(".jump").forEach((button) =>
    button.addEventListener("click", () => showCall(Number(button.dataset.call))));
  view.addEventListener("scroll", draw, { passive: true });
  window.addEventListener("resize", draw);
  text.addEventListener("input", filter);
  state.addEventListener("change", filter);
  fold.addEventListener("click", foldAll);
  plot();
  filter();
})();
