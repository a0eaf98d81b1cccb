// Tokens of a passage: what every model gave the one that is pointed at, tapped or in focus.
(() => {
  "use strict";

  const element = (name, text) => {
    const made = document.createElement(name);
    made.textContent = text;
    return made;
  };

  const start = (block) => {
    const names = [...block.querySelector("template").content.children].map((name) => name.textContent);
    const views = [...block.querySelectorAll(".views section")].map((section) => ({
      name: section.dataset.model,
      tokens: [...section.querySelectorAll(".passage span")],
    }));
    const panel = block.querySelector(".told");
    let shown = -1;

    const show = (at) => {
      if (at === shown) return;
      shown = at;
      const table = document.createElement("table");
      for (const view of views) {
        const row = table.insertRow();
        const name = row.appendChild(document.createElement("th"));
        name.append(element("bdi", view.name));
        const [p, bits, ...more] = view.tokens[at].dataset.told.split("\n");
        for (const part of [p, bits, more.join(" · ")]) row.append(element("td", part));
        view.tokens.forEach((token, place) => token.classList.toggle("at", place === at));
      }
      panel.replaceChildren(element("p", names[at]), table);
      panel.hidden = false;
    };

    // One stop of the Tab key for a passage; arrows go on from there.
    const enter = (view, at) => {
      for (const token of view.tokens) token.tabIndex = -1;
      view.tokens[at].tabIndex = 0;
      show(at);
    };

    views.forEach((view, row) => {
      view.tokens.forEach((token, at) => {
        // the panel takes the place of the title
        token.dataset.told = token.title;
        token.removeAttribute("title");
        token.tabIndex = at ? -1 : 0;
        token.addEventListener("pointerenter", () => show(at));
        token.addEventListener("focus", () => enter(view, at));
        token.addEventListener("click", () => token.focus());
        token.addEventListener("keydown", (event) => {
          const last = view.tokens.length - 1;
          const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key];
          const other = { ArrowUp: row - 1, ArrowDown: row + 1 }[event.key];
          if (event.key === "Escape") {
            panel.hidden = true;
            shown = -1;
          }
          const next = views[other]?.tokens[at] ?? view.tokens[to];
          if (!next) return;
          event.preventDefault();
          next.focus();
        });
      });
    });
  };

  for (const block of document.querySelectorAll(".passages")) start(block);
})();
