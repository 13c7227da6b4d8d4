// Chromium as the tests start it.
import { type Browser, type LaunchOptions, chromium } from 'playwright-core';

const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
/** The browser of CHROMIUM, by default Debian's. */
export const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
/** The flag with which example.test and the names below it are this machine. */
export const NAMES = '--host-resolver-rules=MAP *.example.test 127.0.0.1,MAP example.test 127.0.0.1';
/** The server counts HeadlessChrome as a crawler, whose events change no profile. */
export const USER_AGENT = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36';

export function launchChromium(options: LaunchOptions = {}): Promise<Browser> {
  return chromium.launch({ executablePath: CHROMIUM, args: [...FLAGS, NAMES], ...options });
}
