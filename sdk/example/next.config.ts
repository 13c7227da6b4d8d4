import { withParallaxConfig } from '@parallax/sdk/next';

export default withParallaxConfig({ turbopack: { resolveAlias: { 'object-hash': './app/composer/object-hash.ts' } } });
