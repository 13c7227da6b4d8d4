import { revalidateHandler } from '@parallax/sdk/next';
import { client, instance } from '../../../../parallax';

export const POST = revalidateHandler(client, instance);
