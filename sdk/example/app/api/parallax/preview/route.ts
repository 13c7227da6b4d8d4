import { previewHandler } from '@parallax/sdk/next';
import { closedReviewers, previewSecret } from '../../../../parallax';

export const GET = previewHandler({ secret: previewSecret ?? '', mayPreview: (reviewer) => !closedReviewers.includes(reviewer) });
