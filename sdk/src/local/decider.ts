import { ParallaxError } from '../errors.js';
import { type Instance, type Output, ModuleTrap, instantiate } from './module.js';

/** The rules of a site in an instance of the module. */
export interface Decider {
  /** The version of the rules, or null without any. */
  readonly version: string | null;
  /** Opens rules in place of those before. Throws a `ParallaxError` for rules that the module refuses, and keeps those before. */
  open(rules: Uint8Array): void;
  clear(): void;
  /** Answers a request of `/v1/variants`. Null without rules, and for a decision that the module refuses. */
  decide(token: string, request: string | Uint8Array): string | null;
}

/** `keys` are the visitor keys of the site. `report` gets the text of a panic. */
export function createDecider(module: WebAssembly.Module, keys: string, report: (error: ParallaxError) => void): Decider {
  let instance: Instance | null = null;
  let opened: { rules: Uint8Array; version: string } | null = null;

  /** Calls a function. After a trap the next call makes a new instance. */
  function call(name: 'open_rules' | 'decide', strings: (string | Uint8Array)[]): Output {
    try {
      return (instance ??= instantiate(module)).call(name, strings);
    } catch (error) {
      instance = null;
      throw new ParallaxError('module_failed', `The module that decides stopped: ${(error as ModuleTrap).message}`);
    }
  }

  function open(rules: Uint8Array): void {
    const { isOk, text } = call('open_rules', [rules, keys]);
    if (!isOk) throw new ParallaxError('invalid_rules', `The rules cannot be opened: ${text}`);
    opened = { rules, version: JSON.parse(text).version };
  }

  /** Opens the rules in a new instance. If that fails, there are none. */
  function reopen(rules: Uint8Array): void {
    opened = null;
    open(rules);
  }

  return {
    get version() {
      return opened?.version ?? null;
    },
    open,
    clear() {
      opened = instance = null;
    },
    decide(token, request) {
      if (!opened) return null;
      try {
        if (!instance) reopen(opened.rules);
        const { isOk, text } = call('decide', [token, request]);
        return isOk ? text : null;
      } catch (error) {
        report(error as ParallaxError);
        return null;
      }
    },
  };
}
