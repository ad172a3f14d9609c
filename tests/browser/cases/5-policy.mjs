// Policy: what is due, orders, guards, and another policy.

import { holds, same } from "../browser.mjs";

export default {
  async "it says what the conductor does"(browser, backend) {
    const page = await browser.open(`#/policy?id=${backend.with}`);
    await page.locator(".due").waitFor();
    await backend.until(async () => {
      const shown = await browser.text(".due");
      return browser.heard.some((message) => message.type === "sample" && shown === (message.conduct.due ? `Due: ${message.conduct.due.split(": ")[0]}` : "Nothing is waiting."));
    }, "the headline never said what a sample said", 15_000);
    same(await browser.text(".policy-now .chip"), "gap", "the policy");
  },

  async "orders are those of the status"(browser, backend) {
    const page = await browser.open(`#/policy?id=${backend.with}`);
    const { status } = await backend.get(`processes/${backend.with}`);
    holds(status.conduct.orders.length > 0, "nothing was ordered yet");
    await page.getByRole("table", { name: "Orders by reason" }).waitFor();
    const [most] = [...status.conduct.orders].sort((one, other) => other.count - one.count);
    await page.getByRole("cell", { name: most.reason }).first().waitFor();
    await backend.until(async () => {
      const now = await backend.get(`processes/${backend.with}`);
      const rows = await page.getByRole("table", { name: "Orders by reason" }).locator("tbody tr").allInnerTexts();
      const order = now.status.conduct.orders.find((each) => each.reason === most.reason && each.what === most.what);
      const counts = rows.map((row) => Number(row.match(/(\d[\d,]*)\s+(?:now|\d+ [smhd])/)?.[1].replaceAll(",", "")));
      return counts.some((count) => Math.abs(count - order.count) <= Math.max(50, order.count * 0.02));
    }, "the counts differ", 15_000);
    const { guards } = status.conduct;
    const rows = await page.locator(".guards tbody tr").allInnerTexts();
    holds(rows.length >= 4, "the guards are not there");
    holds(rows.some((row) => row.includes(`full ones may take ${guards.gc_percent} %`)), "what the guards go by is not there");
    await page.getByText("Real gaps").waitFor();
  },

  async "the policy is switched from the page"(browser, backend) {
    const page = await browser.open(`#/policy?id=${backend.with}`);
    await page.locator('input[value="observe"]').check();
    await page.getByRole("button", { name: "Switch", exact: true }).click();
    await page.locator(".answer", { hasText: "Switched from gap to observe" }).waitFor();
    await backend.until(async () => (await backend.get(`processes/${backend.with}`)).policy === "observe", "the API says something else", 10_000);
    await browser.until(() => document.querySelector(".policy-now .chip").textContent === "observe");
    await page.locator(".due", { hasText: "The policy only measures." }).waitFor();
    // It is written down as an event, too.
    await page.getByRole("cell", { name: "gap → observe" }).waitFor();
    await page.locator('input[value="gap"]').check();
    await page.getByRole("button", { name: "Switch", exact: true }).click();
    await page.locator(".answer", { hasText: "Switched from observe to gap" }).waitFor();
    await backend.until(async () => (await backend.get(`processes/${backend.with}`)).policy === "gap", "it is not back", 10_000);
  },

  async "a model's forecasts stand beside what was"(browser, backend) {
    const page = await browser.open(`#/policy?id=${backend.with}&range=1m`);
    await page.getByText("This policy goes by rules").waitFor();
    const { series } = await backend.get(`processes/${backend.with}/series`, { range: "1m", names: "conduct.gap_ms" });
    const none = series["conduct.gap_ms"].every((value) => value === null);
    same(await page.locator('[data-chart="forecasts"]').isHidden(), none, "whether there is no chart of forecasts");
    await page.locator('input[value="neural"]').check();
    await page.getByRole("button", { name: "Switch", exact: true }).click();
    await page.locator(".answer", { hasText: "to neural" }).waitFor();
    const model = await backend.until(async () => {
      const { status } = await backend.get(`processes/${backend.with}`);
      return status.conduct.model?.latest && status.conduct.model;
    }, "no gap was compared with what was expected", 20_000);
    await page.locator("dd", { hasText: model.family }).waitFor();
    await page.locator("dd", { hasText: /expected .* to .*, half by/ }).waitFor();
    await page.locator('[data-chart="forecasts"]').waitFor();
    const heads = await page.locator(".calibration tbody th").allInnerTexts();
    same(heads.join(), "10 %,25 %,50 %,75 %,90 %", "the quantiles");
    await backend.until(async () => {
      const { status } = await backend.get(`processes/${backend.with}`);
      const shown = await page.locator(".calibration tbody td:last-child").allInnerTexts();
      return shown.every((text, i) => Math.abs(Number.parseFloat(text) - 100 * status.conduct.model.covered[i]) <= 5);
    }, "the calibration is not that of the status", 15_000);
    const size = page.viewportSize();
    await page.setViewportSize({ width: 390, height: 800 });
    // Charts are fitted when they are told of it.
    await browser.until(() => document.documentElement.scrollWidth <= innerWidth);
    await page.setViewportSize(size);
    await page.locator('input[value="gap"]').check();
    await page.getByRole("button", { name: "Switch", exact: true }).click();
    await page.locator(".answer", { hasText: "Switched from neural to gap" }).waitFor();
    await page.getByText("This policy goes by rules").waitFor();
  },

  async "a policy that does not exist is refused in words"(browser, backend) {
    const page = await browser.open(`#/policy?id=${backend.with}`);
    await page.locator('input[value="gap"]').waitFor();
    await browser.until(() => document.querySelector('.commands input[type="text"]').value === "gap");
    await page.getByLabel("Policy with its numbers").fill("nonsense");
    await page.getByRole("button", { name: "Switch", exact: true }).click();
    await page.locator(".answer", { hasText: "Refused:" }).waitFor();
  },

  async "a collection is asked for"(browser, backend) {
    const page = await browser.open(`#/policy?id=${backend.with}`);
    await page.getByRole("button", { name: "Young" }).click();
    await page.locator(".answer", { hasText: "objects found" }).waitFor();
    return (await page.locator(".answer").innerText()).replace(/\s+/g, " ");
  },
};
