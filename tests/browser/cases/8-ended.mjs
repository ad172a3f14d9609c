// A process that has ended. This comes last: it ends one of those that the others look at.

import { holds } from "../browser.mjs";

export default {
  async "it is listed on demand, and its history stays"(browser, backend) {
    const id = await backend.finish();
    const page = await browser.open(`${backend.overview}&gone=1`);
    await page.locator(`tr[data-id="${id}"][data-state="gone"]`).waitFor();
    await page.locator(`tr[data-id="${id}"] th a`).click();
    await page.locator(".facts", { hasText: "gone" }).waitFor();
    await browser.until(() => document.querySelector('[data-chart="memory"] .value').textContent !== "–");
    const { rows } = await browser.csv("memory");
    holds(rows.length > 5, `only ${rows.length} rows are left of it`);
    await browser.open(`#/policy?id=${id}`);
    await page.locator(".due", { hasText: "The process has ended." }).waitFor();
    holds(await page.getByRole("button", { name: "Full" }).isDisabled(), "a process that is gone can be asked to collect");
  },
};
