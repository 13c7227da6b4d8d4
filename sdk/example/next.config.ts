import { withParallaxConfig } from '@parallax/sdk/next';

export default withParallaxConfig({});
