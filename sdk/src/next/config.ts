import type { NextConfig } from 'next';
import * as cache from 'next/cache.js';

/** Next.js 15 has no Cache Components, and warns about unknown settings. This function came with version 16. */
const hasCacheComponents = 'updateTag' in cache;

/**
 * Returns the configuration with the settings that personalized static pages need: Cache Components, partial prefetching, and the
 * root of Turbopack, which it would otherwise take from a lock file in a parent directory. A setting of the site stays. Next.js 15
 * needs none of them.
 */
export function withParallaxConfig(config: NextConfig = {}): NextConfig {
  if (!hasCacheComponents) return config;
  const settings: NextConfig = {
    cacheComponents: config.cacheComponents ?? true,
    partialPrefetching: config.partialPrefetching ?? true,
    turbopack: { root: process.cwd(), ...config.turbopack },
  };
  const names = Object.keys(settings).filter((name) => config[name as keyof NextConfig] === undefined);
  // Next.js loads the configuration in several processes.
  if (names.length && !process.env.PX_CONFIG_LOGGED) console.log(`Parallax: next.config sets ${names.join(', ')}.`);
  process.env.PX_CONFIG_LOGGED = '1';
  return { ...config, ...settings };
}
