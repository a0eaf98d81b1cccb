// Tokens of a passage: what every model gave the one that is pointed at, tapped or in focus.
(() => {
  "use strict";

  const element = (name, text) => Object.assign(document.createElement(name), { textContent: text });

  const start = (block) => {
    const names = [...block.querySelector("template").content.children].map((name) => name.textContent);
    const views = [...block.querySelectorAll(".views section")].map((section) => ({
      section,
      name: section.dataset.model,
      tokens: [...section.querySelectorAll(".passage span")],
    }));
    // the filter of the page hides some
    const inSight = () => views.filter(({ section }) => !section.hidden);
    const panel = block.querySelector(".told");
    // what is read out is short: the token in focus, and what its model makes of it
    const heard = block.querySelector(".heard");
    let shown = -1;

    const show = (at) => {
      shown = at;
      const table = document.createElement("table");
      for (const view of views) view.tokens.forEach((token, place) => token.classList.toggle("at", place === at));
      for (const view of inSight()) {
        const row = table.insertRow();
        const name = row.appendChild(document.createElement("th"));
        name.append(element("bdi", view.name));
        const [p, bits, ...more] = view.tokens[at].dataset.told.split("\n");
        for (const part of [p, bits, more.join(" · ")]) row.append(element("td", part));
      }
      panel.replaceChildren(element("p", names[at]), table);
      panel.hidden = false;
    };

    // One stop of the Tab key for a passage; arrows go on from there.
    const enter = (view, at) => {
      for (const token of view.tokens) token.tabIndex = -1;
      view.tokens[at].tabIndex = 0;
      heard.textContent = `${names[at]}. ${view.name}: ${view.tokens[at].dataset.told.replaceAll("\n", ", ")}`;
      show(at);
    };
    document.getElementById("filter").addEventListener("input", () => shown < 0 || show(shown));

    views.forEach((view) => {
      view.tokens.forEach((token, at) => {
        // the panel takes the place of the title
        token.dataset.told = token.title;
        token.removeAttribute("title");
        token.tabIndex = at ? -1 : 0;
        token.addEventListener("pointerenter", () => show(at));
        token.addEventListener("focus", () => enter(view, at));
        token.addEventListener("click", () => token.focus());
        token.addEventListener("keydown", (event) => {
          // the arrows point where the text runs
          const right = getComputedStyle(token).direction === "rtl" ? -1 : 1;
          const to = { ArrowLeft: at - right, ArrowRight: at + right, Home: 0, End: view.tokens.length - 1 }[event.key];
          const seen = inSight();
          const row = seen.indexOf(view);
          const other = { ArrowUp: seen[row - 1], ArrowDown: seen[row + 1] }[event.key];
          if (event.key === "Escape" && shown >= 0) {
            panel.hidden = true;
            shown = -1;
            // which the filter would take for its own
            event.stopPropagation();
          }
          const next = other?.tokens[at] ?? view.tokens[to];
          if (!next) return;
          event.preventDefault();
          next.focus();
        });
      });
    });
  };

  for (const block of document.querySelectorAll(".passages")) start(block);
})();
