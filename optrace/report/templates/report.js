"use strict";
// The list of calls: only the rows in view exist, so that 100,000 of them scroll smoothly.
(() => {
  const data = JSON.parse(document.getElementById("calls-data").textContent);
  const view = document.getElementById("calls-view");
  const sheet = document.getElementById("calls-sheet");
  const text = document.getElementById("calls-text");
  const state = document.getElementById("calls-state");
  const count = document.getElementById("calls-count");
  const height = 48;
  let shown = data.rows;

  const cell = (row, side) => {
    const box = document.createElement("div");
    if (row.length) {
      const [id, api, owner, place] = row;
      const name = document.createElement("b");
      name.textContent = data.texts[api];
      const where = document.createElement("small");
      where.textContent = [data.texts[owner], data.texts[place]].filter(Boolean).join("  ");
      box.title = `${side} call ${id}: ${name.textContent}\n${where.textContent}`;
      box.append(name, where);
    }
    return box;
  };

  const draw = () => {
    const first = Math.max(0, Math.floor(view.scrollTop / height) - 10);
    const last = Math.min(shown.length, first + Math.ceil(view.clientHeight / height) + 20);
    sheet.style.height = `${shown.length * height}px`;
    sheet.replaceChildren(...shown.slice(first, last).map(([kind, base, raw], i) => {
      const line = document.createElement("div");
      line.className = `call ${data.states[kind]}`;
      line.setAttribute("role", "row");
      line.style.top = `${(first + i) * height}px`;
      const label = document.createElement("span");
      label.textContent = data.labels[kind];
      line.append(label, cell(base, "base"), cell(raw, "raw"));
      return line;
    }));
  };

  const filter = () => {
    const wanted = text.value.toLowerCase();
    const hit = data.texts.map((t) => t.toLowerCase().includes(wanted));
    const found = ([, ...sides]) => !wanted || sides.some((s) => s.slice(1).some((t) => hit[t]));
    shown = data.rows.filter((row) => (!state.value || data.states[row[0]] === state.value) && found(row));
    count.textContent = `${shown.length.toLocaleString("en")} of ${data.rows.length.toLocaleString("en")}`;
    view.scrollTop = 0;
    draw();
  };

  view.addEventListener("scroll", draw, { passive: true });
  window.addEventListener("resize", draw);
  text.addEventListener("input", filter);
  state.addEventListener("change", filter);
  filter();
})();
