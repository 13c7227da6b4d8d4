import { revalidateHandler } from '@parallax/sdk/next';
import { client, inside } from '../../../../parallax';

export const POST = revalidateHandler(client, inside);
