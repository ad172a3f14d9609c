// Heap: taking a dump, what is in it, who holds it, and what grew.

import { format, holds, same } from "../browser.mjs";

const JSON_BODY = { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" };

/** Takes a dump by the API; says why where there can be none. */
async function taken(backend) {
  const answer = await fetch(`${backend.base}/api/v1/processes/${backend.with}/heap`, JSON_BODY);
  const said = await answer.json();
  return answer.ok ? said : { reason: said.error.message };
}

/** Opens the page with a dump, which is taken where there is none. */
async function opened(browser, backend) {
  const { heaps } = await backend.get("heaps", { process: backend.with });
  const entry = heaps[0] ?? (await taken(backend));
  if (entry.reason) return {};
  const page = await browser.open(`#/heap?id=${backend.with}`);
  await browser.until(() => !document.querySelector(".heap").hidden);
  return { page, entry };
}

const rows = (page, table) => page.locator(`.${table} tbody tr`);

export default {
  async "a dump is taken after a question, and not without an answer"(browser, backend) {
    const before = (await backend.get("heaps")).heaps.length;
    const page = await browser.open(`#/heap?id=${backend.with}`);
    const button = page.getByRole("button", { name: "Take a heap dump" });
    await button.click();
    const dialog = page.locator("dialog.question");
    const asked = await dialog.innerText();
    holds(/stands still/.test(asked) && /64 characters/.test(asked), `the question does not say what it costs: ${asked}`);
    await dialog.getByRole("button", { name: "Cancel" }).click();
    same((await backend.get("heaps")).heaps.length, before, "dumps after no");
    await page.getByLabel("Leave out texts").check();
    await button.click();
    holds(/Texts are left out/.test(await dialog.innerText()), "the question does not say that texts are left out");
    await dialog.getByRole("button", { name: "Take the dump" }).click();
    await browser.until((many) => (document.querySelectorAll("tr[data-heap]").length > many && !document.querySelector(".heap").hidden) || document.querySelector(".heap-bar [role=status]").textContent.startsWith("No heap dump"), before);
    const { heaps } = await backend.get("heaps");
    if (heaps.length === before) return false;
    same(heaps.length, before + 1, "dumps after yes");
    await page.locator("[data-facts]", { hasText: "without texts" }).waitFor();
    holds(page.url().includes(encodeURIComponent(heaps[0].id)), "the address does not name the dump");
    return await page.locator("[data-facts]").innerText();
  },

  async "types are those of the API, in the order that is chosen"(browser, backend) {
    const { page, entry } = await opened(browser, backend);
    if (!page) return false;
    for (const by of ["objects", "retained"]) {
      const { types } = await backend.get(`heaps/${entry.id}`, { by });
      await page.getByLabel("Order of types").selectOption(by);
      await page.locator(".heap-types tbody tr", { hasText: types[0].type }).first().waitFor();
      await browser.until((wanted) => document.querySelector(".heap-types tbody th")?.textContent === wanted, types[0].type);
      const first = await rows(page, "heap-types").first().innerText();
      holds(first.includes(format.count(types[0].objects)) && first.includes(format.bytes(types[0].retained)), `${first} is not ${JSON.stringify(types[0])}`);
    }
    same(await page.locator(".heap i").count(), 0, "markup from names");
    holds(page.url().includes("by=retained"), "the address does not name the order");
  },

  async "suspects are told in sentences"(browser, backend) {
    const { page, entry } = await opened(browser, backend);
    if (!page) return false;
    const { suspects } = await backend.get(`heaps/${entry.id}`);
    const first = await page.locator(".heap-suspects li").first().innerText();
    if (suspects.length) holds(first.startsWith(`${format.bytes(suspects[0].retained)} (`), `${first} is not ${suspects[0].text}`);
    else holds(first.startsWith("None"), first);
    return first.replace(/\s+/g, " ");
  },

  async "the tree opens level by level, also by keys"(browser, backend) {
    const { page, entry } = await opened(browser, backend);
    if (!page) return false;
    const top = page.locator(".heap-tree > ul > li");
    await top.first().waitFor();
    const { rows: lines } = await backend.get(`heaps/${entry.id}/tree`, { top: 20 });
    same(await top.count(), lines.length, "objects at the top");
    const first = page.locator(".heap-tree > ul > li > details").first();
    await first.locator("> summary").focus();
    await page.keyboard.press("Enter");
    await first.locator("> div > ul > li").first().waitFor();
    const second = first.locator("> div > ul > li > details").first();
    await second.locator("> summary").click();
    await second.locator("> div > ul > li").first().waitFor();
  },

  async "a type leads to its paths, and what is not there is told"(browser, backend) {
    const { page, entry } = await opened(browser, backend);
    if (!page) return false;
    const wanted = backend.real ? "__main__.Node" : "app.Session";
    const input = page.getByLabel("Type, expression or address");
    await input.fill(wanted);
    await page.getByRole("button", { name: "Find paths" }).click();
    const { merged } = await backend.get(`heaps/${entry.id}/path`, { what: wanted });
    await page.locator(".heap-finder .note", { hasText: `${format.count(merged.objects)} objects of ${wanted}` }).waitFor();
    same(await rows(page, "heap-paths").first().locator("th").innerText(), merged.rows[0].path, "the first path");
    await page.locator(".heap-largest tbody button").first().click();
    await page.locator(".heap-finder .note", { hasText: "to it." }).waitFor();
    await input.fill("nothing.of.this.name");
    await page.keyboard.press("Enter");
    await page.locator(".heap-finder .note", { hasText: "the dump has no type" }).waitFor();
    same(await page.locator(".heap-paths").isHidden(), true, "whether the table is hidden");
    return merged.rows[0].path;
  },

  async "two dumps are compared by place"(browser, backend) {
    const { entry } = await opened(browser, backend);
    if (!entry) return false;
    const later = await taken(backend);
    holds(!later.reason, later.reason);
    const page = await browser.open(`#/heap?id=${backend.with}&heap=${encodeURIComponent(later.id)}`);
    await browser.until(() => !document.querySelector(".heap").hidden);
    await page.getByLabel("Grown since").selectOption(entry.id);
    await page.getByRole("heading", { name: "What grew" }).waitFor();
    const { growth } = await backend.get(`heaps/${later.id}/growth`, { since: entry.id });
    if (growth.rows.length) same(await rows(page, "heap-growth").first().locator("th").innerText(), growth.rows[0].place, "the first place");
    return growth.rows[0]?.place;
  },

  async "it fits on a phone, as cards"(browser, backend) {
    const { page } = await opened(browser, backend);
    if (!page) return false;
    const size = page.viewportSize();
    await page.setViewportSize({ width: 390, height: 800 });
    await browser.until(() => document.documentElement.scrollWidth <= innerWidth && getComputedStyle(document.querySelector(".heap-types tbody tr")).display === "grid");
    same(await page.locator(".heap-types tbody td").first().getAttribute("data-label"), "Objects", "the label of a cell");
    await page.setViewportSize(size);
  },

  async "a dump is removed after a question"(browser, backend) {
    const { page, entry } = await opened(browser, backend);
    if (!page) return false;
    const row = page.locator(`tr[data-heap="${entry.id}"]`);
    await row.getByRole("button").click();
    await page.locator("dialog.question").getByRole("button", { name: "Remove" }).click();
    await row.waitFor({ state: "detached" });
    const { heaps } = await backend.get("heaps");
    holds(!heaps.some((each) => each.id === entry.id), "the dump is still there");
  },
};
