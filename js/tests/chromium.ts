// A real Chromium, driven by its own protocol over a pair of pipes.

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { PATIENCE } from "./support.js";

type Message = { id?: number; method?: string; params: any; result?: any; error?: { message: string }; sessionId?: string };

/** Milliseconds between two looks at a page. */
const OFTEN = 20;

const described = (details: any): string => details.exception?.description ?? `${details.text} ${details.url}`;

export class Chromium {
  private readonly profile = mkdtempSync(join(tmpdir(), "libbloom-chromium-"));
  private readonly process: ChildProcess;
  private readonly ended: Promise<never>;
  private readonly waiting = new Map<number, { resolve: (result: any) => void; reject: (error: Error) => void }>();
  private readonly listeners = new Map<string, (message: Message) => void>();
  private count = 0;
  private log = "";

  constructor() {
    const words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"];
    const quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"];
    this.process = spawn(
      process.env.CHROMIUM ?? "chromium",
      [...words, ...quiet, "--remote-debugging-pipe", `--user-data-dir=${this.profile}`, "about:blank"],
      { stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"], detached: true },
    );
    this.process.stderr!.on("data", (text) => (this.log += text));
    this.ended = once(this.process, "exit").then(() => Promise.reject(new Error(`Chromium ended:\n${this.log}`)));
    this.ended.catch(() => undefined);
    let rest = Buffer.alloc(0);
    (this.process.stdio[4] as Readable).on("data", (bytes: Buffer) => {
      rest = Buffer.concat([rest, bytes]);
      for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
        this.take(JSON.parse(rest.subarray(0, end).toString()));
        rest = rest.subarray(end + 1);
      }
    });
  }

  private take(message: Message): void {
    if (message.id === undefined) return this.listeners.get(message.sessionId ?? "")?.(message);
    const { resolve, reject } = this.waiting.get(message.id)!;
    this.waiting.delete(message.id);
    if (message.error) reject(new Error(message.error.message));
    else resolve(message.result);
  }

  send(method: string, params: object = {}, sessionId?: string): Promise<any> {
    const id = (this.count += 1);
    const answered = new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
    (this.process.stdio[3] as Writable).write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return Promise.race([answered, this.ended]);
  }

  listen(sessionId: string, listener: (message: Message) => void): void {
    this.listeners.set(sessionId, listener);
  }

  /** A page that knows nothing of other pages. */
  async open(): Promise<Page> {
    const { browserContextId } = await this.send("Target.createBrowserContext");
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank", browserContextId });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId);
    await page.start();
    return page;
  }

  async stop(): Promise<void> {
    // With the processes that it started.
    process.kill(-this.process.pid!, "SIGKILL");
    await this.ended.catch(() => undefined);
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 10 });
  }
}

export class Page {
  /** What the page and its workers asked for. */
  readonly requests: string[] = [];
  /** What the console shows as an error. */
  readonly errors: string[] = [];
  private isLoaded = false;

  constructor(
    private readonly browser: Chromium,
    private readonly session: string,
  ) {}

  private send(method: string, params: object = {}): Promise<any> {
    return this.browser.send(method, params, this.session);
  }

  async start(): Promise<void> {
    const take = ({ method, params }: Message): void => {
      if (method === "Page.loadEventFired") this.isLoaded = true;
      if (method === "Network.requestWillBeSent") this.requests.push(params.request.url);
      if (method === "Network.loadingFailed" && !params.canceled) this.errors.push(params.errorText);
      if (method === "Runtime.exceptionThrown") this.errors.push(described(params.exceptionDetails));
      if (method === "Runtime.consoleAPICalled" && params.type === "error") this.errors.push(params.args.map((one: any) => one.value ?? one.description).join(" "));
      if (method === "Log.entryAdded" && params.entry.level === "error") this.errors.push(`${params.entry.text} ${params.entry.url}`);
      if (method === "Target.attachedToTarget") {
        this.browser.listen(params.sessionId, take);
        // A worker may have ended meanwhile.
        for (const domain of ["Network", "Runtime"])
          this.browser.send(`${domain}.enable`, {}, params.sessionId).catch(() => undefined);
      }
    };
    this.browser.listen(this.session, take);
    for (const domain of ["Page", "Network", "Runtime", "Log"]) await this.send(`${domain}.enable`);
    await this.send("Target.setAutoAttach", { autoAttach: true, waitForDebuggerOnStart: false, flatten: true });
  }

  async go(url: string): Promise<void> {
    this.isLoaded = false;
    const { errorText } = await this.send("Page.navigate", { url });
    if (errorText) throw new Error(`${url}: ${errorText}`);
    await this.until(async () => this.isLoaded, `${url} is loaded`);
  }

  async show(width: number, height: number, scheme: "light" | "dark" = "light"): Promise<void> {
    const mobile = width < 600;
    await this.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile });
    await this.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
  }

  /** The value of an expression in the page. */
  async value<T>(expression: string): Promise<T> {
    const answer = await this.send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
    if (answer.exceptionDetails) throw new Error(`${expression}: ${described(answer.exceptionDetails)}`);
    return answer.result.value;
  }

  text(selector: string): Promise<string> {
    return this.value(`document.querySelector(${JSON.stringify(selector)}).innerText`);
  }

  /** Waits until something holds in the page. */
  async until(holds: string | (() => Promise<boolean>), name = `${holds}`): Promise<void> {
    const end = Date.now() + PATIENCE / 4;
    while (!(await (typeof holds === "string" ? this.value(`Boolean(${holds})`) : holds()))) {
      if (Date.now() > end) throw new Error(`in vain: ${name}`);
      await new Promise((resolve) => setTimeout(resolve, OFTEN));
    }
  }

  /** Clicks where the middle of an element is. */
  async click(selector: string): Promise<void> {
    const [x, y] = await this.value<[number, number]>(`(() => {
      const element = document.querySelector(${JSON.stringify(selector)});
      element.scrollIntoView({ block: "center", behavior: "instant" });
      const { x, y, width, height } = element.getBoundingClientRect();
      return [x + width / 2, y + height / 2];
    })()`);
    for (const type of ["mousePressed", "mouseReleased"])
      await this.send("Input.dispatchMouseEvent", { type, x, y, button: "left", clickCount: 1 });
  }

  /** Types a text into the element that has the focus, in the place of what is selected. */
  async type(text: string): Promise<void> {
    await this.send("Input.insertText", { text });
  }

  async press(key: string, code: number, text?: string): Promise<void> {
    const pressed = { key, code: key, windowsVirtualKeyCode: code, text };
    await this.send("Input.dispatchKeyEvent", { type: "keyDown", ...pressed });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", ...pressed, text: undefined });
  }

  /** A picture of what is seen, or of the whole page. */
  async picture(isWhole = false): Promise<Buffer> {
    const { data } = await this.send("Page.captureScreenshot", { captureBeyondViewport: isWhole });
    return Buffer.from(data, "base64");
  }
}
