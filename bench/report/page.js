// What the page does beyond being read: tables sort, one box filters their models, and a model is marked wherever it
// stands.  Whatever is about one model has its name in data-model.  Without script the page is complete as it is.
(() => {
  "use strict";

  const SCALES = {
    B: 1, kB: 1e3, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40,
    k: 1e3, M: 1e6, G: 1e9, T: 1e12, h: 3600, min: 60, s: 1, ms: 1e-3, us: 1e-6, "µs": 1e-6, J: 1, "%": 1e-2,
  };
  // capitals do not matter where they tell nothing apart: mb is MB, but m is not M
  for (const unit of Object.keys(SCALES).filter((name) => /B$/.test(name))) SCALES[unit.toLowerCase()] = SCALES[unit];
  const UNIT = Object.keys(SCALES).join("|");
  const NUMBER = new RegExp(`^(?:[<|] )?([+-]?(?:\\d[\\d,]*(?:\\.\\d+)?(?:e[+-]?\\d+)?|inf))(?:\\s*(${UNIT}))?(?=$|[\\s(])`);
  // what a limit may leave out, since whole columns are written in it
  const SHARED = new Set(["s", "ms", "µs", "%"]);

  // The first number of a text in bytes, seconds, shares of 1 or plain; null where it starts with none
  const amountOf = (text, unitOfColumn) => {
    if (text === "not reached") return Infinity;
    const [, digits, unit = unitOfColumn] = NUMBER.exec(text) ?? [];
    if (digits === undefined) return null;
    return Number(digits.replaceAll(",", "").replace("inf", "Infinity")) * (SCALES[unit] ?? 1);
  };

  // Numbers come before words, and what is missing last, whichever way a column is sorted
  const worthOf = (text, unit) => {
    if (text === "" || text === "n/a") return { rank: 2, value: "" };
    const amount = unit === null ? null : amountOf(text, unit);
    return amount === null ? { rank: 1, value: text } : { rank: 0, value: amount };
  };
  const inWords = new Intl.Collator("en", { numeric: true });
  const compare = (a, b, sign) => {
    if (a.rank !== b.rank) return a.rank - b.rank;
    return sign * (a.rank === 0 ? (a.value > b.value) - (a.value < b.value) : inWords.compare(a.value, b.value));
  };

  const plain = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}#%]/gu, "");

  // `key` is the column's name as limits write it; `unit` that of a number without one, null in a column of words
  const columnOf = (head, place, rows) => {
    const texts = rows.map((row) => row.cells[place].textContent.trim());
    const units = texts.map((text) => NUMBER.exec(text)?.[2]);
    // brackets hold what stands beside the figure that a column is of
    const [name] = head.textContent.split("(");
    const unit = head.classList.contains("r") ? (/, (\S+)\s*$/.exec(name)?.[1] ?? units.find((one) => SHARED.has(one)) ?? "") : null;
    const worths = new Map(rows.map((row, line) => [row, worthOf(texts[line], unit)]));
    return { key: plain(name), unit, worths, isBytes: units.some((one) => /B$/.test(one)) };
  };
  const groupOf = (element) => element.closest("[data-group]")?.dataset.group;
  const sheetOf = (table) => {
    const [body, heads] = [table.tBodies[0], [...table.tHead.rows[0].cells]];
    const rows = [...body.rows];
    const columns = heads.map((head, place) => columnOf(head, place, rows));
    // where a model has several rows, each is asked by itself, its words too
    const names = rows.flatMap((row) => row.dataset.model ?? []);
    const repeats = new Set(names).size < names.length;
    const said = (row) => columns.map(({ unit }, n) => (unit === null ? row.cells[n].textContent : "")).join(" ");
    if (repeats) for (const row of rows) row.dataset.words = said(row).toLowerCase();
    return { group: groupOf(table), body, heads, rows, columns };
  };

  // One row of a table is reached with Tab, the others from there with the arrows
  const rove = (body, target = [...body.rows].find((row) => !row.hidden)) => {
    for (const row of body.rows) if (row.dataset.model !== undefined) row.tabIndex = row === target ? 0 : -1;
  };

  const NEXT = { none: "ascending", ascending: "descending", descending: "none" };
  const SIGNS = { ascending: 1, descending: -1 };
  const sort = ({ body, heads, rows, columns }, place) => {
    const order = NEXT[heads[place].getAttribute("aria-sort") ?? "none"];
    for (const head of heads) head.removeAttribute("aria-sort");
    const sorted = [...rows];
    if (order !== "none") {
      const { worths } = columns[place];
      heads[place].setAttribute("aria-sort", order);
      sorted.sort((a, b) => compare(worths.get(a), worths.get(b), SIGNS[order]));
    }
    body.append(...sorted);
    rove(body);
  };

  const sheets = [...document.querySelectorAll("table.sheet")].map(sheetOf);
  for (const sheet of sheets) {
    sheet.heads.forEach((head, place) => {
      const button = Object.assign(document.createElement("button"), { type: "button" });
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(sheet, place));
      head.append(button);
    });
    rove(sheet.body);
  }

  const STEPS = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" };
  document.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (!step || !event.target.matches("tr[data-model]")) return;
    event.preventDefault();
    let row = event.target[step];
    while (row?.hidden) row = row[step];
    if (!row) return;
    rove(row.parentElement, row);
    row.focus();
  });

  // One model, wherever it stands
  const about = new Map();
  for (const element of document.querySelectorAll("[data-model]")) {
    const name = element.dataset.model;
    about.set(name, [...(about.get(name) ?? []), element]);
  }
  const nameAt = (element) => element?.closest?.("[data-model]")?.dataset.model;
  const mark = (name, is) => about.get(name)?.forEach((element) => element.classList.toggle("same", is));
  const at = { pointer: undefined, focus: undefined };
  const see = (how, name) => {
    const before = at.pointer ?? at.focus;
    at[how] = name;
    const now = at.pointer ?? at.focus;
    if (now === before) return;
    mark(before, false);
    mark(now, true);
  };
  document.addEventListener("pointerover", (event) => see("pointer", nameAt(event.target)));
  document.documentElement.addEventListener("pointerleave", () => see("pointer", undefined));
  document.addEventListener("focusin", (event) => see("focus", nameAt(event.target)));
  document.addEventListener("focusout", (event) => see("focus", nameAt(event.relatedTarget)));

  // The filter: a limit is words, a sign and a bound
  const LIMIT = new RegExp(`([^\\s<>](?:[^<>]*[^\\s<>])?)\\s*([<>]=?)\\s*([^\\s<>=]+(?:\\s+(?:${UNIT})(?=\\s|$))?)`, "g");
  const TESTS = { "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b };

  // The words before a sign end with a column's name: with the longest that there is, or with the last word
  const columnIn = (words) => {
    const isColumn = (key) => sheets.some(({ columns }) => columns.some((one) => one.unit !== null && one.key.includes(key)));
    const keys = words.map((_, start) => plain(words.slice(start).join("")));
    const start = keys.findIndex((key) => key && isColumn(key));
    return start < 0 ? words.length - 1 : start;
  };
  const wordsOf = (text) => text.split(/\s+/).filter(Boolean);

  // "kn5, neural size<10MB" is two choices, the second of a word and a limit; what is half typed says nothing yet
  const choiceOf = (text) => {
    const words = wordsOf(text.replace(LIMIT, " ").replace(/[^<>]*[<>]=?\s*$/, "")).filter((word) => !/[<>]/.test(word));
    const limits = [...text.matchAll(LIMIT)].map(([, before, sign, bound]) => {
      const own = wordsOf(before);
      const start = columnIn(own);
      words.push(...own.slice(0, start));
      const name = own.slice(start).join(" ");
      return { whole: `${name}${sign}${bound}`, key: plain(name), sign, bound };
    });
    return { words: words.map((word) => word.replaceAll("\0", ",").toLowerCase()), limits };
  };
  // names hold commas too, which part nothing
  const whole = [...about.keys()].filter((name) => name.includes(",")).sort((a, b) => b.length - a.length);
  const asked = (text) =>
    whole
      .reduce((typed, name) => typed.replaceAll(name, name.replaceAll(",", "\0")), text)
      .split(/,(?!\d)/)
      .map(choiceOf)
      .filter(({ words, limits }) => words.length || limits.length);

  // Whether each model of a group keeps a limit, by the first column there that has a figure of it
  const keeping = (group, { key, sign, bound }) => {
    const kept = new Map();
    const columns = sheets.filter((sheet) => sheet.group === group).flatMap((sheet) => sheet.columns);
    const close = columns.filter((column) => column.unit !== null && column.key.includes(key));
    // one of that very name goes before those that have it inside
    const same = close.filter((column) => column.key === key);
    for (const { unit, worths, isBytes } of same.length ? same : close) {
      for (const [row, { rank, value }] of worths) {
        const of = row.dataset.words === undefined ? row.dataset.model : row;
        if (rank !== 0 || of === undefined || kept.has(of)) continue;
        kept.set(of, TESTS[sign](value, amountOf(bound, unit)));
        kept.isBytes ||= isBytes;
      }
    }
    return kept;
  };

  const box = document.getElementById("filter");
  const told = document.getElementById("shown");
  const groups = [...new Set([...about.values()].flat().map(groupOf))];
  const kinds = new Map([...about].map(([name, all]) => [name, all.flatMap(({ dataset }) => dataset.kind?.split(" ") ?? [])]));
  const isNamed = (name, { dataset }, word) =>
    [name.toLowerCase(), dataset.words ?? ""].some((text) => text.includes(word)) ||
    kinds.get(name).some((kind) => kind.startsWith(word));

  const filter = () => {
    const faults = [];
    const isRead = ({ key, bound }) => key && amountOf(bound, "") !== null;
    // of each limit, what each group's models make of it
    const choices = asked(box.value).map(({ words, limits }) => {
      faults.push(...limits.filter((limit) => !isRead(limit)).map((limit) => `cannot read ${limit.whole}`));
      const kept = limits.filter(isRead).map((limit) => {
        const of = new Map(groups.map((group) => [group, keeping(group, limit)]));
        const found = [...of.values()].filter((models) => models.size);
        if (!found.length) faults.push(`no figures for ${limit.whole}`);
        if (found.some(({ isBytes }) => isBytes) && !NUMBER.exec(limit.bound)[2]) faults.push(`${limit.whole} is in bytes`);
        return of;
      });
      return { words, kept };
    });
    const [found, known] = [new Set(), new Set()];
    for (const [name, elements] of about) {
      for (const element of elements) {
        const keeps = (of) => of.get(groupOf(element)).get(element) ?? of.get(groupOf(element)).get(name);
        const isIn = (word) => isNamed(name, element, word) && known.add(word);
        const fits = choices.map(({ words, kept }) => words.map(isIn).every(Boolean) && kept.every(keeps));
        element.hidden = choices.length > 0 && !fits.some(Boolean);
        if (!element.hidden) found.add(name);
      }
    }
    for (const word of new Set(choices.flatMap(({ words }) => words))) if (!known.has(word)) faults.push(`nothing has ${word}`);
    sheets.forEach(({ body }) => rove(body));
    told.textContent = [`${found.size} of ${about.size} models`, ...faults].join("; ");
  };
  box.addEventListener("input", filter);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && box.value) filter((box.value = ""));
  });
  box.closest("[hidden]").hidden = false;
  filter();
})();
