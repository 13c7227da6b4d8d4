import { previewHandler } from '@parallax/sdk/next';
import { previewSecret } from '../../../../parallax';

export const GET = previewHandler({ secret: previewSecret ?? '' });
