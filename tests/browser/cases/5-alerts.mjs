// Alerts: what fires, and how to set rules where there are none.

import { holds, same } from "../browser.mjs";

export default {
  async "alerts that fire are those of the API"(browser, backend) {
    await backend.until(async () => (await backend.get("alerts")).alerts.some(({ state }) => state === "firing"), "no alert fires");
    const page = await browser.open("#/alerts");
    await page.locator('.alerts tr[data-state="firing"]').first().waitFor();
    const { alerts, rules } = await backend.get("alerts");
    const row = await page.locator('.alerts tr[data-state="firing"]').first().innerText();
    holds(alerts.some(({ rule, process }) => row.includes(rule) && row.includes(`pid ${process.pid}`)), `${row} is none of ${JSON.stringify(alerts)}`);
    same(await page.locator(".rules tbody tr").count(), rules.length, "the number of rules");
    holds((await page.locator(".rules tbody").innerText()).includes(rules[0].condition), "the condition of a rule is not shown");
    await page.locator(".alerts tbody a").first().click();
    await page.waitForURL(/#\/(process|memory)\?id=/);
    return row.replace(/\s+/g, " ");
  },

  async "without rules it says how to set them"(browser, backend) {
    const token = "open-sesame-0123456789";
    const said = await backend.guarded(token, async (base) => {
      const page = await browser.open("#/alerts", base);
      await page.locator("dialog input").fill(token);
      await page.getByRole("button", { name: "Open" }).click();
      await page.locator(".alerts-how", { hasText: "neurogc hub --alerts alerts.toml" }).waitFor();
      same(await page.locator("table.alerts").isHidden(), true, "whether the table is hidden");
      return page.locator(".nothing").innerText();
    });
    await browser.fresh();
    return said;
  },
};
