// Accessibility: keys, words for screen readers, colours, small screens, tokens.

import { holds, same } from "../browser.mjs";

const PAGES = (backend) => [
  [backend.overview, `tr[data-id="${backend.with}"]`],
  [`#/process?id=${backend.with}`, '[data-chart="latency"] canvas'],
  [`#/compare?a=${backend.without}&b=${backend.with}&range=1m`, '[data-chart="compare-p99"] canvas'],
  ["#/replay", ".recordings tbody tr"],
  [`#/policy?id=${backend.with}`, ".due"],
  [`#/memory?id=${backend.with}`, ".memory-bar"],
  [`#/heap?id=${backend.with}`, ".heap-bar"],
  ["#/alerts", ".rules tbody tr"],
];

export default {
  async "everything has a name and its place"(browser, backend) {
    for (const [hash, ready] of PAGES(backend)) {
      const page = await browser.open(hash);
      await page.waitForSelector(ready);
      const faults = await page.evaluate(() => {
        const list = [];
        const named = (element) =>
          element.getAttribute("aria-label") || element.getAttribute("aria-labelledby") || element.labels?.length || element.textContent.trim() || element.getAttribute("title");
        for (const element of document.querySelectorAll("button, a, input, select, table, figure, [role=group], [role=region]")) {
          if (element.offsetParent !== null && !named(element)) list.push(`no name: ${element.outerHTML.slice(0, 120)}`);
        }
        for (const one of ["header.top", "nav", "main", "footer", "h1"]) if (document.querySelectorAll(one).length !== 1) list.push(`not one ${one}`);
        for (const image of document.images) if (!image.hasAttribute("alt")) list.push("a picture without words");
        const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
        if (new Set(ids).size !== ids.length) list.push("an id is there twice");
        for (const table of document.querySelectorAll("table")) if (!table.caption) list.push("a table without a caption");
        if (!document.documentElement.lang) list.push("no language");
        if (!document.querySelector("[aria-live], [role=status]")) list.push("nothing speaks");
        return list;
      });
      same(faults, [], hash);
    }
  },

  async "text can be told from its ground, in both colours"(browser, backend) {
    for (const scheme of ["light", "dark"]) {
      const page = await browser.fresh({ colorScheme: scheme });
      await browser.open(`#/process?id=${backend.with}`);
      await page.waitForSelector('[data-chart="latency"] canvas');
      same(await page.evaluate(() => document.documentElement.dataset.theme), scheme, "the theme");
      const weak = await page.evaluate(() => {
        const style = getComputedStyle(document.documentElement);
        const light = (name) => {
          const hex = style.getPropertyValue(`--${name}`).trim();
          const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const contrast = (one, other) => {
          const [low, high] = [light(one), light(other)].sort((x, y) => x - y);
          return (high + 0.05) / (low + 0.05);
        };
        const wanted = [["ink", "card", 7], ["muted", "card", 4.5], ["muted", "paper", 4.5], ["good", "card", 4.5], ["bad", "card", 4.5], ["warn", "warn-tint", 4.5], ["bad", "bad-tint", 4.5], ["accent", "card", 4.5], ["accent-ink", "accent", 4.5]];
        return wanted.filter(([one, other, least]) => contrast(one, other) < least).map(([one, other]) => `${one} on ${other}: ${contrast(one, other).toFixed(2)}`);
      });
      same(weak, [], scheme);
    }
    await browser.fresh();
  },

  async "the theme can be chosen, and is kept"(browser) {
    const page = await browser.open("#/overview");
    const button = page.getByRole("button", { name: /Colours/ });
    await button.click();
    await button.click();
    same(await page.evaluate(() => document.documentElement.dataset.theme), "dark", "the theme");
    await page.reload();
    same(await page.evaluate(() => document.documentElement.dataset.theme), "dark", "the theme after a reload");
    await page.getByRole("button", { name: /Colours/ }).click();
  },

  async "charts obey the keyboard, and say what they show"(browser, backend) {
    const page = await browser.open(`#/process?id=${backend.with}&range=1m`);
    await browser.until(() => document.querySelector('[data-tile="p99"] .figure').textContent !== "–");
    await page.locator('[data-chart="latency"] .plot').focus();
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("ArrowLeft");
    await browser.until(() => /p50 .*p99 /.test(document.querySelector("[aria-live]").textContent));
    await page.keyboard.press("+");
    await page.getByRole("button", { name: "Reset zoom" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Reset zoom" }).waitFor({ state: "hidden" });
    await page.locator('[data-chart="pauses"] .plot').focus();
    await page.keyboard.press("ArrowLeft");
    await browser.until(() => /collection|snapshot|reap/.test(document.querySelector("[aria-live]").textContent));
  },

  async "one can skip to the page"(browser) {
    const page = await browser.open("#/overview");
    await page.keyboard.press("Tab");
    same(await page.evaluate(() => document.activeElement.className), "skip", "what has the focus first");
    await page.keyboard.press("Enter");
    same(await page.evaluate(() => document.activeElement.id), "main", "what has the focus then");
  },

  async "nothing is cut off on a small screen"(browser, backend) {
    await browser.fresh({ viewport: { width: 390, height: 800 } });
    for (const [hash, ready] of PAGES(backend)) {
      const page = await browser.open(hash);
      await page.waitForSelector(ready);
      const over = await page.evaluate(() => Math.max(document.documentElement.scrollWidth - innerWidth, document.querySelector("nav").scrollWidth - document.querySelector("nav").clientWidth));
      holds(over <= 0, `${hash} is ${over} pixels too wide`);
    }
    await browser.fresh();
  },

  async "a hub with a token asks for it"(browser, backend) {
    await backend.guarded("open-sesame-0123456789", async (base) => {
      const page = await browser.open("#/overview", base);
      await page.getByRole("heading", { name: "This hub requires a token" }).waitFor();
      await page.locator("dialog input").fill("open-sesame-0123456789");
      await page.getByRole("button", { name: "Open" }).click();
      await browser.until(() => document.querySelector(".connection")?.textContent === "Live");
      await page.locator(".processes tbody tr").first().waitFor();
    });
    await browser.fresh();
  },

  async "the address that the hub prints opens the page, and the token leaves it"(browser, backend) {
    if (!backend.real) return false;
    await backend.guarded("open-sesame-0123456789", async (base) => {
      const page = await browser.open("?token=open-sesame-0123456789", base);
      await browser.until(() => document.querySelector(".connection")?.textContent === "Live");
      await page.locator(".processes tbody tr").first().waitFor();
      holds(!page.url().includes("token"), `the address is ${page.url()}`);
    });
    await browser.fresh();
  },
};
