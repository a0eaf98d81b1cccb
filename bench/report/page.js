// What the page does beyond being read.  Without script it is complete; with it nothing new is said.
(() => {
  "use strict";

  // Whatever is about one model carries its name in data-model: under the pointer or in focus, all of it is marked.
  const mark = (element) => {
    const name = element?.closest?.("[data-model]")?.dataset.model;
    for (const one of document.querySelectorAll("[data-model]")) one.classList.toggle("same", one.dataset.model === name);
  };
  document.addEventListener("pointerover", (event) => mark(event.target));
  document.addEventListener("focusin", (event) => mark(event.target));
})();
